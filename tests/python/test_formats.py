"""Formats and rounding against ml_dtypes, NumPy and exact fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stickybit as sb
from stickybit._arrays import DTYPES

NARROW = [n for n in sb.formats if n not in ("f32", "tf32")]


@pytest.mark.parametrize("name", NARROW)
def test_values_equal_ml_dtypes(name):
    """Every code: its value is ml_dtypes', NaN is NaN."""
    f = sb.formats[name]
    codes = np.arange(1 << f.width_bits, dtype=np.uint32)
    theirs = codes.astype(f"u{f.code_bytes}").view(DTYPES[name]).astype(np.float64)
    assert np.array_equal(f.values(codes), theirs, equal_nan=True)
    assert np.array_equal(f.all_values(), theirs, equal_nan=True)


@given(st.floats(width=64), st.sampled_from(NARROW))
@settings(max_examples=300, deadline=None)
def test_nearest_even_is_the_nearest_value(x, name):
    """Any double: no value of the format is nearer than the result, by exact fractions; a tie goes to the even code."""
    f = sb.formats[name]
    got = float(sb.round_to(x, name))
    if not np.isfinite(x) or not np.isfinite(got) or name in ("e8m0",):
        return
    values = f.all_values()
    finite = np.unique(values[np.isfinite(values)])
    if abs(x) > f.largest:
        return
    at = np.searchsorted(finite, x)
    near = [finite[i] for i in (at - 1, at) if 0 <= i < len(finite)]
    distance = {v: abs(Fraction(float(v)) - Fraction(x)) for v in near}
    best = min(distance.values())
    assert distance.get(got, abs(Fraction(got) - Fraction(x))) == best
    if len(near) == 2 and len(set(distance.values())) == 1 and near[0] != near[1]:
        assert int(f.codes(np.float64(got))) & 1 == 0


def test_float32_to_bf16_and_f16_equal_ml_dtypes_and_numpy():
    """A million FP32 codes spread over all of them."""
    x = (np.arange(1_000_000, dtype=np.uint64) * 4294 % (1 << 32)).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        for name, theirs in (("bf16", x.astype(ml_dtypes.bfloat16)), ("f16", x.astype(np.float16))):
            mine = sb.round_to(x, name)
            numbers = ~np.isnan(x)
            assert np.array_equal(mine[numbers].view(np.uint16), theirs[numbers].view(np.uint16))
            assert np.isnan(mine[~numbers].astype(np.float32)).all()


def test_modes_flags_and_overflow():
    x = 1 + 2.0**-9  # a quarter of an ulp of BF16 above 1
    assert [float(sb.round_to(x, "bf16", m)) for m in ("nearest_even", "toward_zero", "toward_positive", "toward_negative", "to_odd")] == [1, 1, 1.0078125, 1, 1.0078125]
    got, raised = sb.round_to([1.0, x, 1e39, 1e-45, np.nan], "bf16", flags=True)
    assert raised["inexact"].tolist() == [False, True, True, True, False] and raised["overflow"].tolist() == [False, False, True, False, False]
    assert raised["underflow"].tolist() == [False, False, False, True, False]
    assert float(sb.round_to(1e9, "e4m3fn", overflow="saturate")) == 448 and np.isnan(float(sb.round_to(1e9, "e4m3fn")))
    assert float(sb.round_to(1e-39, "bf16", subnormals="flushed")) == 0
    every = sb.round_to(np.full(256, x), "bf16", "stochastic", random=np.arange(256, dtype=np.uint32), random_bits=8)
    assert (every.astype(np.float64) > 1).sum() == 64  # exactly a quarter of all random words


def test_numbers_taken_apart():
    n = sb.formats["bf16"].number("-4.71875")
    assert (n.code, n.value, n.exponent, n.significand, n.negative) == (0xC097, -4.71875, 2, 0x97, True)
    assert "-1.0010111 × 2^2" in str(n) and sb.formats["bf16"].number(0xC097) == n == sb.formats["bf16"].number(-4.71875)
    with pytest.raises(ValueError, match="0.1"):
        sb.formats["bf16"].number("0.1")
    assert sb.formats["bf16"].ulp([1.0, 255.0]).tolist() == [2.0**-7, 1.0]


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
@settings(max_examples=200, deadline=None)
def test_float32_operations_equal_the_host(a, b, c):
    """add, sub, mul, div of any FP32 numbers as NumPy has them; fma by exact fractions."""
    x, y = np.float32(a), np.float32(b)
    with np.errstate(all="ignore"):
        for mine, theirs in ((sb.add(x, y), x + y), (sb.sub(x, y), x - y), (sb.mul(x, y), x * y), (sb.div(x, y), x / y)):
            assert (np.isnan(mine) and np.isnan(theirs)) or np.asarray(mine).view(np.uint32) == np.asarray(theirs).view(np.uint32)
    if all(np.isfinite(v) for v in (a, b, c)):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        mine = float(sb.fma(x, y, np.float32(c)))
        if exact and np.isfinite(mine) and abs(exact) < 1e300 and abs(exact) > 1e-300:
            ulp = Fraction(float(sb.formats["f32"].ulp(mine)))
            assert abs(Fraction(mine) - exact) <= ulp / 2


def test_elementary_functions_equal_the_account(command):
    for x in (0.5, -3.25, 100.0, -126.5, 1e-3):
        for name in ("ex2", "rcp", "lg2"):
            text, _, status = command("explain", "exp2", "--function", name, "--level", "paragraph", "--", repr(x))
            assert status == 0 and f"0x{int(np.asarray(getattr(sb.sfu, name)(np.float32(x))).view(np.uint32)):08X}" in text
