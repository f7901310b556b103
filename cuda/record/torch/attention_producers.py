"""Kernels to capture. Each producer takes a case and its inputs on the GPU ([b, s, h, d]) and returns {tensor name: tensor} and {metadata name: text}.

Results are o, dq, dk, dv like the inputs and lse [b, h, s_q], natural logarithm. A gradient that a kernel refuses is left out and the reason
goes into the metadata. Causal means: key j is visible to row i when j <= i, except for fa2_torch and triton (bottom-right: j <= i + s_k - s_q).
"""

import functools
import math

import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import triton_attention

aten = torch.ops.aten


def bhsd(x):
    return x.transpose(1, 2)


def bshd(x):
    return x.transpose(1, 2).contiguous()


def with_gradients(forward, x):
    """forward(q, k, v) of [b, h, s, d] views -> o [b, h, s, d], lse or None. Adds dq, dk, dv for the inputs' do."""
    q, k, v = (bhsd(x[name]).detach().requires_grad_() for name in ("q", "k", "v"))
    o, lse = forward(q, k, v)
    results, notes = {"o": bshd(o.detach())}, {}
    if lse is not None:
        results["lse"] = lse.detach()
    try:
        for name, gradient in zip(("dq", "dk", "dv"), torch.autograd.grad(o, (q, k, v), bhsd(x["do"]))):
            results[name] = bshd(gradient)
    except Exception as error:
        notes["gradients"] = f"none: {error}"[:300]
    return results, notes


def cudnn(case, x, gradients=True):
    def forward(q, k, v):
        o, lse, *_ = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, case.causal, False, scale=case.softmax_scale)
        return o, lse.reshape(case.batch, case.heads, case.queries)

    op = {"op": "aten._scaled_dot_product_cudnn_attention"}
    if not gradients:
        o, lse = forward(*(bhsd(x[name]) for name in ("q", "k", "v")))
        return {"o": bshd(o), "lse": lse}, op
    results, notes = with_gradients(forward, x)
    return results, notes | op


def efficient(case, x):
    padded = []

    def forward(q, k, v):
        o, lse, *_ = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, case.causal, scale=case.softmax_scale)
        padded.append(lse.detach())
        return o, lse[..., : case.queries].contiguous()

    results, notes = with_gradients(forward, x)
    return results | {"lse_padded": padded[0]}, notes | {"op": "aten._scaled_dot_product_efficient_attention"}


def math_backend(case, x, reduced=False):
    """reduced: every step is rounded to BF16; otherwise the library widens the operands to FP32 first."""
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(reduced)
    try:
        o, p = aten._scaled_dot_product_attention_math(*(bhsd(x[name]) for name in ("q", "k", "v")), None, 0.0, case.causal, None, scale=case.softmax_scale)
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)
    results = {"o": bshd(o)}
    if case.queries * case.keys <= 200 * 200:
        results["p"] = p.contiguous()
    return results, {"op": f"aten._scaled_dot_product_attention_math, reduced precision {'allowed' if reduced else 'not allowed'}"}


def eager_bf16(case, x, gradients=False):
    """The textbook module: S = q k^T, S scale, mask, softmax, P V; each result is a BF16 tensor. Small problems also give S, P and their gradients."""
    q, k, v = (bhsd(x[name]).detach().requires_grad_(gradients) for name in ("q", "k", "v"))
    s = q @ k.transpose(-2, -1)
    scaled = s * case.softmax_scale
    if case.causal:
        scaled = scaled.masked_fill(torch.ones(case.queries, case.keys, dtype=torch.bool, device=s.device).tril().logical_not(), -math.inf)
    p = torch.softmax(scaled, -1)
    o = p @ v
    results = {"o": bshd(o.detach())}
    small = case.queries * case.keys <= 200 * 200
    if small:
        results |= {"s": s.detach(), "p": p.detach()}
    if gradients:
        dq, dk, dv, ds, dp = torch.autograd.grad(o, (q, k, v, s, p), bhsd(x["do"]))
        results |= {"dq": bshd(dq), "dk": bshd(dk), "dv": bshd(dv)} | ({"ds": ds, "dp": dp} if small else {})
    return results, {"op": "q @ k^T; * scale; masked_fill; softmax; @ v", "s": "before the scale"}


def fa2(case, x, copies=1):
    """copies: the heads are repeated so often; the first copy's results are returned."""

    def repeated(name):
        return x[name].repeat(1, 1, copies, 1)

    def forward(q, k, v):
        o, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, case.causal, False, scale=case.softmax_scale)
        return o, lse

    results, notes = with_gradients(forward, {name: repeated(name) for name in x})
    first = {"lse": lambda r: r[:, : case.heads].contiguous()}
    for name in ("o", "dq"):
        first[name] = lambda r: r[:, :, : case.heads].contiguous()
    for name in ("dk", "dv"):
        first[name] = lambda r: r[:, :, : case.key_heads].contiguous()
    results = {name: first[name](r) for name, r in results.items()}
    return results, notes | {"op": "aten._scaled_dot_product_flash_attention", "heads": str(case.heads * copies)}


def copies_that_prevent_splitting(case, sm_count):
    """The library splits the keys unless query tiles fill 0.8 of its 2 sm_count slots."""
    tiles = case.batch * case.heads * math.ceil(case.queries / 64)
    return math.ceil(0.8 * 2 * sm_count / tiles)


def not_after(batch, head, query, key):
    return query >= key


@functools.cache
def causal_block_mask(queries, keys):
    return create_block_mask(not_after, None, None, queries, keys, device="cuda")


def flex(case, x, gradients=True, options=None):
    """Causal through a block mask, which the kernel walks as partial blocks first, then full blocks."""
    mask = causal_block_mask(case.queries, case.keys) if case.causal else None
    compiled = torch.compile(flex_attention, dynamic=False)

    def forward(q, k, v):
        o, extra = compiled(q, k, v, block_mask=mask, scale=case.softmax_scale, return_aux=AuxRequest(lse=True), kernel_options=options)
        return o, extra.lse

    op = {"op": "torch.compile(flex_attention, dynamic=False), kernel_options " + repr(options)}
    if not gradients:
        with torch.no_grad():
            o, lse = forward(*(bhsd(x[name]) for name in ("q", "k", "v")))
        return {"o": bshd(o), "lse": lse}, op
    results, notes = with_gradients(forward, x)
    return results, notes | op


def triton_blocks(case, x, block_m, block_n, warps=4):
    o, lse, compiled = triton_attention.attention(x["q"], x["k"], x["v"], case.causal, case.softmax_scale, block_m, block_n, warps)
    notes = {"op": f"triton_attention.py BLOCK_M {block_m} BLOCK_N {block_n} warps {warps}"}
    return {"o": o, "lse": lse}, notes, compiled
