#!/usr/bin/env python3
"""Our attention kernels beside PyTorch's FlashAttention-2 and cuDNN, timed in one run on one GPU.

    python3 time_attention.py libstickybit-kernels.so [--lengths 1024,4096] [--json OUT] [--rounds 7] [--only forward|backward|fixes]

Each kernel of a call takes turns with the others, so that a change of clocks meets all of them; a turn is a few calls between two events,
the result the median of the turns (of three for the longest). 16 heads, batch 1, normal random numbers. A backward pass is 2.5 forward passes of work, a causal call half
of a full one. Before it is timed, each kernel's result is compared with PyTorch's: relative error of O and of the gradients below 2 %.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS = 16


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch_stride", ctypes.c_int64), ("row_stride", ctypes.c_int64), ("head_stride", ctypes.c_int64)]


class Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "queries", "keys", "heads", "key_heads", "head_dim")] + [
        ("softmax_scale", ctypes.c_double), ("causal", ctypes.c_int)]


class Fixes(ctypes.Structure):
    _fields_ = [("subtract_first", ctypes.c_int), ("two_row_sums", ctypes.c_int), ("beta", ctypes.c_int), ("tie_beta", ctypes.c_float),
                ("tie_tolerance", ctypes.c_float), ("tie_published", ctypes.c_int)]


class Forward(ctypes.Structure):
    _fields_ = [("shape", Shape), ("fixes", Fixes), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("o", Tensor), ("o_low", Tensor),
                ("lse", ctypes.c_void_p), ("kernel", ctypes.c_int)]


class Backward(ctypes.Structure):
    _fields_ = [("shape", Shape), ("deterministic", ctypes.c_int), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("o", Tensor), ("d_o", Tensor),
                ("o_low", Tensor), ("lse", ctypes.c_void_p), ("dq", Tensor), ("dk", Tensor), ("dv", Tensor), ("workspace", ctypes.c_void_p),
                ("kernel", ctypes.c_int)]


class Library:
    """libstickybit-kernels by its C interface, attention.h."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(os.path.abspath(path))
        self.lib.stickybit_error.restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.stickybit_error().decode())

    @staticmethod
    def tensor(x):  # [b, h, s, d] view of memory [b, s, h, d]
        return Tensor() if x is None else Tensor(x.data_ptr(), x.stride(0), x.stride(2), x.stride(1))

    @staticmethod
    def shape(q, k, causal):
        return Shape(q.shape[0], q.shape[2], k.shape[2], q.shape[1], k.shape[1], q.shape[3], q.shape[3] ** -0.5, int(causal))

    def forward(self, kernel, q, k, v, o, lse, causal, fixes=None, o_low=None):
        t = self.tensor
        call = Forward(self.shape(q, k, causal), fixes or Fixes(), t(q), t(k), t(v), t(o), t(o_low), lse.data_ptr(), kernel)
        pointer = ctypes.byref(call)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        return lambda: self.check(self.lib.stickybit_attention_forward(pointer, stream))

    def backward(self, q, k, v, o, d_o, lse, grads, causal, deterministic):
        t, shape, size = self.tensor, self.shape(q, k, causal), ctypes.c_size_t()
        self.check(self.lib.stickybit_attention_backward_workspace(ctypes.byref(shape), int(deterministic), ctypes.byref(size)))
        workspace = torch.empty(size.value + 256, dtype=torch.uint8, device="cuda")
        at = (workspace.data_ptr() + 255) // 256 * 256
        call = Backward(shape, int(deterministic), t(q), t(k), t(v), t(o), t(d_o), Tensor(), lse.data_ptr(), *map(t, grads), at, 0)
        pointer = ctypes.byref(call)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def run(keep=workspace):
            self.check(self.lib.stickybit_attention_backward(pointer, stream))

        return run


def take_turns(calls, tflop, rounds):
    """Median TFLOP/s of each call."""
    inner = max(1, min(20, int(1.5 / max(tflop, 0.01))))
    for call in calls.values():
        for _ in range(2):
            call()
    times = {name: [] for name in calls}
    events = []
    for _ in range(rounds if tflop < 10 else min(rounds, 3)):
        for name, call in calls.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if inner > 1:  # long calls warm the caches by themselves
                call()
            begin.record()
            for _ in range(inner):
                call()
            end.record()
            events.append((name, begin, end))
    torch.cuda.synchronize()
    for name, begin, end in events:
        times[name].append(begin.elapsed_time(end) / inner)
    return {name: tflop / statistics.median(t) * 1e3 for name, t in times.items()}


def near(name, ours, theirs):
    error = ((ours.float() - theirs.float()).norm() / theirs.float().norm()).item()
    if not error < 0.02:
        raise RuntimeError(f"{name}: relative error {error:.3g}")


def inputs(s, d):
    torch.manual_seed(s + d)
    return [torch.randn(1, s, HEADS, d, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4)]


FIXES = {"subtract-first": Fixes(subtract_first=1), "two-row-sums": Fixes(two_row_sums=1), "beta": Fixes(beta=1, tie_beta=2, tie_tolerance=1e-3)}


def torch_forward(backend, q, k, v, causal):
    def run():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run


def time_forward(lib, s, d, causal, rounds, with_fixes):
    q, k, v, _ = inputs(s, d)
    o, low = torch.full_like(q, float("nan")), torch.full_like(q, float("nan"))
    lse = torch.empty(1, HEADS, s, device="cuda")
    calls = {}
    for name, kernel in (("sm90", 90), ("sm80", 80)):
        calls[name] = lib.forward(kernel, q, k, v, o, lse, causal)
        if with_fixes:
            for fix, numbers in FIXES.items():
                calls[f"{name} {fix}"] = lib.forward(kernel, q, k, v, o, lse, causal, numbers)
            calls[f"{name} second output"] = lib.forward(kernel, q, k, v, o, lse, causal, None, low)
    calls["FA2"] = torch_forward(SDPBackend.FLASH_ATTENTION, q, k, v, causal)
    calls["cuDNN"] = torch_forward(SDPBackend.CUDNN_ATTENTION, q, k, v, causal)
    expected = calls["FA2"]()
    for name, call in calls.items():
        if name[:2] == "sm":
            o.fill_(float("nan"))
            call()
            near(name, o, expected)
    return take_turns(calls, 4e-12 * s * s * d * HEADS * (0.5 if causal else 1), rounds)


def time_backward(lib, s, d, causal, rounds, deterministic):
    q, k, v, d_o = inputs(s, d)
    aten = torch.ops.aten
    torch.use_deterministic_algorithms(deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it would be timed
    f = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    calls = {"FA2": lambda: aten._scaled_dot_product_flash_attention_backward(d_o, q, k, v, f[0], f[1], f[2], f[3], f[4], f[5], 0.0, causal, f[6], f[7])}
    theirs = calls["FA2"]()
    grads = [torch.full_like(x, float("nan")) for x in (q, k, v)]
    o, lse = torch.empty_like(q), torch.empty(1, HEADS, s, device="cuda")
    lib.forward(0, q, k, v, o, lse, causal)()
    calls = {"sm80": lib.backward(q, k, v, o, d_o, lse, grads, causal, deterministic), **calls}
    calls["sm80"]()
    for name, ours, expected in zip(("dq", "dk", "dv"), grads, theirs):
        near(name, ours, expected)
    c = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
    calls["cuDNN"] = lambda: aten._scaled_dot_product_cudnn_attention_backward(d_o, q, k, v, c[0], c[1], c[6], c[7], None, c[2], c[3], c[4], c[5], 0.0, causal)
    try:
        calls["cuDNN"]()
    except Exception as error:  # deterministic gradients: not every call has them
        print(f"cuDNN backward s {s} d {d} causal {causal} deterministic {deterministic}: {str(error).splitlines()[0]}")
        del calls["cuDNN"]
    result = take_turns(calls, 10e-12 * s * s * d * HEADS * (0.5 if causal else 1), rounds)
    torch.use_deterministic_algorithms(False)
    return result


def print_table(title, rows):
    names = []
    for _, result in rows:
        names += [name for name in result if name not in names]
    ours = names[0]
    others = [name for name in names if name in ("FA2", "cuDNN")]
    print(f"\n{title}: TFLOP/s\n\n| s | d | causal | " + " | ".join(names) + " | " + " | ".join(
        f"{kernel} / {other}" for kernel in names if kernel in ("sm90", "sm80") for other in others) + " |")
    print("|" + " --- |" * (3 + len(names) + sum(kernel in ("sm90", "sm80") for kernel in names) * len(others)))
    for (s, d, causal), result in rows:
        cells = [f"{result[name]:.1f}" if name in result else "" for name in names]
        for kernel in names:
            if kernel in ("sm90", "sm80"):
                cells += [f"{result[kernel] / result[other]:.3f}" if other in result else "" for other in others]
        print(f"| {s} | {d} | {'yes' if causal else 'no'} | " + " | ".join(cells) + " |")
    sys.stdout.flush()
    return ours


def main():
    p = argparse.ArgumentParser()
    p.add_argument("library")
    p.add_argument("--lengths", default="1024,2048,4096,8192,16384")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--only", choices=["forward", "backward", "fixes"])
    p.add_argument("--json")
    a = p.parse_args()
    lib = Library(a.library)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    about = {"gpu": torch.cuda.get_device_name(), "driver": driver, "cuda": torch.version.cuda, "torch": torch.__version__,
             "cudnn": torch.backends.cudnn.version(), "heads": HEADS, "rounds": a.rounds}
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    lengths = [int(s) for s in a.lengths.split(",")]
    shapes = [(s, d, causal) for d in (64, 128) for causal in (False, True) for s in lengths]
    tables = {}

    def table(title, time, chosen):
        tables[title] = [(x, time(x)) for x in chosen]
        print_table(title, tables[title])

    if a.only in (None, "forward"):
        table("forward", lambda x: time_forward(lib, *x, a.rounds, False), shapes)
    if a.only in (None, "backward"):
        table("backward, deterministic", lambda x: time_backward(lib, *x, a.rounds, True), shapes)
        table("backward, fast", lambda x: time_backward(lib, *x, a.rounds, False), shapes)
    if a.only in (None, "fixes"):
        table("forward with fixes", lambda x: time_forward(lib, *x, a.rounds, True), [x for x in shapes if x[0] in (4096, 8192)])
    if "forward with fixes" in tables:
        print("\nfixes, time over plain:")
        for (s, d, causal), result in tables["forward with fixes"]:
            for kernel in ("sm90", "sm80"):
                print(f"  s {s} d {d} {'causal' if causal else 'full'} {kernel}: " + ", ".join(
                    f"{name[5:]} {result[kernel] / value:.3f}" for name, value in result.items() if name.startswith(kernel + " ")))
    if a.json:
        with open(a.json, "w") as file:
            json.dump({**about, "tables": {title: [{"s": x[0], "d": x[1], "causal": x[2], "tflops": result} for x, result in rows] for title, rows in tables.items()}}, file, indent=1)


if __name__ == "__main__":
    main()
