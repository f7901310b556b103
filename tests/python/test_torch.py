"""stickybit.torch: bits, autograd, captures and the diagnosis on a small transformer."""

import numpy as np
import pytest

torch = None
try:
    import torch
except Exception as missing:  # noqa: BLE001  not only ImportError: a wheel without its CUDA libraries
    pytestmark = pytest.mark.skip(reason=f"PyTorch is not installed here ({type(missing).__name__}); tests/python/log/torch.txt is a run with it")

import stickybit as sb

F = None if torch is None else torch.nn.functional


def bits(x):
    return x.detach().cpu().contiguous().view(torch.int16).numpy().view(np.uint16)


def operands(heads=2, length=80, d=64, seed=0, device="cpu", batch=1):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, heads, length, d, generator=g).to(torch.bfloat16).to(device) for _ in range(4)]


def test_tensors_in_and_out_by_dlpack():
    """BF16, FP32, FP16 and FP8 tensors: same bits as NumPy, results are tensors."""
    q, k, v, _ = operands()
    r = sb.attention(q, k, v, layout="b,h,s,d", schedule="fa3")
    n = [x.view(torch.int16).numpy().view(np.uint16) for x in (q, k, v)]
    expected = sb.attention(*n, dtype="bf16", layout="b,h,s,d", schedule="fa3")
    assert r.o.dtype == torch.bfloat16 and r.lse.dtype == torch.float32
    assert np.array_equal(bits(r.o), expected.o) and np.array_equal(r.lse.view(torch.int32).numpy().view(np.uint32), expected.lse)
    x = torch.linspace(-3, 3, 11)
    assert np.array_equal(bits(sb.round_to(x, "bf16")), bits(x.to(torch.bfloat16)))
    assert sb.gemm(torch.ones(4, 32, dtype=torch.float16), torch.ones(3, 32, dtype=torch.float16), unit="sm90.wgmma.f16.f32").dtype == torch.float32
    e = torch.ones(4, 32).to(torch.float8_e4m3fn)
    assert float(sb.gemm(e, e, unit="sm90.wgmma.e4m3.f32" if "sm90.wgmma.e4m3.f32" in sb.units() else "sm90.mma.e4m3.f32")[0, 0]) == 32
    assert sb.compare(q, q.clone()) and not sb.compare(q, -q)
    with pytest.raises(TypeError, match="q: .*bfloat16.*float32"):
        sb.attention(q.float(), k, v, layout="b,h,s,d", schedule="fa3")
    with pytest.raises(TypeError, match="dense"):
        sb.attention(torch.eye(4).to_sparse(), k, v, schedule="fa3")


def test_strided_and_gradient_tensors():
    q, k, v, _ = operands()
    turned = [x.transpose(1, 2) for x in (q, k, v)]  # [b, s, h, d], strided
    r = sb.attention(*turned, schedule="fa3")
    assert np.array_equal(bits(r.o.transpose(1, 2)), bits(sb.attention(q.requires_grad_(), k, v, layout="b,h,s,d", schedule="fa3").o))


@pytest.mark.parametrize("fix", ["none", "gproj", "delta-fp32", "k-smooth"])
def test_autograd_gives_the_emulated_gradients(fix):
    q, k, v, do = operands()
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    o = sb.torch.scaled_dot_product_attention(*leaves, is_causal=True, schedule="fa3", fix=fix)
    o.backward(do)
    expected = sb.attention_backward(q, k, v, do, layout="b,h,s,d", causal=True, schedule="fa3", fix=fix)
    for mine, name in ((o, "o"), *((x.grad, n) for x, n in zip(leaves, ("dq", "dk", "dv")))):
        assert np.array_equal(bits(mine), bits(expected[name])), name


def test_grouped_heads_three_dimensions_and_refusals():
    q, k, v, _ = operands(heads=4)
    o = sb.torch.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    assert o.shape == q.shape
    assert sb.torch.scaled_dot_product_attention(q[0], k[0], v[0]).shape == q[0].shape
    for arguments, words in (((q, k[:, :2], v[:, :2]), "enable_gqa"), ((q.float(), k, v), "query: .*bfloat16"), ((q, k, v, torch.ones(80, 80)), "attn_mask"), ((q, k, v, None, 0.1), "dropout_p")):
        with pytest.raises((TypeError, ValueError), match=words):
            sb.torch.scaled_dot_product_attention(*arguments)
    with pytest.raises(ValueError, match="fa9"):
        sb.torch.scaled_dot_product_attention(q, k, v, schedule="fa9")


def small_transformer(d_model=64, heads=1, layers=2, vocabulary=32, dtype=None):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = torch.nn.LayerNorm(d_model), torch.nn.Linear(d_model, 3 * d_model), torch.nn.Linear(d_model, d_model)
            self.mlp = torch.nn.Sequential(torch.nn.LayerNorm(d_model), torch.nn.Linear(d_model, 2 * d_model), torch.nn.GELU(), torch.nn.Linear(2 * d_model, d_model))
            self.attend = F.scaled_dot_product_attention

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(b, s, 3, heads, -1).permute(2, 0, 3, 1, 4)
            attend = torch.nn.functional.scaled_dot_product_attention if self.attend is None else self.attend
            x = x + self.out(attend(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, -1))
            return x + self.mlp(x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.blocks, self.head = torch.nn.Embedding(vocabulary, d_model), torch.nn.ModuleList(Block() for _ in range(layers)), torch.nn.Linear(d_model, vocabulary)

        def forward(self, tokens):
            x = self.embed(tokens[:, :-1])
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(x).float().flatten(0, 1), tokens[:, 1:].flatten())

    torch.manual_seed(0)
    return Model().to(dtype or torch.bfloat16)


def tokens(batch=2, length=65):
    return torch.randint(0, 32, (batch, length), generator=torch.Generator().manual_seed(1))


def test_a_model_trains_through_the_emulator():
    """Steps with the emulated kernel in every layer: the loss falls, and step by step it stays near PyTorch's own attention."""
    losses = {}
    for name, attend in (("torch", None), ("fa3", lambda q, k, v, is_causal: sb.torch.scaled_dot_product_attention(q, k, v, is_causal=is_causal, schedule="fa3", fix="gproj"))):
        model = small_transformer()
        for block in model.blocks:
            block.attend = attend
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        losses[name] = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = model(tokens())
            loss.backward()
            optimizer.step()
            losses[name].append(float(loss.detach()))
    assert losses["fa3"][-1] < losses["fa3"][0] - 0.1
    assert max(abs(a - b) for a, b in zip(losses["torch"], losses["fa3"])) < 0.1


def test_capture_writes_calls_that_validate_and_study_read(tmp_path, command):
    model = small_transformer()
    with sb.torch.capture(tmp_path / "layer{call}.safetensors", model=model) as recorded:
        model(tokens()).backward()
    assert len(recorded.calls) == 2 and [c.module for c in recorded.calls] == ["blocks.0", "blocks.1"]
    assert [f.rsplit("/", 1)[1] for f in recorded.files] == ["layer0.safetensors", "layer1.safetensors"]
    call = sb.load(recorded.files[1])
    assert {"q", "k", "v", "do"} <= set(call) and call.metadata["causal"] == "1" and call.metadata["layout"] == "b,h,s,d"
    assert call["q"].shape == call["do"].shape == (2, 1, 64, 64)
    # Known to the command: a capture that can be computed; its results are PyTorch's own CPU kernel, which is no schedule.
    assert command("attention", recorded.files[1], "--schedule", "fa3", "--backward")[2] == 0
    assert "torch_cpu" in command("validate", "--allow-skips", recorded.files[1])[0] or not any("." in n for n in call)
    # The gradients of the file are those of the model: PyTorch's own kernel is near the exact ones.
    mine = sb.attention_backward(**call.call(), schedule="exact")
    if "torch_cpu.dq" in call:
        assert np.abs(mine.dq.astype(float) - call["torch_cpu.dq"].astype(float)).max() < 0.05 * np.abs(mine.dq.astype(float)).max()


def test_capture_of_one_call_and_its_refusals(tmp_path):
    q, k, v, do = operands()
    with sb.torch.capture(tmp_path / "one.safetensors"):
        F.scaled_dot_product_attention(q, k, v)
    assert "do" not in sb.load(tmp_path / "one.safetensors")
    with pytest.raises(RuntimeError, match="found 0"), sb.torch.capture(tmp_path / "none.safetensors"):
        pass
    with pytest.raises(TypeError, match="cast=True"), sb.torch.capture(tmp_path / "f32.safetensors"):
        F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    with sb.torch.capture(tmp_path / "f32.safetensors", cast=True):
        F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    with pytest.raises(ValueError, match="attn_mask"), sb.torch.capture(tmp_path / "mask.safetensors"):
        F.scaled_dot_product_attention(q, k, v, torch.zeros(80, 80, dtype=torch.bfloat16))
    with pytest.raises(KeyError), sb.torch.capture(tmp_path / "error.safetensors"):
        raise KeyError
    assert not (tmp_path / "error.safetensors").exists()


def test_capture_of_a_flash_attention_package():
    """Operators with the names and arguments of the packages flash_attn and flash_attn_3, computed by the emulator: their calls and results are seen."""
    for name, producer in (("flash_attn", "fa2"), ("flash_attn_3", "fa3")):
        library = torch.library.Library(name, "FRAGMENT")
        if not hasattr(getattr(torch.ops, name), "_flash_attn_forward"):
            library.define("_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal) -> (Tensor, Tensor)")
            library.define("_flash_attn_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor(a!) dq, Tensor(b!) dk, Tensor(c!) dv, float softmax_scale, bool causal) -> Tensor")

            def forward(q, k, v, dropout_p, softmax_scale, causal):
                r = sb.attention(q, k, v, schedule="fa3", softmax_scale=softmax_scale, causal=causal)
                return r.o, r.lse

            def backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, softmax_scale, causal):
                r = sb.attention_backward(q, k, v, dout, schedule="fa3", softmax_scale=softmax_scale, causal=causal, o=out, lse=softmax_lse)
                dq.copy_(r.dq), dk.copy_(r.dk), dv.copy_(r.dv)
                return r.delta

            library.impl("_flash_attn_forward", forward, "CPU")
            library.impl("_flash_attn_backward", backward, "CPU")
        ops = getattr(torch.ops, name)
        q, k, v, do = (x.transpose(1, 2).contiguous() for x in operands(length=64))
        with sb.torch.capture() as recorded:
            o, lse = ops._flash_attn_forward(q, k, v, 0.0, 0.125, True)
            gradients = [torch.empty_like(q) for _ in range(3)]
            ops._flash_attn_backward(do, q, k, v, o, lse, *gradients, 0.125, True)
        (call,) = recorded.calls
        found = call.capture()
        assert set(found) == {"q", "k", "v", "do", *(f"{producer}.{t}" for t in ("o", "lse", "dq", "dk", "dv"))}
        if producer == "fa3":
            assert sb.validate(found).passed(), str(sb.validate(found))


def test_diagnosis_of_a_small_transformer():
    """Keys with a large common mean and one-signed gradients, as a model in trouble has them: the backward pass in FP32 is nearer than FA3's, and exact norms are told."""
    model = small_transformer()
    before = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        model.blocks[1].qkv.bias[64:128] += 6
    changed = [p.detach().clone() for p in model.parameters()]
    found = sb.torch.diagnose(model, tokens(), layers=[1], fixes=("gproj", "k-smooth", "fp32-backward"))
    assert {r.layer for r in found.rows} == {1} and {r.variant for r in found.rows} == {"exact", "fa3", "fa3+gproj", "fa3+k-smooth", "fa3+fp32-backward"}
    assert {r.module for r in found.rows} == {"blocks.1"} and {r.head for r in found.rows} == {0, 1}
    for head in (0, 1):
        by = {r.variant: r for r in found.of(head=head)}
        assert by["exact"].error_dq == 0 and by["fa3"].error_dq > 0 and by["fa3+fp32-backward"].error_dq <= by["fa3"].error_dq
        assert by["fa3+gproj"].error_dq < by["fa3"].error_dq
        assert by["exact"].norm_dq == pytest.approx(by["fa3"].norm_dq, rel=0.9)
    assert all(torch.equal(a, b) for a, b in zip(changed, model.parameters())) and all(p.grad is None for p in model.parameters())
    assert found.parameter_norms and "fa3+gproj" in str(found) and "<table>" in found._repr_html_() and found.worst().variant != "exact"
    assert not all(torch.equal(a, b) for a, b in zip(before, changed))
    with pytest.raises(IndexError, match="layers"):
        sb.torch.diagnose(model, tokens(), layers=[7])


def test_cuda_goes_through_the_cpu(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here; tests/python/log/torch.txt is a run with one")
    q, k, v, do = operands(length=256, heads=4, device="cuda")
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    o = sb.torch.scaled_dot_product_attention(*leaves, is_causal=True, schedule="fa2-torch")
    o.backward(do)
    assert o.is_cuda and leaves[0].grad.is_cuda
    with pytest.raises(TypeError, match="cuda"):
        sb.attention(q, k, v, layout="b,h,s,d", schedule="fa3")
    # PyTorch's own kernels on the GPU: every recorded result is emulated without a mismatch.
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        torch.use_deterministic_algorithms(backend == SDPBackend.FLASH_ATTENTION)  # cuDNN refuses; without it dQ depends on the run
        with sdpa_kernel(backend), sb.torch.capture(tmp_path / "gpu.safetensors") as recorded:
            again = [x.clone().requires_grad_() for x in (q, k, v)]
            F.scaled_dot_product_attention(*again, is_causal=True).backward(do)
        call = sb.load(recorded.files[0])
        found = sb.validate(call)
        print(backend.name, found, sep="\n")
        assert found.verdicts and not any(v.mismatches for v in found.verdicts if v.tensor.endswith((".o", ".lse"))) and found.total > 0
        if backend == SDPBackend.FLASH_ATTENTION:
            assert np.array_equal(bits(o), call["fa2_torch.o"].view(np.uint16))
            assert found.passed() and call.metadata["fa2_torch.deterministic"] == "1"
            assert {"fa2_torch.dq", "fa2_torch.dk", "fa2_torch.dv"} <= set(call)
