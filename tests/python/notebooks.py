"""Every notebook runs, without an error, and prints the text that is committed with it. Pictures are not compared.

A cell's metadata may hold "wrong_answers", calls of its exercise's checker such as "check_1(256)": each must be refused, with a sentence.

    python -m pytest tests/python/notebooks.py [-k 02]        runs and compares
    python tests/python/notebooks.py --write FILE...          runs and stores the outputs
"""

import argparse
import base64
import difflib
import io
import os
import pathlib
import re
import sys
import tempfile

import pytest

SOURCE = pathlib.Path(os.environ.get("STICKYBIT_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
NOTEBOOKS = sorted((SOURCE / "notebooks").glob("*.ipynb"))
LARGEST_BYTES = 300 * 1024
TEXT_TYPES = ("text/plain", "text/markdown", "text/html", "text/latex")
CELL_METADATA = ("collapsed", "jupyter", "tags", "wrong_answers")

# Carried out after a notebook's last cell: what each of its exercises says of wrong answers.
TRY_WRONG_ANSWERS = """
for call in {calls}:
    try:
        eval(call)
    except AssertionError as error:
        assert len(str(error).split()) > 4, f"{{call}} is told no more than: {{error}}"
    else:
        raise RuntimeError(f"{{call}} is a wrong answer that was accepted")
"""


def missing():
    """What these tests need and this Python lacks."""
    import importlib.util

    return [name for name in ("nbclient", "nbformat", "ipykernel", "matplotlib") if importlib.util.find_spec(name) is None]


def execute(path):
    """The notebook after a run of all its cells in a fresh kernel of this Python, in the notebook's own folder."""
    import nbclient
    import nbformat
    import traitlets.config

    notebook = nbformat.read(path, as_version=4)
    wrong = [call for cell in notebook.cells for call in cell.metadata.get("wrong_answers", [])]
    if wrong:
        notebook.cells.append(nbformat.v4.new_code_cell(TRY_WRONG_ANSWERS.format(calls=wrong)))
    with tempfile.TemporaryDirectory(prefix="stickybit-notebook-") as scratch:
        # Nothing of the user's own set-up takes part; one cache of fonts for all runs of a build. Small matrices: threads only wait.
        cache = os.path.join(os.environ.get("STICKYBIT_BUILD", tempfile.gettempdir()), "python", "matplotlib")
        environment = {"IPYTHONDIR": scratch, "JUPYTER_RUNTIME_DIR": scratch, "JUPYTER_CONFIG_DIR": scratch, "JUPYTER_DATA_DIR": scratch, "MPLCONFIGDIR": cache,
                       "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "error::DeprecationWarning:__main__"}
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            # Through sockets in the file system: nothing listens on a port, and notebooks may run side by side.
            sockets = traitlets.config.Config(KernelManager={"transport": "ipc", "ip": os.path.join(scratch, "kernel")})
            nbclient.NotebookClient(notebook, config=sockets, kernel_name="python3", timeout=540, resources={"metadata": {"path": str(path.parent)}}, store_widget_state=False).execute()
        finally:
            for name, value in before.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    if wrong:
        notebook.cells.pop()
    return tidy(notebook)


def tidy(notebook):
    """Without what changes from run to run or from machine to machine. Pieces of one stream that came in several parts are joined."""
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03}"
        cell.metadata = {name: value for name, value in cell.metadata.items() if name in CELL_METADATA}
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        joined = []
        for output in cell.outputs:
            if output.output_type == "stream" and joined and joined[-1].output_type == "stream" and joined[-1].name == output.name:
                joined[-1].text += output.text
                continue
            if "execution_count" in output:
                output.execution_count = None
            if "metadata" in output:
                output.metadata = {}
            joined.append(output)
        cell.outputs = joined
    return notebook


def texts(notebook):
    """What its cells print, a line each, with the cell before them."""
    lines = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            if output.output_type == "stream":
                lines += [f"cell {number}, {output.name}:", *output.text.splitlines()]
            elif output.output_type in ("display_data", "execute_result"):
                for kind in TEXT_TYPES:
                    # The name of a figure's class says nothing; the address of an object changes.
                    text = output.data.get(kind, "")
                    if text and not any(other.startswith("image/") for other in output.data):
                        lines += [f"cell {number}, {kind}:", *re.sub(r" at 0x[0-9a-f]+", " at ...", text).splitlines()]
    return lines


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path):
    if missing():
        pytest.skip(f"notebooks need {', '.join(missing())}")
    import nbformat

    size = path.stat().st_size
    assert size <= LARGEST_BYTES, f"{path.name} has {size} bytes, at most {LARGEST_BYTES} are allowed"
    committed = nbformat.read(path, as_version=4)
    nbformat.validate(committed)
    wanted, found = texts(committed), texts(execute(path))
    difference = "\n".join(difflib.unified_diff(wanted, found, "committed", "this run", lineterm="", n=2))
    assert wanted == found, f"{path.name} prints something else than what is committed:\n{difference}"
    assert path.read_text(encoding="utf-8") == nbformat.writes(tidy(committed)) + "\n", f"{path.name}: store it with tests/python/notebooks.py --write {path.name}"


def smaller(png):
    """The same picture in 64 colours and without metadata: a third of the size. Base64 in and out."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def write(paths):
    import nbformat

    for path in paths:
        notebook = execute(path)
        for output in (o for cell in notebook.cells for o in cell.get("outputs", [])):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = smaller(output.data["image/png"])
        done = nbformat.writes(notebook) + "\n"
        path.write_text(done, encoding="utf-8")
        print(f"{path.name}: {len(done.encode()) / 1024:.0f} KiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs notebooks and stores their outputs in them")
    parser.add_argument("--write", nargs="+", type=pathlib.Path, required=True, metavar="FILE")
    if missing():
        sys.exit(f"notebooks need {', '.join(missing())}")
    write([path.resolve() for path in parser.parse_args().write])
