"""Errors on what was left out: every group of rows predicted by a fit and by corrections that never saw it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.corrections import Novelty, Reach
from capplan.estimation.fit import Fit
from capplan.estimation.kriging import Kriging, prior_variance
from capplan.estimation.observation import Observation
from capplan.estimation.site_selection import Selection, figures_of, points_of_rows, time_sign
from capplan.estimation.sites import Figures
from capplan.estimation.situation import situation_of

Array = NDArray[np.float64]

Folds = Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]
"""(N,) rows that are left out and, among them, (N,) those to predict, one pair after the other."""

_COVERED: Final = 0.9
"""Share of rows that an interval is meant to hold."""


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """N rows, each predicted without its group; NaN where a row is in no group or cannot be predicted.

    Attributes:
        step_model: (N,) log of predicted over measured, by the step model alone.
        corrected: (N,) the same with the corrections of the measurements that remain.
        deviations: (N,) standard deviations of the latter.
    """

    step_model: Array
    corrected: Array
    deviations: Array


def leave_out(
    fit: Fit,
    observations: Sequence[Observation],
    running: Array,
    selection: Selection,
    folds: Folds,
    refit: Callable[[NDArray[np.bool_]], Array] | None = None,
) -> LeftOut:
    """Predicts rows by what remains when they and their like are left out.

    The regression over sites is solved anew on those that remain, with their residuals under the refit.

    Args:
        fit: the fit to all N observations.
        observations: what it was fitted to.
        running: (N,) decoding sequences of one replica.
        selection: the sites of the observations.
        folds: (N,) rows that are left out and, among them, (N,) those to predict.
        refit: (N,) log residuals under a fit without (N,) rows;
            :meth:`~capplan.estimation.fit.Fit.without`, which is that to first order, when not given.
    """
    refit = refit or fit.without
    count = len(observations)
    signs = np.array([time_sign(o) for o in observations])
    figures = np.array([figures_of(o).value for o in observations])
    result = LeftOut(*(np.full(count, np.nan) for _ in range(3)))
    solved = {}
    for kind in Figures:
        chosen = [i for i, site in enumerate(selection.sites) if site.figures is kind]
        if chosen:
            solved[kind] = Kriging(kind, [selection.sites[i] for i in chosen]), selection.rows[chosen]
    for left, asked in folds:
        refitted = refit(left)
        result.step_model[asked] = refitted[asked]
        for kind, (kriging, rows) in solved.items():
            at = np.flatnonzero(asked & (figures == kind.value))
            if not len(at):
                continue
            mean, deviation = np.zeros(len(at)), np.full(len(at), np.sqrt(prior_variance(kriging.h)))
            if not left[rows].all():
                points = points_of_rows([observations[int(i)] for i in at], running[at])
                mean, deviation = kriging.without(left[rows], -signs[rows] * refitted[rows], points)
            result.corrected[at] = refitted[at] + signs[at] * mean
            result.deviations[at] = deviation
    return result


def folds_by(values: Sequence[Hashable]) -> Folds:
    """One fold for each value: its rows are left out and predicted."""
    codes = _codes(values)
    return [(codes == code, codes == code) for code in np.unique(codes)]


def folds_by_both(first: Sequence[Hashable], second: Sequence[Hashable]) -> Folds:
    """One fold for each pair of values: rows with either are left out, those with both are predicted."""
    left, right = _codes(first), _codes(second)
    pairs = sorted(set(zip(left.tolist(), right.tolist(), strict=True)))
    return [((left == a) | (right == b), (left == a) & (right == b)) for a, b in pairs]


def _codes(values: Sequence[Hashable]) -> NDArray[np.int64]:
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.array([codes[value] for value in values], dtype=np.int64)


def reach_of(fit: Fit, observations: Sequence[Observation], running: Array, selection: Selection) -> Reach:
    """Standard deviations that intervals have to span for nine in ten of the left out rows to lie inside.

    Conformal: whatever the deviations are worth, the span is the 90th percentile of how many of them the errors were,
    on rows of the same novelty (Lei et al., Distribution-free predictive inference for regression, 2018). Rows whose
    device and model both were measured are left out with all of their source, model and device.
    """
    situations = [situation_of(o.model, o.replica) for o in observations]
    skus, models = [s.sku for s in situations], [s.model for s in situations]
    sources = [o.measurement.source for o in observations]
    folds = {
        Novelty.SEEN: folds_by(list(zip(sources, models, skus, strict=True))),
        Novelty.GPU_UNSEEN: folds_by(skus),
        Novelty.MODEL_UNSEEN: folds_by(models),
        Novelty.BOTH_UNSEEN: folds_by_both(skus, models),
    }
    figures = np.array([figures_of(o).value for o in observations])
    reach: dict[tuple[Figures, Novelty], float] = {}
    for novelty, chosen in folds.items():
        found = leave_out(fit, observations, running, selection, chosen)
        scores = np.abs(found.corrected) / found.deviations
        for kind in Figures:
            own = scores[(figures == kind.value) & np.isfinite(scores)]
            if len(own):
                # the smallest score with at least 90 % of n + 1 at or below it
                rank = min(math.ceil(_COVERED * (len(own) + 1)), len(own))
                reach[kind, novelty] = float(np.sort(own)[rank - 1])
    return MappingProxyType(reach)
