"""Fits the step model's coefficients to measurements. Deterministic: same observations, same coefficients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from capplan.estimation.coefficients import BY_NAME, COEFFICIENTS, UNFITTED, Coefficients, deviation_key
from capplan.estimation.device_rates import ProductKeys, product_keys
from capplan.estimation.fit import Fit, bounded
from capplan.estimation.identity import Same
from capplan.estimation.measurement import Measurement
from capplan.estimation.observation import Batch, Metric, Observation, batches, measured, predict, settle

_MIN_ROWS = 12
"""A deviation is fitted only where at least so many rows speak of it."""
_POOLED_SIGMA = 0.3
_DEVIATION_SIGMA = 0.1
"""Widths of the normal priors on log pooled values (around the start) and on log deviations (around none). Wider ones
fit the rows better and rows of devices and models left out worse."""
_FRONT_END = frozenset({"request_s", "burst_share"})
"""Coefficients of a server's front end and of a benchmark's habits, of which little is known beforehand."""
_FRONT_END_POOLED_SIGMA = 0.7
_FRONT_END_DEVIATION_SIGMA = 0.9
_LAUNCHES = frozenset({"layer_s", "expert_layer_s"})
_WIDE_DEVIATION_SIGMA = 0.3
"""For an engine's cores, and for what a layer's launches take in one format: formats add kernels of their own."""
_ROBUST_SCALE = 0.05
_FIRST_TOKEN_ROBUST_SCALE = 0.15
"""Scales of the Cauchy loss on log residuals: contradicting sources must not bend the fit. Times to first token repeat
far less well."""
_LITTLE_TRUSTED_WEIGHT = 0.25
_OWN_WEIGHT = 2.0
_METRIC_WEIGHTS = {
    Metric.TPOT: 1.0,
    Metric.ITL: 1.0,
    Metric.TTFT: 0.5,
    Metric.E2E: 0.7,
    Metric.OUTPUT: 0.7,
    Metric.TOTAL: 0.4,
    Metric.REQUESTS: 0.4,
}
_NUDGE = 1e-4
"""Step of log coefficients by which derivatives are taken."""
_OUTER_ROUNDS = 2
_INNER_ROUNDS = 6


def group_key(observation: Observation) -> tuple[str, str, str, str, str, str]:
    """Rows that share source, model, formats, device, engine and metric count as one group."""
    m = observation.measurement
    return (m.source, m.model, m.weights, m.sku, m.engine, observation.metric.value)


def row_weights(observations: Sequence[Observation]) -> NDArray[np.float64]:
    """Weights, (N,): rows of a group share the weight of the square root of their number."""
    sizes = Counter(group_key(o) for o in observations)
    return np.array(
        [_METRIC_WEIGHTS[o.metric] * sizes[group_key(o)] ** -0.25 * _trust_weight(o.measurement) for o in observations]
    )


def _trust_weight(measurement: Measurement) -> float:
    if measurement.own:
        return _OWN_WEIGHT
    return _LITTLE_TRUSTED_WEIGHT if measurement.trust == "B-" else 1.0


@dataclass(frozen=True, slots=True)
class _Parameter:
    key: str
    start: float
    low: float
    high: float
    sigma: float


def _deviations_of(observation: Observation) -> set[tuple[str, str]]:
    replica = observation.replica
    settings, accelerator = replica.settings, Same(replica.device.accelerator)
    found = {("generation", replica.device.accelerator.architecture), ("engine", settings.name)}
    if settings.runtime:
        found.add(("runtime", settings.runtime))
    for gemm in observation.model.gemms:
        if gemm.active_parameters and gemm.layers:
            found.update(product_keys(gemm, accelerator)._asdict().items())
    return found


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a fit leaves as it is, to see what it is worth.

    Attributes:
        values: coefficients with the value each is held at, without deviations; bounds do not apply to them.
        kinds: kinds of deviation that are held at 1, see :attr:`Coefficient.keys`.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()


_NOTHING_PINNED = Pinned()


def _parameters(observations: Sequence[Observation], pinned: Pinned) -> list[_Parameter]:
    counts: Counter[tuple[str, str]] = Counter()
    for observation in observations:
        counts.update(_deviations_of(observation))
    kept = sorted(pair for pair, rows in counts.items() if rows >= _MIN_ROWS and pair[0] not in pinned.kinds)
    parameters = []
    for c in COEFFICIENTS:
        if c.name in pinned.values:
            continue
        log = float(np.log(c.start))
        pooled = _FRONT_END_POOLED_SIGMA if c.name in _FRONT_END else _POOLED_SIGMA
        parameters.append(_Parameter(c.name, log, float(np.log(c.low)), float(np.log(c.high)), pooled))
        for kind, value in kept:
            if kind in BY_NAME[c.name].keys:
                parameters.append(_Parameter(deviation_key(c.name, kind, value), 0.0, -1.5, 1.5, _sigma(c.name, kind)))
    return parameters


def _sigma(name: str, kind: str) -> float:
    """Width of the prior on a log deviation."""
    if name in _FRONT_END and kind == "engine":
        return _FRONT_END_DEVIATION_SIGMA
    if kind == "runtime" or (name in _LAUNCHES and kind == "arithmetic"):
        return _WIDE_DEVIATION_SIGMA
    return _DEVIATION_SIGMA


@dataclass(frozen=True, slots=True)
class _Move:
    """One change of the coefficients from which columns of the Jacobian are read.

    A row has one generation and one engine. Hence a coefficient's pooled value moves a row just as the deviation by the
    row's generation does, and one evaluation gives the columns of all of them.

    Attributes:
        parameter: what is changed.
        columns: parameters whose columns it gives, each with the rows, (N,), it is about.
        rows: (N,) rows it moves.
    """

    parameter: int
    columns: tuple[tuple[int, NDArray[np.bool_]], ...]
    rows: NDArray[np.bool_]


def _moves(parameters: Sequence[_Parameter], observations: Sequence[Observation]) -> tuple[_Move, ...]:
    found = [_deviations_of(observation) for observation in observations]
    everything = np.ones(len(observations), dtype=np.bool_)
    moves = []
    columns: list[tuple[int, NDArray[np.bool_]]] = []
    for index, parameter in reversed(list(enumerate(parameters))):
        _, _, deviation = parameter.key.partition("|")
        kind, _, value = deviation.partition("=")
        rows = np.array([(kind, value) in pairs for pairs in found]) if kind else everything
        if kind in ProductKeys._fields:
            # several to a row, so each is a move of its own
            moves.append(_Move(index, ((index, rows),), rows))
            continue
        columns.append((index, rows))
        if not kind:
            moves.append(_Move(index, tuple(columns), everything))
            columns = []
    return tuple(moves)


class _Problem:
    """Residuals and their Jacobian as functions of the log coefficients."""

    def __init__(
        self, observations: Sequence[Observation], progress: Callable[[int, float], None] | None, pinned: Pinned
    ) -> None:
        self.parameters = _parameters(observations, pinned)
        self._pinned = pinned
        self._observations = observations
        self._groups: tuple[tuple[Batch, NDArray[np.int64]], ...] = batches(observations)
        self._truth, self.weights = measured(observations), row_weights(observations)
        self._moves = _moves(self.parameters, observations)
        self.start = np.array([p.start for p in self.parameters])
        self.sigma = np.array([p.sigma for p in self.parameters])
        self.scales = np.array(
            [_FIRST_TOKEN_ROBUST_SCALE if o.metric is Metric.TTFT else _ROBUST_SCALE for o in observations]
        )
        self._progress, self._evaluations = progress, 0

    def coefficients(self, values: NDArray[np.float64]) -> Coefficients:
        """The coefficients that log values stand for."""
        return Coefficients(
            values={p.key: float(np.exp(v)) for p, v in zip(self.parameters, values, strict=True)}
            | dict(self._pinned.values),
            generations=frozenset(o.replica.device.accelerator.architecture for o in self._observations),
            engines=frozenset(o.replica.settings.name for o in self._observations),
        )

    def initial(self, near: Coefficients) -> NDArray[np.float64]:
        """Log values of coefficients, those that they lack at their start."""
        given = [near.values.get(p.key) for p in self.parameters]
        return np.array(
            [
                p.start if v is None else np.clip(np.log(v), p.low, p.high)
                for p, v in zip(self.parameters, given, strict=True)
            ]
        )

    def settle(self, values: NDArray[np.float64]) -> None:
        """Settles all batches, see :func:`capplan.estimation.observation.settle`."""
        settle(self._groups, self.coefficients(values))

    def logs(self, values: NDArray[np.float64], rows: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """(N,) log of predicted over measured; NaN where not predicted, or not asked for."""
        groups = self._groups if rows is None else [group for group in self._groups if rows[group[1]].any()]
        result: NDArray[np.float64] = np.log(
            predict(groups, len(self._observations), self.coefficients(values)) / self._truth
        )
        return result

    def residuals(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N + P,) square roots of the losses of N rows and of P priors."""
        log = bounded(self.logs(values))
        self._evaluations += 1
        if self._progress is not None:
            self._progress(self._evaluations, float(np.mean(np.abs(log))))
        # the Cauchy loss is written as a residual, so that priors stay quadratic
        robust = np.sign(log) * np.sqrt(np.log1p((log / self.scales) ** 2))
        return np.concatenate([self.weights * robust, (values - self.start) / self.sigma])

    def log_slopes(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, P) derivatives of :meth:`logs`, by one-sided differences of the model."""
        base = bounded(self.logs(values))
        result = np.zeros((len(self._observations), len(self.parameters)))
        for move in self._moves:
            nudged = values.copy()
            nudged[move.parameter] += _NUDGE
            change = np.where(move.rows, bounded(self.logs(nudged, move.rows)) - base, 0.0) / _NUDGE
            for column, rows in move.columns:
                result[:, column] = np.where(rows, change, 0.0)
        return result

    def jacobian(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N + P, P) derivatives of :meth:`residuals`."""
        scaled = np.abs(bounded(self.logs(values))) / self.scales
        # d sqrt(log(1 + z^2)) / dz, whose limit at none is 1
        root = np.sqrt(np.log1p(scaled**2))
        slope = np.divide(scaled, (1.0 + scaled**2) * root, out=np.ones_like(scaled), where=root > 1e-9) / self.scales
        return np.vstack([self.log_slopes(values) * (slope * self.weights)[:, None], np.diag(1.0 / self.sigma)])


def calibrate(
    observations: Sequence[Observation],
    progress: Callable[[int, float], None] | None = None,
    near: Coefficients | None = None,
    pinned: Pinned = _NOTHING_PINNED,
) -> Fit:
    """Fits all coefficients to observations.

    Robust least squares of log(predicted / measured) with normal priors on the log coefficients.

    Args:
        observations: what was measured, of any mix of models, devices and engines.
        progress: called with the number of evaluations done and the mean absolute log residual.
        near: coefficients that the result is known to be near to, such as those of most of the same observations; the
            fit begins there and is done sooner. The priors stay those around the start values.
        pinned: what is left as it is.

    Raises:
        ValueError: fewer than 30 observations, too few to say anything.
    """
    if len(observations) < 30:
        raise ValueError(f"{len(observations)} observations are too few to calibrate on; at least 30 are needed")
    problem = _Problem(observations, progress, pinned)
    values, jacobians = problem.initial(near or UNFITTED), 0
    bounds = (np.array([p.low for p in problem.parameters]), np.array([p.high for p in problem.parameters]))
    for _ in range(_OUTER_ROUNDS if near is None else 1):
        problem.settle(values)
        solution = least_squares(
            problem.residuals,
            values,
            jac=problem.jacobian,
            bounds=bounds,
            x_scale=np.array([p.sigma for p in problem.parameters]),
            max_nfev=_INNER_ROUNDS,
        )
        values = solution.x
        jacobians += int(solution.njev or 0)
    problem.settle(values)
    return Fit(
        problem.coefficients(values),
        problem.logs(values),
        jacobians,
        problem.log_slopes(values),
        problem.weights,
        problem.scales,
        values - problem.start,
        problem.sigma,
        (values > bounds[0] + _NUDGE) & (values < bounds[1] - _NUDGE),
    )
