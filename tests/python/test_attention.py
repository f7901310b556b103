"""Attention and products: results equal the command's, bit for bit, on recorded calls and generated ones."""

import numpy as np
import pytest

import stickybit as sb
from conftest import GOLDEN

CALLS = sorted(p for p in GOLDEN.glob("*.safetensors") if "_q" in p.name or p.name.startswith(("gauss_s", "ties_s")))


def same(left, right):
    comparison = sb.compare(left, right, nan_bits=True)
    assert comparison, str(comparison)


@pytest.mark.parametrize("path", CALLS, ids=lambda p: p.stem)
def test_attention_equals_the_command(path, command, tmp_path):
    """Forward and, where the call has a dO, backward; every result that the command writes."""
    call = sb.load(path)
    for schedule, fix in (("fa3", "none"), ("fa2-torch", "none"), ("fa3", "two-row-sums+k-smooth")):
        out = tmp_path / f"{schedule}.safetensors"
        backward = ["--backward"] if "do" in call else []
        text, error, status = command("attention", path, "--schedule", schedule, "--fix", fix, *backward, "-o", out)
        try:
            mine = (sb.attention_backward if backward else sb.attention)(**call.call(), schedule=schedule, fix=fix)
        except sb.UnsupportedCall as refused:
            assert status == 2 and str(refused) in error
            continue
        assert status == 0, error
        written = sb.load(out)
        assert set(written) == set(mine)
        for name in written:
            same(mine[name], written[name])


def test_matrices_and_fixed_backward_equal_the_command(golden, command, tmp_path):
    path, out = golden / "gauss_s64_d128_c1.safetensors", tmp_path / "out.safetensors"
    tensors = "o,lse,dq,dk,dv,delta,lse_log2,s,p,dp,ds"
    for fix in ("gproj", "fp32-backward", "delta-hilo"):
        assert command("attention", path, "--schedule", "fa3", "--fix", fix, "--backward", "--tensors", tensors, "-o", out)[2] == 0
        mine, written = sb.attention_backward(**sb.load(path).call(), schedule="fa3", fix=fix, tensors=tensors), sb.load(out)
        for name in tensors.split(","):
            same(mine[name], written[name])


def test_results_equal_what_the_gpu_recorded(golden):
    """Of a call that was captured on an H200; the stored O and LSE give the same gradients as the schedule's own."""
    call = sb.load(golden / "gauss_s64_d128_c1.safetensors")
    arguments = call.call()
    mine = sb.attention_backward(**arguments, schedule="fa3")
    stored = sb.attention_backward(**arguments, schedule="fa3", o=call["fa3.o"], lse=call["fa3.lse"])
    for name in ("o", "lse", "dq", "dk", "dv"):
        same(mine[name], call[f"fa3.{name}"])
        same(stored[name], call[f"fa3.{name}"])


def test_layouts_engines_and_codes_give_the_same_bits():
    call = sb.study.regime("late-mean6", queries=96, heads=2).call()
    expected = sb.attention_backward(**call, schedule="fa3")
    heads_first = {n: np.ascontiguousarray(call[n].transpose(1, 0, 2))[None] for n in ("q", "k", "v", "do")}
    other = sb.attention_backward(**heads_first, layout="b,h,s,d", softmax_scale=call["softmax_scale"], schedule="fa3")
    for name in ("o", "dq", "dk", "dv"):
        same(np.ascontiguousarray(other[name][0].transpose(1, 0, 2)), expected[name])
    slow = sb.attention_backward(**call, schedule="fa3", engine="definition")
    codes = {**call, **{n: call[n].view(np.uint16) for n in ("q", "k", "v", "do")}}
    as_codes = sb.attention_backward(**codes, dtype="bf16", schedule="fa3")
    for name in expected:
        same(slow[name], expected[name])
        assert as_codes[name].dtype.kind == "u"
        assert np.array_equal(as_codes[name], expected[name].view(as_codes[name].dtype))
    strided = {n: np.repeat(call[n], 2, axis=2)[:, :, ::2] for n in ("q", "k", "v")}
    same(sb.attention(**strided, softmax_scale=call["softmax_scale"], schedule="fa3").o, expected.o)


def test_generated_calls_equal_the_command(command, tmp_path):
    for name in ("late-mean6", "pair-neg-small"):
        assert command("study", "regime", name, "--seed", "7", "-o", tmp_path / "r.safetensors")[2] == 0
        written, mine = sb.load(tmp_path / "r.safetensors"), sb.study.regime(name, seed=7)
        assert set(written) == set(mine)
        for tensor in written:
            same(written[tensor], mine[tensor])


def test_schedules_and_fixes_are_told():
    assert {"fa3", "fa2-torch", "cudnn", "exact", "stickybit-sm90"} <= set(sb.schedules())
    assert sb.schedule("fa3").has_backward and {f.mark for f in sb.schedule("fa3").facts} <= {"measured", "vectors", "reported", "source", "assumed"}
    assert {"none", "gproj", "beta", "k-smooth"} <= set(sb.fixes())
    assert all(fix.replaces for name, fix in sb.fixes().items() if name != "none")
