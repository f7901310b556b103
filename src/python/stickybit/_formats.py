"""Formats, rounding and single operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np

from . import _arrays, _core

_FLAGS = ("inexact", "underflow", "overflow", "invalid", "divide_by_zero")


class Number(NamedTuple):
    """One code taken apart. value = (-1)^negative · significand · 2^(exponent − (precision − 1)) for zero, subnormal and normal numbers."""

    format: str
    code: int
    value: float
    kind: str  #: zero, subnormal, normal, infinite, NaN
    negative: bool
    exponent: int
    significand: int  #: with the hidden bit
    hex_code: str
    fields: str  #: sign, biased exponent, fraction in binary
    decimal: str  #: the shortest decimal that reads back as the same value
    exact_decimal: str
    hex_float: str
    binary: str  #: as on paper: -1.0010111 × 2^2

    def __str__(self) -> str:
        return f"{self.decimal} = {self.binary} ({self.format} {self.hex_code}: {self.fields})"


@dataclass(frozen=True)
class Format:
    """A floating-point format; every field is the library's own descriptor of it.

    precision counts the hidden bit. e_min and e_max are the exponents of the smallest and the largest normal number, ulp(x) = 2^(e − precision + 1).
    """

    name: str
    width_bits: int
    exponent_bits: int
    fraction_bits: int
    padding_bits: int
    precision: int
    bias: int
    e_min: int
    e_max: int
    is_signed: bool
    has_zero: bool
    has_subnormals: bool
    has_infinity: bool
    has_nan: bool
    special_codes: str
    largest: float
    smallest: float
    code_bytes: int

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type (ml_dtypes); TF32 numbers are in float32."""
        return _arrays.DTYPES[self.name]

    def number(self, x: int | float | str) -> Number:
        """A code (int), or a number that the format holds exactly (float, or text: decimal, hex code "0x3f80", hex float "0x1.8p+1"), taken apart.

        Raises ValueError naming the text, and for an inexact number its two neighbours.
        """
        if isinstance(x, (bool, np.bool_)):
            raise TypeError(f"number: expected a code, a number or a text, found {x!r}")
        if isinstance(x, (int, np.integer)):
            code = int(x)
            if not 0 <= code < 1 << (8 * self.code_bytes):
                raise ValueError(f"number: expected a code of {self.name}, 0 to {(1 << 8 * self.code_bytes) - 1:#x}, found {code:#x}")
        else:
            code = _core.parse(x if isinstance(x, str) else repr(float(x)), self.name)
        kind, negative, exponent, significand = _core.decode(code, self.name)
        return Number(self.name, code, float(self.values(np.array([code]))[0]), kind, negative, exponent, significand, **_core.texts(code, self.name))

    def values(self, codes: Any) -> np.ndarray:
        """float64 values of codes (unsigned integers of any width); exact. Bits that are not the format's are cut off, as the hardware cuts them."""
        array = np.asarray(codes)
        if array.dtype.kind not in "ui":
            raise TypeError(f"codes: expected unsigned integers, found {array.dtype}")
        return _core.values(np.ascontiguousarray(array.astype(np.uint32)).reshape(-1), self.name).reshape(array.shape)

    def codes(self, x: Any) -> np.ndarray:
        """The codes of an array of this format, or of numbers that it holds exactly, as unsigned integers."""
        return _arrays.exact_codes(x, "x", self.name).codes

    def ulp(self, x: Any) -> np.ndarray:
        """Weight of the last bit of this format's number with the exponent of x; below the smallest normal number, of the smallest subnormal."""
        array = np.asarray(x, dtype=np.float64)
        return _core.ulps(np.ascontiguousarray(array).reshape(-1), self.name).reshape(array.shape)

    def all_values(self) -> np.ndarray:
        """float64 value of every code, by code. Formats of at most 16 bits."""
        if self.width_bits > 16:
            raise ValueError(f"all_values: expected a format of at most 16 bits, found {self.name}")
        return self.values(np.arange(1 << self.width_bits, dtype=np.uint32))


class _Formats(Mapping[str, Format]):
    def __init__(self) -> None:
        self._all = {row["name"]: Format(**row) for row in _core.format_table()}

    def __getitem__(self, name: str) -> Format:
        try:
            return self._all[name]
        except KeyError:
            raise ValueError(f"format: expected one of {', '.join(self._all)}, found {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"stickybit.formats: {', '.join(self._all)}"


formats: Mapping[str, Format] = _Formats()


def _named_flags(raised: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: ((raised >> i) & 1).astype(bool).reshape(shape) for i, name in enumerate(_FLAGS)}


def _flush(subnormals: str) -> bool:
    if subnormals not in ("kept", "flushed"):
        raise ValueError(f"subnormals: expected 'kept' or 'flushed', found {subnormals!r}")
    return subnormals == "flushed"


def round_to(x: Any, format: str, mode: str = "nearest_even", *, overflow: str = "by_mode", subnormals: str = "kept", random: Any = None, random_bits: int = 32,
             flags: bool = False) -> Any:
    """Numbers of any floating-point type rounded once to a format.

    x            numbers of any shape: Python floats, NumPy (float16 to float64, ml_dtypes), tensors with __dlpack__
    format       a name in stickybit.formats
    mode         nearest_even, nearest_away, toward_zero, toward_positive, toward_negative, to_odd, stochastic
    overflow     by_mode (IEEE 754), to_infinity (tensor cores), saturate (.satfinite)
    subnormals   kept, or flushed to the zero of their sign
    random       of stochastic: uint32 bits of x's shape, of which the low random_bits (0 to 32) decide
    flags        return (result, {inexact, underflow, overflow, invalid, divide_by_zero: bool arrays}) instead

    Returns an array of the format's type and x's shape and kind. NaN becomes the format's one NaN (of E2M1, which has none, the largest number).
    Source: IEEE 754-2019 §4.3, §7.4; checked for FP32 to every narrower format over all 2^32 codes.
    """
    values, wrap = _arrays.numbers(x, "x")
    if format not in formats:
        formats[format]
    bits = None
    if mode == "stochastic":
        if random is None:
            raise ValueError("random: mode 'stochastic' needs random bits, found None")
        if not 0 <= random_bits <= 32:
            raise ValueError(f"random_bits: expected 0 to 32, found {random_bits}")
        bits = np.ascontiguousarray(np.broadcast_to(np.asarray(random, dtype=np.uint32), values.shape)).reshape(-1)
    codes, raised = _core.round(np.ascontiguousarray(values).reshape(-1), format, mode, overflow, _flush(subnormals), bits, random_bits)
    out = _arrays.result(codes, format, wrap, values.shape)
    return (out, _named_flags(raised, values.shape)) if flags else out


def _arithmetic(operation: str, format: str, operands: tuple[tuple[str, Any], ...], mode: str, subnormals: str, flags: bool) -> Any:
    if format not in ("f32", "bf16", "f16"):
        raise ValueError(f"format: expected 'f32', 'bf16' or 'f16', found {format!r}")
    taken = [_arrays.exact_codes(x, name, format) for name, x in operands]
    wrap = next((t.wrap for t in taken if t.wrap is not _arrays.as_numpy), _arrays.as_numpy)
    try:
        wide = np.broadcast_arrays(*(t.codes.astype(np.uint32) for t in taken))
    except ValueError:
        raise ValueError(", ".join(f"{name}: {list(t.codes.shape)}" for (name, _), t in zip(operands, taken)) + ": expected shapes that broadcast together") from None
    shape = wide[0].shape
    flat = [np.ascontiguousarray(w).reshape(-1) for w in wide]
    while len(flat) < 3:
        flat.append(flat[0])
    codes, raised = _core.arithmetic(operation, format, flat[0], flat[1], flat[2], mode, _flush(subnormals))
    out = _arrays.result(codes, format, wrap, shape)
    return (out, _named_flags(raised, shape)) if flags else out


def add(a: Any, b: Any, *, format: str = "f32", mode: str = "nearest_even", subnormals: str = "kept", flags: bool = False) -> Any:
    """a + b in f32, bf16 or f16, rounded once. Operands broadcast; they are of the format, or numbers that it holds exactly. See round_to for the rest."""
    return _arithmetic("add", format, (("a", a), ("b", b)), mode, subnormals, flags)


def sub(a: Any, b: Any, *, format: str = "f32", mode: str = "nearest_even", subnormals: str = "kept", flags: bool = False) -> Any:
    """a − b in f32, bf16 or f16, rounded once; see add."""
    return _arithmetic("sub", format, (("a", a), ("b", b)), mode, subnormals, flags)


def mul(a: Any, b: Any, *, format: str = "f32", mode: str = "nearest_even", subnormals: str = "kept", flags: bool = False) -> Any:
    """a·b in f32, bf16 or f16, rounded once; see add."""
    return _arithmetic("mul", format, (("a", a), ("b", b)), mode, subnormals, flags)


def div(a: Any, b: Any, *, format: str = "f32", mode: str = "nearest_even", subnormals: str = "kept", flags: bool = False) -> Any:
    """a / b in f32, bf16 or f16, rounded once; see add."""
    return _arithmetic("div", format, (("a", a), ("b", b)), mode, subnormals, flags)


def fma(a: Any, b: Any, c: Any, *, format: str = "f32", mode: str = "nearest_even", subnormals: str = "kept", flags: bool = False) -> Any:
    """a·b + c in f32, bf16 or f16, rounded once; see add."""
    return _arithmetic("fma", format, (("a", a), ("b", b), ("c", c)), mode, subnormals, flags)
