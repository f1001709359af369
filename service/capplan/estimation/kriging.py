"""Gaussian-process regression of the step model's residuals over measured sites, known in geostatistics as kriging.

The covariance of two residuals is a sum over what the configurations have in common: the model, widths like its own,
engine and generation, format and generation, the device and so on, each with a variance of its own, times a correlation
that falls with the distance in load, lengths and devices; one more part, of a shorter range, belongs to the very same
model, device, engine and format. Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapter 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import Situation

Array = NDArray[np.float64]

CHUNK: Final = 256
"""Rows of a covariance that are worked out at once: against 2,000 sites a matrix of 4 MB."""

_ROBUST_DEGREES: Final = 4.0
"""Degrees of freedom of the Student's t that measured residuals are taken to follow; outliers lose their weight."""
_ROBUST_ROUNDS: Final = 3
_JITTER: Final = 1e-6
_LEAST_VARIANCE: Final = 1e-9
_SHORT: Final = 4.0
"""How much faster (in squared distance) the part of the very same configuration falls."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Standard deviations of the parts of a log residual, and the distances over which they persist.

    Attributes:
        base: what all configurations have in common.
        model: the same model.
        shape: models of like widths.
        engine: the same engine on the same generation.
        weights: the same format on the same generation.
        sku: the same device.
        generation: the same generation.
        spread: the same things dealt out over ranks.
        kind: measured in the same way.
        configuration: the same model, device, engine, format and spread.
        source: measured by the same people; it explains residuals and corrects nothing.
        noise: repeating a measurement.
        octaves: of sequences, prompt, answer and devices at which the correlation has fallen to exp(-1/2).
        shape_octaves: the same for the three numbers of a model's shape.
    """

    base: float
    model: float
    shape: float
    engine: float
    weights: float
    sku: float
    generation: float
    spread: float
    kind: float
    configuration: float
    source: float
    noise: float
    octaves: tuple[float, float, float, float]
    shape_octaves: tuple[float, float, float]


HYPERPARAMETERS: Final = MappingProxyType(
    {
        Figures.PER_TOKEN: Hyperparameters(
            base=0.02,
            model=0.066,
            shape=0.068,
            engine=0.041,
            weights=0.106,
            sku=0.043,
            generation=0.043,
            spread=0.067,
            kind=0.152,
            configuration=0.097,
            source=0.073,
            noise=0.059,
            octaves=(4.8, 10.5, 6.6, 2.4),
            shape_octaves=(1.2, 1.5, 1.6),
        ),
        Figures.FIRST_TOKEN: Hyperparameters(
            base=0.11,
            model=0.165,
            shape=0.17,
            engine=0.21,
            weights=0.15,
            sku=0.15,
            generation=0.21,
            spread=0.19,
            kind=0.22,
            configuration=0.16,
            source=0.21,
            noise=0.23,
            octaves=(4.0, 7.1, 8.5, 3.3),
            shape_octaves=(1.15, 1.5, 1.45),
        ),
    }
)
"""Largest marginal likelihood (with priors of 0.4 to 0.5 on their logs) of the step model's residuals on 700 shipped
measurements of the first kind and 600 of the second."""

COMMON: Final = ("base", "model", "engine", "weights", "sku", "generation", "spread", "kind")
"""Wide-ranging parts by the name of their hyperparameter; the part of like widths is one more, see :func:`likeness`."""


def common_values(where: Situation, kind: Kind) -> tuple[Hashable, ...]:
    """What two configurations must share, part for part of :data:`COMMON`, to have it in common."""
    return (
        (),
        where.model,
        (where.generation, where.engine),
        (where.generation, where.weights),
        where.sku,
        where.generation,
        (where.spread, where.has_experts),
        kind,
    )


def configuration_of(where: Situation) -> Hashable:
    """What two configurations must share to have the short-ranging part in common."""
    return where.model, where.sku, where.engine, where.weights, where.spread


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """N configurations at one load each, as columns.

    Attributes:
        situations: what ran.
        kinds: how it is measured, or would be.
        octaves: (N, 4) log2 of sequences, prompt, answer and devices.
    """

    situations: Sequence[Situation]
    kinds: Sequence[Kind]
    octaves: Array

    def chunks(self) -> Iterator[tuple[slice, Points]]:
        """The same in parts of at most :data:`CHUNK` rows, with where they stand."""
        for start in range(0, len(self.situations), CHUNK):
            rows = slice(start, start + CHUNK)
            yield rows, Points(self.situations[rows], self.kinds[rows], self.octaves[rows])


def points(
    situations: Sequence[Situation], kinds: Sequence[Kind], running: Array, inputs: Array, outputs: Array
) -> Points:
    """Columns of N configurations; fewer than one running sequence or token count as one."""
    devices = np.array([float(situation.devices) for situation in situations])
    columns = np.stack([running, inputs, outputs, devices], axis=1).reshape(-1, 4)
    return Points(tuple(situations), tuple(kinds), np.log2(np.maximum(columns, 1.0)))


def points_of(sites: Sequence[Site]) -> Points:
    """The configurations of sites."""
    return points(
        [site.situation for site in sites],
        [site.kind for site in sites],
        np.array([site.running for site in sites]),
        np.array([site.input_tokens for site in sites]),
        np.array([site.output_tokens for site in sites]),
    )


def same(mine: Sequence[Hashable], theirs: Sequence[Hashable]) -> NDArray[np.bool_]:
    """(N, M) whether two values are equal."""
    codes = {word: code for code, word in enumerate(dict.fromkeys([*mine, *theirs]))}
    left, right = (np.array([codes[word] for word in words], dtype=np.int64) for words in (mine, theirs))
    equal: NDArray[np.bool_] = left[:, None] == right[None, :]
    return equal


def same_configuration(left: Points, right: Points) -> NDArray[np.bool_]:
    """(N, M) whether model, device, engine, format and spread are the same."""
    return same([configuration_of(s) for s in left.situations], [configuration_of(s) for s in right.situations])


def likeness(h: Hyperparameters, left: Array, right: Array) -> Array:
    """(N, M) correlations of models of (N, 3) and (M, 3) shapes."""
    result: Array = np.exp(-0.5 * _squared(left, right, h.shape_octaves))
    return result


def squared_distance(h: Hyperparameters, left: Array, right: Array) -> Array:
    """(N, M) squared distances of (N, 4) and (M, 4) octaves, in the lengths over which residuals persist."""
    return _squared(left, right, h.octaves)


def _squared(left: Array, right: Array, lengths: Sequence[float]) -> Array:
    total = np.zeros((len(left), len(right)))
    for column, length in enumerate(lengths):
        total += ((left[:, None, column] - right[None, :, column]) / length) ** 2
    return total


def correlations(squared: Array) -> tuple[Array, Array]:
    """What squared distances leave of the wide-ranging and of the short-ranging parts."""
    return np.exp(-0.5 * squared), np.exp(-0.5 * _SHORT * squared)


def covariance(h: Hyperparameters, left: Points, right: Points) -> Array:
    """(N, M) covariances of two sets of residuals, without the part of their sources and without noise."""
    shapes = [np.array([s.shape for s in side.situations]).reshape(-1, 3) for side in (left, right)]
    common = h.shape**2 * likeness(h, *shapes)
    mine, theirs = ([*map(common_values, side.situations, side.kinds)] for side in (left, right))
    for part, name in enumerate(COMMON):
        common += getattr(h, name) ** 2 * same([values[part] for values in mine], [values[part] for values in theirs])
    wide, short = correlations(squared_distance(h, left.octaves, right.octaves))
    common *= wide
    common += h.configuration**2 * same_configuration(left, right) * short
    return common


def prior_variance(h: Hyperparameters) -> float:
    """Variance of a residual of which nothing was measured nearby, noise and source included."""
    parts = (*(getattr(h, name) for name in COMMON), h.shape, h.configuration, h.source, h.noise)
    return float(sum(part**2 for part in parts))


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


class Kriging:
    """The regression over one set of sites, solved once and asked often."""

    def __init__(self, figures: Figures, sites: Sequence[Site]) -> None:
        """Solves for the weights of at least one site, which takes about a second for 2,000.

        Args:
            figures: the kind of figure, of which all sites are.
            sites: what was measured, in any order.
        """
        self.h = HYPERPARAMETERS[figures]
        # sums in another order differ in their last digits; one order for all makes the answers the same
        self.sites = tuple(sorted(sites))
        self.points = points_of(self.sites)
        values = np.array([site.log_time for site in self.sites])
        sources = [site.source for site in self.sites]
        solved = np.empty((len(sources), len(sources)))
        for rows, part in self.points.chunks():
            solved[rows] = covariance(self.h, part, self.points)
            solved[rows] += self.h.source**2 * same(sources[rows], sources)
        noise = self.h.noise**2 * np.array([site.noise for site in self.sites])
        inflated: Array = noise
        diagonal = np.diag(solved).copy()
        for _ in range(_ROBUST_ROUNDS):
            np.fill_diagonal(solved, diagonal + inflated + _JITTER)
            inverse = _inverse(solved)
            # leave-one-out residuals and their variances, Rasmussen and Williams equation 5.12
            variance = 1.0 / np.diag(inverse)
            left_out = (inverse @ values) * variance
            scores = left_out**2 / np.maximum(variance - inflated + noise, _LEAST_VARIANCE)
            inflated = noise * (_ROBUST_DEGREES + scores) / (_ROBUST_DEGREES + 1.0)
        np.fill_diagonal(solved, diagonal + inflated + _JITTER)
        self._solved = solved
        self.weights = np.linalg.solve(solved, values)

    @cached_property
    def _precision(self) -> Array:
        """The inverse of the covariance, needed for deviations only."""
        return _inverse(self._solved)

    def mean(self, at: Points) -> Array:
        """(N,) expected log residuals."""
        result = np.empty(len(at.situations))
        for rows, part in at.chunks():
            result[rows] = covariance(self.h, part, self.points) @ self.weights
        return result

    def mean_and_deviation(self, at: Points) -> tuple[Array, Array]:
        """(N,) expected log residuals and the standard deviations around them, noise included."""
        mean, deviation = np.empty(len(at.situations)), np.empty(len(at.situations))
        for rows, part in at.chunks():
            shared = covariance(self.h, part, self.points)
            explained = ((shared @ self._precision) * shared).sum(axis=1)
            mean[rows] = shared @ self.weights
            deviation[rows] = np.sqrt(np.maximum(prior_variance(self.h) - explained, self.h.noise**2))
        return mean, deviation
