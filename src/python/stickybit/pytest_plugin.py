"""pytest plugin: the fixture check_attention.

    def test_my_kernel(check_attention):
        check_attention(my_kernel, "fa3", cases=200, head_dims=[64])

It runs stickybit.property.check; a kernel that fails it fails the test, with the report, and with the shrunk calls in the test's temporary folder.
Options: --stickybit-cases N (instead of the tests' own numbers), --stickybit-seed S (of the first case).
"""

from __future__ import annotations

from typing import Any, Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stickybit", "property tests of attention kernels")
    group.addoption("--stickybit-cases", type=int, default=None, help="cases of every check_attention, instead of the tests' own numbers")
    group.addoption("--stickybit-seed", type=int, default=None, help="seed of the first case of every check_attention")


@pytest.fixture
def check_attention(request: pytest.FixtureRequest, tmp_path: Any) -> Callable[..., Any]:
    """check_attention(kernel, schedule, **options of stickybit.property.check): the result, or the test fails with its report."""

    def run(kernel: Any, schedule: str, **options: Any) -> Any:
        from stickybit import property as properties

        for name in ("cases", "seed"):
            given = request.config.getoption(f"--stickybit-{name}")
            if given is not None:
                options[name] = given
        options.setdefault("cases", 200)
        options.setdefault("folder", tmp_path)
        result = properties.check(kernel, schedule, **options)
        if not result:
            pytest.fail(str(result), pytrace=False)
        return result

    return run
