"""Elementary functions as Hopper computes them, code for code.

MUFU (`.ftz`): ex2 (2^x), rcp (1/x), rsqrt, lg2. CUDA's library: exp2f (keeps subnormals), expf, logf, log2f. FP32 in, FP32 out, any shape.
Source: measured on an H200, all 2^32 operands (docs/models.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _core

__all__ = ["ex2", "rcp", "rsqrt", "lg2", "exp2f", "expf", "logf", "log2f"]


def _call(name: str, x: Any) -> Any:
    taken = _arrays.exact_codes(x, "x", "f32")
    codes = _core.special_function(name, np.ascontiguousarray(taken.codes).reshape(-1))
    return _arrays.result(codes, "f32", taken.wrap, taken.codes.shape)


def ex2(x: Any) -> Any:
    """2^x by MUFU.EX2, subnormal operands and results flushed. FP32 numbers of any shape; -inf gives +0."""
    return _call("ex2", x)


def rcp(x: Any) -> Any:
    """1/x by MUFU.RCP; ±0 gives ±infinity."""
    return _call("rcp", x)


def rsqrt(x: Any) -> Any:
    """1/√x by MUFU.RSQ."""
    return _call("rsqrt", x)


def lg2(x: Any) -> Any:
    """log2 x by MUFU.LG2."""
    return _call("lg2", x)


def exp2f(x: Any) -> Any:
    """CUDA's exp2f without fast math: keeps subnormal results."""
    return _call("exp2f", x)


def expf(x: Any) -> Any:
    """CUDA's expf, e^x within 1 ulp or so."""
    return _call("expf", x)


def logf(x: Any) -> Any:
    """CUDA's logf, the natural logarithm within 1 ulp."""
    return _call("logf", x)


def log2f(x: Any) -> Any:
    """CUDA's log2f, within 1 ulp."""
    return _call("log2f", x)
