"""Kinds of arrays, and what is said of wrong ones: one exception that names the argument, what was found, what was expected."""

import ml_dtypes
import numpy as np
import pytest

import stickybit as sb

BF16 = ml_dtypes.bfloat16
Q = np.zeros((8, 2, 64), BF16)

WRONG = [
    (dict(q=Q.astype(np.float32)), TypeError, ["q:", "bfloat16", "float32", "round_to"]),
    (dict(q=Q.view(np.uint16)), TypeError, ["q:", "uint16", "dtype='bf16'"]),
    (dict(q=Q.view(np.int16)), TypeError, ["q:", "bfloat16", "int16"]),
    (dict(q=[1.0, 2.0]), TypeError, ["q:", "list"]),
    (dict(q=None), TypeError, ["q:", "NoneType"]),
    (dict(q=Q[0]), ValueError, ["q:", "[2, 64]"]),
    (dict(k=Q[:, :, :32]), ValueError, ["k:", "v:", "[8, 2, 32]"]),
    (dict(k=Q[:, :, :32], v=Q[:, :, :32]), ValueError, ["k:", "64", "[8, 2, 32]"]),
    (dict(v=Q[:4]), ValueError, ["v:", "[8, 2, 64]", "[4, 2, 64]"]),
    (dict(k=np.zeros((8, 3, 64), BF16), v=np.zeros((8, 3, 64), BF16)), ValueError, ["k:", "divides", "3"]),
    (dict(layout="b,s,h,d"), ValueError, ["layout:", "s,h,d"]),
    (dict(layout="h,s,d"), ValueError, ["layout:", "h,s,d"]),
    (dict(softmax_scale=float("nan")), ValueError, ["softmax_scale:", "finite"]),
    (dict(heads=0), ValueError, ["heads:", "0"]),
    (dict(schedule="fa9"), ValueError, ["fa9", "fa3"]),
    (dict(unit="sm99.mma"), ValueError, ["sm99"]),
    (dict(fix="magic"), ValueError, ["magic"]),
    (dict(fix="gproj+gproj"), ValueError, ["gproj"]),
    (dict(engine="slow"), ValueError, ["engine:", "fast", "slow"]),
    (dict(q=np.zeros((0, 2, 64), BF16)), ValueError, ["q:", "0"]),
    (dict(q=np.zeros((8, 2, 40), BF16), k=np.zeros((8, 2, 40), BF16), v=np.zeros((8, 2, 40), BF16)), sb.UnsupportedCall, ["40"]),
    (dict(q=Q, dtype="bf17"), (TypeError, ValueError), ["bf17"]),
]


@pytest.mark.parametrize("changed, kind, words", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_attention_calls(changed, kind, words):
    arguments = {"q": Q, "k": Q, "v": Q, "schedule": "fa3", **changed}
    with pytest.raises(kind) as caught:
        sb.attention(**arguments)
    assert "\n" not in str(caught.value) and any(w in str(caught.value) for w in words[:1] + words[1:2])
    for word in words:
        if word not in ("v:", "k:"):
            assert word in str(caught.value), str(caught.value)


def test_wrong_gradients():
    with pytest.raises(TypeError, match="do: .*None"):
        sb.attention_backward(Q, Q, Q, None, schedule="fa3")
    with pytest.raises(ValueError, match=r"do: .*\[8, 2, 64\].*\[4, 2, 64\]"):
        sb.attention_backward(Q, Q, Q, Q[:4], schedule="fa3")
    with pytest.raises(ValueError, match="tensors: .*dx"):
        sb.attention_backward(Q, Q, Q, Q, schedule="fa3", tensors="dq,dx")
    with pytest.raises(ValueError, match="lse: "):
        sb.attention_backward(Q, Q, Q, Q, schedule="fa3", o=Q)
    with pytest.raises(ValueError, match=r"lse: .*\[2, 8\].*\[8, 2\]"):
        sb.attention_backward(Q, Q, Q, Q, schedule="fa3", o=Q, lse=np.zeros((8, 2), np.float32))


def test_wrong_products():
    a = np.ones((4, 32), BF16)
    for arguments, words in ((dict(a=a, b=a[:, :16]), "b: .*32"), (dict(a=a, b=a, c=np.zeros((2, 2), np.float32)), r"c: .*\[4, 4\]"), (dict(a=a[0], b=a), "a: .*2 dimensions"),
                             (dict(a=a, b=a, split_k=0), "split_k"), (dict(a=a, b=a, unit="sm90.wgmma.bf16.f33"), "sm90.wgmma.bf16.f33"),
                             (dict(a=np.full((4, 32), 0.1), b=a), "a: .*bf16 holds exactly.*0.1"), (dict(a=a, b=a, scale_a=a), "scale_a"), (dict(a=a, b=a, output="f8"), "output")):
        with pytest.raises((ValueError, TypeError), match=words):
            sb.gemm(**arguments)
    with pytest.raises(ValueError, match="K = 16.*K = 32"):
        sb.block_fma("sm90.wgmma.bf16.f32", a[0], a[0])
    with pytest.raises(ValueError, match="scale"):
        sb.dot(next(u for u in sb.units() if sb.unit(u).scale_block), np.ones(32), np.ones(32))
    with pytest.raises(ValueError, match="format: .*bf16.*fp7"):
        sb.round_to(1.0, "fp7")
    with pytest.raises(ValueError, match="mode: .*nearest_even.*up"):
        sb.round_to(1.0, "bf16", "up")


def test_wrong_files(tmp_path, command):
    """The command's own line."""
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"nonsense")
    for path in (bad, tmp_path / "none.safetensors"):
        with pytest.raises(sb.FileError) as caught:
            sb.load(path)
        assert str(caught.value) in command("validate", path)[1]
    with pytest.raises(ValueError, match="q"):
        sb.bias({"a": np.zeros(3, np.float32)}, schedule="fa3")


class Carried:
    """Something with __dlpack__ that is neither NumPy nor torch."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


def test_dlpack_without_torch():
    """FP32 by DLPack in; results by DLPack or as NumPy. Other devices are refused, never read."""
    import sys

    x = np.linspace(-3, 3, 13, dtype=np.float32)
    assert np.array_equal(np.asarray(sb.round_to(Carried(x), "bf16")).view(np.uint16), sb.round_to(x, "bf16").view(np.uint16))
    with pytest.raises(TypeError, match="cuda:1"):
        sb.attention(Carried(x, (2, 1)), Q, Q, schedule="fa3")
    with pytest.raises(TypeError, match="q: .*bfloat16"):
        sb.attention(Carried(x), Q, Q, schedule="fa3")
    assert "torch" not in sys.modules


def test_result_kinds():
    assert isinstance(sb.round_to(1.5, "bf16"), BF16) and sb.round_to([[1.5]], "bf16").shape == (1, 1)
    r = sb.attention(Q, Q, Q, schedule="fa3")
    assert r.o.dtype == BF16 and r.lse.dtype == np.float32 and r.lse.shape == (2, 8)
    with pytest.raises(AttributeError, match="no tensor 'dq'"):
        r.dq
    big = np.ones((4, 32), np.dtype(np.float32).newbyteorder(">"))
    assert sb.gemm(big, big)[0, 0] == 32
