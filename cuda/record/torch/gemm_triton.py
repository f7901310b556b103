"""Matrix products in Triton whose order of additions is known, D[M,N] = A[M,K] B[N,K]^T, to be captured next to those of the libraries.

K is walked in blocks of BLOCK_K. A slice of K is one chain from 0; slices are added by a second kernel or by atomic additions.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(pointer, row, rows, k, length, row_stride):
    """[rows of the tile, BLOCK_K], zeros outside."""
    return tl.load(pointer + row[:, None] * row_stride + k[None, :], mask=(row[:, None] < rows) & (k[None, :] < length), other=0.0)


@triton.jit
def partial_products(
    a_ptr, b_ptr, p_ptr,  # A [M,K], B [N,K]; p [slices,M,N], or [M,N] where ATOMIC
    M, N, K, one,  # one = 1.0, which the compiler must not know
    steps, slices,  # blocks of K in a slice
    INTERLEAVED: tl.constexpr,  # slice s takes blocks s, s + slices, ...
    DESCENDING: tl.constexpr,  # blocks of a slice from the last to the first
    TWO_CHAINS: tl.constexpr,  # even and odd blocks of a slice in two chains, added at its end
    PROMOTED: tl.constexpr,  # each block is a chain from 0, added to the FP32 sum
    ATOMIC: tl.constexpr,
    PRECISION: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(2)
    sums = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATOR)
    odd = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATOR)
    for step in range(0, steps):
        i = step
        if DESCENDING:
            i = steps - 1 - step
        block = part * steps + i
        if INTERLEAVED:
            block = i * slices + part
        k = block * BLOCK_K + tl.arange(0, BLOCK_K)
        a = load_tile(a_ptr, row, M, k, K, K)
        b = tl.trans(load_tile(b_ptr, column, N, k, K, K))
        if PROMOTED:
            sums = sums + tl.dot(a, b, input_precision=PRECISION, out_dtype=ACCUMULATOR) * one
        elif TWO_CHAINS:
            if i % 2 == 0:
                sums = tl.dot(a, b, sums, input_precision=PRECISION, out_dtype=ACCUMULATOR)
            else:
                odd = tl.dot(a, b, odd, input_precision=PRECISION, out_dtype=ACCUMULATOR)
        else:
            sums = tl.dot(a, b, sums, input_precision=PRECISION, out_dtype=ACCUMULATOR)
    if TWO_CHAINS:
        sums = sums + odd
    at = row[:, None] * N + column[None, :]
    inside = (row[:, None] < M) & (column[None, :] < N)
    if ATOMIC:
        tl.atomic_add(p_ptr + at, sums, mask=inside)
    else:
        tl.store(p_ptr + part * M * N + at, sums.to(p_ptr.dtype.element_ty), mask=inside)


@triton.jit
def stream_products(
    a_ptr, b_ptr, p_ptr,  # p [slots,M,N]
    M, N, K, tile_columns, tiles, steps, share,  # steps: blocks of K in a tile; share: blocks that one program computes
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    at = program * share
    end = tl.minimum(at + share, tiles * steps)
    while at < end:
        tile = at // steps
        first = at % steps
        last = tl.minimum(steps, first + end - at)
        row = (tile // tile_columns) * BLOCK_M + tl.arange(0, BLOCK_M)
        column = (tile % tile_columns) * BLOCK_N + tl.arange(0, BLOCK_N)
        sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for block in range(first, last):
            k = block * BLOCK_K + tl.arange(0, BLOCK_K)
            sums = tl.dot(load_tile(a_ptr, row, M, k, K, K), tl.trans(load_tile(b_ptr, column, N, k, K, K)), sums)
        slot = program - (tile * steps) // share
        inside = (row[:, None] < M) & (column[None, :] < N)
        tl.store(p_ptr + slot * M * N + row[:, None] * N + column[None, :], sums, mask=inside)
        at += last - first


@triton.jit
def add_partials(
    p_ptr, d_ptr, count, N, tile_columns, steps, share, slices,  # 4 slices where TREE
    DESCENDING: tl.constexpr, TREE: tl.constexpr, STREAM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    if TREE:  # of four: part s and part s + 2 first
        p0 = tl.load(p_ptr + at, mask=inside).to(tl.float32)
        p1 = tl.load(p_ptr + count + at, mask=inside).to(tl.float32)
        p2 = tl.load(p_ptr + 2 * count + at, mask=inside).to(tl.float32)
        p3 = tl.load(p_ptr + 3 * count + at, mask=inside).to(tl.float32)
        total = (p0 + p2) + (p1 + p3)
    else:
        total = tl.zeros([BLOCK], tl.float32)
        for s in range(0, slices):
            part = s
            if DESCENDING:
                part = slices - 1 - s
            exists = inside
            if STREAM:
                tile = (at // N // BLOCK_M) * tile_columns + at % N // BLOCK_N
                exists = inside & (part <= ((tile + 1) * steps - 1) // share - (tile * steps) // share)
            total += tl.load(p_ptr + part * count + at, mask=exists, other=0.0).to(tl.float32)
    tl.store(d_ptr + at, total.to(d_ptr.dtype.element_ty), mask=inside)


def sum_up(p, d, slices, block_m=1, block_n=1, steps=1, share=1, descending=False, tree=False, stream=False):
    count, columns = d.numel(), d.shape[1]
    add_partials[(triton.cdiv(count, 512),)](p, d, count, columns, triton.cdiv(columns, block_n), steps, share, slices, DESCENDING=descending, TREE=tree,
                                             STREAM=stream, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK=512)  # fmt: skip
    return d


def product(a, b, out, slices=1, block=(64, 64, 64), warps=4, partial=torch.float32, interleaved=False, walk_down=False, two_chains=False, promoted=False, atomic=False,
            precision="tf32", accumulator=tl.float32, descending=False, tree=False):  # fmt: skip
    """A [M,K] times B [N,K]^T in `out`."""
    (m, k), n = a.shape, b.shape[0]
    steps = triton.cdiv(triton.cdiv(k, block[2]), slices)
    single = slices == 1 and not atomic
    d = torch.zeros(m, n, dtype=out, device=a.device)
    p = d if single or atomic else torch.zeros(slices, m, n, dtype=partial, device=a.device)
    partial_products[(triton.cdiv(m, block[0]), triton.cdiv(n, block[1]), slices)](
        a, b, p, m, n, k, 1.0, steps, slices, INTERLEAVED=interleaved, DESCENDING=walk_down, TWO_CHAINS=two_chains, PROMOTED=promoted, ATOMIC=atomic,
        PRECISION=precision, ACCUMULATOR=accumulator, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], num_warps=warps)  # fmt: skip
    return d if single or atomic else sum_up(p, d, slices, descending=descending, tree=tree)


def stream(a, b, out, programs, block=(64, 64, 64), warps=4, descending=False):
    """Stream-K: `programs` equal shares of all tiles' blocks; a tile's parts are added in ascending k (or descending)."""
    (m, k), n = a.shape, b.shape[0]
    rows, columns, steps = triton.cdiv(m, block[0]), triton.cdiv(n, block[1]), triton.cdiv(k, block[2])
    share = triton.cdiv(rows * columns * steps, programs)
    slots = triton.cdiv(steps, share) + 1
    p = torch.zeros(slots, m, n, dtype=torch.float32, device=a.device)
    d = torch.zeros(m, n, dtype=out, device=a.device)
    stream_products[(programs,)](a, b, p, m, n, k, columns, rows * columns, steps, share, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], num_warps=warps)
    return sum_up(p, d, slots, block[0], block[1], steps, share, descending=descending, stream=True)
