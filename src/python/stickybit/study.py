"""The papers' tables, and ours, on any capture: what `stickybit study` prints, and its JSON as .data.

A call is a path, a stickybit.Capture, or a mapping with q, k, v (and do) and perhaps layout, causal, softmax_scale.
"""

from __future__ import annotations

from typing import Any, Sequence

from . import _arrays, _command, _core
from ._files import Capture

__all__ = ["gproj", "beta", "fixes", "isolation", "low_rank", "regime", "regimes"]


def _several(schedule: str | Sequence[str] | None) -> list[str]:
    if schedule is None:
        return []
    return ["--schedule", schedule if isinstance(schedule, str) else ",".join(schedule)]


def _fixes(fixes: Sequence[str] | None) -> list[str]:
    return [] if fixes is None else ["--fixes", *fixes]


def gproj(calls: Any, *, schedule: str = "fa3", fixes: Sequence[str] | None = None, **overrides: Any) -> _command.Report:
    """Relative error of dQ and dK by fix (median over rows), and where the row mass of dS comes from."""
    return _command.with_json(["study", "gproj"], calls, [*_several(schedule), *_command.overrides(**overrides), *_fixes(fixes)])


def beta(calls: Any = (), *, schedule: str | Sequence[str] | None = None, fixes: Sequence[str] | None = None, regimes: bool = False, seed: int = 1, **overrides: Any) -> _command.Report:
    """Signed error of O on rows with a tied maximum, by rounding order and fix. regimes: on the generated calls too."""
    return _command.with_json(["study", "beta"], calls, [*_several(schedule), *_command.overrides(**overrides), *(["--regimes"] if regimes else []), "--seed", str(seed), *_fixes(fixes)])


def fixes(calls: Any = (), *, schedule: str = "fa3", fixes: Sequence[str] | None = None, regimes: bool = False, seed: int = 1, **overrides: Any) -> _command.Report:
    """Every fix and sensible combination on captures and generated calls: errors, and what it costs."""
    return _command.with_json(["study", "fixes"], calls, [*_several(schedule), *_command.overrides(**overrides), *(["--regimes"] if regimes else []), "--seed", str(seed), *_fixes(fixes)])


def isolation(calls: Any = (), *, schedule: str | Sequence[str] | None = None, regime: Sequence[str] | None = None, seed: int = 1, heads_fp32: Sequence[int] | None = None,
              **overrides: Any) -> _command.Report:
    """The paper's experiments (a) to (f) on one call: which change takes the error of delta away? regime: generated calls instead of captures."""
    after = [*_several(schedule), *_command.overrides(**overrides), "--seed", str(seed)]
    if regime is not None:
        after += ["--regime", ",".join([regime] if isinstance(regime, str) else regime)]
    if heads_fp32 is not None:
        after += ["--heads-fp32", ",".join(map(str, heads_fp32))]
    return _command.with_json(["study", "isolation"], calls, after)


def low_rank(calls: Any = (), *, schedule: str = "fa3", fixes: Sequence[str] | None = None, seed: int = 1, steps: int = 32, tokens: int = 128, key_mean: float = 3, random_do: bool = False,
             d_model: int = 64, **overrides: Any) -> _command.Report:
    """Does the error of the gradient of Wq add up over steps along one direction? Without calls, of a made-up run of `steps` steps."""
    after = [*_several(schedule), *_command.overrides(**overrides), "--seed", str(seed), "--steps", str(steps), "--tokens", str(tokens), "--key-mean", repr(float(key_mean)), "--d-model",
             str(d_model), *(["--random-do"] if random_do else []), *_fixes(fixes)]
    return _command.with_json(["study", "low-rank"], calls, after)


def regimes() -> list[str]:
    """The names of the generated calls."""
    return list(_core.regime_names())


def regime(name: str, *, seed: int = 1, queries: int | None = None, heads: int | None = None) -> Capture:
    """A generated call with do, layout s,h,d: the same codes on every machine, and as `stickybit study regime` writes."""
    made = dict(_core.regime(name, seed, queries or 0, heads or 0))
    metadata = {"layout": made.pop("layout"), "causal": made.pop("causal"), "softmax_scale": made.pop("softmax_scale"), "regime": name, "seed": seed}
    return Capture({key: codes.view(_arrays.DTYPES["bf16"]) for key, codes in made.items()}, metadata, name)
