"""Attention problems to capture: shapes and inputs, made on the CPU from a seed that is the CRC-32 of the case's name (and of a salt, for fresh inputs of the same kind)."""

import dataclasses
import zlib

import torch


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str
    queries: int
    keys: int
    head_dim: int
    causal: bool = False
    batch: int = 1
    heads: int = 2
    key_heads: int = 0  # 0: as many as heads
    scale: float = 0.0  # 0: 1/sqrt(head_dim)
    spread: float = 0.0  # kind spread: standard deviation of the scaled scores
    salt: int = 0

    def __post_init__(self):
        object.__setattr__(self, "key_heads", self.key_heads or self.heads)

    @property
    def softmax_scale(self):
        return self.scale or self.head_dim**-0.5

    @property
    def name(self):
        shape = f"b{self.batch}_q{self.queries}_k{self.keys}_h{self.heads}x{self.key_heads}_d{self.head_dim}_c{int(self.causal)}"
        return f"{self.kind}_{shape}" + (f"_scale{self.scale}" if self.scale else "") + (f"_spread{self.spread}" if self.spread else "")

    @property
    def seed(self):
        return zlib.crc32(f"{self.name}#{self.salt}".encode() if self.salt else self.name.encode())


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
    elif case.kind == "ties":  # every odd key equals the even one before it, scores are wide, V and dO have one sign each
        k[:, 1::2] = k[:, 0 : keys // 2 * 2 : 2]
        q, v, do = 3 * q, -(v.abs() + 0.5), -do.abs()
    elif case.kind == "late":  # a large mean key; row i looks for key 5 i mod s_k
        mean = 6 * r(b, 1, case.key_heads, d)
        k = 1.5 * k + mean
        wanted = (k - mean)[:, torch.arange(queries) * 5 % keys].repeat_interleave(group, 2)
        q, do = 0.5 * q + 1.2 * wanted, 0.01 * do
    elif case.kind == "ramp":  # scaled scores of standard deviation about 1 that climb by 6 from the first key to the last
        direction = torch.nn.functional.normalize(r(b, 1, case.key_heads, d), dim=-1)
        k = k + direction * torch.linspace(0, 8, keys)[None, :, None, None]
        q = 0.7 * q + direction.repeat_interleave(group, 2) * (6 / (8 * case.softmax_scale))
    elif case.kind == "spread":  # scaled scores of standard deviation case.spread at any scale
        q = q * (case.spread / (case.softmax_scale * d**0.5))
    else:
        raise ValueError(f"kind {case.kind}: expected gauss, ties, late, ramp or spread")
    return {name: x.to(torch.bfloat16) for name, x in dict(q=q, k=k, v=v, do=do).items()}


def cudnn_scale_cases():
    """Scales that tell apart three ways to form L = scale log2(e): the first three differ from float(double(float(scale)) log2(e)) only when
    the product is taken in FP32, the others only when it starts from the double scale."""
    for scale in (0.005, 0.01, 0.019, 0.009, 0.017, 0.018):
        for head_dim in (64, 128):
            yield Case("spread", 128, 128, head_dim, scale=scale, spread=6.5)
            yield Case("spread", 128, 128, head_dim, causal=True, scale=scale, spread=2.0)


def cudnn_rows_cases():
    """Few query rows: from how many on does the library take wider key blocks?"""
    for rows in (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 77):
        yield Case("gauss", rows, 200, 64)
        yield Case("ramp", rows, 200, 64)
    for rows in (1, 16, 32, 64, 77):
        yield Case("ramp", rows, 300, 64)
    for rows in (16, 63, 77):
        yield Case("gauss", rows, 200, 64, causal=True)
    for rows in (1, 16, 63, 64):
        yield Case("gauss", rows, 200, 128)
        yield Case("ramp", rows, 200, 128)
    for rows in (1, 4, 16, 48):
        yield Case("gauss", rows, 200, 64, heads=16)
    for rows, keys in ((1, 512), (1, 1100), (16, 1100), (63, 512)):
        yield Case("ramp", rows, keys, 64)


def cudnn_one_row_cases():
    """One query row runs another kernel, and which one depends on the number of keys."""
    for keys in (64, 128, 192, 255, 256, 257, 300, 384, 512, 513, 640, 768, 1024, 1100):
        yield Case("ramp", 1, keys, 64)
    for keys in (128, 256, 300, 512, 1100):
        yield Case("ramp", 1, keys, 128)
    yield Case("gauss", 1, 300, 64, heads=16)
    yield Case("gauss", 1, 512, 64, heads=16)
    yield Case("gauss", 1, 1100, 64, heads=8)
    yield Case("gauss", 1, 300, 64, batch=2, heads=8, key_heads=2)
    yield Case("ties", 1, 200, 64, heads=16)
    yield Case("spread", 1, 200, 64, heads=32, spread=6.5)
    for scale in (0.37, 0.005, 0.009):
        yield Case("spread", 1, 150, 64, heads=16, scale=scale, spread=4.0)
        yield Case("spread", 1, 400, 64, heads=4, scale=scale, spread=4.0)


def backend_cases():
    yield Case("gauss", 200, 200, 64)
    yield Case("gauss", 200, 200, 64, causal=True)
    yield Case("gauss", 384, 384, 64, causal=True)
    yield Case("gauss", 384, 384, 128)
    yield Case("gauss", 384, 384, 128, causal=True)
    yield Case("ties", 384, 384, 64)
    yield Case("late", 320, 320, 64, causal=True)
    yield Case("spread", 300, 300, 64, scale=0.37, spread=6.5)
    yield Case("gauss", 77, 300, 64)
    yield Case("gauss", 150, 400, 64, causal=True)


def flex_cases():
    yield Case("gauss", 200, 200, 64)
    yield Case("gauss", 200, 200, 64, causal=True)
    yield Case("gauss", 384, 384, 128)
    yield Case("gauss", 384, 384, 128, causal=True)
    yield Case("ties", 384, 384, 64)
    yield Case("late", 512, 512, 64, causal=True)
    yield Case("spread", 300, 300, 64, scale=0.37, spread=6.5)
    yield Case("gauss", 77, 300, 64)


def fa2_heads_cases():
    yield Case("gauss", 200, 200, 64, causal=True, heads=4, key_heads=2)
    yield Case("gauss", 256, 256, 128, causal=True, heads=4, key_heads=1)
    yield Case("late", 400, 400, 64, heads=4, key_heads=2)
    yield Case("gauss", 130, 130, 64, batch=2, heads=4, key_heads=2)
    yield Case("gauss", 150, 400, 64, causal=True, batch=2, heads=4, key_heads=2)
    yield Case("gauss", 192, 320, 128, batch=2, heads=2)
    yield Case("ties", 384, 384, 64, batch=2, heads=2)


def golden_cases():
    """Small ones that are kept with the tests."""
    yield Case("ties", 128, 256, 64, causal=True, heads=1)
    yield Case("spread", 130, 130, 64, heads=1, scale=0.37, spread=6.5)


groups = {
    "golden": golden_cases,
    "cudnn_scale": cudnn_scale_cases,
    "cudnn_rows": cudnn_rows_cases,
    "cudnn_one_row": cudnn_one_row_cases,
    "backends": backend_cases,
    "flex": flex_cases,
    "fa2_heads": fa2_heads_cases,
}
