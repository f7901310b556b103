"""Records attention kernels of PyTorch, cuDNN and Triton on the GPU at hand, one .safetensors file a case.

Groups of cases: golden cudnn_scale cudnn_rows cudnn_one_row backends flex fa2_heads gradients gradients_edges gradients_backends gradients_orders
gradients_large; attention_cases.py lists them. For flex, set TORCHINDUCTOR_CACHE_DIR to an empty folder. gradients_large, 700 MB, is to be compared in place.

Tensors: q k v do BF16 [b, s, h, d] and `<producer>.<result>`. Metadata say where, how and from what seed; `<producer>.repeats` is 1 when a
second run gave the same bits. The log compares every result with FP64 (relative error of the finite elements, and how many of both are not finite),
so that a call misunderstood does not pass for a capture. In gradients_orders, fa2_torch_run0.dq to fa2_torch_run7.dq come from atomic additions.
Next to the captures, code/ receives what the compilers made of the Triton kernels.
"""

import argparse
import dataclasses
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import safetensors.torch
import torch
import triton

import attention_cases
import attention_inputs
import attention_producers as producers


def device_metadata():
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.split()
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "sm_count": str(properties.multi_processor_count),
        "driver": driver[0] if driver else "unknown",
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
        "triton": triton.__version__,
    }


def case_metadata(case):
    return {
        "kind": case.kind,
        "layout": "b,s,h,d",
        "causal": str(int(case.causal)),
        "softmax_scale": repr(case.softmax_scale),
        "seed": str(case.seed),
    }


def reference(case, x, bottom_right):
    """o, lse, dq, dk, dv in FP64 on the GPU. A row without a visible key has o 0 and lse +inf."""
    torch.use_deterministic_algorithms(False)
    group = case.heads // case.key_heads
    q, k, v, do = (x[name].double().transpose(1, 2) for name in ("q", "k", "v", "do"))
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    s = q @ k.repeat_interleave(group, 1).transpose(-2, -1) * case.softmax_scale
    if case.causal:
        last = torch.arange(case.queries, device=s.device)[:, None] + (case.keys - case.queries if bottom_right else 0)
        empty = last < 0
        s = s.masked_fill((torch.arange(case.keys, device=s.device)[None, :] > last) & ~empty, -math.inf)
    p, lse = torch.softmax(s, -1), torch.logsumexp(s, -1)
    if case.causal:
        p, lse = p.masked_fill(empty, 0), lse.masked_fill(empty[:, 0], math.inf)
    o = p @ v.repeat_interleave(group, 1)
    gradients = torch.autograd.grad(o, (q, k, v), do)
    torch.use_deterministic_algorithms(True)
    return {"o": o.transpose(1, 2), "lse": lse} | {n: g.transpose(1, 2) for n, g in zip(("dq", "dk", "dv"), gradients)}


def relative_error(found, expected):
    """Of the elements that are finite in both; and how many are not, if any."""
    found = found.double()
    finite = found.isfinite() & expected.isfinite()
    error = f"{((found - expected)[finite].norm() / expected[finite].norm()).item():.1e}"
    if finite.all():
        return error
    return f"{error} (not finite {(~found.isfinite()).sum().item()}, FP64 {(~expected.isfinite()).sum().item()})"


def same_bits(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[n].view(torch.uint8), b[n].view(torch.uint8)) for n in a)


def kernel_names(produce):
    """The GPU kernels that produce() runs, one a line: libraries write tile sizes into their names."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            produce()
            torch.cuda.synchronize()
        names = [event.name[:240] for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        return "\n".join(dict.fromkeys(names))
    except Exception as error:
        return f"not known: {type(error).__name__}: {error}"[:300]


def failed(name, case, error, metadata):
    print(f"{case.name} {name}: FAILED {type(error).__name__}: {str(error)[:600]}", flush=True)
    traceback.print_exc()
    metadata[f"{name}.op"] = f"failed: {type(error).__name__}: {error}"[:300]


def run(name, case, x, produce, tensors, metadata):
    """Runs one producer twice and adds what it gives, or the reason why it gives nothing."""
    started = time.time()
    try:
        first, notes = produce()[:2]
        second = produce()[0]
        torch.cuda.synchronize()
        expected = reference(case, x, bottom_right=name.startswith(("fa2", "triton")))
        for n in expected.keys() & first.keys():
            if first[n].shape != expected[n].shape:
                raise ValueError(f"{n} has shape {list(first[n].shape)}, expected {list(expected[n].shape)}")
    except Exception as error:
        failed(name, case, error, metadata)
        return
    first = {n: t.contiguous() for n, t in first.items()}
    errors = [f"{n} {relative_error(first[n], expected[n].detach())}" for n in expected if n in first]
    notes["kernels"] = kernel_names(produce)
    tensors |= {f"{name}.{n}": t for n, t in first.items()}
    metadata |= {f"{name}.{n}": text for n, text in notes.items()}
    metadata[f"{name}.deterministic"] = str(int(torch.are_deterministic_algorithms_enabled()))
    metadata[f"{name}.repeats"] = str(int(same_bits(first, {n: t.contiguous() for n, t in second.items()})))
    extra = " " + notes["gradients"] if "gradients" in notes else ""
    print(f"{case.name} {name}: relative errors {', '.join(errors)}; repeats {metadata[f'{name}.repeats']}; {time.time() - started:.1f} s{extra}", flush=True)


def run_in_any_order(case, x, tensors, metadata, runs=8):
    """fa2_torch's call with atomic additions, several times: dQ of every run; dK and dV, which have one order, of the first."""
    torch.use_deterministic_algorithms(False)
    try:
        results = [producers.fa2(case, x) for _ in range(runs)]
        torch.cuda.synchronize()
        for i, (result, notes) in enumerate(results):
            name = f"fa2_torch_run{i}"
            tensors |= {f"{name}.{n}": result[n] for n in (("dq", "dk", "dv") if i == 0 else ("dq",))}
            metadata |= {f"{name}.{n}": text for n, text in notes.items()}
            metadata[f"{name}.deterministic"] = str(int(torch.are_deterministic_algorithms_enabled()))
        distinct = len({result["dq"].view(torch.uint8).cpu().numpy().tobytes() for result, _ in results})
        fixed = all(torch.equal(result[n].view(torch.uint8), tensors[f"fa2_torch.{n}"].view(torch.uint8)) for result, _ in results for n in ("o", "lse", "dk", "dv"))
        metadata["fa2_torch_run.distinct_dq"] = str(distinct)
        print(f"{case.name} fa2_torch_run: {distinct} different dq in {runs} runs; o, lse, dk, dv {'as' if fixed else 'NOT AS'} in the deterministic run", flush=True)
    except Exception as error:
        failed("fa2_torch_run", case, error, metadata)
    finally:
        torch.use_deterministic_algorithms(True)


def producers_of(group, case, x, out):
    """{producer name: function}"""
    if group == "golden":  # one file with every producer
        return producers_of("fa2_heads", case, x, out) | producers_of("backends", case, x, out) | producers_of("flex", case, x, out)
    if group.startswith("cudnn"):
        return {"cudnn": lambda: producers.cudnn(case, x, gradients=False)}
    if group == "flex":
        chosen = {"flex": lambda: producers.flex(case, x, gradients=case.kind != "spread" and case.queries >= 128)}
        if case.queries < 128:  # by itself the library takes its split-key kernel for short queries
            chosen["flex_long"] = lambda: producers.flex(case, x, gradients=False, options={"FORCE_USE_FLEX_ATTENTION": True})
        return chosen
    if group == "gradients_backends":
        return {
            "cudnn": lambda: producers.cudnn(case, x),
            "efficient": lambda: producers.efficient(case, x),
            "eager_bf16": lambda: producers.eager_bf16(case, x, gradients=True),
        }
    if group.startswith("gradients"):  # heads as they are
        return {"fa2_torch": lambda: producers.fa2(case, x)}
    if group == "fa2_heads":
        copies = producers.copies_that_prevent_splitting(case, torch.cuda.get_device_properties(0).multi_processor_count)
        return {
            "fa2_torch": lambda: producers.fa2(case, x, copies),
            "fa2_torch_splitkv": lambda: producers.fa2(case, x),
            "cudnn": lambda: producers.cudnn(case, x),
        }

    def with_triton(block_m, block_n, warps=4):
        def produce():
            results, notes, compiled = producers.triton_blocks(case, x, block_m, block_n, warps)
            folder = out / "code" / f"triton_m{block_m}_n{block_n}_d{case.head_dim}_c{int(case.causal)}_even{int(case.keys % block_n == 0)}"
            save_code(folder, compiled)
            return results, notes

        return produce

    return {
        "efficient": lambda: producers.efficient(case, x),
        "cudnn": lambda: producers.cudnn(case, x),
        "math": lambda: producers.math_backend(case, x),
        "math_bf16": lambda: producers.math_backend(case, x, reduced=True),
        "eager_bf16": lambda: producers.eager_bf16(case, x),
        "triton_m64_n64": with_triton(64, 64),
        "triton_m64_n32": with_triton(64, 32),
        "triton_m128_n64": with_triton(128, 64, 8 if case.head_dim == 128 else 4),
    }


def save_code(folder, compiled):
    if folder.exists():
        return
    folder.mkdir(parents=True)
    for kind in ("ttgir", "ptx"):
        (folder / f"kernel.{kind}").write_text(compiled.asm[kind])
    (folder / "kernel.cubin").write_bytes(compiled.asm["cubin"])
    disassemble(folder)


def disassemble(folder):
    if shutil.which("cuobjdump") is None:
        return
    for cubin in folder.glob("*.cubin"):
        sass = subprocess.run(["cuobjdump", "-sass", str(cubin)], capture_output=True, text=True).stdout
        cubin.with_suffix(".sass").write_text(sass)


def save_generated_code(cache, folder):
    """Inductor's Python files and Triton's output for the attention kernels among them."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in pathlib.Path(cache).rglob("*"):
        flat = "-".join(path.relative_to(cache).parts[-2:])
        if path.suffix == ".py" or (path.suffix in (".ptx", ".cubin", ".ttgir") and "flex" in path.name):
            shutil.copy(path, folder / flat)
    disassemble(folder)


def record(group, case, device, options):
    on_cpu = attention_inputs.inputs(case)
    x = {name: t.cuda() for name, t in on_cpu.items()}
    tensors, metadata = {}, device | case_metadata(case)
    for name, produce in producers_of(group, case, x, options.out).items():
        run(name, case, x, produce, tensors, metadata)
    if group == "gradients_orders":
        run_in_any_order(case, x, tensors, metadata)
    if options.forward_only:
        tensors = {name: t for name, t in tensors.items() if name.split(".")[-1] in ("o", "lse")}
    if not any(name.endswith(".dq") for name in tensors):
        del on_cpu["do"]
    everything = {name: t.cpu().contiguous() for name, t in (on_cpu | tensors).items()}
    folder = options.out / group
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(everything, folder / f"{case.name}.safetensors", {n: str(text) for n, text in metadata.items()})
    torch._dynamo.reset()  # every case compiles anew
    if group == "flex" and "TORCHINDUCTOR_CACHE_DIR" in os.environ:
        save_generated_code(os.environ["TORCHINDUCTOR_CACHE_DIR"], options.out / "code" / f"flex_{case.name}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("groups", nargs="+", choices=sorted(attention_cases.groups))
    arguments.add_argument("--shard", default="0/1", help="I/N: only every N-th case, from the I-th on")
    arguments.add_argument("--salt", type=int, default=0, help="other seeds, for inputs of the same kinds")
    arguments.add_argument("--forward-only", action="store_true", help="keep only inputs, o and lse")
    options = arguments.parse_args()
    shard, shards = map(int, options.shard.split("/"))

    torch.use_deterministic_algorithms(True)  # with warn_only the attention backwards stay nondeterministic
    device = device_metadata()
    for group in options.groups:
        if group.startswith("cudnn"):
            print("schema:", torch.ops.aten._scaled_dot_product_cudnn_attention.default._schema, flush=True)
        for case in list(attention_cases.groups[group]())[shard::shards]:
            record(group, dataclasses.replace(case, salt=options.salt), device, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
