"""What the tests of the Python package share."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("STICKYBIT_SOURCE", pathlib.Path(__file__).parents[2]))
GOLDEN = ROOT / "tests" / "golden" / "h200"


@pytest.fixture(scope="session")
def golden():
    """The folder of recorded calls."""
    return GOLDEN


@pytest.fixture(scope="session")
def command():
    """Runs the command: standard output, standard error, status."""
    import stickybit._command

    path = os.environ.get("STICKYBIT_COMMAND", stickybit._command.path())

    def run(*arguments):
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.stdout, done.stderr, done.returncode

    return run


def pytest_terminal_summary(terminalreporter):
    """A file in which everything is skipped is skipped for ctest too."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and not terminalreporter.stats.get("passed") and not terminalreporter.stats.get("failed") and not terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"SKIPPED: {skipped[0].longrepr[2] if isinstance(skipped[0].longrepr, tuple) else skipped[0].longrepr}")
