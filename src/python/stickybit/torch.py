"""PyTorch: attention that computes a kernel's bits, captures of a running model, and the diagnosis of its layers.

    out = stickybit.torch.scaled_dot_product_attention(q, k, v, is_causal=True, schedule="fa3", fix="gproj")
    with stickybit.torch.capture("layer{call}.safetensors"):
        model(batch).loss.backward()
    print(stickybit.torch.diagnose(model, batch, layers=[0, 5]))

Tensors are computed on the CPU; those of another device are copied there and their results back. Importing this imports torch.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import _arrays, _calls, _core
from ._files import Capture

__all__ = ["scaled_dot_product_attention", "capture", "RecordedCall", "diagnose", "Diagnosis"]

_LAYOUT = "b,h,s,d"  # of torch.nn.functional.scaled_dot_product_attention


def _codes(x: torch.Tensor) -> np.ndarray:
    return _arrays.take(x.detach().to("cpu"), "tensor", ("bf16",)).codes


def _tensor(codes: np.ndarray, format: str, like: torch.Tensor) -> torch.Tensor:
    return _arrays._as_torch(codes, format).to(like.device)


class _Attention(torch.autograd.Function):
    """Forward and backward pass of a schedule's kernel."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(q, k, v)
        ctx.options = options
        checked = _calls.call(q.detach().cpu(), k.detach().cpu(), v.detach().cpu(), layout=_LAYOUT, **options["call"])
        found = _core.attention(checked.core, options["schedule"], options["unit"], options["fix"], options["engine"], ["o"], None, None)
        return _tensor(found["o"], "bf16", q)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        q, k, v = ctx.saved_tensors
        options = ctx.options
        # The forward pass runs once more: some fixes read what it does not store.
        checked = _calls.call(q.detach().cpu(), k.detach().cpu(), v.detach().cpu(), gradients[0].detach().to(torch.bfloat16).contiguous().cpu(), layout=_LAYOUT, **options["call"])
        found = _core.attention(checked.core, options["schedule"], options["unit"], options["fix"], options["engine"], ["dq", "dk", "dv"], None, None)
        return (*(_tensor(found[name], "bf16", x) if needed else None for name, x, needed in zip(("dq", "dk", "dv"), (q, k, v), ctx.needs_input_grad)), None)


def scaled_dot_product_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: float | None = None, enable_gqa: bool = False, *, schedule: str = "fa3", fix: str = "none", unit: str | None = None, heads: int | None = None,
                                 sms: int = 132, engine: str = "fast") -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention with a kernel's bits, and its backward pass's through autograd.

    query       BF16 [..., h, s, d]; key, value [..., h_k, s_k, d]; h_k = h, or with enable_gqa a divisor of it
    attn_mask   None: kernels here have no other mask than is_causal; dropout_p 0
    schedule, fix, unit, heads, sms, engine   as in stickybit.attention

    Returns BF16 like query, on its device. Raises TypeError or ValueError naming the argument. The incoming gradient is taken as BF16.
    """
    if attn_mask is not None:
        raise ValueError("attn_mask: expected None (the emulated kernels have causal masks only), found a tensor")
    if dropout_p:
        raise ValueError(f"dropout_p: expected 0, found {dropout_p}")
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, torch.Tensor) or x.dtype != torch.bfloat16:
            raise TypeError(f"{name}: expected a tensor of torch.bfloat16, found {getattr(x, 'dtype', type(x).__qualname__)}")
        if x.ndim < 3:
            raise ValueError(f"{name}: expected [..., heads, length, d], found shape {list(x.shape)}")
    if query.shape[:-3] != key.shape[:-3] or key.shape != value.shape:
        raise ValueError(f"key, value: expected the batch of query {list(query.shape)} and one shape, found {list(key.shape)} and {list(value.shape)}")
    if query.shape[-3] != key.shape[-3] and not enable_gqa:
        raise ValueError(f"key: expected {query.shape[-3]} heads like query (or enable_gqa=True), found {key.shape[-3]}")
    _core.check_schedule(schedule, unit, fix)
    options = {"schedule": schedule, "fix": fix, "unit": unit, "engine": engine,
               "call": {"causal": bool(is_causal), "softmax_scale": scale if scale is not None else 1 / math.sqrt(query.shape[-1]), "heads": heads, "sms": sms}}
    flat = [x.reshape(-1, *x.shape[-3:]) for x in (query, key, value)]
    return _Attention.apply(*flat, options).reshape(query.shape)


@dataclass
class RecordedCall:
    """One attention call of a running model: tensors in the call's own layout; do and results as they came to be known."""

    index: int
    op: str
    layout: str
    causal: bool
    softmax_scale: float
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor | None = None
    results: dict[str, torch.Tensor] = field(default_factory=dict)  #: "<producer>.o", ...
    module: str = ""  #: name of the module that made the call, where modules are known
    deterministic: bool = False  #: was torch.use_deterministic_algorithms(True) on? Without it dQ of flash kernels varies from run to run
    unsupported: str = ""  #: why the emulator has no such call: a mask, dropout

    def capture(self, cast: bool = False) -> Capture:
        """As a file has it, for `stickybit validate` and the rest. cast: numbers of another type than BF16 are rounded to it, else refused."""
        tensors: dict[str, Any] = {}
        for name, x in (("q", self.q), ("k", self.k), ("v", self.v), ("do", self.do)):
            if x is None:
                continue
            if x.dtype != torch.bfloat16:
                if not cast:
                    raise TypeError(f"call {self.index} ({self.op}): expected {name} in torch.bfloat16, found {x.dtype}; cast=True rounds")
                x = x.to(torch.bfloat16)
            tensors[name] = x.detach().contiguous().cpu()
        metadata: dict[str, Any] = {"layout": self.layout, "causal": self.causal, "softmax_scale": self.softmax_scale, "torch": torch.__version__, "op": self.op}
        if self.q.is_cuda:
            metadata["gpu"] = torch.cuda.get_device_name(self.q.device)
            metadata["sm_count"] = torch.cuda.get_device_properties(self.q.device).multi_processor_count
        for name, x in self.results.items():
            tensors[name] = x.detach().contiguous().cpu()
        for producer in {name.split(".")[0] for name in self.results}:
            metadata[f"{producer}.heads"] = int(self.q.shape[1 if self.layout == "b,h,s,d" else -2])
            metadata[f"{producer}.deterministic"] = self.deterministic
        return Capture(tensors, metadata, f"call{self.index}")


# Kernels below autograd: op -> (producer in a file, layout, names of q, k, v, output, lse).
_FORWARD_OPS = {
    "aten::_scaled_dot_product_flash_attention": ("fa2_torch", "b,h,s,d"),
    "aten::_scaled_dot_product_cudnn_attention": ("cudnn", "b,h,s,d"),
    "aten::_scaled_dot_product_efficient_attention": ("efficient", "b,h,s,d"),
    "aten::_scaled_dot_product_flash_attention_for_cpu": ("torch_cpu", "b,h,s,d"),
    "flash_attn::_flash_attn_forward": ("fa2", "b,s,h,d"),
    "flash_attn_3::_flash_attn_forward": ("fa3", "b,s,h,d"),
    "flash_attn_3::fwd": ("fa3", "b,s,h,d"),
}
_BACKWARD_OPS = {
    "aten::_scaled_dot_product_flash_attention_backward": "fa2_torch",
    "aten::_scaled_dot_product_cudnn_attention_backward": "cudnn",
    "aten::_scaled_dot_product_efficient_attention_backward": "efficient",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "torch_cpu",
    "flash_attn::_flash_attn_backward": "fa2",
    "flash_attn_3::_flash_attn_backward": "fa3",
    "flash_attn_3::bwd": "fa3",
}


def _named_arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [a.name for a in func._schema.arguments]
    found = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    found.update(zip(names, args))
    found.update(kwargs)
    return found


def _first(arguments: Mapping[str, Any], *names: str) -> Any:
    return next((arguments[n] for n in names if arguments.get(n) is not None), None)


def _kept(x: torch.Tensor) -> torch.Tensor:
    """As it is now: models overwrite buffers."""
    return x.detach().clone()


class _Kernels(TorchDispatchMode):
    """Sees the kernels that attention calls end in, with their own results."""

    def __init__(self, owner: "capture") -> None:
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func._schema.name
        if name in _FORWARD_OPS:
            self.owner._forward(name, _named_arguments(func, args, kwargs), out)
        elif name in _BACKWARD_OPS:
            self.owner._backward(name, _named_arguments(func, args, kwargs), out)
        return out


class capture(TorchFunctionMode):
    """Records the attention calls of everything that runs inside, and writes them in the project's format.

        with stickybit.torch.capture("layer{call}.safetensors"):   # {call}: 0, 1, ... in the order of the calls
            loss = model(batch).sum()
            loss.backward()                                        # for do and gradients

    path   a file for the one call that `calls` names, or with {call} in its name a file for each; None: only .calls is kept
    calls  which calls, by their index; None: all
    model  to name the modules that make the calls
    cast   calls of another type than BF16 are rounded to it (without their kernels' results); else they are refused

    Seen are torch.nn.functional.scaled_dot_product_attention, whatever it runs, and the kernels below it and of the packages flash_attn and
    flash_attn_interface: their O, LSE and gradients are in the file as <producer>.o, .lse, .dq, .dk, .dv, ready for `stickybit validate`.
    .calls holds them as RecordedCall; with masks or dropout they are recorded, but not written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, calls: Iterable[int] | int | None = None, model: torch.nn.Module | None = None, cast: bool = False) -> None:
        super().__init__()
        self.path = None if path is None else os.fspath(path)
        self.calls: list[RecordedCall] = []
        self.files: list[str] = []
        self._wanted = None if calls is None else {calls} if isinstance(calls, int) else set(calls)
        self._cast, self._model = cast, model
        self._kernels = _Kernels(self)
        self._open: RecordedCall | None = None  # the call of scaled_dot_product_attention that runs now
        self._modules: list[str] = []
        self._hooks: list[Any] = []
        if self.path is not None and "{call}" not in self.path and (self._wanted is None or len(self._wanted) != 1):
            self._wanted = {0} if self._wanted is None else self._wanted
            if len(self._wanted) != 1:
                raise ValueError(f"path: expected {{call}} in the name of several files, found {self.path!r}")

    def __enter__(self) -> "capture":
        if self._model is not None:
            for name, module in self._model.named_modules():
                self._hooks.append(module.register_forward_pre_hook(lambda *_, n=name: self._modules.append(n)))
                self._hooks.append(module.register_forward_hook(lambda *_: self._modules.__delitem__(-1)))
        self._kernels.__enter__()
        super().__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        self._kernels.__exit__(kind, error, trace)
        for hook in self._hooks:
            hook.remove()
        if kind is None and self.path is not None:
            self._write()

    def _write(self) -> None:
        chosen = [c for c in self.calls if self._wanted is None or c.index in self._wanted]
        missing = sorted((self._wanted or set()) - {c.index for c in chosen})
        if missing or not chosen:
            raise RuntimeError(f"calls: expected attention calls {missing or ''} inside the capture, found {len(self.calls)}")
        for c in chosen:
            if c.unsupported:
                raise ValueError(f"call {c.index} ({c.op}): {c.unsupported}")
            target = str(self.path).replace("{call}", str(c.index))
            c.capture(self._cast).save(target)
            self.files.append(target)

    def _add(self, call: RecordedCall) -> RecordedCall:
        call.deterministic = torch.are_deterministic_algorithms_enabled()
        call.index, call.module = len(self.calls), self._modules[-1] if self._modules else ""
        self.calls.append(call)
        return call

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args)), **kwargs}
        q, k, v = given["query"], given["key"], given["value"]
        scale = given.get("scale")
        call = self._add(RecordedCall(0, "scaled_dot_product_attention", "b,h,s,d", bool(given.get("is_causal", False)), float(scale if scale is not None else 1 / math.sqrt(q.shape[-1])),
                                      *(_four(_kept(x)) for x in (q, k, v))))
        if given.get("attn_mask") is not None:
            call.unsupported = "expected no attn_mask, found one: the emulated kernels have causal masks only"
        elif given.get("dropout_p"):
            call.unsupported = f"expected dropout_p 0, found {given['dropout_p']}"
        before, self._open = self._open, call
        try:
            out = func(*args, **kwargs)
        finally:
            self._open = before
        if out.requires_grad:
            out.register_hook(lambda gradient: setattr(call, "do", _four(_kept(gradient))))
        return out

    def _forward(self, op: str, a: Mapping[str, Any], out: Any) -> None:
        producer, layout = _FORWARD_OPS[op]
        q, k, v = _first(a, "query", "q"), _first(a, "key", "k"), _first(a, "value", "v")
        call = self._open
        if call is None:
            scale = _first(a, "scale", "softmax_scale")
            call = self._add(RecordedCall(0, op, layout, bool(_first(a, "is_causal", "causal")), float(scale if scale is not None else 1 / math.sqrt(q.shape[-1])), *(_kept(x) for x in (q, k, v))))
            if a.get("dropout_p"):
                call.unsupported = f"expected dropout_p 0, found {a['dropout_p']}"
        else:
            call.op = op
        call._kernel_q = q.data_ptr()  # type: ignore[attr-defined]
        results = out if isinstance(out, (tuple, list)) else (out,)
        o = results[0]
        if call.layout != layout:
            o = o.transpose(1, 2)
        if o.shape == call.q.shape and o.dtype == torch.bfloat16:
            call.results[f"{producer}.o"] = _kept(o)
            if len(results) > 1 and isinstance(results[1], torch.Tensor) and results[1].dtype == torch.float32:
                lse = results[1].reshape(results[1].shape[:3]) if results[1].ndim == 4 else results[1]
                rows = (call.q.shape[0], *_heads_and_rows(call))
                if lse.ndim == 3 and lse.shape[:2] == rows[:2] and lse.shape[2] >= rows[2]:
                    call.results[f"{producer}.lse"] = _kept(lse[:, :, :rows[2]])

    def _backward(self, op: str, a: Mapping[str, Any], out: Any) -> None:
        producer = _BACKWARD_OPS[op]
        q, k = _first(a, "query", "q"), _first(a, "key", "k")
        same = [c for c in self.calls if f"{producer}.o" in c.results and f"{producer}.dq" not in c.results and getattr(c, "_kernel_q", None) == q.data_ptr()]
        if not same:
            return
        call = same[-1]
        do = _first(a, "grad_out", "dout", "grad_output")
        if call.do is None and do is not None and do.shape == call.q.shape:
            call.do = _kept(do)
        gradients = [_first(a, n) for n in ("dq", "dk", "dv")]
        if any(g is None for g in gradients):
            gradients = list(out[:3]) if isinstance(out, (tuple, list)) else []
        for name, g, like in zip(("dq", "dk", "dv"), gradients, (call.q, call.k, call.v)):
            if isinstance(g, torch.Tensor) and g.shape == like.shape and g.dtype == torch.bfloat16:
                call.results[f"{producer}.{name}"] = _kept(g)


def _four(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, *x.shape[-3:]) if x.ndim != 4 else x


def _heads_and_rows(call: RecordedCall) -> tuple[int, int]:
    return (call.q.shape[1], call.q.shape[2]) if call.layout == "b,h,s,d" else (call.q.shape[2], call.q.shape[1])


@dataclass(frozen=True)
class HeadRow:
    """One head of one layer under one backward pass. Norms are of dQ, dK, dV; errors |value − exact| / |exact|, against the mathematical gradients of the same q, k, v, do."""

    layer: int
    module: str
    head: int  #: batch elements are one after another: batch·heads + head; of dk and dv that head's group is meant
    variant: str  #: "fa3", "fa3+gproj", ..., "exact"
    norm_dq: float
    norm_dk: float
    norm_dv: float
    error_dq: float
    error_dk: float
    error_dv: float
    mean_delta_error_ulp: float  #: signed, of delta, in FP32 ulp at the root mean square of the head's exact delta


class Diagnosis:
    """The backward passes of a model's attention layers, redone. .rows holds a HeadRow for each layer, head and variant."""

    def __init__(self, rows: Sequence[HeadRow], variants: Sequence[str], skipped: Mapping[int, str], parameter_norms: Mapping[str, float]) -> None:
        self.rows, self.variants, self.skipped = list(rows), list(variants), dict(skipped)
        self.parameter_norms = dict(parameter_norms)  #: gradient norm of each parameter in the model's own backward pass

    def of(self, layer: int | None = None, variant: str | None = None, head: int | None = None) -> list[HeadRow]:
        """The rows of a layer, a variant, a head."""
        return [r for r in self.rows if (layer is None or r.layer == layer) and (variant is None or r.variant == variant) and (head is None or r.head == head)]

    def worst(self) -> HeadRow:
        """Of the variants but the exact one, the head with the largest error of dQ."""
        return max((r for r in self.rows if r.variant != "exact" and not math.isnan(r.error_dq)), key=lambda r: r.error_dq)

    def _lines(self) -> list[list[str]]:
        def percent(x: float) -> str:
            return f"{100 * x:.3g}%"

        return [[str(r.layer), r.module, str(r.head), r.variant, *(f"{x:.4g}" for x in (r.norm_dq, r.norm_dk, r.norm_dv)),
                 *("" if r.variant == "exact" else percent(x) for x in (r.error_dq, r.error_dk, r.error_dv)), "" if r.variant == "exact" else f"{r.mean_delta_error_ulp:+.3g}"] for r in self.rows]

    _HEADINGS = ["layer", "module", "head", "backward", "|dQ|", "|dK|", "|dV|", "err dQ", "err dK", "err dV", "mean delta error (ulp)"]

    def __str__(self) -> str:
        table = [self._HEADINGS, *self._lines()]
        widths = [max(len(row[i]) for row in table) for i in range(len(self._HEADINGS))]
        lines = ["  ".join(cell.ljust(w) if i in (1, 3) else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in table]
        return "\n".join([*lines, *(f"layer {i}: skipped ({reason})" for i, reason in self.skipped.items())])

    def _repr_html_(self) -> str:
        from ._html import escape

        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        return f"<table><thead>{row(self._HEADINGS, 'th')}</thead><tbody>{''.join(row(line, 'td') for line in self._lines())}</tbody></table>"

    def __repr__(self) -> str:
        return f"<Diagnosis: {len({r.layer for r in self.rows})} layers, {len(self.variants)} backward passes, {len(self.rows)} rows>"


def _loss_of(output: Any) -> torch.Tensor:
    for name in ("loss",):
        if isinstance(output, Mapping) and name in output:
            return output[name]
        if hasattr(output, name):
            return getattr(output, name)
    if isinstance(output, (tuple, list)):
        output = output[0]
    if isinstance(output, torch.Tensor) and output.numel() == 1:
        return output.reshape(())
    raise TypeError("loss: expected a model that returns its loss, or loss=f(output) -> scalar tensor")


def diagnose(model: torch.nn.Module, batch: Any, layers: Sequence[int] | None = None, *, schedule: str = "fa3", fixes: Sequence[str] = ("gproj", "delta-fp32", "delta-mma", "k-smooth", "fp32-backward"),
             loss: Callable[[Any], torch.Tensor] | None = None, unit: str | None = None, sms: int = 132) -> Diagnosis:
    """Which backward pass of which layer is wrong, by how much, and what would cure it: the papers' diagnostic.

    The model runs once, forward and backward, as it is. The forward pass is then frozen: with q, k, v and do of each chosen attention call, the backward
    pass is redone as the schedule's kernel does it, with each fix, in FP32 (`fp32-backward`), and exactly; no weight is changed, gradients are put back.

    model     any module whose attention goes through scaled_dot_product_attention or a flash-attention kernel
    batch     its input: a mapping is passed as keywords, a tuple as arguments, anything else as the one argument
    layers    indices of the attention calls, in their order; None: all
    fixes     names as in stickybit.fixes(), combinations with '+'
    loss      of the model's output; None: the output's .loss, or the output itself
    Calls of another type than BF16 are rounded to it first. Calls with masks or dropout are skipped, with the reason in .skipped.
    """
    names = [schedule, *(f"{schedule}+{fix}" for fix in fixes)]
    for fix in ("none", *fixes):
        _core.check_schedule(schedule, unit, fix)
    kept = {p: p.grad for p in model.parameters()}
    for p in kept:
        p.grad = None
    try:
        with torch.enable_grad(), capture(model=model) as recorded:
            output = model(**batch) if isinstance(batch, Mapping) else model(*batch) if isinstance(batch, tuple) else model(batch)
            (loss(output) if loss is not None else _loss_of(output)).backward()
        norms = {name: float(p.grad.double().norm()) for name, p in model.named_parameters() if p.grad is not None}
    finally:
        for p, gradient in kept.items():
            p.grad = gradient
    chosen = range(len(recorded.calls)) if layers is None else layers
    rows: list[HeadRow] = []
    skipped: dict[int, str] = {}
    for layer in chosen:
        if not 0 <= layer < len(recorded.calls):
            raise IndexError(f"layers: expected attention calls 0 to {len(recorded.calls) - 1}, found {layer}")
        call = recorded.calls[layer]
        if call.unsupported or call.do is None:
            skipped[layer] = call.unsupported or "no gradient arrived at its output"
            continue
        call_arguments = RecordedCall(call.index, call.op, call.layout, call.causal, call.softmax_scale, call.q, call.k, call.v, call.do).capture(cast=True).call()
        call_arguments["sms"] = sms
        try:
            found = {"exact": _gradients(call_arguments, "exact", "none", None)}
            for name, fix in zip(names, ("none", *fixes)):
                found[name] = _gradients(call_arguments, schedule, fix, unit)
        except _core.UnsupportedCall as refused:
            skipped[layer] = str(refused)
            continue
        for name, g in found.items():
            rows += _rows_of(layer, call.module, call.layout, name, g, found["exact"])
    return Diagnosis(rows, ["exact", *names], skipped, norms)


def _gradients(call: Mapping[str, Any], schedule: str, fix: str, unit: str | None) -> dict[str, np.ndarray]:
    r = _calls.attention_backward(**call, schedule=schedule, fix=fix, unit=unit, tensors=("dq", "dk", "dv", "delta"))
    return {name: r[name].astype(np.float64) for name in r}


def _rows_of(layer: int, module: str, layout: str, variant: str, g: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> list[HeadRow]:
    axis = 1 if layout == "b,h,s,d" else 2

    def by_head(x: np.ndarray) -> np.ndarray:
        return np.moveaxis(x, axis, 1)  # [b, h, s, d]

    rows = []
    batch, heads = by_head(g["dq"]).shape[:2]
    group = heads // by_head(g["dk"]).shape[1]
    for b, h in itertools.product(range(batch), range(heads)):
        norms, errors = [], []
        for name in ("dq", "dk", "dv"):
            at = (b, h if name == "dq" else h // group)
            mine, right = by_head(g[name])[at], by_head(exact[name])[at]
            norms.append(float(np.linalg.norm(mine)))
            size = float(np.linalg.norm(right))
            errors.append(float(np.linalg.norm(mine - right)) / size if size else math.nan)
        right = exact["delta"][b, h]
        size = float(np.sqrt(np.mean(right**2)))
        ulp = 2.0 ** (math.floor(math.log2(size)) - 23) if size and math.isfinite(size) else math.nan
        rows.append(HeadRow(layer, module, b * heads + h, variant, norms[0], norms[1], norms[2], errors[0], errors[1], errors[2], float(np.mean(g["delta"][b, h] - right)) / ulp if ulp == ulp else math.nan))
    return rows
