"""stickybit: what GPU tensor cores and attention kernels compute, bit for bit, on a CPU, and why.

    import numpy as np, ml_dtypes, stickybit as sb
    q = np.random.default_rng(0).standard_normal((256, 2, 64)).astype(ml_dtypes.bfloat16)   # [s, h, d]
    r = sb.attention(q, q, q, schedule="fa3", causal=True)                                  # r.o, r.lse: the kernel's bits
    print(sb.explain.attention(q, q, q, schedule="fa3", causal=True, at=(0, 17, 5)))        # why o[17, 0, 5] is what it is

Arrays are NumPy arrays with ml_dtypes types, PyTorch tensors (BF16 included; torch is never imported unless you did) or anything with __dlpack__;
codes in unsigned integers where dtype= says of which format. Results are of the kind of the inputs. Long calls release the GIL and end at Ctrl-C.

numbers      formats, round_to, add, sub, mul, div, fma, sfu
tensor core  units, unit, block_fma, dot, gemm
attention    schedules, schedule, fixes, attention, attention_backward
why          explain (add, cast, fma, exp2, dot, gemm, softmax, attention, difference), bias, predict, orders, study, reports
captures     load, save, Capture, compare, validate, identify
kernels      check, property (Hypothesis strategies, pytest plugin)
models       stickybit.torch: scaled_dot_product_attention, capture, diagnose
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Sequence

from . import _arrays, _command, _core
from ._calls import AttentionResult, Fix, Schedule, attention, attention_backward, fixes, schedule, schedules
from ._command import Report
from ._core import FileError, InvalidFix, UnitFailure, UnknownName, UnsupportedCall
from ._files import Capture, Comparison, Validation, Verdict, compare, load, save, validate
from ._formats import Format, Number, add, div, fma, formats, mul, round_to, sub
from ._products import Fact, Unit, block_fma, dot, gemm, unit, units

if TYPE_CHECKING:
    from . import explain as explain, identify as identify, property as property, sfu as sfu, study as study
    from .property import check as check

__version__: str = _core.version

_LAZY = ("explain", "identify", "property", "sfu", "study", "torch")

__all__ = [
    "AttentionResult", "Capture", "Comparison", "Fact", "FileError", "Fix", "Format", "InvalidFix", "Number", "Report", "Schedule", "Unit", "UnitFailure", "UnknownName",
    "UnsupportedCall", "Validation", "Verdict", "add", "attention", "attention_backward", "bias", "block_fma", "check", "compare", "div", "dot", "explain", "fixes", "fma", "formats", "gemm",
    "identify", "load", "models", "mul", "orders", "predict", "reports", "round_to", "save", "schedule", "schedules", "sfu", "study", "sub", "unit", "units", "validate",
]


def __getattr__(name: str) -> Any:
    """Parts that are imported when they are used."""
    if name == "check":
        from .property import check

        return check
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def bias(calls: Any, *, schedule: str, fix: str = "none", tensors: Sequence[str] | None = None, attribute: bool = False, report: bool = True, **overrides: Any) -> Report:
    """Signed error against the exact value of O, delta, dP, dS, dQ, dK, dV, early warnings, a risk report in plain words; several calls give a trend.

    calls      a path, a Capture or a mapping with q, k, v (and do); or a list of them, in the order of training
    tensors    some of o, delta, dp, ds, dq, dk, dv; None: all that there are
    attribute  which rounding of the kernel makes which part of each error
    report     with the risk report, for which fixes are tried
    overrides  unit, causal, softmax_scale, layout, heads, sms, engine

    What `stickybit bias` prints, its JSON as .data (files[0]["tensors"]["o"]["mean_signed_error_ulp"], ...), a page as .html().
    """
    after = ["--schedule", schedule, "--fix", fix, *_command.overrides(**overrides), *(["--attribute"] if attribute else []), *([] if report else ["--no-report"])]
    if tensors is not None:
        after += ["--tensors", ",".join([tensors] if isinstance(tensors, str) else tensors)]
    found = _command.with_json(["bias"], calls, after)

    def page() -> str:
        import os
        import tempfile

        with _command.as_files(_command.listed(calls)) as paths, tempfile.TemporaryDirectory(prefix="stickybit-") as folder:
            target = os.path.join(folder, "page.html")
            _command.run(["bias", *paths, *after, "--html", target])
            with open(target, encoding="utf-8") as file:
                return file.read()

    found._make_html = page
    return found


def predict(call: Any, *, schedule: str, fix: str = "none", **overrides: Any) -> Report:
    """Expected signed error of O, delta, dP, dS, dQ, dK, dV from q, k, v, do and the schedule's rules, without emulating: `stickybit predict`."""
    return _command.with_json(["predict"], call, ["--schedule", schedule, "--fix", fix, *_command.overrides(**overrides)])


def orders(call: Any, *arguments: str) -> Report:
    """What dQ can be when the key blocks' parts are added in any order, as atomic additions are: `stickybit orders FILE ARGUMENTS`."""
    with _command.as_files([call]) as paths:
        return Report(*_text_only(_command.run(["orders", *paths, *arguments])))


def reports(*words: str) -> Report:
    """Public reports of surprising numbers as small examples, by number, id or words; none: a table of all. `stickybit reports`."""
    text, status = _command.run(["reports", *words])
    return Report(text, lambda: _json().loads(_command.run(["reports", *words, "--json"])[0]), status)


def models() -> Report:
    """Machines, units, schedules and fixes; how each rule is known and against what it was checked: `stickybit models`."""
    text, status = _command.run(["models"])
    return Report(text, lambda: _json().loads(_command.run(["models", "--json"])[0]), status)


def _json() -> Any:
    import json

    return json


def _text_only(ran: tuple[str, int]) -> tuple[str, None, int]:
    return ran[0], None, ran[1]
