"""Expected residuals of many candidates over a ladder of loads: what :meth:`Kriging.mean` says, without its matrices.

Candidates of a plan repeat few devices, models and sizes. The covariance with a site is a sum over what both have in
common, times a correlation that is a product of one factor each for load, lengths and number of devices. So sites of
the very same replica, measured in the same way, are summed up first, for the lengths that are asked about; and
candidates that differ in the number of devices only have the same parts of those sums, each with its own factor.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from capplan.estimation.kriging import Array, Kriging, Traits, correlations, faster
from capplan.estimation.sites import Kind
from capplan.estimation.situation import Situation

DECIMALS: Final = 6
"""Log factors are rounded to so many decimals, so that the last digits of long sums do not show."""


class LoadFactors:
    """Expected residuals of one regression over one ladder of loads."""

    def __init__(self, solved: Kriging, load_octaves: Array) -> None:
        """Works out what does not depend on the question.

        Args:
            solved: the regression.
            load_octaves: (K,) log2 of decoding sequences of one replica.
        """
        self._h = solved.h
        # M sites of D kinds of replica; they are in order of both, so that those of one kind are next to each other
        self._kinds, kind = solved.points.distinct
        self._skus = frozenset(where.sku for where in self._kinds.situations)
        self._starts = np.flatnonzero(np.diff(kind, prepend=-1))
        load, *self._lengths, devices = solved.points.octaves.T
        self._devices = devices[self._starts]
        at_loads = _correlation(load_octaves[:, None] - load, self._h.octaves[0])
        self._wide = solved.weights * at_loads
        self._short = solved.weights * faster(at_loads)

    def of(self, situations: Sequence[Situation], input_tokens: float, output_tokens: float) -> Array:
        """(C, K) expected log residuals of the latency of C situations at K loads, rounded."""
        alike: dict[Hashable, int] = {}
        firsts: list[Situation] = []
        rows: dict[int, tuple[list[int], list[int]]] = {}
        for place, where in enumerate(situations):
            # devices that no site is of are alike but for their generation
            sku = where.sku if where.sku in self._skus else None
            key = where.model, where.weights, sku, where.generation, where.engine, where.spread
            row = alike.setdefault(key, len(firsts))
            if row == len(firsts):
                firsts.append(where)
            places, own = rows.setdefault(where.devices, ([], []))
            places.append(place)
            own.append(row)
        wide_parts, short_part = Traits(firsts, [Kind.LATENCY] * len(firsts)).variances(self._h, self._kinds)
        wide, short = self._sums(input_tokens, output_tokens)
        found = np.empty((len(situations), len(wide)))
        for devices, (places, own) in rows.items():
            spread = _correlation(np.log2(float(devices)) - self._devices, self._h.octaves[3])
            found[places] = wide_parts[own] @ (wide * spread).T + short_part[own] @ (short * faster(spread)).T
        # adding 0 makes a negative zero positive
        result: Array = np.round(found, DECIMALS) + 0.0
        return result

    def _sums(self, input_tokens: float, output_tokens: float) -> tuple[Array, Array]:
        """(K, D) weights times what load and lengths leave, summed over alike sites: of the wide and short ranges."""
        left = np.ones(1)
        for tokens, octaves, length in zip(
            (input_tokens, output_tokens), self._lengths, self._h.octaves[1:3], strict=True
        ):
            left = left * _correlation(np.log2(max(tokens, 1.0)) - octaves, length)
        wide = np.add.reduceat(self._wide * left, self._starts, axis=1)
        return wide, np.add.reduceat(self._short * faster(left), self._starts, axis=1)


def _correlation(octaves: Array, length: float) -> Array:
    """What a distance in one direction leaves of the wide-ranging parts, by the formula of :func:`correlations`."""
    wide, _ = correlations((octaves / length) ** 2)
    return wide
