"""Attention calls: what a caller gives, looked at once, and the kernels' results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from . import _arrays, _core

LAYOUTS = ("s,h,d", "b,s,h,d", "b,h,s,d")
_TENSORS = ("o", "lse", "dq", "dk", "dv", "delta", "lse_log2", "s", "p", "dp", "ds", "dq_f32", "dk_f32")
_BF16 = ("o", "dq", "dk", "dv")


class Checked(NamedTuple):
    """A call whose shapes go together."""

    core: Any  # _core.Call
    wrap: Callable[[np.ndarray, str], Any]
    layout: str
    query_shape: tuple[int, ...]
    row_shape: tuple[int, ...]
    has_gradient: bool


def call(q: Any, k: Any, v: Any, do: Any = None, *, layout: str | None = None, causal: bool = False, softmax_scale: float | None = None, heads: int | None = None,
         sms: int = 132, dtype: str | None = None) -> Checked:
    """Raises TypeError or ValueError naming the argument, what was found and what was expected."""
    taken = {name: _arrays.take(x, name, ("bf16",), dtype) for name, x in (("q", q), ("k", k), ("v", v), *((("do", do),) if do is not None else ()))}
    codes = {name: np.ascontiguousarray(t.codes) for name, t in taken.items()}
    rank = codes["q"].ndim
    if rank not in (3, 4):
        raise ValueError(f"q: expected 3 dimensions (layout s,h,d) or 4 (b,s,h,d or b,h,s,d), found shape {list(codes['q'].shape)}")
    if layout is None:
        layout = "s,h,d" if rank == 3 else "b,s,h,d"
    if layout not in LAYOUTS or (layout == "s,h,d") != (rank == 3):
        raise ValueError(f"layout: expected {LAYOUTS[0]!r} for 3 dimensions, {LAYOUTS[1]!r} or {LAYOUTS[2]!r} for 4, found {layout!r} with q of shape {list(codes['q'].shape)}")
    for name in ("k", "v"):
        if codes[name].ndim != rank:
            raise ValueError(f"{name}: expected {rank} dimensions like q, found shape {list(codes[name].shape)}")
    head, row = (-3, -2) if layout == "b,h,s,d" else (-2, -3)
    shape, key_shape = codes["q"].shape, codes["k"].shape
    if 0 in shape or 0 in key_shape:
        name = "q" if 0 in shape else "k"
        raise ValueError(f"{name}: expected no size of 0, found shape {list(codes[name].shape)}")
    if codes["v"].shape != key_shape:
        raise ValueError(f"v: expected the shape of k, {list(key_shape)}, found {list(codes['v'].shape)}")
    if key_shape[-1] != shape[-1]:
        raise ValueError(f"k: expected head dimension {shape[-1]} like q, found shape {list(key_shape)}")
    if rank == 4 and key_shape[0] != shape[0]:
        raise ValueError(f"k: expected batch {shape[0]} like q, found shape {list(key_shape)}")
    if shape[head] % key_shape[head]:
        raise ValueError(f"k: expected a number of heads that divides q's {shape[head]}, found {key_shape[head]}")
    if "do" in codes and codes["do"].shape != shape:
        raise ValueError(f"do: expected the shape of q, {list(shape)}, found {list(codes['do'].shape)}")
    if not isinstance(causal, (bool, np.bool_, int)):
        raise TypeError(f"causal: expected True or False, found {causal!r}")
    scale = 1 / math.sqrt(shape[-1]) if softmax_scale is None else float(softmax_scale)
    if not math.isfinite(scale):
        raise ValueError(f"softmax_scale: expected a finite number, found {scale}")
    for name, number in (("heads", heads), ("sms", sms)):
        if number is not None and (not isinstance(number, (int, np.integer)) or number < 1):
            raise ValueError(f"{name}: expected a whole number from 1 on, found {number!r}")
    core = _core.Call(codes["q"], codes["k"], codes["v"], codes.get("do"), layout, bool(causal), scale, int(heads or 0), int(sms))
    rows = ((shape[0],) if rank == 4 else ()) + (shape[head], shape[row])
    return Checked(core, taken["q"].wrap, layout, tuple(shape), rows, "do" in codes)


class AttentionResult(Mapping[str, Any]):
    """The tensors of a call, as attributes and by name."""

    o: Any
    lse: Any
    dq: Any
    dk: Any
    dv: Any
    delta: Any
    lse_log2: Any
    s: Any
    p: Any
    dp: Any
    ds: Any
    dq_f32: Any
    dk_f32: Any

    def __init__(self, tensors: dict[str, Any], schedule: str, fix: str, unit: str | None) -> None:
        self._tensors = tensors
        self.schedule, self.fix, self.unit = schedule, fix, unit

    def __getitem__(self, name: str) -> Any:
        return self._tensors[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_tensors"][name]
        except KeyError:
            raise AttributeError(f"no tensor '{name}' here: there are {', '.join(self.__dict__.get('_tensors', {}))}" if name in _TENSORS else name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {list(x.shape)}" for name, x in self._tensors.items())
        return f"AttentionResult(schedule={self.schedule!r}, fix={self.fix!r}: {held})"


def _run(c: Checked, schedule: str, fix: str, unit: str | None, engine: str, tensors: Sequence[str], stored: tuple[Any, Any] | None) -> AttentionResult:
    o = lse = None
    if stored is not None:
        o = np.ascontiguousarray(_arrays.take(stored[0], "o", ("bf16",), "bf16" if _is_codes(stored[0]) else None).codes)
        lse = np.ascontiguousarray(_arrays.take(stored[1], "lse", ("f32",), "f32" if _is_codes(stored[1]) else None).codes)
        if o.shape != c.query_shape:
            raise ValueError(f"o: expected the shape of q, {list(c.query_shape)}, found {list(o.shape)}")
        if lse.shape != c.row_shape:
            raise ValueError(f"lse: expected shape {list(c.row_shape)}, found {list(lse.shape)}")
    found = _core.attention(c.core, schedule, unit, fix, engine, list(tensors), o, lse)
    wrapped = {name: c.wrap(codes, "bf16" if codes.dtype == np.uint16 else "f32") for name, codes in found.items()}
    return AttentionResult(wrapped, schedule, fix, unit)


def _is_codes(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "u"


def _wanted(tensors: Sequence[str] | str, allowed: Sequence[str]) -> list[str]:
    names = tensors.split(",") if isinstance(tensors, str) else list(tensors)
    for name in names:
        if name not in allowed:
            raise ValueError(f"tensors: expected some of {', '.join(allowed)}, found {name!r}")
    return list(dict.fromkeys(names))


def attention(q: Any, k: Any, v: Any, *, schedule: str, fix: str = "none", unit: str | None = None, causal: bool = False, softmax_scale: float | None = None,
              layout: str | None = None, heads: int | None = None, sms: int = 132, engine: str = "fast", dtype: str | None = None) -> AttentionResult:
    """O and LSE of softmax(scale · Q Kᵀ + mask) V as a kernel computes them, code for code: what `stickybit attention` computes.

    q              BF16 [s, h, d], [b, s, h, d] or, with layout="b,h,s,d", [b, h, s, d]
    k, v           likewise, with s_k keys and h_k heads; h_k divides h (grouped heads)
    schedule       the kernel's arithmetic: "fa3", "fa2-torch", "cudnn", ... (stickybit.schedules())
    fix            changes to it, joined with '+': "subtract-first", "beta:beta=2+k-smooth" (stickybit.fixes())
    unit           tensor-core unit, instead of the schedule's own
    causal         aligned as the schedule's kernel does
    softmax_scale  default 1/√d
    heads, sms     heads of the call per batch element, multiprocessors of the GPU, where they decide how keys are split
    engine         "fast", or "definition": the integer definitions that it is tested against
    dtype          "bf16" where q, k, v are codes in uint16; results are codes then

    Returns .o (BF16, like q) and .lse (FP32 [b, h, s] or [h, s], natural logarithm), of q's kind. NaN and infinity are results.
    Raises ValueError or TypeError naming the argument, UnsupportedCall where the kernel takes no such call. Ctrl-C ends it.
    Checked: captured calls of an H200, every element (`stickybit validate`).
    """
    c = call(q, k, v, layout=layout, causal=causal, softmax_scale=softmax_scale, heads=heads, sms=sms, dtype=dtype)
    return _run(c, schedule, fix, unit, engine, ("o", "lse"), None)


def attention_backward(q: Any, k: Any, v: Any, do: Any, *, schedule: str, fix: str = "none", unit: str | None = None, causal: bool = False, softmax_scale: float | None = None,
                       layout: str | None = None, heads: int | None = None, sms: int = 132, engine: str = "fast", dtype: str | None = None, o: Any = None, lse: Any = None,
                       tensors: Sequence[str] | str = ("o", "lse", "dq", "dk", "dv", "delta", "lse_log2")) -> AttentionResult:
    """The gradients too: what `stickybit attention --backward` computes. As attention(), and

    do       BF16 like q: the gradient that arrives at O
    o, lse   what the forward pass stored, where another one than the schedule's is meant (a capture's); both or neither
    tensors  which results: o lse dq dk dv delta lse_log2; s p dp ds, the matrices [.., h, s, s_k] (S = -inf, P = dS = 0 at masked keys); dq_f32, dk_f32 before their cast

    Returns dq (like q), dk, dv (like k) in BF16; delta, lse_log2 [.., h, s], s, p, dp in FP32; ds in BF16 where the kernel rounds it.
    Fixes that read the FP32 O (delta-fp32, delta-hilo) need the forward pass of this call: no stored o.
    """
    if do is None:
        raise TypeError("do: expected a BF16 tensor like q, found None")
    if (o is None) != (lse is None):
        raise ValueError(f"{'lse' if lse is None else 'o'}: expected what the forward pass stored, both o and lse or neither, found None")
    c = call(q, k, v, do, layout=layout, causal=causal, softmax_scale=softmax_scale, heads=heads, sms=sms, dtype=dtype)
    return _run(c, schedule, fix, unit, engine, _wanted(tensors, _TENSORS), None if o is None else (o, lse))


@dataclass(frozen=True)
class Schedule:
    """An attention kernel's arithmetic, in words: rules with how each is known."""

    name: str
    kernel: str
    unit: str
    has_backward: bool
    facts: tuple[Any, ...]


@dataclass(frozen=True)
class Fix:
    """A published or proposed remedy: what it puts in the place of what, and where it fails."""

    name: str
    parameters: str
    replaces: str
    source: str
    traps: str


def schedules() -> list[str]:
    """The names of all schedules."""
    return list(_core.schedule_names())


def schedule(name: str) -> Schedule:
    """The schedule of that name. Raises UnknownName listing those that there are."""
    from ._products import Fact

    row = dict(_core.schedule_facts(name))
    row["facts"] = tuple(Fact(*fact) for fact in row["facts"])
    return Schedule(**row)


def fixes() -> dict[str, Fix]:
    """All fixes by name, with their parameters."""
    return {row["name"]: Fix(**row) for row in _core.fix_table()}
