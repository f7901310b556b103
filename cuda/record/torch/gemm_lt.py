"""cuBLASLt through cuda/record/cublaslt/lt_gemm.cpp: its own choice, and algorithms with a split of K that we choose."""

import ctypes
import dataclasses

import torch

FACTS = ("id", "tile", "stages", "split_k", "reduction_scheme", "custom_option", "inner_shape", "cluster_shape")
SCHEMES = {0: "none", 1: "inplace", 2: "compute_type", 4: "output_type"}  # cublasLtReductionScheme_t
DATA_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}  # cudaDataType_t
COMPUTE_TYPES = {"f16 accumulators": 64, "f32": 68, "tf32": 77}  # cublasComputeType_t
WORKSPACE_BYTES = 64 << 20


class Facts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in FACTS]


class Call(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int32) for name in ("input_type", "output_type", "compute_type", "scale_type")]
        + [(name, ctypes.c_int64) for name in ("m", "n", "k")]
        + [(name, ctypes.c_void_p) for name in ("a", "b", "c", "d")]
        + [(name, ctypes.c_float) for name in ("alpha", "beta")]
        + [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_int64)]
    )


@dataclasses.dataclass
class Lt:
    library: ctypes.CDLL
    workspace: torch.Tensor

    @staticmethod
    def load(path):
        return Lt(ctypes.CDLL(path), torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda"))

    def version(self):
        return str(self.library.lt_version())

    def call(self, a, b, d, compute):
        (m, k), n = a.shape, b.shape[0]
        return Call(DATA_TYPES[a.dtype], DATA_TYPES[d.dtype], COMPUTE_TYPES[compute], 2 if compute == "f16 accumulators" else 0, m, n, k, a.data_ptr(), b.data_ptr(), None,
                    d.data_ptr(), 1.0, 0.0, self.workspace.data_ptr(), WORKSPACE_BYTES)  # fmt: skip

    def ids(self, a, b, out, compute):
        ids = (ctypes.c_int32 * 512)()
        call = self.call(a, b, torch.empty(a.shape[0], b.shape[0], dtype=out, device="cuda"), compute)
        return list(ids[: self.library.lt_ids(ctypes.byref(call), ids, 512)])

    def _finish(self, status, d, facts):
        torch.cuda.synchronize()
        return (d, {name: getattr(facts, name) for name in FACTS}) if status == 0 else (None, status)

    def heuristic(self, a, b, out, compute, index):
        """(D, facts), or (None, status)."""
        d, facts = torch.zeros(a.shape[0], b.shape[0], dtype=out, device="cuda"), Facts()
        call = self.call(a, b, d, compute)
        return self._finish(self.library.lt_heuristic(ctypes.byref(call), index, ctypes.byref(facts)), d, facts)

    def chosen(self, a, b, out, compute, algorithm, split_k, scheme, variant):
        d, facts = torch.zeros(a.shape[0], b.shape[0], dtype=out, device="cuda"), Facts()
        call = self.call(a, b, d, compute)
        return self._finish(self.library.lt_chosen(ctypes.byref(call), algorithm, split_k, scheme, variant, ctypes.byref(facts)), d, facts)


def truth_of(facts, out, compute):
    """What the library itself says of the order, in the words of docs/gemm_orders.md; split_k=N: at most N slices, or N ways of dealing tiles."""
    split = max(1, facts["split_k"])
    if split == 1:
        return ""  # the kernel can still cut K by itself
    partial = {4: {torch.bfloat16: "bf16", torch.float16: "f16"}.get(out, "f32"), 2: "f32"}.get(facts["reduction_scheme"])
    return f"split_k={split}" + (f" partial={partial}" if partial and compute != "f16 accumulators" else "")
