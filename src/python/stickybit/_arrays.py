"""Arrays in and out: which kinds, types, shapes and devices a caller may give, and what is said where they are wrong.

Inside, every tensor is a contiguous NumPy array of unsigned integers, the codes, with the name of their format.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple, Sequence

import ml_dtypes
import numpy as np

from . import _core

# The NumPy type of each format. TF32 has none of its own: its numbers are FP32 numbers.
DTYPES: dict[str, np.dtype] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "tf32": np.dtype(np.float32),
    "e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
    "e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "f64": np.dtype(np.float64),
}
FORMAT_OF_DTYPE = {dtype: name for name, dtype in DTYPES.items() if name != "tf32"}
UNSIGNED: dict[int, Any] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}

# DLPack's type numbers (code, bits).
_DLPACK_OF_FORMAT = {
    "bf16": (4, 16), "f32": (2, 32), "f16": (2, 16), "f64": (2, 64), "e4m3fn": (10, 8), "e4m3fnuz": (11, 8), "e5m2": (12, 8), "e5m2fnuz": (13, 8),
    "e8m0": (14, 8), "e2m3": (15, 8), "e3m2": (16, 8), "e2m1": (17, 8), "tf32": (2, 32),
}
_FORMAT_OF_DLPACK = {numbers: name for name, numbers in _DLPACK_OF_FORMAT.items() if name != "tf32"}
_DLPACK_UNSIGNED = 1
_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 11: "rocm host", 13: "cuda managed", 14: "oneapi"}


class Taken(NamedTuple):
    """A caller's tensor."""

    codes: np.ndarray  # unsigned integers, contiguous
    format: str
    wrap: Callable[[np.ndarray, str], Any]  # codes of a format as the caller's kind of array


def as_numpy(codes: np.ndarray, format: str) -> np.ndarray:
    return codes.view(DTYPES[format])


def as_codes(codes: np.ndarray, format: str) -> np.ndarray:
    return codes


def _as_torch(codes: np.ndarray, format: str) -> Any:
    torch = sys.modules["torch"]
    names = {"bf16": "bfloat16", "f32": "float32", "tf32": "float32", "f16": "float16", "f64": "float64", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2",
             "e4m3fnuz": "float8_e4m3fnuz", "e5m2fnuz": "float8_e5m2fnuz", "e8m0": "float8_e8m0fnu"}
    dtype = getattr(torch, names.get(format, ""), None)
    if dtype is None:
        raise TypeError(f"this PyTorch has no type for {format}: pass NumPy arrays")
    signed = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[codes.dtype.itemsize]
    return torch.from_numpy(codes.view(signed)).view(dtype)


def is_torch(x: Any) -> bool:
    """Without importing torch: only who has imported it can have made such a tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _described(x: Any) -> str:
    shape = getattr(x, "shape", None)
    kind = type(x).__module__.split(".")[0] + "." + type(x).__qualname__ if type(x).__module__ != "builtins" else type(x).__qualname__
    dtype = getattr(x, "dtype", None)
    return kind + (f" of {dtype}" if dtype is not None else "") + (f" {list(shape)}" if shape is not None else "")


def _take_dlpack(x: Any, argument: str) -> tuple[np.ndarray, str | None]:
    """Codes, and their format; none where they are plain unsigned integers."""
    device = x.__dlpack_device__()
    kind = int(device[0])
    if kind not in (1, 3):
        where = _DLPACK_DEVICES.get(kind, f"DLPack type {kind}")
        raise TypeError(f"{argument}: expected a tensor in the memory of the CPU, found one on {where}:{device[1]}; copy it first (x.cpu())")
    if is_torch(x):
        torch = sys.modules["torch"]
        if x.layout != torch.strided:
            raise TypeError(f"{argument}: expected a dense tensor, found layout {x.layout}")
        x = x.detach().resolve_conj().resolve_neg().contiguous()
        if x.dtype in (getattr(torch, n) for n in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu") if hasattr(torch, n)):
            # Before 2.10 PyTorch does not export these.
            names = {str(v): k for k, v in {"e4m3fn": "torch.float8_e4m3fn", "e5m2": "torch.float8_e5m2", "e4m3fnuz": "torch.float8_e4m3fnuz", "e5m2fnuz": "torch.float8_e5m2fnuz",
                                            "e8m0": "torch.float8_e8m0fnu"}.items()}
            return x.view(torch.uint8).numpy().copy(), names[str(x.dtype)]
    try:
        memory, code, bits, shape, _ = _core.from_dlpack(x)
    except TypeError as error:
        raise TypeError(f"{argument}: expected a dense tensor that DLPack can carry, found {_described(x)}") from error
    if (code, bits) in _FORMAT_OF_DLPACK:
        return memory.view(UNSIGNED[bits // 8]).reshape(shape), _FORMAT_OF_DLPACK[code, bits]
    if code == _DLPACK_UNSIGNED and bits in (8, 16, 32, 64):
        return memory.view(UNSIGNED[bits // 8]).reshape(shape), None
    raise TypeError(f"{argument}: expected floating-point numbers or unsigned codes, found {_described(x)}")


def take(x: Any, argument: str, formats: Sequence[str], dtype: str | None = None) -> Taken:
    """The codes of a caller's tensor, which has to be of one of the formats.

    dtype: the format of codes given as unsigned integers; without it, such integers are refused, since nothing says what they are.
    """
    format: str | None
    wrap: Callable[[np.ndarray, str], Any]
    if isinstance(x, (np.ndarray, np.generic)):
        array = np.asarray(x)
        native = array.dtype.newbyteorder("=") if not array.dtype.isnative else array.dtype
        array = np.ascontiguousarray(array, dtype=native).reshape(array.shape)
        if array.dtype in FORMAT_OF_DTYPE:
            format, codes, wrap = FORMAT_OF_DTYPE[array.dtype], array.view(UNSIGNED[array.dtype.itemsize]), as_numpy
        else:
            format, codes, wrap = None, array, as_numpy
    elif hasattr(x, "__dlpack__"):
        codes, format = _take_dlpack(x, argument)
        if is_torch(x):
            wrap = _as_torch
        else:
            wrap = _wrap_for(x)
    else:
        raise TypeError(f"{argument}: expected a NumPy array or a tensor with __dlpack__, found {_described(x)}")

    if format is None:
        if codes.dtype not in UNSIGNED.values():
            raise TypeError(f"{argument}: expected {_types_text(formats)}, found {_described(x)}")
        if dtype is None:
            raise TypeError(f"{argument}: found {_described(x)}: are these codes? Say of which format: dtype='{formats[0]}'")
        format, wrap = dtype, as_codes
        expected = UNSIGNED[_core_bytes(dtype)]
        if codes.dtype != expected:
            raise TypeError(f"{argument}: expected codes of {dtype} as {expected}, found {_described(x)}")
    elif dtype is not None and dtype != format and not (dtype == "tf32" and format == "f32"):
        raise TypeError(f"{argument}: dtype='{dtype}' is for codes in unsigned integers or tensors of that type, found {_described(x)}")
    elif dtype is not None:
        format = dtype
    if format == "f32" and "tf32" in formats and "f32" not in formats:
        format = "tf32"
    if format not in formats:
        hint = f"; stickybit.round_to(x, '{formats[0]}') rounds numbers to it" if format in ("f32", "f64", "f16", "bf16") else ""
        raise TypeError(f"{argument}: expected {_types_text(formats)}, found {_described(x)}{hint}")
    return Taken(codes, format, wrap)


def _wrap_for(x: Any) -> Callable[[np.ndarray, str], Any]:
    def wrap(codes: np.ndarray, format: str) -> Any:
        code, bits = _DLPACK_OF_FORMAT[format]
        carried = _core.as_dlpack(codes, code, bits)
        space = getattr(x, "__array_namespace__", None)
        if space is not None and hasattr(space(), "from_dlpack"):
            return space().from_dlpack(carried)
        return as_numpy(codes, format)

    return wrap


def _types_text(formats: Sequence[str]) -> str:
    return " or ".join(f"{DTYPES[f]}" + ("" if f != "tf32" else " (TF32)") for f in formats)


_BYTES: dict[str, int] = {}


def _core_bytes(format: str) -> int:
    if not _BYTES:
        _BYTES.update({row["name"]: row["code_bytes"] for row in _core.format_table()})
        _BYTES["f64"] = 8
    if format not in _BYTES:
        raise ValueError(f"dtype: expected one of {', '.join(_BYTES)}, found '{format}'")
    return _BYTES[format]


def _as_float64(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # some casts of NaN say so
        return x.astype(np.float64)


def numbers(x: Any, argument: str) -> tuple[np.ndarray, Callable[[np.ndarray, str], Any]]:
    """A caller's numbers, of any floating-point type, as float64, which holds each of them exactly; and how results become the caller's kind."""
    if isinstance(x, np.ndarray) or isinstance(x, np.generic) or not hasattr(x, "__dlpack__"):
        try:
            array = np.asarray(x)
            array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        except Exception as error:
            raise TypeError(f"{argument}: expected numbers, found {_described(x)}") from error
        if array.dtype.kind in "iub":
            exact = array.astype(np.float64)
            if array.dtype.itemsize > 4 and not np.array_equal(exact.astype(array.dtype), array):
                raise ValueError(f"{argument}: expected integers that float64 holds exactly (below 2^53)")
            return exact, as_numpy
        if array.dtype not in FORMAT_OF_DTYPE:
            raise TypeError(f"{argument}: expected numbers of a floating-point type, found {_described(array)}")
        return _as_float64(array), as_numpy
    taken = take(x, argument, tuple(DTYPES))
    return _as_float64(taken.codes.view(DTYPES[taken.format])), taken.wrap


def exact_codes(x: Any, argument: str, format: str, dtype: str | None = None) -> Taken:
    """Codes of one format: a tensor of that type, codes (dtype says so), or numbers of another type that are exact in it.

    A Python number where FP32 is meant is rounded to it, as NumPy does.
    """
    if type(x) in (int, float) and format == "f32":
        x = np.float32(x)
    if isinstance(x, np.ndarray) and (x.dtype == DTYPES[format] or dtype is not None):
        return take(x, argument, (format,), dtype)
    if hasattr(x, "__dlpack__") and not isinstance(x, (np.ndarray, np.generic)):
        try:
            return take(x, argument, (format,), dtype)
        except TypeError:
            if dtype is not None or tuple(x.__dlpack_device__())[0] not in (1, 3):
                raise
    values, wrap = numbers(x, argument)
    if format == "f64":
        return Taken(np.ascontiguousarray(values).view(np.uint64).reshape(values.shape), format, wrap)
    if format == "tf32":  # a tensor core cuts an FP32 number's low bits itself
        with np.errstate(all="ignore"):
            rounded = values.astype(np.float32)
        codes = np.ascontiguousarray(rounded).view(np.uint32).reshape(values.shape)
    else:
        flat, _ = _core.round(np.ascontiguousarray(values).reshape(-1), format, "nearest_even", "by_mode", False, None, 0)
        codes = flat.reshape(values.shape)
        rounded = _core.values(np.ascontiguousarray(codes).reshape(-1), format).reshape(values.shape)
    wrong = ~((rounded == values) | (np.isnan(rounded) & np.isnan(values)))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0]) if values.ndim else ()
        raise ValueError(f"{argument}: expected numbers that {format} holds exactly, found {float(values[at])!r}" + (f" at {list(at)}" if at else "")
                         + f"; stickybit.round_to(x, '{format}') rounds")
    return Taken(np.ascontiguousarray(codes.astype(UNSIGNED[_core_bytes(format)])).reshape(values.shape), format, wrap)


def result(codes: np.ndarray, format: str, wrap: Callable[[np.ndarray, str], Any], shape: Sequence[int]) -> Any:
    """Codes of uint32 or wider, as the caller's kind of array of that shape; a NumPy scalar for no dimension."""
    narrow = np.ascontiguousarray(codes.astype(UNSIGNED[_core_bytes(format)], copy=False)).reshape(tuple(shape))
    out = wrap(narrow, format)
    return out[()] if isinstance(out, np.ndarray) and out.ndim == 0 else out
