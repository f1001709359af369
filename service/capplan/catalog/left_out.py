"""The estimator on what it has not seen: each device, model or source predicted by a fit and corrections without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.catalog.observations import ObservedRows
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError
from capplan.estimation.calibration import calibrate
from capplan.estimation.corrections import Novelty, Reach
from capplan.estimation.estimate import within
from capplan.estimation.evaluation import (
    Comparison,
    Coverage,
    ErrorStatistics,
    FigureFamily,
    error_statistics,
    figure_family,
    interval_coverage,
)
from capplan.estimation.fit import Fit
from capplan.estimation.leave_out import folds_by, leave_out, reach_of
from capplan.estimation.observation import Observation, batches, running, settle
from capplan.estimation.site_selection import Selection, compared, figures_of, select_sites
from capplan.estimation.situation import situation_of

Progress = Callable[[str, int, int], None]
"""Told what is done, how many steps of it are, and of how many; 0 where that is not known."""


class By(StrEnum):
    """What is left out, one after the other."""

    GPU = "gpu"
    MODEL = "model"
    SOURCE = "source"


_NOVELTY: Final = MappingProxyType(
    {
        By.GPU: Novelty.GPU_UNSEEN,
        By.MODEL: Novelty.MODEL_UNSEEN,
        By.SOURCE: Novelty.SEEN,
    }
)


@dataclass(frozen=True, slots=True)
class LeftOutFamily:
    """Errors of one family of figures on what was left out.

    Attributes:
        corrected: with the corrections of the measurements that remain.
        step_model: of the step model alone.
        coverage: figures inside their 90 % interval.
        groups: errors by what was left out, best first.
    """

    corrected: ErrorStatistics
    step_model: ErrorStatistics
    coverage: Coverage
    groups: Mapping[str, ErrorStatistics]


@dataclass(frozen=True, slots=True)
class LeftOutReport:
    """What leaving one kind of thing out gives.

    Attributes:
        by: what was left out.
        exact: whether every fit was made anew, or to first order.
        families: errors by family of figures.
    """

    by: By
    exact: bool
    families: Mapping[FigureFamily, LeftOutFamily]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fit to all rows with what leaving out needs of it.

    Attributes:
        rows: what it was fitted to.
        fit: the fit.
        sequences: (N,) decoding sequences of one replica.
        selection: the sites of the rows.
        reach: spans of the intervals.
    """

    rows: tuple[Observation, ...]
    fit: Fit
    sequences: NDArray[np.float64]
    selection: Selection
    reach: Reach


def fit_all(rows: ObservedRows, progress: Progress) -> Fitted:
    """Fits to all rows.

    Raises:
        InvalidInputError: too few rows can be used.
    """
    observations = rows.observations
    try:
        fit = calibrate(observations, lambda done, _: progress("fitting", done, 0))
    except ValueError as error:
        raise InvalidInputError.single("measurements", str(error)) from None
    groups = batches(observations)
    settle(groups, fit.coefficients)
    sequences = running(groups, len(observations))
    selection = select_sites(observations, fit.log_residuals, sequences)
    progress("spanning intervals", 0, 0)
    return Fitted(observations, fit, sequences, selection, reach_of(fit, observations, sequences, selection))


def left_out(
    fitted: Fitted, by: By, snapshot: CatalogSnapshot, progress: Progress, *, exact: bool = False
) -> LeftOutReport:
    """Leaves out each device, model or source in turn.

    Models are told apart by their widths, so that all builds of one design are left out together.

    Args:
        fitted: the fit to all rows.
        by: what to leave out.
        snapshot: the catalogue the rows were placed in.
        progress: told of each fold.
        exact: fit anew for each, which takes a minute each, instead of to first order.

    Raises:
        InvalidInputError: exact, and too few rows remain for a fit.
    """
    names = [_left_out_of(by, observation) for observation in fitted.rows]
    folds = folds_by(names)
    done = 0

    def refit(left: NDArray[np.bool_]) -> NDArray[np.float64]:
        nonlocal done
        done += 1
        progress(f"leaving out each {by.value}", done, len(folds))
        return _refitted(fitted, left) if exact else fitted.fit.without(left)

    found = leave_out(fitted.fit, fitted.rows, fitted.sequences, fitted.selection, folds, refit)
    shown = [_name_of(by, observation) for observation in fitted.rows]
    spans = np.array([fitted.reach[figures_of(o), _NOVELTY[by]] for o in fitted.rows]) * found.deviations
    corrected = _comparisons(fitted.rows, by, snapshot, found.corrected, spans)
    alone = _comparisons(fitted.rows, by, snapshot, found.step_model, spans)
    families = {}
    for family in FigureFamily:
        chosen = [index for index, comparison in corrected.items() if comparison.family is family]
        if chosen:
            own = [corrected[index] for index in chosen]
            families[family] = LeftOutFamily(
                error_statistics(own),
                error_statistics([alone[index] for index in chosen]),
                interval_coverage(own)["all"]["all"],
                _by_name([(shown[index], corrected[index]) for index in chosen]),
            )
    return LeftOutReport(by, exact, MappingProxyType(families))


def _refitted(fitted: Fitted, left: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(N,) log residuals of all rows under a fit to those that remain."""
    kept = [observation for observation, gone in zip(fitted.rows, left, strict=True) if not gone]
    try:
        coefficients = calibrate(kept, near=fitted.fit.coefficients).coefficients
    except ValueError as error:
        raise InvalidInputError.single("measurements", f"without one of what is left out, {error}") from None
    return compared(fitted.rows, coefficients)[0]


def _left_out_of(by: By, observation: Observation) -> str:
    where = situation_of(observation.model, observation.replica)
    return {By.GPU: where.sku, By.MODEL: where.model, By.SOURCE: observation.measurement.source}[by]


def _name_of(by: By, observation: Observation) -> str:
    """What is printed of it; one of the builds of a design stands for it."""
    m = observation.measurement
    return {By.GPU: m.sku, By.MODEL: m.model, By.SOURCE: m.source}[by]


def _comparisons(
    rows: Sequence[Observation],
    by: By,
    snapshot: CatalogSnapshot,
    logs: NDArray[np.float64],
    spans: NDArray[np.float64],
) -> dict[int, Comparison]:
    """Left out predictions beside their figures, by row; those without a prediction are left away."""
    found = {}
    for index, (observation, log, span) in enumerate(zip(rows, logs.tolist(), spans.tolist(), strict=True)):
        if math.isfinite(log):
            m = observation.measurement
            predicted = within(m.value * math.exp(log), span)
            found[index] = Comparison(
                row=index,
                family=figure_family(observation.load, observation.metric),
                metric=observation.metric,
                concurrency=m.load_value,
                measured=m.value,
                predicted=predicted.value,
                lower=predicted.lower,
                upper=predicted.upper,
                group=(m.source, m.model, m.sku),
                engine=m.engine,
                model_family=snapshot.models[m.model].family,
                precision=m.weights,
                provenance="",
                novelty=_NOVELTY[by],
                bottleneck="",
            )
    return found


def _by_name(named: Sequence[tuple[str, Comparison]]) -> Mapping[str, ErrorStatistics]:
    parts: dict[str, list[Comparison]] = {}
    for name, comparison in named:
        parts.setdefault(name, []).append(comparison)
    found = {name: error_statistics(part) for name, part in parts.items()}
    return MappingProxyType(dict(sorted(found.items(), key=lambda pair: (pair[1].median_error, pair[0]))))
