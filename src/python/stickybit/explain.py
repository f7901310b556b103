"""How one result came about, from its inputs to its last bit.

Each function gives an Explanation: print it in a terminal, show it in a notebook, or write its page with save_html().
Every step of an account is an operation that is carried out again; nothing is told that is not in the arithmetic.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from . import _arrays, _calls, _core, _products
from ._formats import formats
from ._html import preformatted

__all__ = ["Explanation", "Step", "Difference", "add", "cast", "fma", "exp2", "dot", "gemm", "softmax", "attention", "difference"]

_ids = itertools.count(1)


@dataclass(frozen=True)
class Step:
    """One operation. exact: the value that it would have had if nothing before it had been rounded. own_error_ulp: of its own rounding alone."""

    index: int
    label: str
    named: bool
    meaning: str
    operation: str
    format: str
    code: int
    value: float
    exact: float
    exact_low: float  #: exact + exact_low is the exact value to more than 100 bits
    error_ulp: float
    own_error_ulp: float
    operands: tuple[tuple[int | None, int, bool], ...]  #: (step, or None for a literal; the literal's code; negated)


class Explanation:
    """An account of one number.

    str() is the screen of text that the command prints; in a notebook the paragraph and a picture are shown.
    """

    def __init__(self, account: Any) -> None:
        self._account = account

    @property
    def title(self) -> str:
        return self._account.title

    def text(self, level: str = "screen", color: bool = False) -> str:
        """In words. level: "paragraph" (a few sentences), "screen" (45 lines), "everything" (every step bit by bit)."""
        return self._account.text(level, color)

    def html(self, surroundings: bool = False) -> str:
        """One page with pictures that needs no network. surroundings: of an element of attention also its head's errors and the rounding points of O."""
        return self._account.html(surroundings)

    def save_html(self, path: str | os.PathLike[str], surroundings: bool = False) -> None:
        """Writes that page."""
        page = self.html(surroundings)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def svg(self, figure: str | None = None) -> str:
        """One picture as an SVG file: rounding, block, shares, error, row; None: the one that suits best. Raises ValueError where there is no such picture."""
        return self._account.picture(figure or "", "file", "figure")

    def tikz(self, figure: str | None = None) -> str:
        """The same as a tikzpicture for LaTeX."""
        return self._account.picture(figure or "", "tikz", "figure")

    def replay(self) -> bool:
        """Carries every step out again from its operands: does each give the code that the account has?"""
        return self._account.replay()

    def __len__(self) -> int:
        return len(self._account)

    def step(self, index: int) -> Step:
        """Step `index`, negative ones from the end; the last one is the result."""
        row = dict(self._account.step(index if index >= 0 else len(self) + index))
        row["operands"] = tuple(row["operands"])
        return Step(**row)

    def steps(self) -> list[Step]:
        """Every step, in order."""
        return [self.step(i) for i in range(len(self))]

    def step_text(self, index: int) -> str:
        """One step in full: operands with codes and binary values, what the arithmetic did bit by bit, its error."""
        return self._account.step_text(index if index >= 0 else len(self) + index)

    @property
    def result(self) -> Step:
        return self.step(-1)

    @property
    def code(self) -> int:
        return self.result.code

    @property
    def value(self) -> float:
        return self.result.value

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Explanation: {self.title}; {len(self)} steps, result {self.value!r} ({self.code:#x})>"

    def _repr_html_(self) -> str:
        words = preformatted(self.text("paragraph"))
        for figure in ("", "rounding"):
            try:
                number = next(_ids)
                svg = self._account.picture(figure, "part", f"sb{number}")
            except ValueError:
                continue
            # On white: a notebook's own scheme need not be the system's.
            scheme = f"#sbx{number}{{{_core.colour_variables(False)};max-width:60em;background:#fff;color:#111;padding:.5em}}"
            return f'{words}<style>{scheme}{_core.figure_css()}</style><div id="sbx{number}">{svg}</div>'
        return words


class Difference:
    """Where two sides part, in words. True where they do."""

    def __init__(self, words: str, differ: bool) -> None:
        self.words, self.differ = words, differ

    def __bool__(self) -> bool:
        return self.differ

    def __str__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        return preformatted(self.words)

    def __repr__(self) -> str:
        return f"<Difference: {'the two sides part' if self.differ else 'the same codes'}>"


def _code(x: Any, name: str, format: str) -> int:
    """A number (float, or a scalar of the format), or a text: decimal, hex code, hex float."""
    if isinstance(x, str) or type(x) in (int, float):
        return _core.parse(x if isinstance(x, str) else repr(float(x)), format)
    taken = _arrays.exact_codes(x, name, format)
    if taken.codes.shape != ():
        raise ValueError(f"{name}: expected one number, found shape {list(taken.codes.shape)}")
    return int(taken.codes)


def _codes(x: Any, name: str, format: str, dtype: str | None = None) -> np.ndarray:
    if isinstance(x, (list, tuple)):
        return np.array([_code(e, f"{name}[{i}]", format) for i, e in enumerate(x)], np.uint32)
    taken = _arrays.exact_codes(x, name, format, dtype)
    if taken.codes.ndim != 1:
        raise ValueError(f"{name}: expected 1 dimension, found shape {list(taken.codes.shape)}")
    return np.ascontiguousarray(taken.codes.astype(np.uint32))


def add(operands: Sequence[Any], format: str = "bf16") -> Explanation:
    """FP32 operands added left to right in FP32, the sum then rounded to `format`, to nearest even. Operands: floats, or texts ("-2.40625", "0x3f800000")."""
    formats[format]
    return Explanation(_core.explain_add(_codes(operands, "operands", "f32"), format))


def cast(x: Any, format: str = "bf16", mode: str = "nearest_even", subnormals: str = "kept") -> Explanation:
    """An FP32 number rounded to another format, in any mode but stochastic."""
    formats[format]
    return Explanation(_core.explain_cast(_code(x, "x", "f32"), format, mode, subnormals == "flushed"))


def fma(a: Any, b: Any, c: Any, format: str = "f32") -> Explanation:
    """a·b + c rounded once, in f32, bf16 or f16; beside it what two roundings would give."""
    return Explanation(_core.explain_fma(format, _code(a, "a", format), _code(b, "b", format), _code(c, "c", format)))


def exp2(x: Any, function: str = "ex2") -> Explanation:
    """An elementary function of an FP32 number as Hopper computes it: ex2, rcp, lg2 (MUFU); exp2, expf, logf, log2f (CUDA's)."""
    return Explanation(_core.explain_function(function, _code(x, "x", "f32")))


def dot(a: Any, b: Any, c: Any = 0.0, *, unit: str = "sm90.wgmma.bf16.f32", split_k: int = 1, dtype: str | None = None) -> Explanation:
    """c + a·b on a tensor core, block by block. a, b: [K] of the unit's input type, or numbers or texts exact in it."""
    u = _products.unit(unit)
    return Explanation(_core.explain_dot(unit, _codes(a, "a", u.input, dtype), _codes(b, "b", u.input_b, dtype), _code(c, "c", "f32"), split_k))


def gemm(a: Any, b: Any, at: tuple[int, int], c: Any = None, *, unit: str = "sm90.wgmma.bf16.f32", split_k: int = 1, dtype: str | None = None) -> Explanation:
    """One element of D[M,N] = A[M,K]·B[N,K]ᵀ (+ C). at: (row, column)."""
    row, column = at
    m, n = len(a), len(b)
    if not 0 <= row < m or not 0 <= column < n:
        raise IndexError(f"at: expected a row from 0 to {m - 1} and a column from 0 to {n - 1}, found {at}")
    return dot(a[row], b[column], 0.0 if c is None else c[row, column], unit=unit, split_k=split_k, dtype=dtype)


def softmax(scores: Any, values: Any = None, *, schedule: str, fix: str = "none", unit: str | None = None, softmax_scale: float | None = None, head_dim: int = 64,
            tensor: str | None = None) -> Explanation:
    """One row of attention from its scores. values: V of each key, BF16, for O; without them lse is told."""
    v = np.zeros(0, np.uint16) if values is None else _codes(values, "values", "bf16").astype(np.uint16)
    tensor = tensor or ("lse" if values is None else "o")
    if tensor == "o" and values is None:
        raise ValueError("values: expected a number of V for each score, found None")
    scale = 1 / math.sqrt(head_dim) if softmax_scale is None else float(softmax_scale)
    return Explanation(_core.explain_softmax(_codes(scores, "scores", "f32"), v, schedule, unit, fix, tensor, scale, head_dim))


def _place(at: Sequence[int], tensor: str) -> list[int]:
    least = 2 if tensor in ("lse", "delta", "lse_log2") else 3
    place = [int(i) for i in at]
    if len(place) not in (least, least + 1):
        raise ValueError(f"at: expected ([batch,] head, row{', column' if least == 3 else ''}) of {tensor}, found {tuple(at)}")
    place = place if len(place) == least + 1 else [0, *place]
    return place if least == 3 else [*place, 0]


def attention(q: Any, k: Any, v: Any, do: Any = None, *, at: Sequence[int], schedule: str, tensor: str = "o", fix: str = "none", unit: str | None = None, **call: Any) -> Explanation:
    """One element of an attention call, forward or backward.

    tensor  o, lse; with do also delta, lse_log2, s, p, dp, ds, dq, dk, dv
    at      ([batch,] head, row, column); of dk and dv key head, key, column; of s, p, dp, ds head, row, key; of lse, delta, lse_log2 head, row
    call    layout, causal, softmax_scale, heads, sms, dtype as in stickybit.attention
    """
    allowed = list(_core.explained_tensors())
    if tensor not in allowed:
        raise ValueError(f"tensor: expected one of {', '.join(allowed)}, found {tensor!r}")
    if tensor not in ("o", "lse") and do is None:
        raise TypeError(f"do: expected a BF16 tensor like q for {tensor}, found None")
    c = _calls.call(q, k, v, do, **call)
    return Explanation(_core.explain_attention(c.core, schedule, unit, fix, tensor, _place(at, tensor)))


def difference(a: str, b: str, *operands: Any, at: Sequence[int] | None = None, tensor: str | None = None, c: Any = 0.0, **call: Any) -> Difference:
    """Where two units, or two schedules, part.

    difference("sm80.mma.bf16.f32", "sm90.wgmma.bf16.f32", a, b)      two units on one inner product
    difference("fa2-torch", "fa3+gproj", q, k, v, do)                 two of SCHEDULE[@UNIT][+FIX]: at the first code of the earliest tensor that differs, or `at`
    """
    if len(operands) == 2:
        u, other = _products.unit(a), _products.unit(b)
        if (u.input, u.input_b) != (other.input, other.input_b):
            raise ValueError(f"b: expected a unit of {u.input}, like {a}, found {b} of {other.input}")
        return Difference(*_core.explain_dot_difference(a, b, _codes(operands[0], "a", u.input), _codes(operands[1], "b", u.input_b), _code(c, "c", "f32")))
    if len(operands) not in (3, 4):
        raise TypeError(f"difference: expected two operands of a unit, or q, k, v and perhaps do, found {len(operands)}")
    checked = _calls.call(*operands, **call)
    return Difference(*_core.explain_difference(checked.core, a, b, checked.has_gradient, tensor, None if at is None else _place(at, tensor or "o")))
