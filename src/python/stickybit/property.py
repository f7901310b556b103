"""Property tests of attention kernels: campaigns, Hypothesis strategies, and what the pytest plugin uses.

    def my_kernel(q, k, v, causal, softmax_scale):     # BF16 [b, s, h, d] NumPy arrays
        return o, lse                                  # or o; or a dict with o, lse, dq, dk, dv; None: not supported
    result = stickybit.property.check(my_kernel, schedule="fa3", cases=500)
    assert result, str(result)

With Hypothesis: @given(attention_calls(most_queries=64)), @given(codes("bf16", 16)). With pytest: the fixture check_attention.
"""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

import numpy as np

from . import _arrays, _calls, _core, _files

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["check", "CheckResult", "Failure", "make_call", "properties", "generators", "shrink", "attention_calls", "codes", "scales"]


def _call_from(row: Mapping[str, Any], like: str = "numpy") -> dict[str, Any]:
    """The arguments of a kernel, of a call of the library."""
    call: dict[str, Any] = {}
    for name in ("q", "k", "v", "do"):
        if name in row:
            call[name] = _arrays._as_torch(row[name], "bf16") if like == "torch" else row[name].view(_arrays.DTYPES["bf16"])
    return {**call, "layout": row["layout"], "causal": row["causal"], "softmax_scale": row["softmax_scale"]}


@dataclass(frozen=True)
class Failure:
    """A failure made small and explained. .call holds the shrunk call: q, k, v (do), layout, causal, softmax_scale."""

    property: str
    seed: int
    recipe: str
    what: str
    first_step: str  #: where kernel and schedule part
    cause: str  #: "unknown", or what explains every bit
    cause_known: bool
    file: str
    call: dict[str, Any]
    text: str

    def __str__(self) -> str:
        return self.text


class CheckResult:
    """What a campaign found. True where the kernel passed."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.passed: bool = found["passed"]
        self.kernel: str = found["kernel"]
        self.schedule: str = found["schedule"]
        self.cases: int = found["cases"]
        self.unsupported: int = found["unsupported"]
        self.failures: int = found["failures"]
        self.counts = {name: {"cases": cases, "deviations": inexact, "failures": failures, "expected": expected, "largest": largest}
                       for name, cases, inexact, failures, expected, largest in found["counts"]}
        self.reports = [Failure(r["property"], r["seed"], r["recipe"], r["what"], r["first_step"], r["cause"], r["cause_known"], r["file"], _call_from(r), r["text"]) for r in found["reports"]]
        self.unsteady: str = found["unsteady"]  #: what could not be repeated
        self.against_schedule = dict(zip(("count", "mean", "standard_error", "biased"), found["against_schedule"]))
        self.against_exact = dict(zip(("count", "mean", "standard_error", "biased"), found["against_exact"]))
        self.data = json.loads(found["json"])
        self.junit: str = found["junit"]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [f"{self.kernel} against {self.schedule}: {self.cases} cases, {self.unsupported} not taken",
                 f"  {'property':<22} {'cases':>7} {'deviate':>9} {'failures':>9}  schedule has it"]
        lines += [f"  {name:<22} {c['cases']:>7} {c['deviations']:>9} {c['failures']:>9}  {c['expected']}" for name, c in self.counts.items()]
        for what, t in (("the schedule", self.against_schedule), ("exact values", self.against_exact)):
            lines.append(f"  mean error of O against {what} {t['mean']:+.4g} ± {t['standard_error']:.2g} BF16 ulp over {t['count']} cases{': BIASED' if t['biased'] else ''}")
        if self.unsteady:
            lines += ["", self.unsteady.rstrip()]
        for report in self.reports:
            lines += ["", str(report).rstrip()]
        return "\n".join([*lines, "", "PASSED" if self.passed else "FAILED"])

    def _repr_html_(self) -> str:
        from ._html import preformatted

        return preformatted(str(self))

    def __repr__(self) -> str:
        return f"<CheckResult: {self.kernel} against {self.schedule}: {'passed' if self.passed else 'FAILED'}, {self.cases} cases, {self.failures} failures>"


def _answer(found: Any, call: Mapping[str, Any], gradients: bool) -> Any:
    """What a kernel gave, as codes; a text where it is wrong."""
    if found is None:
        return None
    if isinstance(found, Mapping):
        named = dict(found)
    elif isinstance(found, (tuple, list)):
        named = dict(zip(("o", "lse", "dq", "dk", "dv"), found))
    else:
        named = {"o": found}
    shape, keys = call["q"].shape, call["k"].shape
    expected = {"o": ("bf16", shape), "lse": ("f32", (shape[0], shape[2], shape[1])), "dq": ("bf16", shape), "dk": ("bf16", keys), "dv": ("bf16", keys)}
    result = {}
    for name, (format, size) in expected.items():
        if named.get(name) is None:
            if name == "o" or (gradients and name in ("dq", "dk", "dv")):
                return f"{name}: expected {format} {list(size)}, found none"
            continue
        x = named[name]
        if _arrays.is_torch(x):
            x = x.detach().cpu()
        try:
            codes = np.ascontiguousarray(_arrays.take(x, name, (format,)).codes)
        except (TypeError, ValueError) as error:
            return str(error)
        if codes.shape != tuple(size):
            return f"{name}: expected shape {list(size)}, found {list(codes.shape)}"
        result[name] = codes
    return result


def _kernel(kernel: Callable[..., Any], tensors: str) -> Callable[[Mapping[str, Any], bool], Any]:
    takes = inspect.signature(kernel).parameters
    every = any(p.kind == p.VAR_KEYWORD for p in takes.values())

    def run(row: Mapping[str, Any], gradients: bool) -> Any:
        call = _call_from(row, tensors)
        given = {k: v for k, v in call.items() if k in ("q", "k", "v", "causal", "softmax_scale") or (k == "do" and gradients)}
        if not every:
            unknown = [name for name in given if name not in takes]
            if unknown:
                raise TypeError(f"the kernel takes no argument {', '.join(unknown)}: expected f(q, k, v, causal, softmax_scale{', do' if gradients else ''})")
        return _answer(kernel(**given), call, gradients)

    return run


def _space(head_dims: Sequence[int] | None, causal: Sequence[bool] | bool | None, least_queries: int | None, most_queries: int | None, most_keys: int | None, batches: bool | None,
           scales: bool | None, gradients: bool, finite: bool, only: Sequence[str] | None) -> dict[str, Any]:
    space: dict[str, Any] = {"head_dims": None if head_dims is None else [int(d) for d in head_dims], "causal": None if causal is None else [bool(c) for c in ([causal] if isinstance(causal, bool) else causal)],
             "least_queries": least_queries, "most_queries": most_queries, "most_keys": most_keys, "batches": batches, "scales": scales, "gradients": gradients, "finite": finite,
             "only": None if only is None else list(only)}
    for name, number in (("least_queries", least_queries), ("most_queries", most_queries), ("most_keys", most_keys)):
        if number is not None and number < 1:
            raise ValueError(f"{name}: expected a whole number from 1 on, found {number}")
    if space["head_dims"] == [] or space["causal"] == []:
        raise ValueError("head_dims, causal: expected one value at least, found none")
    return {name: value for name, value in space.items() if value is not None}


def check(kernel: Callable[..., Any] | str, schedule: str, *, cases: int = 1000, seed: int = 1, backward: bool = False, finite: bool = False, properties: Sequence[str] = (),
          generators: Sequence[str] | None = None, head_dims: Sequence[int] | None = None, causal: Sequence[bool] | bool | None = None, least_queries: int | None = None,
          most_queries: int | None = None, most_keys: int | None = None, batches: bool | None = None, scales: bool | None = None, failures: int = 1, error_rate: float = 1e-6,
          timeout: float = 30, diagnosis: bool = True, folder: str | os.PathLike[str] | None = None, checkpoint: str | os.PathLike[str] | None = None, tensors: str = "numpy",
          name: str | None = None) -> CheckResult:
    """Property-tests an attention kernel against the emulator, as `stickybit check` does.

    kernel      a function f(q, k, v, causal, softmax_scale[, do]): BF16 arrays [b, s, h, d]; gives o, (o, lse), (o, lse, dq, dk, dv) or a dict of these; None: it takes no such call.
                Or words: "emulated:SCHEDULE[@UNIT][+FIX]", "lib:PATH", "cmd:COMMAND", "serve:COMMAND", which run in a process of their own
    schedule    what the kernel should equal: SCHEDULE[@UNIT][+FIX]
    cases, seed how many, and the seed of the first; the same seeds are the same calls everywhere
    backward    dq, dk, dv too, from do
    finite      no NaN, no infinities, no scores beyond FP32
    properties, generators   only these (stickybit.property.properties(), .generators())
    head_dims, causal, least_queries, most_queries, most_keys, batches, scales   of the calls
    failures    stops after so many; the first three are made small and explained
    folder      for the shrunk calls, as files
    tensors     what a function is given: "numpy" or "torch"
    A function's exception is a failure of the kernel; a crash ends this process (use "cmd:" or "lib:"). Ctrl-C ends the campaign.
    """
    if tensors not in ("numpy", "torch"):
        raise ValueError(f"tensors: expected 'numpy' or 'torch', found {tensors!r}")
    for argument, value in (("cases", cases), ("failures", failures)):
        if value < 1:
            raise ValueError(f"{argument}: expected a whole number from 1 on, found {value}")
    space = _space(head_dims, causal, least_queries, most_queries, most_keys, batches, scales, backward, finite, generators)
    tested: Any
    if isinstance(kernel, str):
        tested, called = kernel, name or kernel
    elif callable(kernel):
        if tensors == "torch":
            import torch  # noqa: F401  the user asked for its tensors
        tested, called = _kernel(kernel, tensors), name or str(getattr(kernel, "__name__", type(kernel).__name__))
    else:
        raise TypeError(f"kernel: expected a function or words like 'lib:PATH', found {type(kernel).__qualname__}")
    return CheckResult(_core.check(tested, called, schedule, space, list(properties), int(cases), int(seed), int(failures), float(error_rate), float(timeout), bool(diagnosis),
                                   "" if folder is None else os.fspath(folder), "" if checkpoint is None else os.fspath(checkpoint)))


def properties() -> dict[str, dict[str, Any]]:
    """Every property by name: what it says, of which calls, with which tolerance, whether it needs a backward pass."""
    return {name: {"says": says, "domain": domain, "tolerance": tolerance, "gradients": gradients} for name, says, domain, tolerance, gradients in _core.property_names()}


def generators() -> dict[str, dict[str, Any]]:
    """Every generator by name: which part of a call it makes (sizes, numbers, values, gradient, overlay), what it exposes, whether all its numbers are finite."""
    return {name: {"part": part, "exposes": exposes, "finite": finite} for name, part, exposes, finite in _core.generator_names()}


def make_call(seed: int, recipe: str | None = None, **space: Any) -> dict[str, Any]:
    """The call of a seed, or of a recipe ("edges/gauss/nan": generators' names) and a seed: q, k, v (do) as BF16 [b, s, h, d], layout, causal, softmax_scale."""
    return _call_from(_core.make_case(_space(**_filled(space)), recipe, seed))


def _filled(space: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {"head_dims": None, "causal": None, "least_queries": None, "most_queries": None, "most_keys": None, "batches": None, "scales": None, "gradients": False,
                             "finite": False, "only": None}
    for name in space:
        if name not in known:
            raise TypeError(f"unexpected argument {name!r}: expected some of {', '.join(known)}")
    return {**known, **space}


def shrink(call: Mapping[str, Any], fails: Callable[[dict[str, Any]], bool], *, most_runs: int = 3000, seconds: float = 30) -> tuple[dict[str, Any], int]:
    """A smaller call for which fails(call) is still true, and how often it was asked: fewer batch elements, heads, rows, keys, elements that are not 0 or 1."""
    checked = _calls.call(**call)
    row, runs = _core.shrink(checked.core, lambda r: bool(fails(_call_from(r))), most_runs, seconds)
    return _call_from(row), runs


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise ImportError("the strategies need Hypothesis: pip install hypothesis") from error
    return strategies


def attention_calls(**space: Any) -> "SearchStrategy[dict[str, Any]]":
    """Hypothesis: attention calls made for rounding, as keyword arguments of stickybit.attention and of kernels.

    space   head_dims, causal, least_queries, most_queries, most_keys, batches, scales, gradients (with do), finite, only (generators' names)
    What is drawn is the recipe, part by part, and a seed; a failing call shrinks to plainer parts. stickybit.property.shrink() then takes away what does not matter.
    """
    st = _strategies()
    fixed = _space(**_filled(space))
    parts: dict[str, list[str]] = {}
    for generator, row in generators().items():
        allowed = "only" not in fixed or generator in fixed["only"] or not any(generators()[g]["part"] == row["part"] for g in fixed["only"])
        if allowed and (row["finite"] or not fixed.get("finite")) and (row["part"] != "gradient" or fixed.get("gradients")):
            parts.setdefault(row["part"], []).append(generator)

    @st.composite
    def calls(draw: Any) -> dict[str, Any]:
        recipe = [draw(st.sampled_from(parts[part])) for part in ("sizes", "numbers")]
        for part in ("values", "gradient", "overlay"):
            if part in parts:
                chosen = draw(st.none() | st.sampled_from(parts[part]))
                recipe += [] if chosen is None else [chosen]
        row = _core.make_case(fixed, "/".join(recipe), draw(st.integers(0, 2**32 - 1)))
        return _call_from(row)

    return calls()


def codes(format: str, shape: int | Sequence[int] | None = None, *, finite: bool = False) -> "SearchStrategy[Any]":
    """Hypothesis: numbers of a format, chosen by class, so that subnormals, the largest and the smallest numbers, neighbours of powers of two, both zeros, NaN and infinities come often.

    shape   of the array; None: one number (a NumPy scalar)
    """
    from ._formats import formats

    st = _strategies()
    f = formats[format]
    if f.width_bits > 32:
        raise ValueError(f"format: expected one of at most 32 bits, found {format}")
    sign = 1 << (f.width_bits - 1) if f.is_signed else 0
    pad, one = f.padding_bits, 1 << f.fraction_bits
    largest = int(_core.parse(repr(f.largest), format)) >> pad
    top = ((1 << (f.width_bits - (1 if f.is_signed else 0))) - 1) >> pad
    magnitude = st.one_of(
        st.integers(0, min(2, largest)), st.integers(max(0, largest - 2), largest), st.integers(0, largest),
        st.builds(lambda e, d: min(largest, max(0, e * one + d)), st.integers(0, largest // one), st.integers(-2, 2)),
        *([] if finite else [st.integers(largest, top)]))
    code = st.builds(lambda m, negative: (m << pad) | (sign if negative else 0), magnitude, st.booleans() if sign else st.just(False))
    if finite:
        code = code.filter(lambda c: np.isfinite(f.values(np.array([c]))[0]))
    unsigned = _arrays.UNSIGNED[f.code_bytes]
    if shape is None:
        return code.map(lambda c: np.array(c, unsigned).view(f.dtype)[()])
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(size))
    return st.lists(code, min_size=count, max_size=count).map(lambda cs: np.array(cs, unsigned).view(f.dtype).reshape(size))


def scales(head_dim: int) -> "SearchStrategy[float]":
    """Hypothesis: softmax scales: 1/√d, powers of two and others around it."""
    st = _strategies()
    return st.one_of(st.just(head_dim**-0.5), st.integers(-8, 2).map(lambda e: 2.0**e), st.floats(1e-3, 4.0))
