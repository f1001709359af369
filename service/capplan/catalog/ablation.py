"""What each part of the estimator buys: the errors without it, with everything else fitted again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from capplan.catalog.left_out import Fitted, Progress
from capplan.estimation.calibration import Pinned, calibrate
from capplan.estimation.evaluation import FigureFamily, figure_family
from capplan.estimation.fit import Fit
from capplan.estimation.leave_out import folds_by, leave_out
from capplan.estimation.observation import Metric, Observation
from capplan.estimation.situation import situation_of
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.costs import ModelCosts

_NO_TIME_S: Final = 1e-12
_NO_LIMIT: Final = 1e-6
_ANY_RATE: Final = 1e6
_SHORTEST_PROMPT: Final = 1.0

_Observed = Callable[[Sequence[Observation]], Sequence[Observation]]


def _as_they_are(rows: Sequence[Observation]) -> Sequence[Observation]:
    return rows


def all_experts_read(rows: Sequence[Observation]) -> Sequence[Observation]:
    """Rows whose expert layers read every expert in every step, whatever the number of tokens."""
    # rows of one model in the same formats keep sharing one costs object, which is what a fit groups them by
    changed = {id(model): _read_whole(model) for model in {id(row.model): row.model for row in rows}.values()}
    return [replace(row, model=changed[id(row.model)]) for row in rows]


def _read_whole(model: ModelCosts) -> ModelCosts:
    return replace(model, gemms=tuple(replace(g, experts_per_token=g.experts) if g.experts else g for g in model.gemms))


def straight_all_reduces(rows: Sequence[Observation]) -> Sequence[Observation]:
    """Rows whose devices exchange over NVLink as over a fabric that nobody measured: one latency, one bandwidth."""
    changed = {
        sku: replace(accelerator, interconnect="unmeasured")
        for sku, accelerator in {row.accelerator.sku: row.accelerator for row in rows}.items()
        if accelerator.interconnect.startswith("nvlink")
    }
    return [_on(row, changed[row.accelerator.sku]) if row.accelerator.sku in changed else row for row in rows]


def _on(row: Observation, accelerator: Accelerator) -> Observation:
    device = replace(row.replica.device, accelerator=accelerator)
    return replace(row, accelerator=accelerator, replica=replace(row.replica, device=device))


def tokens_without_prompts(rows: Sequence[Observation]) -> Sequence[Observation]:
    """Rows whose times per token are those of replicas that only decode, with as much context in their caches."""
    return [_decoding(row) if row.metric in (Metric.TPOT, Metric.ITL) else row for row in rows]


def _decoding(row: Observation) -> Observation:
    # the shortest prompt with an answer so long that the mean context stays
    answer = 2.0 * (row.request.live_tokens - _SHORTEST_PROMPT)
    return replace(row, request=replace(row.request, input_tokens=_SHORTEST_PROMPT, output_tokens=answer))


@dataclass(frozen=True, slots=True)
class Part:
    """Something that can be taken away.

    Attributes:
        name: what it is.
        without: what the step model does when it is gone.
        pinned: coefficients by which that is had.
        observed: rows by which that is had.
    """

    name: str
    without: str
    pinned: Pinned = Pinned()  # noqa: RUF009 - frozen
    observed: _Observed = _as_they_are


PARTS: Final = (
    Part("tile ramp", "products of few tokens run at full rate", Pinned({"half_rate": _NO_LIMIT})),
    Part("narrow products", "a rank's slice of a product runs like the whole", Pinned({"narrow_width": _NO_LIMIT})),
    Part("expert touch", "every step reads every expert", observed=all_experts_read),
    Part("expert kernels", "products of experts run like others", Pinned({"expert_read": 1.0, "expert_rate": 1.0})),
    Part("decode attention", "it computes in no time", Pinned({"attention_decode": _ANY_RATE})),
    Part("prompt attention", "it computes in no time", Pinned({"attention_prefill": _ANY_RATE})),
    Part("prefill mixing", "no prompts in steps that decode (TPOT only)", observed=tokens_without_prompts),
    Part("all-reduce curves", "one latency and bandwidth for each link", observed=straight_all_reduces),
    Part("all-reduces", "ranks exchange in no time", Pinned({"collective": _NO_LIMIT})),
    Part("expert imbalance", "all expert-parallel ranks are equally busy", Pinned({"imbalance": 1.0})),
    Part("layer launches", "layers cost no launches", Pinned({"layer_s": _NO_TIME_S})),
    Part("expert routing", "expert layers cost no routing", Pinned({"expert_layer_s": _NO_TIME_S})),
    Part("step overhead", "a step costs no scheduling", Pinned({"step_s": _NO_TIME_S})),
    Part("sequence overhead", "a sequence costs no host work", Pinned({"sequence_s": _NO_TIME_S})),
    Part("request handling", "a request costs nothing before its first token", Pinned({"request_s": _NO_TIME_S})),
    Part("start-up burst", "no requests of a benchmark arrive together", Pinned({"burst_share": _NO_LIMIT})),
    Part("device generations", "one set of coefficients for all", Pinned(kinds=frozenset({"generation"}))),
    Part("engines", "one set for all engines", Pinned(kinds=frozenset({"engine", "runtime"}))),
    Part("engine cores", "one set for all versions of an engine", Pinned(kinds=frozenset({"runtime"}))),
    Part("arithmetics", "one set for all formats", Pinned(kinds=frozenset({"arithmetic", "format"}))),
    Part("formats", "formats of one arithmetic are alike", Pinned(kinds=frozenset({"format"}))),
)
"""Coefficients are pinned where they stop to matter; kinds of deviation, at none."""

FAMILIES: Final = (FigureFamily.TPOT, FigureFamily.OFFLINE, FigureFamily.TTFT)


@dataclass(frozen=True, slots=True)
class Ablated:
    """Median errors without a part, by family of figures.

    Attributes:
        seen: on the rows it was fitted to, by the step model alone.
        left_out: on models left out, to first order, with the corrections of what remains.
    """

    seen: Mapping[FigureFamily, float]
    left_out: Mapping[FigureFamily, float]


def whole(fitted: Fitted) -> Ablated:
    """Errors with every part."""
    return _errors(fitted, fitted.fit)


def without_corrections(fitted: Fitted) -> Ablated:
    """Errors of the step model alone, also on what is left out."""
    return _errors(fitted, fitted.fit, corrected=False)


def ablate(fitted: Fitted, progress: Progress) -> Mapping[str, Ablated]:
    """Errors without each of :data:`PARTS` in turn, by name; a fit each, which takes a minute."""
    found = {}
    for done, part in enumerate(PARTS):
        progress(f"without {part.name}", done, len(PARTS))
        rows = tuple(part.observed(fitted.rows))
        fit = calibrate(rows, near=fitted.fit.coefficients, pinned=part.pinned)
        found[part.name] = _errors(fitted, fit)
    return MappingProxyType(found)


def _errors(fitted: Fitted, fit: Fit, *, corrected: bool = True) -> Ablated:
    models = [situation_of(o.model, o.replica).model for o in fitted.rows]
    found = leave_out(fit, fitted.rows, fitted.sequences, fitted.selection, folds_by(models))
    families = np.array([figure_family(o.load, o.metric).value for o in fitted.rows])

    def medians(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Mapping[FigureFamily, float]:
        errors = {}
        for family in FAMILIES:
            own = logs[(families == family.value) & np.isfinite(logs)]
            if len(own):
                errors[family] = float(np.median(np.abs(np.exp(own) - 1.0)))
        return MappingProxyType(errors)

    return Ablated(medians(fit.log_residuals), medians(found.corrected if corrected else found.step_model))
