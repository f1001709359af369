"""Gaussian-process regression of the step model's residuals over measured sites, known in geostatistics as kriging.

The covariance of two residuals is a sum over what the configurations have in common: the model, widths like its own,
engine and generation, format and generation, the device and so on, each with a variance of its own, times a correlation
that falls with the distance in load, lengths and devices; one more part, of a shorter range, belongs to the very same
model, device, engine and format. Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapter 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.hyperparameters import HYPERPARAMETERS, Hyperparameters
from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import Situation

Array = NDArray[np.float64]

CHUNK: Final = 256
"""Rows of a covariance that are worked out at once: against 2,000 sites a matrix of 4 MB."""

_BLOCK: Final = 128
"""Sites whose products are formed at once. With the few rows of a plan they are small enough for BLAS to use one
thread: on a busy machine, waiting for others takes many times longer than the product."""

_ROBUST_DEGREES: Final = 4.0
"""Degrees of freedom of the Student's t that measured residuals are taken to follow; outliers lose their weight."""
_ROBUST_ROUNDS: Final = 3
_JITTER: Final = 1e-6
_LEAST_VARIANCE: Final = 1e-9

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


@dataclass(frozen=True, eq=False)
class Traits:
    """N configurations by what they can have in common, whatever their load.

    Attributes:
        situations: what ran.
        kinds: how it is measured, or would be.
    """

    situations: Sequence[Situation]
    kinds: Sequence[Kind]

    @cached_property
    def shapes(self) -> Array:
        """(N, 3) shapes of the models."""
        return np.array([where.shape for where in self.situations], dtype=np.float64).reshape(-1, 3)

    @cached_property
    def common(self) -> tuple[Codes, ...]:
        """What configurations can have in common, part for part of :data:`COMMON`."""
        values = [*map(common_values, self.situations, self.kinds)]
        return tuple(Codes([own[part] for own in values]) for part in range(len(COMMON)))

    @cached_property
    def configurations(self) -> Codes:
        """What the very same configurations have in common."""
        return Codes([*map(configuration_of, self.situations)])

    def variances(self, h: Hyperparameters, other: Traits) -> tuple[Array, Array]:
        """(N, M) variances that are shared with M others: of the wide-ranging parts, and of the short-ranging one."""
        wide = h.shape**2 * likeness(h, self.shapes, other.shapes)
        for name, mine, theirs in zip(COMMON, self.common, other.common, strict=True):
            wide += getattr(h, name) ** 2 * mine.same(theirs)
        same = self.configurations.same(other.configurations)
        return wide, np.multiply(h.configuration**2, same, dtype=np.float64)


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def distinct(self) -> tuple[Traits, NDArray[np.int64]]:
        """The D configurations that differ in more than their load, and (N,) which of them each is."""
        numbers: dict[tuple[Situation, Kind], int] = {}
        pairs = zip(self.situations, self.kinds, strict=True)
        which = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.int64)
        return Traits([where for where, _ in numbers], [kind for _, kind in numbers]), which

    @cached_property
    def places(self) -> Mapping[Hashable, NDArray[np.int64]]:
        """Where each of the very same configurations stands, in order, by :func:`configuration_of`."""
        found: dict[Hashable, list[int]] = {}
        for place, where in enumerate(self.situations):
            found.setdefault(configuration_of(where), []).append(place)
        return {configuration: np.array(places) for configuration, places in found.items()}


class Codes:
    """N values as numbers, so that many can be compared with many."""

    def __init__(self, values: Sequence[Hashable]) -> None:
        """Numbers the distinct values."""
        self._numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
        self._codes = np.array([self._numbers[value] for value in values], dtype=np.int64)

    def same(self, other: Codes) -> NDArray[np.bool_]:
        """(N, M) whether a value equals one of M others."""
        translated = np.array([other._numbers.get(value, -1) for value in self._numbers], dtype=np.int64)
        equal: NDArray[np.bool_] = translated[self._codes][:, None] == other._codes[None, :]
        return equal


def points(
    situations: Sequence[Situation], kinds: Sequence[Kind], running: Array, inputs: Array, outputs: Array
) -> Points:
    """Columns of N configurations; fewer than one running sequence or token count as one."""
    devices = np.array([float(situation.devices) for situation in situations])
    columns = np.stack([running, inputs, outputs, devices], axis=1).reshape(-1, 4)
    # each column in one piece, as they are read one by one
    return Points(tuple(situations), tuple(kinds), np.asfortranarray(np.log2(np.maximum(columns, 1.0))))


def points_of(sites: Sequence[Site]) -> Points:
    """The configurations of sites."""
    return points(
        [site.situation for site in sites],
        [site.kind for site in sites],
        np.array([site.running for site in sites]),
        np.array([site.input_tokens for site in sites]),
        np.array([site.output_tokens for site in sites]),
    )


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
        apart = left[:, None, column] - right[None, :, column]
        apart /= length
        apart *= apart
        total += apart
    return total


def correlations(squared: Array) -> tuple[Array, Array]:
    """What squared distances leave of the wide-ranging and of the short-ranging parts."""
    wide = np.exp(-0.5 * squared)
    return wide, faster(wide)


def faster(wide: Array) -> Array:
    """Correlations of the short-ranging part, which fall four times faster in squared distance than the wide ones."""
    squares = wide * wide
    result: Array = squares * squares
    return result


def covariance(h: Hyperparameters, left: Points, right: Points) -> Array:
    """(N, M) covariances of two sets of residuals, without the part of their sources and without noise."""
    (mine, row), (theirs, column) = left.distinct, right.distinct
    wide_parts, short_part = mine.variances(h, theirs)
    wide, short = correlations(squared_distance(h, left.octaves, right.octaves))
    wide *= wide_parts[row][:, column]
    short *= short_part[row][:, column]
    wide += short
    return wide


def prior_variance(h: Hyperparameters) -> float:
    """Variance of a residual of which nothing was measured nearby, noise and source included."""
    parts = (*(getattr(h, name) for name in COMMON), h.shape, h.configuration, h.source, h.noise)
    return float(sum(part**2 for part in parts))


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _quadratic_forms(rows: Array, matrix: Array) -> Array:
    """(N,) products ``r A r`` of (N, M) rows with a symmetric matrix, of which a little over one triangle is read."""
    total = np.zeros(len(rows))
    for start in range(0, len(matrix), _BLOCK):
        column = slice(start, start + _BLOCK)
        product = 0.5 * (rows[:, column] @ matrix[column, column])
        for above in range(0, start, _BLOCK):
            block = slice(above, above + _BLOCK)
            product += rows[:, block] @ matrix[block, column]
        product *= rows[:, column]
        total += product.sum(axis=1)
    return 2.0 * total


def _covariance_of_sites(h: Hyperparameters, sites: Sequence[Site], at: Points) -> Array:
    """(M, M) covariances of measured residuals, the part of their sources included, without noise."""
    sources = Codes([site.source for site in sites])
    result: Array = np.multiply(h.source**2, sources.same(sources), dtype=np.float64)
    for rows, part in at.chunks():
        result[rows] += covariance(h, part, at)
    return result


def _noise(h: Hyperparameters, sites: Sequence[Site]) -> Array:
    return h.noise**2 * np.array([site.noise for site in sites])


def discounted(figures: Figures, sites: Sequence[Site]) -> tuple[Site, ...]:
    """The same sites, in order, with more noise the less the others agree with each: outliers lose their weight.

    Residuals are taken to follow a Student's t, by a few rounds of reweighting.

    Args:
        figures: the kind of figure, of which all sites are.
        sites: what was measured, at least one.
    """
    h = HYPERPARAMETERS[figures]
    values = np.array([site.log_time for site in sites])
    matrix, noise = _covariance_of_sites(h, sites, points_of(sites)), _noise(h, sites)
    diagonal, inflated = np.diag(matrix).copy(), noise
    for _ in range(_ROBUST_ROUNDS):
        np.fill_diagonal(matrix, diagonal + inflated + _JITTER)
        inverse = _inverse(matrix)
        # leave-one-out residuals and their variances, Rasmussen and Williams equation 5.12
        variance = 1.0 / np.diag(inverse)
        left_out = (inverse @ values) * variance
        scores = left_out**2 / np.maximum(variance - inflated + noise, _LEAST_VARIANCE)
        inflated = noise * (_ROBUST_DEGREES + scores) / (_ROBUST_DEGREES + 1.0)
    return tuple(replace(site, noise=float(n) / h.noise**2) for site, n in zip(sites, inflated, strict=True))


class Kriging:
    """The regression over one set of sites, solved once and asked often."""

    def __init__(self, figures: Figures, sites: Sequence[Site]) -> None:
        """Solves for the weights of at least one site, which takes a fraction of a second for 2,000.

        Args:
            figures: the kind of figure, of which all sites are.
            sites: what was measured, in any order.
        """
        self.h = HYPERPARAMETERS[figures]
        # sums in another order differ in their last digits; one order for all makes the answers the same
        self._order = np.array(sorted(range(len(sites)), key=lambda index: sites[index]), dtype=np.int64)
        self.sites = tuple(sites[index] for index in self._order)
        self.points = points_of(self.sites)
        matrix = _covariance_of_sites(self.h, self.sites, self.points)
        matrix[np.diag_indices(len(sites))] += _noise(self.h, self.sites) + _JITTER
        self._precision = _inverse(matrix)
        self.weights = self._precision @ np.array([site.log_time for site in self.sites])

    def mean(self, at: Points) -> Array:
        """(N,) expected log residuals."""
        result = np.empty(len(at.situations))
        for rows, part in at.chunks():
            result[rows] = covariance(self.h, part, self.points) @ self.weights
        return result

    def mean_and_deviation(self, at: Points) -> tuple[Array, Array]:
        """(N,) expected log residuals and the standard deviations around them, noise included."""
        return self._by(slice(None), self.weights, self._precision, at)

    def without(self, left_out: NDArray[np.bool_], values: Array, at: Points) -> tuple[Array, Array]:
        """The same by the sites that remain when others are left out.

        Sites keep their noise.

        Args:
            left_out: (M,) which of the sites are left out, in the order they were given in; at least one remains.
            values: (M,) log residuals in place of those measured, in the same order.
            at: the N points.
        """
        left, kept = np.flatnonzero(left_out[self._order]), np.flatnonzero(~left_out[self._order])
        # inverse of a part of a matrix by the parts of its inverse, Rasmussen and Williams appendix A.3
        precision = self._precision[np.ix_(kept, kept)]
        if len(left):
            across = self._precision[np.ix_(kept, left)]
            precision -= across @ np.linalg.solve(self._precision[np.ix_(left, left)], across.T)
        return self._by(kept, precision @ values[self._order][kept], precision, at)

    def _by(
        self, sites: NDArray[np.int64] | slice, weights: Array, precision: Array, at: Points
    ) -> tuple[Array, Array]:
        """Expected log residuals and deviations by some of the sites."""
        mean, deviation = np.empty(len(at.situations)), np.empty(len(at.situations))
        for rows, part in at.chunks():
            shared = covariance(self.h, part, self.points)[:, sites]
            explained = _quadratic_forms(shared, precision)
            mean[rows] = (shared * weights).sum(axis=1)
            deviation[rows] = np.sqrt(np.maximum(prior_variance(self.h) - explained, self.h.noise**2))
        return mean, deviation
