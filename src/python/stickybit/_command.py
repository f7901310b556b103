"""The command that comes with the package. What it prints and its JSON are what the studies return, so both say the same."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ._files import as_capture
from ._html import preformatted


def path() -> str:
    """Where the command is: beside the package, as built with it."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "stickybit")


def main() -> None:
    """The console script `stickybit`."""
    os.execv(path(), ["stickybit", *sys.argv[1:]])


class Report:
    """What a study found: .data as the command's JSON, str() as its table."""

    def __init__(self, text: str, data: Any, status: int, make_html: Callable[[], str] | None = None) -> None:
        self.text, self.status = text, status
        self._data, self._make_html = data, make_html

    @property
    def data(self) -> Any:
        """What the command's JSON holds; None where it has none. Some reports make it only when it is asked for, which takes as long as the report."""
        if callable(self._data):
            self._data = self._data()
        return self._data

    def __getitem__(self, key: Any) -> Any:
        if self.data is None:
            raise TypeError("this report is text only")
        return self.data[key]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Report: {self.text.splitlines()[0] if self.text else ''} ...>"

    def _repr_html_(self) -> str:
        return preformatted(self.text)

    def html(self) -> str:
        """A page with pictures, where the command makes one."""
        if self._make_html is None:
            raise ValueError("html: this report has no page")
        return self._make_html()


def run(arguments: Sequence[str], statuses: Sequence[int] = (0, 1)) -> tuple[str, int]:
    """Standard output and exit status. Status 2 is an exception with the command's one line. Ctrl-C ends it."""
    import subprocess

    # A process group of its own: at Ctrl-C this process ends it, and then raises KeyboardInterrupt.
    process = subprocess.Popen([path(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True)
    try:
        out, err = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode not in statuses:
        said = err.strip().removeprefix("stickybit: ")
        raise ValueError(said or f"stickybit {' '.join(arguments)}: ended with status {process.returncode}")
    return out, process.returncode


@contextmanager
def as_files(calls: Sequence[Any]) -> Iterator[list[str]]:
    """Paths of captures; those that are in memory are written to a folder that is removed."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="stickybit-") as folder:
        paths = []
        for i, call in enumerate(calls):
            if isinstance(call, (str, os.PathLike)):
                paths.append(os.fspath(call))
            else:
                capture = as_capture(call)
                name = os.path.basename(capture.name).removesuffix(".safetensors") or "call"
                paths.append(os.path.join(folder, str(i), f"{name}.safetensors"))
                os.mkdir(os.path.dirname(paths[-1]))
                capture.save(paths[-1])
        yield paths


def listed(calls: Any) -> list[Any]:
    return list(calls) if isinstance(calls, (list, tuple)) else [calls]


def overrides(layout: str | None = None, causal: bool | None = None, softmax_scale: float | None = None, heads: int | None = None, sms: int | None = None, unit: str | None = None,
              engine: str | None = None) -> list[str]:
    options = [("--layout", layout), ("--causal", None if causal is None else str(int(causal))), ("--softmax-scale", None if softmax_scale is None else repr(float(softmax_scale))),
               ("--heads", heads), ("--sms", sms), ("--unit", unit), ("--engine", engine)]
    return [part for name, value in options if value is not None for part in (name, str(value))]


def with_json(before: Sequence[str], calls: Any, after: Sequence[str]) -> Report:
    """A command that takes files and --json."""
    import json
    import tempfile

    with as_files(listed(calls)) as paths, tempfile.TemporaryDirectory(prefix="stickybit-") as folder:
        target = os.path.join(folder, "report.json")
        text, status = run([*before, *paths, *after, "--json", target])
        with open(target, encoding="utf-8") as file:
            return Report(text, json.load(file), status)
