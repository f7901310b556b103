"""Captures as files; comparison and validation."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Iterator

import numpy as np

from . import _arrays, _core

_FORMAT_OF_FILE_TYPE = {"BF16": "bf16", "F16": "f16", "F32": "f32", "F8_E4M3": "e4m3fn", "F8_E5M2": "e5m2"}
_FILE_TYPE_OF_FORMAT = {v: k for k, v in _FORMAT_OF_FILE_TYPE.items()}


class Capture(MutableMapping[str, Any]):
    """Named tensors with metadata, as a safetensors file has them: `q`, `k`, `v`, `do`, `fa3.o`, ... Values are NumPy arrays (ml_dtypes).

    Metadata keys of an attention call: layout ("s,h,d", "b,s,h,d", "b,h,s,d"), causal ("0", "1"), softmax_scale, sm_count, <producer>.heads.
    """

    def __init__(self, tensors: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None, name: str = "capture") -> None:
        self.metadata: dict[str, str] = {k: _metadata_text(k, v) for k, v in (metadata or {}).items()}
        self.name = name
        self.unread: dict[str, str] = {}  #: tensors of types that have no place here, by name
        self._tensors: dict[str, np.ndarray] = {}
        for key, value in (tensors or {}).items():
            self[key] = value

    def __getitem__(self, key: str) -> np.ndarray:
        return self._tensors[key]

    def __setitem__(self, key: str, value: Any) -> None:
        taken = _arrays.take(value, key, tuple(_FILE_TYPE_OF_FORMAT))
        self._tensors[key] = taken.codes.view(_arrays.DTYPES[taken.format])

    def __delitem__(self, key: str) -> None:
        del self._tensors[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Capture({self.name!r}: " + ", ".join(f"{k} {v.dtype} {list(v.shape)}" for k, v in self._tensors.items()) + f"; metadata {self.metadata})"

    def call(self) -> dict[str, Any]:
        """Keyword arguments for attention(**c.call(), schedule=...), attention_backward (where there is a do) and the explanations."""
        for name in ("q", "k", "v"):
            if name not in self:
                raise ValueError(f"{self.name}: expected a tensor {name!r}, found {', '.join(self) or 'none'}")
        arguments: dict[str, Any] = {name: self[name] for name in ("q", "k", "v", "do") if name in self}
        if "layout" in self.metadata:
            arguments["layout"] = self.metadata["layout"]
        arguments["causal"] = self.metadata.get("causal", "0") == "1"
        if "softmax_scale" in self.metadata:
            arguments["softmax_scale"] = float(self.metadata["softmax_scale"])
        if "sm_count" in self.metadata:
            arguments["sms"] = int(self.metadata["sm_count"])
        return arguments

    def _parts(self) -> tuple[dict[str, str], list[tuple[str, str, np.ndarray]]]:
        parts = []
        for key, value in self._tensors.items():
            format = _arrays.FORMAT_OF_DTYPE[value.dtype]
            parts.append((key, _FILE_TYPE_OF_FORMAT[format], np.ascontiguousarray(value).view(_arrays.UNSIGNED[value.dtype.itemsize])))
        return self.metadata, parts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, whole or not at all. Raises FileError."""
        if self.unread:
            raise _core.FileError(f"{self.name}: tensors were left unread, writing would lose them: {', '.join(self.unread)}")
        metadata, parts = self._parts()
        _core.save(os.fspath(path), metadata, parts)


def _metadata_text(key: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, (str, int, np.integer)):
        return str(value)
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    raise TypeError(f"metadata[{key!r}]: expected a text, a number or a bool, found {value!r}")


def load(path: str | os.PathLike[str]) -> Capture:
    """A safetensors file, read whole and checked. Raises FileError, one line: FILE: tensor 'NAME': expected WHAT, found WHAT."""
    metadata, tensors, unread = _core.load(os.fspath(path))
    capture = Capture(name=os.path.basename(os.fspath(path)))
    capture.metadata = dict(metadata)
    capture.unread = dict(unread)
    for name, kind, codes in tensors:
        capture._tensors[name] = codes.view(_arrays.DTYPES[_FORMAT_OF_FILE_TYPE[kind]])
    return capture


def save(path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Writes named tensors (BF16, F16, F32, E4M3FN, E5M2) with metadata as a safetensors file. Raises FileError."""
    Capture(tensors, metadata).save(path)


def as_capture(x: Any, argument: str = "call") -> Capture:
    """A path, a Capture or a mapping of tensors, with "metadata" perhaps among them."""
    if isinstance(x, Capture):
        return x
    if isinstance(x, (str, os.PathLike)):
        return load(x)
    if isinstance(x, Mapping):
        tensors = {k: v for k, v in x.items() if k not in ("metadata", "layout", "causal", "softmax_scale", "sms")}
        metadata = dict(x.get("metadata", {}))
        for key, as_key in (("layout", "layout"), ("causal", "causal"), ("softmax_scale", "softmax_scale"), ("sms", "sm_count")):
            if x.get(key) is not None:
                metadata[as_key] = x[key]
        return Capture(tensors, metadata)
    raise TypeError(f"{argument}: expected a path, a stickybit.Capture or a mapping of tensors, found {type(x).__qualname__}")


@dataclass(frozen=True)
class Comparison:
    """Two tensors, code by code. True where no code differs.

    ulp_histogram: signed distances in codes, left − right (1: left is the next larger number); above 8 by the power of two at or below.
    sign_test_p: the chance of a split of signs at least this uneven, were both equally likely.
    """

    name: str
    total: int
    mismatches: int
    first: tuple[int, int, int] | None  #: row-major index, left code, right code
    first_text: str
    ulp_histogram: dict[int, int]
    left_larger: int
    right_larger: int
    nan_against_number: int
    sign_test_p: float

    def __bool__(self) -> bool:
        return self.mismatches == 0

    def __str__(self) -> str:
        text = f"{self.name}: {self.mismatches} mismatches of {self.total}"
        if self.mismatches:
            ulps = " ".join(f"{d:+}{'..' if abs(d) > 8 else ''}: {n}" for d, n in sorted(self.ulp_histogram.items()))
            text += f"\n  first at {self.first_text}\n  ulps, left - right: {ulps}"
            if self.nan_against_number:
                text += f" NaN against a number: {self.nan_against_number}"
            text += f"\n  signs: left larger {self.left_larger}, right larger {self.right_larger}; sign test p = {self.sign_test_p:.3g}"
        return text


def compare(left: Any, right: Any, *, nan_bits: bool = False, dtype: str | None = None, name: str = "tensor") -> Comparison:
    """Two tensors of one type and shape, code by code, as `stickybit compare` does. NaN equals NaN, unless nan_bits: then sign and payload count.

    left, right  BF16, FP16, FP32, E4M3FN or E5M2 arrays or tensors; codes with dtype
    """
    formats = tuple(_FILE_TYPE_OF_FORMAT)
    a, b = _arrays.take(left, "left", formats, dtype), _arrays.take(right, "right", formats, dtype)
    if a.format != b.format:
        raise TypeError(f"right: expected {_arrays.DTYPES[a.format]} like left, found {_arrays.DTYPES[b.format]}")
    if a.codes.shape != b.codes.shape:
        raise ValueError(f"right: expected the shape of left, {list(a.codes.shape)}, found {list(b.codes.shape)}")
    return Comparison(name=name, **_core.compare(_FILE_TYPE_OF_FORMAT[a.format], np.ascontiguousarray(a.codes), np.ascontiguousarray(b.codes), nan_bits))


@dataclass(frozen=True)
class Verdict:
    """One recorded tensor against its emulation."""

    tensor: str
    total: int
    mismatches: int
    first: str
    note: str
    skipped: str  #: the reason, where nothing was compared
    place: int  #: order of computation

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.tensor}: skipped ({self.skipped})"
        return f"{self.tensor}: {self.mismatches} mismatches of {self.total}" + (f" ({self.note})" if self.note else "") + (f", {self.first}" if self.first else "")


@dataclass(frozen=True)
class Validation:
    """What became of every recorded result of a capture."""

    verdicts: tuple[Verdict, ...] = field(default=())

    @property
    def mismatches(self) -> int:
        return sum(v.mismatches for v in self.verdicts)

    @property
    def total(self) -> int:
        return sum(v.total for v in self.verdicts)

    @property
    def skipped(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.skipped)

    @property
    def earliest(self) -> Verdict | None:
        """Of the tensors that differ the one that is computed first."""
        return min((v for v in self.verdicts if v.mismatches), key=lambda v: v.place, default=None)

    def passed(self, allow_skips: bool = False) -> bool:
        """Nothing differs, something was compared, and (unless allowed) nothing was skipped."""
        return self.mismatches == 0 and self.total != 0 and (allow_skips or not self.skipped)

    def __str__(self) -> str:
        lines = [str(v) for v in self.verdicts]
        if self.earliest:
            lines.append(f"earliest tensor that differs: {self.earliest.tensor}")
        return "\n".join([*lines, f"TOTAL: {self.mismatches} mismatches of {self.total}"])

    def _repr_html_(self) -> str:
        from ._html import escape

        rows = "".join(f"<tr><td>{escape(v.tensor)}</td><td>{v.mismatches if not v.skipped else ''}</td><td>{v.total if not v.skipped else ''}</td><td>{escape(v.skipped or v.note or v.first)}</td></tr>"
                       for v in self.verdicts)
        return f"<table><thead><tr><th>tensor</th><th>mismatches</th><th>of</th><th></th></tr></thead><tbody>{rows}</tbody></table>"


def validate(capture: Any, *, unit: str | None = None, nan_bits: bool = False, engine: str = "fast", layout: str | None = None, causal: bool | None = None,
             softmax_scale: float | None = None, heads: int | None = None, sms: int | None = None) -> Validation:
    """Emulates every result that a capture holds and compares it code by code, as `stickybit validate` does. Ctrl-C ends it.

    capture  a path, a Capture, or a mapping of tensors (with metadata): an attention call, a matrix product or inner products with a GPU's results
    the rest overrides the capture's metadata
    """
    overrides = {k: v for k, v in (("layout", layout), ("causal", causal), ("softmax_scale", softmax_scale), ("heads", heads), ("sms", sms)) if v is not None}
    if isinstance(capture, (str, os.PathLike)):
        found = _core.validate_path(os.fspath(capture), unit, overrides, nan_bits, engine)
    else:
        found = _core.validate_tensors(*as_capture(capture, "capture")._parts(), unit, overrides, nan_bits, engine)
    return Validation(tuple(Verdict(**row) for row in found))
