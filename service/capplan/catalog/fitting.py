"""Fits the step model to a database's measurements, and says how far it is off before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from capplan.catalog.calibrations import Calibration, ErrorSummary
from capplan.catalog.observations import ObservedRows
from capplan.errors import InvalidInputError
from capplan.estimation.calibration import calibrate
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.corrections import Corrections
from capplan.estimation.fit import Fit
from capplan.estimation.leave_out import reach_of
from capplan.estimation.observation import Metric, Observation, batches, measured, predict, settle
from capplan.estimation.site_selection import compared, select_sites


@dataclass(frozen=True, slots=True)
class FitReport:
    """What a fit did.

    Attributes:
        calibration: the new calibration, rounded as it is stored.
        before: errors on the same rows, by metric, under the coefficients that were in force.
        observations: rows it was fitted to.
        excluded: rows it could not use, by reason.
    """

    calibration: Calibration
    before: Mapping[str, ErrorSummary]
    observations: int
    excluded: Mapping[str, int]


def fit_observations(
    rows: ObservedRows, in_force: Coefficients, progress: Callable[[int, float], None] | None = None
) -> FitReport:
    """Fits the step model. The same rows give the same calibration.

    Values are rounded to six significant digits, and the errors are those of the rounded values.

    Args:
        rows: what was measured.
        in_force: coefficients to compare with.
        progress: called with the number of evaluations done and the mean absolute log residual.

    Raises:
        InvalidInputError: too few rows can be used.
    """
    observations = rows.observations
    try:
        fit = calibrate(observations, progress)
    except ValueError as error:
        raise InvalidInputError.single("measurements", str(error)) from None
    fitted = fit.coefficients
    rounded = Coefficients(
        {name: _rounded(value) for name, value in fitted.values.items()}, fitted.generations, fitted.engines
    )
    corrected = replace(rounded, corrections=_corrections(fit, observations, rounded))
    return FitReport(
        Calibration(corrected, error_summaries(observations, rounded)),
        error_summaries(observations, in_force),
        len(observations),
        rows.excluded,
    )


def _corrections(fit: Fit, observations: Sequence[Observation], rounded: Coefficients) -> Corrections:
    """The sites that published rows make under the coefficients as they are stored, and how wide intervals have to be.

    A fleet's own rows count for the intervals, but are not stored as sites: they become sites whenever the catalogue is
    loaded, for as long as they are there, and must not count twice.
    """
    residuals, sequences = compared(observations, rounded)
    selection = select_sites(observations, residuals, sequences)
    reach = reach_of(fit, observations, sequences, selection)
    published = [row for row, observation in enumerate(observations) if not observation.measurement.own]
    if len(published) < len(observations):
        rows = np.array(published, dtype=np.int64)
        selection = select_sites([observations[row] for row in published], residuals[rows], sequences[rows])
    return Corrections(selection.sites, MappingProxyType({key: _rounded(span) for key, span in reach.items()}))


def error_summaries(observations: Sequence[Observation], coefficients: Coefficients) -> Mapping[str, ErrorSummary]:
    """Errors of the step model under some coefficients, by metric; metrics without a row are left out."""
    groups = batches(observations)
    settle(groups, coefficients)
    ratios = predict(groups, len(observations), coefficients) / measured(observations)
    metrics = np.array([o.metric.value for o in observations])
    return MappingProxyType(
        {
            metric.value: _summary(ratios[rows])
            for metric in Metric
            if (rows := (metrics == metric.value) & np.isfinite(ratios)).any()
        }
    )


def _summary(ratios: NDArray[np.float64]) -> ErrorSummary:
    exact = ErrorSummary.of(ratios)
    return ErrorSummary(exact.rows, _rounded(exact.median), _rounded(exact.p90), _rounded(exact.bias))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
