"""What each part of the estimator buys: the errors without it, with everything else fitted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from capplan.catalog.left_out import Fitted, Progress
from capplan.estimation.calibration import Fit, Pinned, calibrate
from capplan.estimation.evaluation import FigureFamily, figure_family
from capplan.estimation.leave_out import folds_by, leave_out
from capplan.estimation.situation import situation_of

_NO_TIME_S: Final = 1e-12
_NO_LIMIT: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Part:
    """Something that can be taken away.

    Attributes:
        name: what it is.
        without: what the step model does when it is gone.
        pinned: how that is had.
    """

    name: str
    without: str
    pinned: Pinned


PARTS: Final = (
    Part("tile ramp", "products of few tokens run at full rate", Pinned({"half_rate": _NO_LIMIT})),
    Part("narrow products", "a rank's slice of a product runs like the whole", Pinned({"narrow_width": _NO_LIMIT})),
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
        fit = calibrate(fitted.rows, near=fitted.fit.coefficients, pinned=part.pinned)
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
