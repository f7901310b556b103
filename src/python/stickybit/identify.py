"""Which model fits: a unit that can be asked, a matrix product, an attention call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from . import _arrays, _command, _core

__all__ = ["unit", "gemm", "attention", "UnitIdentification"]


@dataclass(frozen=True)
class UnitIdentification:
    """What a black box computes. True where there is a description: it fits every answer, the final random cases too."""

    known: list[str]  #: units of the machines that fit every answer
    rules: list[tuple[str, str, list[str]]]  #: rule, value, values that no answer excludes
    failure: str
    probes: int
    verified: int
    several_nans: bool
    description: str | None  #: JSON, which unit="@FILE" reads

    def __bool__(self) -> bool:
        return self.description is not None

    def __str__(self) -> str:
        lines = [f"fits: {', '.join(self.known)}" if self.known else "no known unit fits"]
        lines += [f"  {rule}: {value}" + (f"   (not excluded: {', '.join(also)})" if also else "") for rule, value, also in self.rules]
        if self.failure:
            lines.append(self.failure)
        return "\n".join([*lines, f"{self.probes} probes, {self.verified} random cases verified"])

    def _repr_html_(self) -> str:
        from ._html import preformatted

        return preformatted(str(self))


def unit(function: Callable[[np.ndarray, np.ndarray, np.ndarray], Any], *, a: str = "bf16", b: str | None = None, c: str = "f32", output: str = "f32", k: int = 16, seed: int = 1,
         check: int = 20000) -> UnitIdentification:
    """Which rules an inner product c + Σ a[k]·b[k] follows, from its answers alone.

    function  given arrays a [n, K], b [n, K] of the input type, c [n] in FP32; gives [n] in FP32 (also of FP16 results)
    a, b, c, output, k   formats of operands and result, and the length
    check     random hard cases of the final check
    """
    formats = (a, b or a)

    def ask(a_codes: np.ndarray, b_codes: np.ndarray, c_codes: np.ndarray) -> np.ndarray:
        operands = [codes.astype(_arrays.UNSIGNED[_arrays._core_bytes(f)]).view(_arrays.DTYPES[f]) for codes, f in zip((a_codes, b_codes), formats)]
        answer = _arrays.exact_codes(function(operands[0], operands[1], c_codes.astype(np.uint32).view(np.float32)), "function's answer", "f32").codes
        return np.ascontiguousarray(answer.astype(np.uint64)).reshape(-1)

    return UnitIdentification(**_core.identify_function(ask, formats[0], formats[1], c, output, k, seed, check))


def gemm(calls: Any, *, producer: str | None = None, unit: str | None = None) -> _command.Report:
    """In which order, by which unit and in which formats a library added a matrix product.

    calls  captures with a [M,K], b [N,K], perhaps c, and d or <producer>.d_f32, .d_bf16, .d_f16. .status 0: every result is named.
    """
    options = [part for name, value in (("--producer", producer), ("--unit", unit)) if value is not None for part in (name, value)]
    def run(*more: str) -> tuple[str, int]:
        with _command.as_files(_command.listed(calls)) as paths:
            return _command.run(["identify", "gemm", *paths, *options, *more])

    text, status = run()
    return _command.Report(text, lambda: json.loads(run("--json")[0]), status)


def attention(call: Any, *, producer: str | None = None, search: bool = True, **overrides: Any) -> _command.Report:
    """Which schedule gives a captured O and LSE, and the gradients where they are there: the named ones, then a blind search. .status 0: one fits everything."""
    options = [*(["--producer", producer] if producer is not None else []), *([] if search else ["--no-search"]), *_command.overrides(**overrides)]
    with _command.as_files([call]) as paths:
        text, status = _command.run(["identify", "attention", *paths, *options])
    return _command.Report(text, None, status)
