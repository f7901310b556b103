"""Runs PyTorch's attention kernels on the calls in .safetensors files (q k v do, layout s,h,d, as `stickybit study regime` writes them) and writes
each again with the results of fa2_torch (heads repeated until the keys are not split) and cudnn added, and where and how they were recorded.
"""

import argparse
import pathlib
import sys

import record_attention
import safetensors
import safetensors.torch
import torch

import attention_cases
import attention_producers as producers


def load(path):
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in ("q", "k", "v", "do")}
    if metadata.get("layout", "s,h,d") != "s,h,d":
        raise ValueError(f"{path}: layout {metadata['layout']}, expected s,h,d")
    return tensors, metadata


def case_of(path, tensors, metadata):
    (queries, heads, head_dim), (keys, key_heads, _) = tensors["q"].shape, tensors["k"].shape
    scale = float(metadata.get("softmax_scale", 0)) or 0.0
    return attention_cases.Case(path.stem, queries, keys, head_dim, metadata.get("causal", "0") == "1", 1, heads, key_heads, scale)


def record(path, out, device):
    on_cpu, metadata = load(path)
    case = case_of(path, on_cpu, metadata)
    x = {name: t[None].cuda() for name, t in on_cpu.items()}
    copies = producers.copies_that_prevent_splitting(case, torch.cuda.get_device_properties(0).multi_processor_count)
    results = {}
    metadata |= device
    record_attention.run("fa2_torch", case, x, lambda: producers.fa2(case, x, copies), results, metadata)
    record_attention.run("cudnn", case, x, lambda: producers.cudnn(case, x), results, metadata)
    tensors = on_cpu | {name: t[0] for name, t in results.items()}
    out.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({n: t.cpu().contiguous() for n, t in tensors.items()}, out / path.name, {n: str(text) for n, text in metadata.items()})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("files", nargs="+", type=pathlib.Path)
    options = arguments.parse_args()
    torch.use_deterministic_algorithms(True)
    device = record_attention.device_metadata()
    for path in options.files:
        record(path, options.out, device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
