"""Attention kernels of PyTorch, Triton and this project as a command that stays, for `stickybit check 'serve:python3 serve_attention.py KERNEL'`.

Kernels: flash cudnn efficient math math-bf16 flex triton stickybit-sm80 stickybit-sm90 (libstickybit-kernels.so in $STICKYBIT_KERNELS). PyTorch's run as
torch.use_deterministic_algorithms(True) has them; with "-atomics" after the name without that. flex is compiled for any length and takes the default
scale alone, because every scale is a compilation of its own. On standard input a line "CALL RESULTS GRADIENTS" for each call; docs/check.md has the rest.
"""

import ctypes
import faulthandler
import os
import sys
import types

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import safetensors
import safetensors.torch
import torch

import attention_producers as producers
import triton_attention

aten = torch.ops.aten


class Unsupported(Exception):
    pass


def load(path):
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = dict(file.metadata())
        x = {name: file.get_tensor(name).cuda() for name in file.keys()}
    batch, queries, heads, head_dim = x["q"].shape
    _, keys, key_heads, _ = x["k"].shape
    scale = float(metadata["softmax_scale"])
    case = types.SimpleNamespace(batch=batch, queries=queries, keys=keys, heads=heads, key_heads=key_heads, head_dim=head_dim, causal=metadata["causal"] == "1", softmax_scale=scale)
    return case, x


def leave_nan_behind(x):
    """Memory that the library is about to be given again: what a kernel does not write shows."""
    for name in ("q", "k", "k", "q"):
        torch.empty_like(x[name]).fill_(float("nan"))


def without_groups(case):
    if case.heads != case.key_heads:
        raise Unsupported("grouped heads")


def flash(case):
    def forward(q, k, v):
        o, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, case.causal, False, scale=case.softmax_scale)
        return o, lse

    return forward


def cudnn(case):
    def forward(q, k, v):
        o, lse, *_ = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, case.causal, False, scale=case.softmax_scale)
        return o, lse.reshape(case.batch, case.heads, case.queries)

    return forward


def efficient(case):
    without_groups(case)

    def forward(q, k, v):
        o, lse, *_ = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, case.causal, scale=case.softmax_scale)
        return o, lse[..., : case.queries].contiguous()

    return forward


def math_backend(case, reduced=False):
    without_groups(case)
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(reduced)

    def forward(q, k, v):
        return aten._scaled_dot_product_attention_math(q, k, v, None, 0.0, case.causal, None, scale=case.softmax_scale)[0], None

    return forward


compiled_flex = None


def flex(case):
    global compiled_flex
    if compiled_flex is None:
        torch._dynamo.config.recompile_limit = 200
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        compiled_flex = torch.compile(producers.flex_attention, dynamic=True)
    without_groups(case)
    if case.softmax_scale != case.head_dim**-0.5:
        raise Unsupported("scale")
    mask = producers.causal_block_mask(case.queries, case.keys) if case.causal else None

    def forward(q, k, v):
        with torch.no_grad():
            o, extra = compiled_flex(q, k, v, block_mask=mask, return_aux=producers.AuxRequest(lse=True), kernel_options={"FORCE_USE_FLEX_ATTENTION": True})
        return o, extra.lse

    return forward


pytorch = {"flash": flash, "cudnn": cudnn, "efficient": efficient, "math": math_backend, "math-bf16": lambda case: math_backend(case, True), "flex": flex}


def run_pytorch(name, case, x, gradients):
    forward = pytorch[name](case)
    if gradients:
        results, notes = producers.with_gradients(forward, x)
        if "gradients" in notes:
            raise RuntimeError(notes["gradients"])
        return results
    o, lse = forward(*(producers.bhsd(x[n]) for n in ("q", "k", "v")))
    return {"o": producers.bshd(o)} | ({} if lse is None else {"lse": lse})


def run_triton(case, x):
    o, lse, _ = triton_attention.attention(x["q"], x["k"], x["v"], case.causal, case.softmax_scale)
    return {"o": o, "lse": lse}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch_stride", ctypes.c_int64), ("row_stride", ctypes.c_int64), ("head_stride", ctypes.c_int64)]

    @staticmethod
    def of(t):
        return Tensor(t.data_ptr(), t.stride(0), t.stride(1), t.stride(2))


class Shape(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("batch", "queries", "keys", "heads", "key_heads", "head_dim")] + [("softmax_scale", ctypes.c_double), ("causal", ctypes.c_int)]


class Fixes(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("subtract_first", "two_row_sums", "beta")] + [("tie_beta", ctypes.c_float), ("tie_tolerance", ctypes.c_float), ("tie_published", ctypes.c_int)]


class Forward(ctypes.Structure):
    _fields_ = [("shape", Shape), ("fixes", Fixes)] + [(n, Tensor) for n in ("q", "k", "v", "o", "o_low")] + [("lse", ctypes.c_void_p), ("kernel", ctypes.c_int)]


class Backward(ctypes.Structure):
    _fields_ = (
        [("shape", Shape), ("deterministic", ctypes.c_int)]
        + [(n, Tensor) for n in ("q", "k", "v", "o", "d_o", "o_low")]
        + [("lse", ctypes.c_void_p)]
        + [(n, Tensor) for n in ("dq", "dk", "dv")]
        + [("workspace", ctypes.c_void_p), ("kernel", ctypes.c_int)]
    )


own_library = None


def run_own(kernel, deterministic, case, x, gradients):
    """cuda/kernel/attention.h."""
    global own_library
    if own_library is None:
        own_library = ctypes.CDLL(os.environ["STICKYBIT_KERNELS"])
        own_library.stickybit_error.restype = ctypes.c_char_p

    def done(status):
        if status != 0:
            raise (Unsupported if status == 1 else RuntimeError)(own_library.stickybit_error().decode())

    shape = Shape(case.batch, case.queries, case.keys, case.heads, case.key_heads, case.head_dim, case.softmax_scale, int(case.causal))
    o = torch.empty_like(x["q"]).fill_(float("nan"))
    lse = torch.full((case.batch, case.heads, case.queries), float("nan"), device="cuda")
    inputs = {n: Tensor.of(x[n]) for n in ("q", "k", "v")}
    call = Forward(shape=shape, o=Tensor.of(o), lse=lse.data_ptr(), kernel=kernel, **inputs)
    done(own_library.stickybit_attention_forward(ctypes.byref(call), None))
    results = {"o": o, "lse": lse}
    if gradients:
        size = ctypes.c_size_t()
        done(own_library.stickybit_attention_backward_workspace(ctypes.byref(shape), int(deterministic), ctypes.byref(size)))
        workspace = torch.empty(max(size.value, 256), dtype=torch.uint8, device="cuda").fill_(0xFF)
        results |= {n: torch.empty_like(x[n[1]]).fill_(float("nan")) for n in ("dq", "dk", "dv")}
        outputs = {n: Tensor.of(results[n]) for n in ("dq", "dk", "dv")}
        call = Backward(shape=shape, deterministic=int(deterministic), o=Tensor.of(o), d_o=Tensor.of(x["do"]), lse=lse.data_ptr(), workspace=workspace.data_ptr(), kernel=kernel, **inputs, **outputs)
        done(own_library.stickybit_attention_backward(ctypes.byref(call), None))
    torch.cuda.synchronize()
    return results


def run(name, deterministic, case, x, gradients):
    if name == "triton":
        return run_triton(case, x)
    if name.startswith("stickybit-sm"):
        return run_own(int(name[-2:]), deterministic, case, x, gradients)
    return run_pytorch(name, case, x, gradients)


def answer(name, deterministic, call, out, gradients):
    case, x = load(call)
    leave_nan_behind(x)
    results = run(name, deterministic, case, x, gradients)
    torch.cuda.synchronize()
    safetensors.torch.save_file({n: t.cpu().contiguous() for n, t in results.items()}, out)


def main():
    name = sys.argv[1].removesuffix("-atomics")
    deterministic = name == sys.argv[1]
    if name not in pytorch and name not in ("triton", "stickybit-sm80", "stickybit-sm90"):
        sys.exit(f"unknown kernel {name}: {__doc__}")
    faulthandler.enable()
    torch.use_deterministic_algorithms(deterministic)
    torch.zeros(1).cuda()
    print("ready", flush=True)
    for line in sys.stdin:
        call, out, gradients = line.split()
        try:
            answer(name, deterministic, call, out, gradients == "1")
            print("ok", flush=True)
        except Unsupported as reason:
            print(f"unsupported {reason}", flush=True)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            if any(words in text for words in ("No valid execution plans", "No available kernel", "is not supported", "not currently supported")):
                print(f"unsupported {text}", flush=True)
                continue
            print(f"error {text}", flush=True)
            if "CUDA error" in text:  # the context is lost
                os._exit(1)


if __name__ == "__main__":
    main()
