"""Property tests from Python: campaigns, strategies, the pytest plugin."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stickybit as sb
from stickybit import property as sp

SMALL = dict(head_dims=[64], most_queries=48, most_keys=64)
quick = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def fa3(q, k, v, causal, softmax_scale, do=None):
    if do is None:
        return dict(sb.attention(q, k, v, schedule="fa3", causal=causal, softmax_scale=softmax_scale))
    return dict(sb.attention_backward(q, k, v, do, schedule="fa3", causal=causal, softmax_scale=softmax_scale))


def test_a_right_kernel_passes():
    forward = sb.property.check(fa3, "fa3", cases=40, **SMALL)
    assert forward and forward.counts["equals-schedule"]["cases"] > 20 and str(forward).endswith("PASSED") and forward.data["kernel"] == "fa3"
    backward = sp.check(fa3, "fa3", cases=6, backward=True, finite=True, **SMALL)
    assert backward and backward.counts["equals-schedule"]["failures"] == 0
    assert sp.check("emulated:fa3", "fa3", cases=30, **SMALL)


def test_a_wrong_kernel_is_found_made_small_and_explained(tmp_path):
    """The scale is taken before the exponent's multiplication: the kernel is fa3 with the fix subtract-first."""
    def wrong(q, k, v, causal, softmax_scale):
        r = sb.attention(q, k, v, schedule="fa3", fix="subtract-first", causal=causal, softmax_scale=softmax_scale)
        return r.o, r.lse

    result = sp.check(wrong, "fa3", cases=200, folder=tmp_path, finite=True, **SMALL)
    assert not result and result.failures == 1 and "FAILED" in str(result)
    (report,) = result.reports
    assert report.property == "equals-schedule" and report.call["q"].shape[1] <= 48 and report.first_step
    again = fa3(**{n: report.call[n] for n in ("q", "k", "v", "causal", "softmax_scale")})
    mine = wrong(**{n: report.call[n] for n in ("q", "k", "v", "causal", "softmax_scale")})
    assert not (sb.compare(again["o"], mine[0]) and sb.compare(again["lse"], mine[1]))
    assert sb.load(report.file)


def test_kernels_that_break():
    """Exceptions, wrong shapes and wrong types are failures of the kernel, said in words; None is a call that is not taken."""
    def raises(q, k, v, causal, softmax_scale):
        raise ValueError("no such tile")

    for kernel, words in ((raises, "no such tile"), (lambda q, k, v, causal, softmax_scale: q[:, :, :, :32], "o: expected shape"),
                          (lambda q, k, v, causal, softmax_scale: q.astype(np.float32), "o: expected bfloat16"), (lambda q, k, v, causal, softmax_scale: {"lse": None}, "o: expected bf16")):
        result = sp.check(kernel, "fa3", cases=20, diagnosis=False, **SMALL)
        assert not result and words in str(result), str(result)
    with pytest.raises(TypeError, match="takes no argument"):
        result = sp.check(lambda q, k, v: q, "fa3", cases=3, **SMALL)
        raise TypeError("takes no argument" if "takes no argument" in str(result) else str(result))
    assert not sp.check(lambda q, k, v, causal, softmax_scale: None, "fa3", cases=5, **SMALL)  # nothing was tested
    with pytest.raises(ValueError, match="fa9"):
        sp.check(fa3, "fa9", cases=3)
    with pytest.raises(ValueError, match="cases"):
        sp.check(fa3, "fa3", cases=0)


def test_the_same_cases_as_the_command(command, tmp_path):
    """`stickybit check emulated:...` counts what check("emulated:...") counts."""
    import json

    told, error, status = command("check", "emulated:fa3", "--schedule", "fa3", "--cases", "30", "--head-dim", "64", "--most-queries", "48", "--most-keys", "64", "--json", tmp_path / "r.json")
    assert status == 0, error
    mine, theirs = sp.check("emulated:fa3", "fa3", cases=30, **SMALL).data, json.loads((tmp_path / "r.json").read_text())
    assert mine["properties"] == theirs["properties"]


@given(sp.attention_calls(**SMALL))
@quick
def test_any_call_is_the_definition(call):
    """Fast engine and definition give the same codes, whatever the call."""
    fast, slow = (sb.attention(**call, schedule="fa3", engine=engine) for engine in ("fast", "definition"))
    assert sb.compare(fast.o, slow.o, nan_bits=True) and sb.compare(fast.lse, slow.lse, nan_bits=True)


@given(sp.attention_calls(gradients=True, finite=True, **SMALL))
@quick
def test_any_finite_call_has_its_gradients(call):
    assert call["do"].shape == call["q"].shape and np.isfinite(call["q"].astype(np.float32)).all()
    sb.attention_backward(**call, schedule="fa3")


@given(sp.codes("bf16", 16), sp.codes("bf16", 16), sp.codes("f32"), st.sampled_from(["sm80.mma.bf16.f32", "sm90.wgmma.bf16.f32"]))
@settings(max_examples=60, deadline=None)
def test_a_product_does_not_depend_on_the_sides(a, b, c, unit):
    left, right = (np.asarray(sb.dot(unit, *x, c)).view(np.uint32) for x in ((a, b), (b, a)))
    assert left == right


@pytest.mark.parametrize("name", [n for n in sb.formats if n != "f32"])
def test_codes_of_every_format(name):
    seen = []

    @given(sp.codes(name, (4, 4), finite=True))
    @quick
    def run(x):
        assert x.dtype == sb.formats[name].dtype and x.shape == (4, 4) and np.isfinite(x.astype(np.float64)).all()
        seen.append(x)

    run()
    assert seen


def test_shrinking_keeps_what_matters():
    call = sp.make_call(11, gradients=False, **SMALL)
    call["v"][0, -1, 0, 5] = 100
    small, runs = sp.shrink(call, lambda c: bool((c["v"].astype(np.float32) == 100).any()), most_runs=400)
    assert runs <= 400 and small["q"].size <= call["q"].size and (small["v"].astype(np.float32) == 100).any()
    assert small["q"].shape[1] == 1 and small["k"].shape[1] == 1


def test_make_call_is_the_same_everywhere():
    a, b = sp.make_call(5, **SMALL), sp.make_call(5, **SMALL)
    assert np.array_equal(a["q"].view(np.uint16), b["q"].view(np.uint16))
    assert {"sizes", "numbers"} <= {g["part"] for g in sp.generators().values()} and "equals-schedule" in sp.properties()
    with pytest.raises(ValueError, match="nonsense"):
        sp.make_call(5, recipe="nonsense/gauss")


def test_plugin(tmp_path):
    """In a pytest of its own: a right kernel passes, a wrong one fails with its report and leaves the call."""
    import subprocess
    import sys

    (tmp_path / "test_mine.py").write_text("""
import stickybit as sb
SMALL = dict(head_dims=[64], most_queries=48, most_keys=64, finite=True)
def kernel(fix):
    return lambda q, k, v, causal, softmax_scale: sb.attention(q, k, v, schedule="fa3", fix=fix, causal=causal, softmax_scale=softmax_scale).o
def test_right(check_attention):
    assert check_attention(kernel("none"), "fa3", **SMALL).cases == 40
def test_wrong(check_attention):
    check_attention(kernel("two-row-sums"), "fa3", diagnosis=False, **SMALL)
""")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "stickybit.pytest_plugin", "--stickybit-cases", "40", "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "equals-schedule" in done.stdout
