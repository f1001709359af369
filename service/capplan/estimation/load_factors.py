"""Expected residuals of many candidates over a ladder of loads: what :meth:`Kriging.mean` says, without its matrices.

Candidates of a plan repeat few devices, models and sizes. The covariance with a site is a sum over what both have in
common, times a correlation that depends on load, lengths and number of devices only. So sites are summed up once for
each number of devices, by what they could have in common with a candidate, and a candidate then adds up the few sums
that are its own. Sums have the same terms in the same order whichever candidates are asked about together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.kriging import (
    COMMON,
    Array,
    Kriging,
    common_values,
    configuration_of,
    correlations,
    likeness,
    squared_distance,
)
from capplan.estimation.sites import Kind
from capplan.estimation.situation import Shape, Situation

DECIMALS: Final = 6
"""Log factors are rounded to so many decimals, so that the last digits of long sums do not show."""

_REMEMBERED_SUMS: Final = 64
"""Pairs of lengths, each with a number of devices, that sums are remembered of."""

_REMEMBERED_SITUATIONS: Final = 2_048


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Sites by something they have in common, the groups one after another.

    Attributes:
        rows: which group a value is, from 0.
        members: sites of the first group, then of the second, and so on.
        starts: where each group begins in the members.
    """

    rows: Mapping[Hashable, int]
    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, values: Sequence[Sequence[Hashable]]) -> _Groups:
        """Groups of sites, each of which is in one group for each of its values."""
        members: dict[Hashable, list[int]] = {}
        for site, own in enumerate(values):
            for value in own:
                members.setdefault(value, []).append(site)
        sizes = [len(group) for group in members.values()]
        return cls(
            {value: row for row, value in enumerate(members)},
            np.array([site for group in members.values() for site in group]),
            np.cumsum([0, *sizes[:-1]]),
        )

    def row(self, value: Hashable) -> int:
        """The group that a value is; that of no site, the last, for a value that no site has."""
        return self.rows.get(value, len(self.rows))

    def sums(self, terms: Array) -> Array:
        """(G + 1, K) sums over each group of the (K, M) terms of sites; the last row, of no site, is 0."""
        found = np.add.reduceat(np.take(terms, self.members, axis=1), self.starts, axis=1)
        return np.concatenate([found.T, np.zeros((1, len(terms)))])


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Weights of the sites times their correlations, summed over groups: (G + 1, K) of each grouping."""

    common: Array
    configurations: Array
    shaped: Array


class LoadFactors:
    """Expected residuals of one regression over one ladder of loads."""

    def __init__(self, solved: Kriging, load_octaves: Array) -> None:
        """Groups the sites.

        Args:
            solved: the regression.
            load_octaves: (K,) log2 of decoding sequences of one replica.
        """
        self._solved = solved
        self._load_octaves = load_octaves
        sites = solved.sites
        self._common = _Groups.of([_tagged(site.situation, site.kind) for site in sites])
        self._configurations = _Groups.of([[configuration_of(site.situation)] for site in sites])
        self._shaped = _Groups.of([[site.situation.shape] for site in sites])
        self._shapes = np.array(list(dict.fromkeys(site.situation.shape for site in sites)))
        self._variances = np.array([getattr(solved.h, name) ** 2 for name in COMMON])[:, None]
        # Plans ask for the same lengths, sizes and candidates again and again. The caches go with the object.
        self._remembered_sums = lru_cache(maxsize=_REMEMBERED_SUMS)(self._sums)
        self._remembered_rows = lru_cache(maxsize=_REMEMBERED_SITUATIONS)(self._rows)
        self._remembered_likeness = lru_cache(maxsize=_REMEMBERED_SUMS)(self._likeness)

    def of(self, situations: Sequence[Situation], input_tokens: float, output_tokens: float) -> Array:
        """(C, K) expected log residuals of the latency of C situations at K loads, rounded."""
        found = np.empty((len(situations), len(self._load_octaves)))
        places: dict[int, list[int]] = {}
        for place, where in enumerate(situations):
            places.setdefault(where.devices, []).append(place)
        for devices, alike in places.items():
            sums = self._remembered_sums(float(input_tokens), float(output_tokens), devices)
            rows = np.array([self._remembered_rows(situations[place]) for place in alike])
            values = (self._variances * sums.common[rows[:, :-1]]).sum(axis=1)
            values += self._solved.h.configuration**2 * sums.configurations[rows[:, -1]]
            shapes = {shape: self._of_like_shapes(sums, shape) for shape in {situations[i].shape for i in alike}}
            values += np.stack([shapes[situations[place].shape] for place in alike])
            found[alike] = values
        # adding 0 makes a negative zero positive
        result: Array = np.round(found, DECIMALS) + 0.0
        return result

    def _rows(self, where: Situation) -> tuple[int, ...]:
        """Rows of the sums over what sites have in common with a candidate, the last of those over configurations."""
        common = (self._common.row(value) for value in _tagged(where, Kind.LATENCY))
        return (*common, self._configurations.row(configuration_of(where)))

    def _of_like_shapes(self, sums: _Sums, shape: Shape) -> Array:
        """(K,) the part of models of like widths."""
        total: Array = (self._remembered_likeness(shape) * sums.shaped[:-1]).sum(axis=0)
        return total

    def _likeness(self, shape: Shape) -> Array:
        """(S, 1) covariances with models of the shapes of the sites."""
        return self._solved.h.shape**2 * likeness(self._solved.h, self._shapes, np.array([shape]))

    def _sums(self, input_tokens: float, output_tokens: float, devices: int) -> _Sums:
        """Sums for one number of devices."""
        lengths = np.log2(np.maximum([input_tokens, output_tokens, float(devices)], 1.0))
        at = np.column_stack([self._load_octaves, np.tile(lengths, (len(self._load_octaves), 1))])
        wide, short = correlations(squared_distance(self._solved.h, at, self._solved.points.octaves))
        wide *= self._solved.weights
        short *= self._solved.weights
        return _Sums(self._common.sums(wide), self._configurations.sums(short), self._shaped.sums(wide))


def _tagged(where: Situation, kind: Kind) -> tuple[Hashable, ...]:
    """What a site and a candidate can have in common, told apart by part."""
    return tuple(zip(COMMON, common_values(where, kind), strict=True))
