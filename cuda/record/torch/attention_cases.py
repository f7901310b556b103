"""Attention problems to capture: shapes, kinds of inputs (attention_inputs.py makes them) and seeds: the CRC-32 of the case's name (and of a salt, for
fresh inputs of the same kind).

Run by itself, lists the cases of the groups named, or of all, with the size of q k v do and one producer's o lse dq dk dv. Needs no PyTorch.
"""

import dataclasses
import sys
import zlib


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

    @property
    def scores(self):
        return self.batch * self.heads * self.queries * self.keys

    @property
    def bytes(self):
        """Of q k v do and one producer's o dq dk dv in BF16, lse in FP32."""
        rows, columns = self.batch * self.queries * self.heads, self.batch * self.keys * self.key_heads
        return 8 * (rows + columns) * self.head_dim + 4 * rows


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


def gradients_cases():
    """The backward pass with as many heads as the file has, so that they decide how keys are split and in how many buffers dQ is gathered.
    At most 2^24 scores a case."""
    # one tile and less, one row, one key
    yield Case("gauss", 1, 1, 64)
    yield Case("gauss", 1, 1, 128, causal=True, heads=1)
    yield Case("gauss", 2, 3, 64, causal=True)
    yield Case("gauss", 3, 2, 128, causal=True)
    yield Case("gauss", 17, 33, 128, heads=3)
    yield Case("late", 1, 4096, 64, heads=1)
    yield Case("gauss", 1, 700, 64, causal=True, heads=8, key_heads=2)
    yield Case("gauss", 4096, 1, 64, causal=True, heads=1)
    yield Case("gauss", 515, 1, 128, heads=1)
    # about multiples of the tiles, both ways
    yield Case("gauss", 63, 65, 64, causal=True)
    yield Case("gauss", 64, 64, 128)
    yield Case("ramp", 65, 129, 64)
    yield Case("gauss", 127, 128, 64, causal=True)
    yield Case("gauss", 128, 127, 128, causal=True)
    yield Case("ramp", 129, 500, 64)
    yield Case("gauss", 255, 257, 128, causal=True, heads=1)
    yield Case("late", 257, 1000, 64, causal=True, heads=1)
    yield Case("gauss", 1000, 257, 64, causal=True, heads=1)
    yield Case("gauss", 513, 640, 64, heads=1)
    yield Case("gauss", 641, 641, 128, causal=True, heads=1)
    yield Case("gauss", 777, 300, 128, heads=1)
    yield Case("gauss", 1023, 1025, 64, causal=True, heads=1)
    yield Case("gauss", 577, 1025, 128, heads=1)
    yield Case("gauss", 2048, 96, 64, heads=1)
    yield Case("ramp", 96, 2048, 64, causal=True, heads=1)
    # kinds
    yield Case("ties", 385, 385, 64, causal=True)
    yield Case("late", 320, 450, 128, heads=1)
    yield Case("ramp", 450, 450, 64)
    yield Case("ramp", 200, 600, 128, causal=True, heads=1)
    yield Case("smallneg", 260, 190, 64)
    yield Case("hot", 200, 400, 64, causal=True)
    yield Case("hot", 300, 300, 128, heads=1)
    # scales; with the kind gauss, rows are nearly uniform at 0.01 and nearly one-hot at 1 and 4
    yield Case("spread", 200, 300, 64, scale=0.01, spread=1.5)
    yield Case("spread", 130, 260, 128, causal=True, heads=1, scale=0.05, spread=2.0)
    yield Case("spread", 321, 321, 64, causal=True, scale=0.37, spread=1.5)
    yield Case("spread", 190, 190, 128, heads=1, scale=1.0, spread=2.0)
    yield Case("spread", 150, 333, 64, causal=True, scale=4.0, spread=1.0)
    yield Case("gauss", 256, 384, 64, scale=0.01)
    yield Case("gauss", 222, 111, 128, causal=True, heads=1, scale=1.0)
    yield Case("gauss", 140, 270, 64, scale=4.0)
    # batch and grouped heads; batch times heads is the number that decides about the buffers
    yield Case("gauss", 257, 129, 64, heads=4, key_heads=2)
    yield Case("gauss", 150, 450, 128, causal=True, heads=8, key_heads=1)
    yield Case("gauss", 190, 190, 128, causal=True, heads=6, key_heads=3)
    yield Case("gauss", 66, 150, 64, causal=True, batch=3, heads=5)
    yield Case("gauss", 20, 650, 64, batch=3, heads=12, key_heads=2)
    yield Case("gauss", 65, 40, 64, causal=True, batch=64, heads=1)
    yield Case("gauss", 40, 400, 64, heads=64, key_heads=8)
    yield Case("late", 17, 513, 64, batch=8, heads=8, key_heads=1)
    yield Case("gauss", 10, 300, 64, causal=True, batch=10, heads=8, key_heads=1)
    yield Case("gauss", 9, 260, 64, batch=11, heads=12, key_heads=1)


def gradients_edges_cases():
    """NaN, infinities, subnormals, rows without a visible key (causal, more queries than keys), rows that pad the last tile."""
    for kind in ("nanq", "nando", "infdo", "infk", "infv", "nank", "nanv"):
        yield Case(kind, 150, 256, 64)
        yield Case(kind, 300, 130, 64, causal=True)  # row 150 sees no key and is in a tile that the key block visits
    yield Case("nando", 420, 130, 64, causal=True)  # row 210 is in a tile that no key block visits
    yield Case("nanq", 150, 150, 128, causal=True, heads=1)
    yield Case("infdo", 150, 300, 128, causal=True, heads=1)
    yield Case("infk", 150, 300, 128, causal=True, heads=1)
    yield Case("infk", 192, 100, 128, heads=1)
    yield Case("infv", 160, 160, 128, causal=True, heads=1)
    yield Case("infv", 256, 256, 64, causal=True)
    yield Case("nank", 300, 300, 64, causal=True)
    yield Case("nanv", 130, 200, 64, causal=True, heads=4, key_heads=2)
    yield Case("infq", 130, 200, 64, causal=True)
    yield Case("gauss", 300, 130, 64, causal=True)
    yield Case("gauss", 250, 90, 128, causal=True, heads=1)
    for kind in ("tiny", "cold", "faint"):
        yield Case(kind, 200, 200, 64)
        yield Case(kind, 130, 250, 64, causal=True)
        yield Case(kind, 200, 130, 128, causal=True, heads=1)
        yield Case(kind, 150, 256, 128, heads=1)


def gradients_backends_cases():
    """From one block to several, so that each step can be searched by itself; flatk and flatq leave out the exponentials and one product."""
    for head_dim in (64, 128):
        yield Case("flatk", 128, 128, head_dim, heads=1)
        yield Case("flatq", 128, 128, head_dim, heads=1)
        yield Case("gauss", 128, 128, head_dim, heads=1)
        yield Case("gauss", 128, 128, head_dim, causal=True, heads=1)
        yield Case("gauss", 128, 256, head_dim, heads=1)
        yield Case("gauss", 256, 128, head_dim, heads=1)
    yield Case("gauss", 64, 64, 64, heads=1)
    yield Case("gauss", 64, 128, 64, heads=1)
    yield Case("flatq", 128, 128, 64, heads=1, scale=0.37)
    yield Case("spread", 200, 200, 64, heads=1, scale=0.37, spread=2.0)
    yield Case("gauss", 256, 256, 64, heads=1)
    yield Case("gauss", 256, 256, 128, causal=True, heads=1)
    yield Case("late", 256, 256, 64, causal=True, heads=1)
    yield Case("late", 256, 256, 128, heads=1)
    yield Case("gauss", 512, 512, 64, heads=1)
    yield Case("gauss", 512, 512, 128, causal=True, heads=1)
    yield Case("gauss", 200, 384, 64, heads=1)
    yield Case("gauss", 384, 200, 128, heads=1)
    yield Case("gauss", 150, 300, 64, causal=True, heads=1)


def gradients_orders_cases():
    """2, 4 and 7 blocks of 128 keys, whose parts of dQ are added in any order."""
    for keys in (256, 512, 896):
        yield Case("gauss", 256, keys, 64)
        yield Case("gauss", min(keys, 384), keys, 64, causal=True, heads=1)
        yield Case("gauss", 128, keys, 128, heads=1)
        yield Case("gauss", 256, keys, 128, causal=True, heads=1)


def gradients_large_cases():
    """More than 2^24 scores each: to be compared where they are recorded."""
    yield Case("gauss", 2048, 2048, 128, causal=True, batch=2, heads=16)
    yield Case("gauss", 512, 512, 64, batch=64, heads=4)
    yield Case("gauss", 4096, 4096, 64, causal=True, heads=4)
    yield Case("gauss", 4096, 4096, 128, heads=4)
    yield Case("gauss", 1500, 1500, 128, causal=True, heads=32, key_heads=8)
    yield Case("gauss", 2048, 3000, 64, heads=32, key_heads=8)
    yield Case("gauss", 1000, 2300, 128, causal=True, batch=4, heads=8)
    yield Case("ramp", 700, 1900, 64, causal=True, batch=2, heads=40, key_heads=5)
    yield Case("late", 2048, 2048, 64, batch=2, heads=8)
    yield Case("hot", 2100, 2100, 128, causal=True, heads=8)
    yield Case("spread", 3000, 3000, 64, heads=8, scale=0.37, spread=2.0)
    yield Case("spread", 3000, 1700, 128, causal=True, heads=8, key_heads=2, scale=0.05, spread=3.0)


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
    "gradients": gradients_cases,
    "gradients_edges": gradients_edges_cases,
    "gradients_backends": gradients_backends_cases,
    "gradients_orders": gradients_orders_cases,
    "gradients_large": gradients_large_cases,
}


def print_cases(names):
    for group in names:
        cases = list(groups[group]())
        for case in cases:
            print(f"{group:20} {case.name:64} scores 2^{case.scores.bit_length() - 1:<3} {case.bytes:>12,} bytes")
        print(f"{group:20} {len(cases)} cases, {sum(case.bytes for case in cases):,} bytes\n")


if __name__ == "__main__":
    print_cases(sys.argv[1:] or groups)
