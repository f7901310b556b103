"""Records matrix products of cuBLAS (through PyTorch), cuBLASLt and Triton on the GPU at hand, one .safetensors file a shape.

Tensors: a [rows,K], b [columns,K], the kept rows of A and of B, at row_index and column_index of the metadata; `<producer>.d_f32`, `.d_bf16` or `.d_f16`, the same
rows and columns of D = A B^T. FP32 operands of a `tf32` file went to TF32 units. Of results with the same bits the first is kept; `<result>.also` names the others.
`<result>.kernels` are the kernels that ran, `<result>.algorithm` cuBLASLt's, `<result>.truth` what is known of the order, `<result>.repeats` 1 when a second run gave the
same bits.
"""

import argparse
import pathlib
import sys
import time
import traceback

import safetensors.torch
import torch
import triton
import triton.language as tl

import gemm_cases
import gemm_lt
import gemm_triton
from record_attention import device_metadata

SUFFIXES = {torch.float32: "d_f32", torch.bfloat16: "d_bf16", torch.float16: "d_f16"}


def kernels_of(run):
    """The names of the kernels that `run` starts, in order."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            run()
            torch.cuda.synchronize()
        names = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        return " + ".join(n for n in names if not n.startswith(("Memset", "Memcpy")) and "FillFunctor" not in n and "vectorized_elementwise" not in n)[:700]
    except RuntimeError as error:
        return f"unknown ({str(error)[:60]})"


class File:
    """The results of one case, as they come."""

    def __init__(self, case, device):
        self.case, self.batch_index = case, case.batch - 1
        a, b = gemm_cases.operands(case)
        self.a, self.b = a.cuda(), b.cuda()
        self.rows, self.columns = gemm_cases.spread(case.m, case.rows), gemm_cases.spread(case.n, case.columns)
        self.tensors = {"a": a[self.batch_index][self.rows], "b": b[self.batch_index][self.columns]}
        join = lambda numbers: ",".join(map(str, numbers))
        self.metadata = device | {"operation": "gemm", "m": case.m, "n": case.n, "k": case.k, "operands": case.format, "kind": case.kind, "seed": case.seed, "batch": case.batch,
                                  "batch_index": self.batch_index, "row_index": join(self.rows), "column_index": join(self.columns)}  # fmt: skip

    def kept(self, d):
        d = d[self.batch_index] if d.dim() == 3 else d
        return d[self.rows][:, self.columns].cpu().contiguous()

    def add(self, producer, run, kernels=None, **facts):
        """`run` gives D; or (D, algorithm facts) or (None, status) as gemm_lt does."""
        try:
            d = run()
            torch.cuda.synchronize()
        except Exception as error:  # a call that a library refuses is no capture
            print(f"    {producer}: {type(error).__name__} {str(error).splitlines()[0][:150] if str(error) else ''}", flush=True)
            return None
        kept = self.kept(d)
        suffix = SUFFIXES[kept.dtype]
        for name, other in self.tensors.items():
            if name.endswith("." + suffix) and torch.equal(other.view(torch.uint8), kept.view(torch.uint8)) and other.shape == kept.shape:
                also = self.metadata.get(name + ".also", "")
                note = producer + (f" ({facts['truth']})" if facts.get("truth") else "")
                self.metadata[name + ".also"] = f"{also}, {note}" if also else note
                return name
        name = f"{producer}.{suffix}"
        self.tensors[name] = kept
        repeats = torch.equal(self.kept(run()).view(torch.uint8), kept.view(torch.uint8))
        kernels = kernels or kernels_of(run)
        self.metadata |= {f"{name}.{key}": value for key, value in (facts | {"kernels": kernels, "repeats": int(repeats)}).items() if value != ""}
        exact = self.a[self.batch_index][self.rows].double() @ self.b[self.batch_index][self.columns].double().T
        size = self.a[self.batch_index][self.rows].double().abs() @ self.b[self.batch_index][self.columns].double().abs().T
        error = ((kept.double().cuda() - exact) / size).abs().max().item()
        print(f"    {name}: largest error {error:.2e} of sum |a b|, repeats {int(repeats)} {facts.get('truth', '')} {kernels[:160]}", flush=True)
        return name

    def save(self, folder):
        safetensors.torch.save_file(self.tensors, folder / f"{self.case.name}.safetensors", {key: str(value) for key, value in self.metadata.items()})


def settings(**values):
    """Sets PyTorch's matrix product switches, each to its given or its stock value."""
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = values.get("tf32", False)
    matmul.allow_bf16_reduced_precision_reduction = values.get("reduced", True)
    matmul.allow_fp16_reduced_precision_reduction = values.get("reduced", True)
    matmul.allow_fp16_accumulation = values.get("fp16_accumulation", False)


def record_cublas(file):
    case = file.case
    a, b = (file.a, file.b) if case.batch > 1 else (file.a[0], file.b[0])
    bt = b.transpose(-2, -1)
    multiply = torch.bmm if case.batch > 1 else torch.mm
    settings(tf32=case.format == "tf32")
    file.add("cublas", lambda: multiply(a, bt))
    if case.format in ("tf32", "f32"):
        return
    file.add("cublas", lambda: multiply(a, bt, out_dtype=torch.float32))
    settings(reduced=False)
    file.add("cublas_full_reduction", lambda: multiply(a, bt))
    if case.format == "f16":
        settings(fp16_accumulation=True)
        file.add("cublas_f16acc", lambda: multiply(a, bt))


def record_cublaslt(file, lt):
    case, a, b = file.case, file.a[0], file.b[0]
    for out in {"bf16": (torch.float32, torch.bfloat16), "f16": (torch.float32, torch.float16)}.get(case.format, (torch.float32,)):
        computes = ["tf32" if case.format == "tf32" else "f32"] + (["f16 accumulators"] if out == torch.float16 else [])
        for compute in computes:
            record_algorithms(file, lt, a, b, out, compute)


def record_algorithms(file, lt, a, b, out, compute):
    seen = set()

    def try_one(run):
        d, facts = run()
        key = tuple(facts.values()) if d is not None else None
        if d is None or key in seen:
            return d is not None
        seen.add(key)
        half = "_f16acc" if compute == "f16 accumulators" else ""
        name = f"lt{facts['id']}_t{facts['tile']}_s{facts['stages']}_k{max(1, facts['split_k'])}_{gemm_lt.SCHEMES.get(facts['reduction_scheme'], '?')}{half}"
        file.add(name, lambda: run()[0], algorithm=" ".join(f"{k}={v}" for k, v in facts.items()), truth=gemm_lt.truth_of(facts, out, compute))
        return True

    for index in range(6):
        try_one(lambda index=index: lt.heuristic(a, b, out, compute, index))
    for algorithm in lt.ids(a, b, out, compute):
        for split_k, scheme, variant in ((1, 0, 0), (1, 0, 9), (2, 1, 0), (3, 2, 0), (4, 2, 3), (5, 1, 0), (6, 4, 0), (8, 2, 5)):
            if split_k * 32 <= file.case.k and len(seen) < 60:
                try_one(lambda s=split_k, r=scheme, v=variant, i=algorithm: lt.chosen(a, b, out, compute, i, s, r, v))


def record_triton(file):
    case, a, b = file.case, file.a[0], file.b[0]
    product, stream = gemm_triton.product, gemm_triton.stream
    full, half = torch.float32, {"bf16": torch.bfloat16, "f16": torch.float16}.get(case.format, torch.float32)

    def add(name, call, truth, out=full, **options):
        file.add("triton_" + name, lambda: call(a, b, out, **options), kernels="triton " + call.__name__, truth=truth)

    def cuts(slices, block=64):
        step = -(-(-(-case.k // block)) // slices) * block
        return "cuts=" + ",".join(map(str, [*range(0, case.k, step), case.k]))

    if case.format in ("tf32", "f32"):
        for precision in ("tf32", "tf32x3", "ieee"):
            add(f"{precision}", product, "slices=1", precision=precision, block=(64, 64, 32))
            add(f"{precision}_k3", product, cuts(3, 32) + " partial=f32 combine=ascending", precision=precision, block=(32, 32, 32), slices=3)
        return
    add("plain", product, "slices=1")
    add("plain16", product, "slices=1", block=(16, 16, 64))
    add("plain16_half", product, "slices=1", block=(16, 16, 64), out=half)
    add("plain8w", product, "slices=1", block=(128, 128, 64), warps=8)
    add("down", product, "slices=1 walk=descending:64", walk_down=True)
    add("two_chains", product, "slices=1 interleave=2:64", two_chains=True)
    add("promoted", product, cuts(-(-case.k // 64)) + " combine=ascending", promoted=True)
    if case.format == "f16":
        add("f16acc", product, "slices=1", out=half, accumulator=tl.float16)
        add("f16acc_k2", product, cuts(2), out=half, accumulator=tl.float16, slices=2, partial=half)
    if case.k < 512:
        return
    for out, tag in ((full, ""), (half, "_half")):
        add("k4" + tag, product, cuts(4) + " partial=f32 combine=ascending", out, slices=4)
        add("k3" + tag, product, cuts(3) + " partial=f32 combine=ascending", out, slices=3, block=(32, 32, 64))
        add("k4_down" + tag, product, cuts(4) + " partial=f32 combine=descending", out, slices=4, descending=True)
        add("k4_tree" + tag, product, cuts(4) + " partial=f32 combine=halves", out, slices=4, tree=True)
        add("k4_half_partials" + tag, product, cuts(4) + f" partial={case.format} combine=ascending", out, slices=4, partial=half)
        add("k4_interleaved" + tag, product, "interleave=4:64 partial=f32", out, slices=4, interleaved=True)
        rows_of_tiles = -(-case.m // 64) * -(-case.n // 64)
        steps = -(-case.k // 64)
        for programs in (max(2, rows_of_tiles * 3 // 4), rows_of_tiles * 3 // 2 + 1, 5):
            share = -(-rows_of_tiles * steps // programs)
            add(f"stream{programs}" + tag, stream, f"stream={share}:64 tile=64x64 combine=ascending", out, programs=programs)
    add("atomic2", product, cuts(2) + " partial=f32", slices=2, atomic=True)
    add("atomic4", product, cuts(4) + " partial=f32 combine=any", slices=4, atomic=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--lt", type=pathlib.Path, help="liblt_gemm.so, made of cuda/record/cublaslt/lt_gemm.cpp")
    arguments.add_argument("--seconds", type=float, default=300, help="no case is begun after so long")
    arguments.add_argument("--skip", type=int, default=0, help="so many cases")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    lt = gemm_lt.Lt.load(str(options.lt.resolve())) if options.lt else None
    device = device_metadata() | {"cublaslt": lt.version() if lt else "none", "triton": triton.__version__}
    for case in gemm_cases.CASES[options.skip :]:
        if time.monotonic() - start > options.seconds:
            print("time is up before", case.name)
            break
        print(f"{time.monotonic() - start:6.1f} s  {case.name}", flush=True)
        file = File(case, device)
        for library in case.libraries:
            try:
                record_cublas(file) if library == "cublas" else record_triton(file) if library == "triton" else lt and record_cublaslt(file, lt)
            except Exception:  # the other libraries' captures are kept
                traceback.print_exc()
        file.save(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
