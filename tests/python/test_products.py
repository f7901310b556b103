"""Tensor cores: blocks, inner products and matrix products equal the command's and each other."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stickybit as sb

BF16 = ml_dtypes.bfloat16


def test_gemm_equals_the_command_and_the_gpu(golden, command, tmp_path):
    path = golden / "gemm_128_128_64.safetensors"
    file = sb.load(path)
    assert command("gemm", path, "-o", tmp_path / "d.safetensors")[2] == 0
    written = sb.load(tmp_path / "d.safetensors")
    assert sb.compare(sb.gemm(file["a"], file["b"]), written["d_f32"], nan_bits=True)
    assert sb.compare(sb.gemm(file["a"], file["b"], output="bf16"), written["d_bf16"], nan_bits=True)
    assert sb.compare(sb.gemm(file["a"], file["b"]), file["torch.d_f32"])


def hash_of(name):
    return sum(name.encode())


@pytest.mark.parametrize("name", [u for u in sb.units() if sb.unit(u).input != "f64"])
def test_every_unit_alike_by_gemm_dot_and_definition(name, command, tmp_path):
    """4 x 3 x 64 random small numbers, exact in each format; also through a file and the command."""
    u, rng = sb.unit(name), np.random.default_rng(3)
    a, b = (rng.choice([-1.5, -1, 0, 0.5, 1, 2, 3], size=(n, 64)) for n in (4, 3))
    scales = {}
    if u.scale_block:
        blocks = -(-64 // u.scale_block)
        scales = {"scale_a": 2.0 ** rng.integers(0, 3, (4, blocks)), "scale_b": 2.0 ** rng.integers(0, 3, (3, blocks))}
    d = sb.gemm(a, b, unit=name, **scales)
    assert np.array_equal(d.view(np.uint32), sb.gemm(a, b, unit=name, engine="definition", **scales).view(np.uint32))
    one_row = {"scale_a": np.repeat(scales["scale_a"][:1], 3, 0), "scale_b": scales["scale_b"]} if scales else {}
    assert np.array_equal(sb.dot(name, np.repeat(a[:1], 3, 0), b, **one_row).view(np.uint32), d[0].view(np.uint32))
    if not u.scale_block:
        n = u.block_size
        block = sb.block_fma(name, a[0, :n], b[0, :n], 0.25)
        assert np.isfinite(block)
    if hash_of(name) % 16:  # one in sixteen through a file and the command
        return
    inputs = {"a": a.astype(np.float32), "b": b.astype(np.float32), **{k: v.astype(np.float32) for k, v in scales.items()}}
    sb.save(tmp_path / "in.safetensors", inputs)
    assert command("gemm", tmp_path / "in.safetensors", "--unit", name, "-o", tmp_path / "d.safetensors")[2] == 0
    assert sb.compare(d, sb.load(tmp_path / "d.safetensors")["d_f32"], nan_bits=True)


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF)), min_size=16, max_size=16), st.integers(0, 0xFFFFFFFF))
@settings(max_examples=60, deadline=None)
def test_any_codes_of_a_block(pairs, c):
    """Random codes, NaN and infinities too: one block of 16 on sm90 is the inner product of length 16; and codes come back as codes."""
    a, b = (np.array(x, np.uint16) for x in zip(*pairs))
    start = np.array(c, np.uint32)
    by_block = sb.block_fma("sm90.wgmma.bf16.f32", a, b, start, dtype="bf16")
    by_dot = sb.dot("sm90.wgmma.bf16.f32", a.view(BF16), b.view(BF16), start.view(np.float32))
    assert by_block.dtype == np.uint32 and int(by_block) == int(np.asarray(by_dot).view(np.uint32))


def test_split_k_and_accumulator():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((4, 256)).astype(BF16), rng.standard_normal((3, 256)).astype(BF16)
    c = rng.standard_normal((4, 3)).astype(np.float32)
    first, second = sb.gemm(a[:, :128], b[:, :128], c), sb.gemm(a[:, 128:], b[:, 128:])
    assert np.array_equal(sb.gemm(a, b, c, split_k=2), sb.add(first, second))


def test_fp64_unit():
    names = [u for u in sb.units() if sb.unit(u).input == "f64"]
    assert names
    a = np.random.default_rng(1).standard_normal((3, 8))
    d = sb.gemm(a, a, unit=names[0])
    assert d.dtype == np.float64 and np.allclose(d, a @ a.T)
