"""Fits the step model's coefficients to measurements. Deterministic: same observations, same coefficients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from capplan.estimation.coefficients import BY_NAME, COEFFICIENTS, Coefficients, deviation_key
from capplan.estimation.observation import Batch, Metric, Observation, batches, measured, predict, settle
from capplan.hardware.arithmetic import arithmetic_support

_MIN_ROWS = 12
"""A deviation is fitted only where at least so many rows speak of it."""
_POOLED_SIGMA = 0.7
_DEVIATION_SIGMA = 0.3
"""Widths of the normal priors on log pooled values (around the start) and on log deviations (around none)."""
_PRIOR_WEIGHT = 1.0
_ROBUST_SCALE = 0.15
"""Log residual from which on a row counts linearly instead of squared: contradicting sources must not bend the fit."""
_METRIC_WEIGHTS = {
    Metric.TPOT: 1.0,
    Metric.ITL: 1.0,
    Metric.TTFT: 0.5,
    Metric.OUTPUT: 0.7,
    Metric.TOTAL: 0.4,
    Metric.REQUESTS: 0.4,
}
_OUTER_ROUNDS = 3
_INNER_ROUNDS = 5


def group_key(observation: Observation) -> tuple[str, str, str, str, str, str]:
    """Rows that share source, model, formats, device, engine and metric count as one group."""
    m = observation.measurement
    return (m.source, m.model, m.weights, m.sku, m.engine, observation.metric.value)


def row_weights(observations: Sequence[Observation]) -> NDArray[np.float64]:
    """Weights, (N,): rows of a group share the weight of the square root of their number."""
    sizes = Counter(group_key(o) for o in observations)
    return np.array(
        [
            _METRIC_WEIGHTS[o.metric] * sizes[group_key(o)] ** -0.25 * (2.0 if o.measurement.own else 1.0)
            for o in observations
        ]
    )


@dataclass(frozen=True, slots=True)
class _Parameter:
    key: str
    start: float
    low: float
    high: float
    sigma: float


def _deviations_of(observation: Observation) -> set[tuple[str, str]]:
    replica = observation.replica
    found = {("generation", replica.device.accelerator.architecture), ("engine", replica.settings.name)}
    for gemm in observation.model.gemms:
        if gemm.active_parameters and gemm.layers:
            support = arithmetic_support(replica.device.accelerator, gemm.storage)
            found.add(("arithmetic", f"{gemm.arithmetic}>{support.arithmetic}"))
    return found


def _parameters(observations: Sequence[Observation]) -> list[_Parameter]:
    counts: Counter[tuple[str, str]] = Counter()
    for observation in observations:
        counts.update(_deviations_of(observation))
    kept = sorted(pair for pair, rows in counts.items() if rows >= _MIN_ROWS)
    parameters = []
    for c in COEFFICIENTS:
        log = float(np.log(c.start))
        parameters.append(_Parameter(c.name, log, float(np.log(c.low)), float(np.log(c.high)), _POOLED_SIGMA))
        for kind, value in kept:
            if kind in BY_NAME[c.name].keys:
                parameters.append(_Parameter(deviation_key(c.name, kind, value), 0.0, -1.5, 1.5, _DEVIATION_SIGMA))
    return parameters


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibration.

    Attributes:
        coefficients: fitted coefficients.
        log_residuals: (N,) log of predicted over measured of the rows it was fitted to; NaN where not predictable.
        rounds: evaluations of the Jacobian it took.
    """

    coefficients: Coefficients
    log_residuals: NDArray[np.float64]
    rounds: int


def _coefficients(
    parameters: Sequence[_Parameter], log_values: NDArray[np.float64], observations: Sequence[Observation]
) -> Coefficients:
    return Coefficients(
        values={p.key: float(np.exp(v)) for p, v in zip(parameters, log_values, strict=True)},
        generations=frozenset(o.replica.device.accelerator.architecture for o in observations),
        engines=frozenset(o.replica.settings.name for o in observations),
    )


def calibrate(observations: Sequence[Observation], progress: Callable[[int, float], None] | None = None) -> Fit:
    """Fits all coefficients to observations.

    Robust least squares of log(predicted / measured) with normal priors on the log coefficients.

    Args:
        observations: what was measured, of any mix of models, devices and engines.
        progress: called with the number of evaluations done and the mean absolute log residual.

    Raises:
        ValueError: fewer than 30 observations, too few to say anything.
    """
    if len(observations) < 30:
        raise ValueError(f"{len(observations)} observations are too few to calibrate on; at least 30 are needed")
    groups: tuple[tuple[Batch, NDArray[np.int64]], ...] = batches(observations)
    truth, weights = measured(observations), row_weights(observations)
    parameters = _parameters(observations)
    start = np.array([p.start for p in parameters])
    sigma = np.array([p.sigma for p in parameters])
    evaluations = 0

    def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal evaluations
        evaluations += 1
        predicted = predict(groups, len(observations), _coefficients(parameters, values, observations))
        log = np.log(predicted / truth)
        log = np.where(np.isfinite(log), np.clip(log, -3.0, 3.0), 0.0)
        if progress is not None:
            progress(evaluations, float(np.mean(np.abs(log))))
        scaled = log / _ROBUST_SCALE
        # pseudo-Huber written as a residual, so that priors stay quadratic
        robust = np.sign(scaled) * np.sqrt(2.0 * (np.sqrt(1.0 + scaled**2) - 1.0))
        return np.concatenate([weights * robust, _PRIOR_WEIGHT * (values - start) / sigma])

    values, jacobians = start, 0
    for _ in range(_OUTER_ROUNDS):
        settle(groups, _coefficients(parameters, values, observations))
        solution = least_squares(
            residuals,
            values,
            bounds=(np.array([p.low for p in parameters]), np.array([p.high for p in parameters])),
            diff_step=np.full(len(parameters), 1e-4),
            x_scale=sigma,
            max_nfev=_INNER_ROUNDS,
        )
        values = solution.x
        jacobians += int(solution.njev or 0)
    fitted = _coefficients(parameters, values, observations)
    settle(groups, fitted)
    log_residuals = np.log(predict(groups, len(observations), fitted) / truth)
    return Fit(fitted, log_residuals, jacobians)
