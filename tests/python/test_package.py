"""The wheel: what pip makes of the project, and what is in it."""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

import stickybit as sb
from conftest import ROOT

BUILD = os.environ.get("STICKYBIT_BUILD", str(ROOT / "build" / "release"))


def pip(*arguments, **options):
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Of the extension and the command that are built already; nothing is compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", ROOT, "--no-build-isolation", "--no-deps", "-w", folder, "-C", f"cmake.define.STICKYBIT_PREBUILT={BUILD}", "-C", f"build-dir={folder / 'build'}")
    (made,) = folder.glob("*.whl")
    return made


def test_wheel_holds_the_package(wheel):
    stable = sys.version_info >= (3, 12)
    assert re.fullmatch(rf"stickybit-{sb.__version__}-{'cp312-abi3' if stable else f'cp3{sys.version_info[1]}-cp3{sys.version_info[1]}'}-linux_.*\.whl", wheel.name), wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"stickybit/{n}" for n in ("__init__.py", "py.typed", "_core.pyi", "torch.py", "property.py", "pytest_plugin.py", "bin/stickybit")} <= names
    assert any(n.startswith("stickybit/_core") and n.endswith(".abi3.so" if stable else ".so") for n in names)
    assert any(n.endswith("LICENSE") for n in names)
    assert {n.split("/")[0] for n in names} == {"stickybit", f"stickybit-{sb.__version__}.dist-info"}


def test_installed_wheel_works(wheel, tmp_path):
    """In a folder of its own, outside the project: import, the command, the plugin."""
    pip("install", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    run = lambda *a: subprocess.run([sys.executable, *a], capture_output=True, text=True, cwd=tmp_path, env=environment)  # noqa: E731
    done = run("-c", "import stickybit as sb; print(sb.__file__); print(sb.models().data['version']); print(sb.explain.add(['-2.40625', '-2.3125']).value)")
    assert done.stdout.splitlines() == [str(tmp_path / "site/stickybit/__init__.py"), sb.__version__, "-4.71875"], done.stderr
    script = subprocess.run([tmp_path / "site/bin/stickybit", "--version"], capture_output=True, text=True, env=environment)
    assert script.stdout.strip() == f"stickybit {sb.__version__}", script.stderr
    (tmp_path / "test_it.py").write_text("def test_it(check_attention):\n    check_attention('emulated:fa3', 'fa3', cases=5, head_dims=[64], most_queries=32, most_keys=32)\n")
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_stub_names_everything():
    """_core.pyi (python -m nanobind.stubgen -m stickybit._core, then arrays and containers of anything) has every name of the extension, and no other."""
    import stickybit._core as core

    stub = (pathlib.Path(sb.__file__).parent / "_core.pyi").read_text()
    named = set(re.findall(r"^(?:def|class) (\w+)|^(\w+): ", stub, re.MULTILINE))
    named = {a or b for a, b in named} - {"__doc__"}
    assert named == {n for n in dir(core) if not n.startswith("__")}


def test_every_public_name_has_a_docstring():
    import inspect

    for module in (sb, sb.explain, sb.identify, sb.property, sb.sfu, sb.study):
        names = module.__all__
        assert module.__doc__ and len(names) == len(set(names))
        for name in names:
            value = getattr(module, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                assert value.__doc__ or issubclass(value, Exception) if inspect.isclass(value) else value.__doc__, f"{module.__name__}.{name}"


def test_example_of_the_documents():
    """The blocks of docs/python.md that are marked `python` run, in order, in one process, in the project's folder; those with torch where it is."""
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    try:
        import torch  # noqa: F401

        has_torch = True
    except Exception:  # noqa: BLE001
        has_torch = False
    code = "\n".join(b for b in blocks if has_torch or "torch" not in b)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(not os.environ.get("STICKYBIT_LONG_TESTS"), reason="compiles the library again, minutes: set STICKYBIT_LONG_TESTS=1")
def test_pip_install_from_source(tmp_path):
    """pip install . as a newcomer has it: a fresh virtual environment, build requirements and dependencies from the package index."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    done = subprocess.run([tmp_path / "venv/bin/pip", "install", "--disable-pip-version-check", str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    done = subprocess.run([tmp_path / "venv/bin/stickybit", "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == f"stickybit {sb.__version__}"
