"""The inputs of a case, made on the CPU from its seed."""

import math

import torch

# Kinds that are standard normal but for two elements of one tensor: in the middle row of the first head and at 5/6 of the rows of the last head.
planted = {
    "nanq": ("q", math.nan, math.nan),
    "nank": ("k", math.nan, math.nan),
    "nanv": ("v", math.nan, math.nan),
    "nando": ("do", math.nan, math.nan),
    "infq": ("q", math.inf, -math.inf),
    "infk": ("k", math.inf, -math.inf),
    "infv": ("v", math.inf, -math.inf),
    "infdo": ("do", math.inf, -math.inf),
}


def inputs(case):
    """{q, do: [b, s_q, h, d]; k, v: [b, s_k, h_k, d]}, BF16 on the CPU. In the formulas r() is standard normal, drawn in the order q, k, v, do, rest."""
    generator = torch.Generator().manual_seed(case.seed)

    def r(*shape):
        return torch.randn(*shape, generator=generator)

    b, queries, keys, d = case.batch, case.queries, case.keys, case.head_dim
    q, k, v, do = r(b, queries, case.heads, d), r(b, keys, case.key_heads, d), r(b, keys, case.key_heads, d), r(b, queries, case.heads, d)
    group = case.heads // case.key_heads
    if case.kind == "gauss":
        pass
    elif case.kind in planted:
        name, first, last = planted[case.kind]
        x = dict(q=q, k=k, v=v, do=do)[name]
        x[0, x.shape[1] // 2, 0, 3] = first
        x[0, x.shape[1] * 5 // 6, -1, 5] = last
    elif case.kind == "ties":  # every odd key equals the even one before it, scores are wide, V and dO have one sign each
        k[:, 1::2] = k[:, 0 : keys // 2 * 2 : 2]
        q, v, do = 3 * q, -(v.abs() + 0.5), -do.abs()
    elif case.kind == "late":  # a large mean key; row i looks for key 5 i mod s_k
        mean = 6 * r(b, 1, case.key_heads, d)
        k = 1.5 * k + mean
        wanted = (k - mean)[:, torch.arange(queries) * 5 % keys].repeat_interleave(group, 2)
        q, do = 0.5 * q + 1.2 * wanted, 0.01 * do
    elif case.kind == "hot":  # a mean key tens of standard deviations large; each row looks for some key
        wanted = k[:, torch.randperm(queries, generator=generator) % keys].repeat_interleave(group, 2)
        k = k + 20 * r(b, 1, case.key_heads, d)
        q, do = 2 * wanted, 1e-3 * do
    elif case.kind == "smallneg":  # all scores are negative
        q, k = -2 * q.abs(), k.abs()
    elif case.kind == "ramp":  # scaled scores of standard deviation about 1 that climb by 6 from the first key to the last
        direction = torch.nn.functional.normalize(r(b, 1, case.key_heads, d), dim=-1)
        k = k + direction * torch.linspace(0, 8, keys)[None, :, None, None]
        q = 0.7 * q + direction.repeat_interleave(group, 2) * (6 / (8 * case.softmax_scale))
    elif case.kind == "spread":  # scaled scores of standard deviation case.spread at any scale
        q = q * (case.spread / (case.softmax_scale * d**0.5))
    elif case.kind == "flatk":  # P is 1 / visible keys, dQ is 0
        k = 0 * k
    elif case.kind == "flatq":  # P is 1 / visible keys, dK is 0
        q = 0 * q
    elif case.kind == "tiny":  # subnormal O, dP and dS
        v[:, ::3] *= 2.0**-6
        q, v, do = 4 * q, 2.0**-124 * v, 2.0**-30 * do
    elif case.kind == "cold":  # subnormal P
        q, k, do = 9 * q, 4 * k, 2.0**-60 * do
    elif case.kind == "faint":  # dS, dQ, dK and dV about the smallest normal number
        do[:, ::3] *= 2.0**-6
        do = 2.0**-122 * do
    else:
        raise ValueError(f"kind {case.kind}: no such kind of inputs")
    return {name: x.to(torch.bfloat16) for name, x in dict(q=q, k=k, v=v, do=do).items()}
