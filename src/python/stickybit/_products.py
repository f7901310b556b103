"""Tensor cores: one block, one inner product, a matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from . import _arrays, _core


@dataclass(frozen=True)
class Fact:
    """One rule in words, how it is known (measured, vectors, reported, source, assumed), and against what it was checked."""

    rule: str
    mark: str
    checked_against: str


@dataclass(frozen=True)
class Unit:
    """A tensor core's inner product as numbers."""

    name: str
    instruction: str
    input: str
    input_b: str
    output: str
    block_size: int  #: products added in one step
    instruction_k: int
    alignment_fraction_bits: int
    output_fraction_bits: int
    arithmetic: str
    accumulator: str
    scale_block: int  #: products that share a scale; 0: no scales
    scale: str | None
    facts: tuple[Fact, ...]


@lru_cache(maxsize=None)
def unit(name: str) -> Unit:
    """The unit of that name (`stickybit models`), or "@path" of a JSON description. Raises UnknownName listing those that there are."""
    row = dict(_core.unit_facts(name))
    row["facts"] = tuple(Fact(*fact) for fact in row["facts"])
    return Unit(**row)


def units() -> list[str]:
    """The names of all units of all machines."""
    return list(_core.unit_names())


def _wide(codes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(codes.astype(np.uint64)).reshape(-1)


def _scales(x: Any, name: str, u: Unit, lead: tuple[int, ...], k: int) -> np.ndarray:
    blocks = -(-k // u.scale_block) if u.scale_block else 0
    if not u.scale_block:
        if x is not None:
            raise ValueError(f"{name}: unit {u.name} has no scales, found some")
        return np.zeros((*lead, 0), np.uint64)
    if x is None:
        raise ValueError(f"{name}: unit {u.name} takes a scale of {u.scale} for every {u.scale_block} products, found none")
    codes = _arrays.exact_codes(x, name, u.scale or "").codes
    if codes.shape != (*lead, blocks):
        raise ValueError(f"{name}: expected shape {[*lead, blocks]}, found {list(codes.shape)}")
    return codes.astype(np.uint64)


def _inner(unit_name: str, a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any, dtype: str | None, one_block: bool) -> Any:
    u = unit(unit_name)
    left, right = _arrays.exact_codes(a, "a", u.input, dtype), _arrays.exact_codes(b, "b", u.input_b, dtype)
    if left.codes.ndim < 1 or left.codes.shape != right.codes.shape:
        raise ValueError(f"b: expected the shape of a, [..., K] = {list(left.codes.shape)}, found {list(right.codes.shape)}")
    lead, k = left.codes.shape[:-1], left.codes.shape[-1]
    if one_block and k != u.block_size:
        raise ValueError(f"a: expected K = {u.block_size}, the block of {u.name}, found K = {k}; stickybit.dot takes any length")
    if one_block and (u.scale_block or "f64" in (u.input, u.output)):
        raise ValueError(f"unit: expected one without scales and not of FP64, found {u.name}; stickybit.dot takes it")
    accumulator = "f64" if u.output == "f64" else "f32"
    if isinstance(c, np.ndarray) and c.dtype == _arrays.UNSIGNED[4] and dtype is not None:
        start = c
    else:
        start = _arrays.exact_codes(c, "c", accumulator).codes
    try:
        start = np.broadcast_to(start, lead)
    except ValueError:
        raise ValueError(f"c: expected a shape that broadcasts to {list(lead)}, found {list(start.shape)}") from None
    scales = [_scales(s, name, u, lead, k) for s, name in ((scale_a, "scale_a"), (scale_b, "scale_b"))]
    codes = _core.dot(unit_name, _wide(left.codes), _wide(right.codes), _wide(start), _wide(scales[0]), _wide(scales[1]), one_block)
    return _arrays.result(codes, accumulator, left.wrap, lead)


def block_fma(unit: str, a: Any, b: Any, c: Any = 0.0, *, dtype: str | None = None) -> Any:
    """One step of a tensor core: c + Σ_{k<K} a[k]·b[k], aligned, cut and packed once as the unit does it.

    unit   "sm90.wgmma.bf16.f32", ... (`stickybit.units()`)
    a, b   [..., K] with K = the unit's block_size: of the unit's input types, numbers exact in them, or codes (dtype names their format)
    c      FP32 accumulator, of a shape that broadcasts to [...]
    Returns FP32 [...] (codes as uint32 where codes came in). NaN and infinity are results, never errors.
    Source: include/stickybit/block_fma/block_fma.hpp; checked against vectors and recordings, `stickybit models` says which.
    """
    return _inner(unit, a, b, c, None, None, dtype, True)


def dot(unit: str, a: Any, b: Any, c: Any = 0.0, *, scale_a: Any = None, scale_b: Any = None, dtype: str | None = None) -> Any:
    """c + a·b of any length on a tensor core: instructions in ascending k, each result the next one's c.

    a, b   [..., K] as for block_fma; scales [..., ⌈K/scale_block⌉] where the unit has them
    Returns FP32 [...] (FP64 for an FP64 unit).
    """
    return _inner(unit, a, b, c, scale_a, scale_b, dtype, False)


def gemm(a: Any, b: Any, c: Any = None, *, unit: str = "sm90.wgmma.bf16.f32", split_k: int = 1, scale_a: Any = None, scale_b: Any = None, output: str = "f32",
         engine: str = "fast", dtype: str | None = None) -> Any:
    """D[M,N] = A[M,K] · B[N,K]ᵀ (+ C[M,N]) as a tensor core computes it: what `stickybit gemm` computes.

    a, b     of the unit's input types, numbers that are exact in them, or codes (dtype names their format)
    c        FP32 [M,N], or None: +0
    split_k  slices of K, each a chain of its own, added in FP32 in ascending order
    output   "f32", or "bf16": each FP32 result rounded once more
    engine   "fast", or "definition": the integer definitions, for which it is tested code for code
    Returns D of a's kind. Raises ValueError naming the argument where shapes do not fit. Ctrl-C ends it.
    Checked: cuBLAS on an H200, `stickybit validate`.
    """
    u = _unit_of(unit)
    left, right = _arrays.exact_codes(a, "a", u.input, dtype), _arrays.exact_codes(b, "b", u.input_b, dtype)
    for name, t in (("a", left), ("b", right)):
        if t.codes.ndim != 2:
            raise ValueError(f"{name}: expected 2 dimensions, {'[M, K]' if name == 'a' else '[N, K]'}, found shape {list(t.codes.shape)}")
    (m, k), (n, k_b) = left.codes.shape, right.codes.shape
    if k != k_b:
        raise ValueError(f"b: expected [N, K] with a's K = {k}, found shape {list(right.codes.shape)}")
    if not isinstance(split_k, (int, np.integer)) or split_k < 1:
        raise ValueError(f"split_k: expected a whole number from 1 on, found {split_k!r}")
    if output not in ("f32", "bf16") or (output == "bf16" and u.output == "f64"):
        raise ValueError(f"output: expected 'f32' or 'bf16', found {output!r}")
    accumulator = "f64" if u.output == "f64" else "f32"
    start = None
    if c is not None:
        start = np.ascontiguousarray(_arrays.exact_codes(c, "c", accumulator).codes)
        if start.shape != (m, n):
            raise ValueError(f"c: expected shape {[m, n]}, found {list(start.shape)}")
    scales = [np.ascontiguousarray(_scales(s, name, u, (rows,), k)) if u.scale_block or s is not None else None
              for s, name, rows in ((scale_a, "scale_a", m), (scale_b, "scale_b", n))]
    d = _core.gemm(unit, np.ascontiguousarray(left.codes), np.ascontiguousarray(right.codes), start, scales[0], scales[1], m, n, k, int(split_k), engine)
    if output == "bf16":
        codes, _ = _core.round(_core.values(d.reshape(-1), "f32"), "bf16", "nearest_even", "by_mode", False, None, 0)
        return _arrays.result(codes, "bf16", left.wrap, (m, n))
    return _arrays.result(d, accumulator, left.wrap, (m, n))


_unit_of = unit
