"""The matrix products that record_gemm.py runs: shapes and formats, and who computes them."""

import dataclasses
import math

import torch

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32, "f32": torch.float32}


@dataclasses.dataclass(frozen=True)
class Case:
    """D [m,n] = A [m,k] B [n,k]^T. Of A and D `rows` rows are kept, of B and D `columns` columns, evenly spread."""

    m: int
    n: int
    k: int
    format: str = "bf16"  # bf16, f16, tf32 (FP32 tensors), f32
    rows: int = 16
    columns: int = 16
    batch: int = 1
    libraries: tuple = ("cublas",)
    kind: str = "cancel"

    @property
    def name(self):
        batch = f"_b{self.batch}" if self.batch > 1 else ""
        return f"{self.format}{batch}_{self.m}_{self.n}_{self.k}{'' if self.kind == 'cancel' else '_' + self.kind}"

    @property
    def seed(self):
        return self.m * 7919 + self.n * 104729 + self.k * 31 + sum(map(ord, self.format + self.kind)) + self.batch


def spread(count, kept):
    """`kept` of `count` indices: one in each of as many equal parts, at a place of its own there."""
    kept = min(kept, count)
    return [i * count // kept + (i * 37 + 11) % (count // kept) for i in range(kept)]


def operands(case):
    """A [batch,m,k], B [batch,n,k]. `gauss`: standard normals. `cancel`: exponents widely spread, and each product has its negative at another, random k (but for
    the last of an odd number), so that D consists of rounding errors and also a BF16 D tells orders apart."""
    generator = torch.Generator().manual_seed(case.seed)

    def random(rows):
        x = torch.randn(case.batch, rows, case.k, generator=generator)
        if case.kind == "cancel":
            x *= torch.exp2((1.0 if case.format == "f16" else 2.0) * torch.randn(case.batch, rows, case.k, generator=generator))
        return x.to(TYPES[case.format])

    a, b = random(case.m), random(case.n)
    if case.kind == "cancel":
        order = torch.randperm(case.k, generator=generator)
        half = case.k // 2
        first, second = order[:half], order[half : 2 * half]
        a[..., second] = -a[..., first]
        b[..., second] = b[..., first]
    if case.format == "f16":
        scale = 2.0 ** -math.ceil(math.log2(case.k) / 2 - 3)  # FP16 sums stay finite
        a = a * scale
    return a, b


TORCH = ("cublas",)
ALL = ("cublas", "cublaslt", "triton")

CASES = [
    # Square and nearly so
    Case(128, 128, 128, libraries=ALL, rows=32, columns=32),
    Case(256, 256, 256, libraries=ALL, rows=32, columns=32),
    Case(512, 512, 512, libraries=ALL, rows=32, columns=32),
    Case(512, 512, 1024, libraries=ALL, rows=32, columns=32),
    Case(1024, 1024, 1024, rows=24, columns=24),
    Case(2048, 2048, 2048, rows=16, columns=16),
    Case(4096, 4096, 1024, rows=24, columns=24),
    Case(256, 256, 2048, libraries=ALL, rows=24, columns=24),
    Case(1536, 1664, 2048, rows=26, columns=26),
    # Long K
    Case(64, 64, 4096, libraries=ALL, rows=12, columns=12),
    Case(64, 64, 8192, rows=8, columns=8),
    Case(32, 32, 16384, rows=6, columns=6),
    Case(128, 128, 4096, libraries=ALL, rows=12, columns=12),
    Case(128, 128, 16384, rows=6, columns=6),
    Case(256, 128, 8192, rows=8, columns=8),
    Case(384, 320, 3072, libraries=ALL, rows=16, columns=16),
    Case(512, 256, 4096, rows=12, columns=12),
    # Skinny
    Case(16, 1024, 2048, libraries=ALL, rows=16, columns=16),
    Case(8, 4096, 4096, rows=8, columns=12),
    Case(1, 512, 1024, rows=1, columns=64),
    Case(1, 4096, 4096, rows=1, columns=24),
    Case(512, 1, 1024, rows=64, columns=1),
    Case(4, 512, 512, rows=4, columns=64),
    Case(4096, 16, 2048, rows=16, columns=16),
    Case(64, 128, 2048, rows=24, columns=24),
    Case(128, 4096, 512, rows=48, columns=48),
    # K not a multiple of 16
    Case(256, 192, 1000, libraries=ALL, rows=32, columns=32),
    Case(96, 80, 2052, rows=24, columns=24),
    Case(100, 100, 1001, rows=32, columns=32),
    Case(72, 40, 4100, rows=12, columns=12),
    Case(129, 131, 777, rows=32, columns=32),
    Case(64, 64, 24, rows=32, columns=32),
    # Batched
    Case(64, 64, 2048, batch=8, rows=20, columns=20),
    Case(128, 128, 1024, batch=4, rows=32, columns=32),
    Case(32, 48, 520, batch=16, rows=32, columns=40),
    Case(64, 64, 4096, batch=2, rows=12, columns=12),
    # FP16
    Case(128, 128, 256, "f16", libraries=ALL, rows=32, columns=32),
    Case(64, 64, 4096, "f16", libraries=ALL, rows=12, columns=12),
    Case(256, 256, 2048, "f16", libraries=ALL, rows=20, columns=20),
    Case(512, 512, 512, "f16", rows=32, columns=32),
    Case(100, 100, 1001, "f16", rows=32, columns=32),
    Case(1024, 1024, 1024, "f16", rows=24, columns=24),
    # FP32 tensors on TF32 units, and on FP32 arithmetic
    Case(128, 128, 256, "tf32", libraries=ALL, rows=32, columns=32),
    Case(64, 64, 4096, "tf32", libraries=ALL, rows=8, columns=8),
    Case(256, 256, 1024, "tf32", libraries=ALL, rows=20, columns=20),
    Case(512, 512, 512, "tf32", rows=24, columns=24),
    Case(100, 100, 1001, "tf32", rows=20, columns=20),
    Case(128, 128, 256, "f32", libraries=ALL, rows=32, columns=32),
    Case(64, 64, 4096, "f32", libraries=ALL, rows=8, columns=8),
    Case(256, 256, 1024, "f32", rows=20, columns=20),
    Case(512, 512, 512, "f32", rows=24, columns=24),
    Case(100, 100, 1001, "f32", rows=20, columns=20),
    # Ordinary values
    Case(256, 256, 1024, kind="gauss", libraries=ALL, rows=32, columns=32),
    Case(64, 64, 4096, kind="gauss", rows=12, columns=12),
    Case(256, 256, 1024, "tf32", kind="gauss", rows=20, columns=20),
]
