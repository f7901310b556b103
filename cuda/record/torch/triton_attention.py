"""Forward attention in Triton, so that its arithmetic can be captured next to that of the libraries' kernels.

One program computes BLOCK_M query rows of one head of one batch element and walks over the keys in blocks of BLOCK_N, ascending.
Operands are BF16, every sum is FP32, the softmax runs in base 2 and P is rounded to BF16 before it meets V.
"""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def attention_forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,  # q, o [b, s_q, h, d], k, v [b, s_k, h_k, d], all contiguous BF16; lse [b, h, s_q] FP32
    scale_log2,  # softmax scale times log2(e)
    heads, queries, keys,
    GROUP: tl.constexpr,  # query heads that share one key head
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,  # key j is visible to row i when j <= i + keys - queries
    MASKED: tl.constexpr,  # some score of some visited block is invisible
):
    first_row = tl.program_id(0) * BLOCK_M
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    row = first_row + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    feature = tl.arange(0, HEAD_DIM)  # [HEAD_DIM]
    row_exists = row < queries

    key_heads = heads // GROUP
    q_at = ((batch * queries + row[:, None]) * heads + head) * HEAD_DIM + feature[None, :]
    kv_base = (batch * keys * key_heads + head // GROUP) * HEAD_DIM
    kv_stride = key_heads * HEAD_DIM
    q = tl.load(q_ptr + q_at, mask=row_exists[:, None], other=0.0)  # [BLOCK_M, HEAD_DIM]

    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)  # of the scaled scores, base-2 units
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    o = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)

    end = keys
    if CAUSAL:
        end = tl.minimum(keys, tl.maximum(first_row + BLOCK_M + keys - queries, 0))
    for start in range(0, end, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        kv_at = kv_base + column[:, None] * kv_stride + feature[None, :]
        if MASKED:
            column_exists = column[:, None] < keys
            k = tl.load(k_ptr + kv_at, mask=column_exists, other=0.0)  # [BLOCK_N, HEAD_DIM]
            v = tl.load(v_ptr + kv_at, mask=column_exists, other=0.0)  # [BLOCK_N, HEAD_DIM]
        else:
            k = tl.load(k_ptr + kv_at)
            v = tl.load(v_ptr + kv_at)

        score = tl.dot(q, tl.trans(k)) * scale_log2  # [BLOCK_M, BLOCK_N]
        if MASKED:
            visible = column[None, :] < keys
            if CAUSAL:
                visible = visible & (column[None, :] <= row[:, None] + keys - queries)
            score = tl.where(visible, score, float("-inf"))

        new_max = tl.maximum(row_max, tl.max(score, 1))
        reference = new_max
        if MASKED:  # a row that has seen no key yet: -inf - -inf would be NaN
            reference = tl.where(new_max == float("-inf"), 0.0, new_max)
        p = tl.exp2(score - reference[:, None])
        rescale = tl.exp2(row_max - reference)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        o = tl.dot(p.to(tl.bfloat16), v, o * rescale[:, None])
        row_max = new_max

    divisor = row_sum
    if MASKED:  # a row without keys: O = 0
        divisor = tl.where(row_sum == 0.0, 1.0, row_sum)
    o = o / divisor[:, None]
    lse = row_max * 0.6931471805599453 + tl.log(row_sum)  # natural logarithm; -inf for a row without keys

    tl.store(o_ptr + q_at, o.to(tl.bfloat16), mask=row_exists[:, None])
    tl.store(lse_ptr + (batch * heads + head) * queries + row, lse, mask=row_exists)


def scale_log2_of(scale):
    """The kernel's factor: the product in double; Triton passes it as FP32, so it is rounded once."""
    return scale * math.log2(math.e)


def attention(q, k, v, causal, scale, block_m=64, block_n=64, warps=4, stages=2):
    """O BF16 [b, s_q, h, d] and lse FP32 [b, h, s_q] of contiguous q, k, v [b, s, h, d]; also the compiled kernel, for its PTX."""
    batch, queries, heads, head_dim = q.shape
    keys, key_heads = k.shape[1], k.shape[2]
    o = torch.empty_like(q)
    lse = torch.empty(batch, heads, queries, dtype=torch.float32, device=q.device)
    compiled = attention_forward[(triton.cdiv(queries, block_m), batch * heads)](
        q, k, v, o, lse, scale_log2_of(scale), heads, queries, keys,
        GROUP=heads // key_heads, HEAD_DIM=head_dim, BLOCK_M=block_m, BLOCK_N=block_n,
        CAUSAL=causal, MASKED=causal or keys % block_n != 0, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return o, lse, compiled
