"""What measurements say beside the fitted coefficients: corrections, where an estimate comes from, how sure it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capplan.errors import InvalidInputError
from capplan.estimation.hyperparameters import HYPERPARAMETERS
from capplan.estimation.identity import Same
from capplan.estimation.kriging import (
    Array,
    Kriging,
    Points,
    configuration_of,
    points,
    prior_variance,
    squared_distance,
)
from capplan.estimation.load_factors import DECIMALS, LoadFactors
from capplan.estimation.sites import (
    Figures,
    Kind,
    Site,
    checked_keys,
    checked_member,
    checked_number,
    compact_number,
)
from capplan.estimation.situation import Situation

REACH_FIELD: Final = "reach"

FACTOR_OCTAVES: Final = np.arange(0.0, 13.0)
"""log2 of decoding sequences of one replica at which plans look corrections up: 1 to 4,096, one for each octave."""

_FIRST_TOKEN_OCTAVES: Final = np.array([1.0, 3.0, 5.0, 7.0])
"""Loads over which the correction of the time to first token is averaged: one number for all loads keeps it rising."""

_LADDERS: Final = MappingProxyType({Figures.PER_TOKEN: FACTOR_OCTAVES, Figures.FIRST_TOKEN: _FIRST_TOKEN_OCTAVES})

_MEASURED_OCTAVES: Final = 0.25
"""A configuration is measured where one with the same model, device, engine, format and spread lies this near in
sequences, lengths and devices."""

_INTERPOLATED_DISTANCE: Final = 1.0
"""And interpolated where one lies within this distance, in the lengths over which residuals persist."""

_LARGEST_REACH: Final = 1_000.0
_REACH_KEYS: Final = ("figures", "novelty", "deviations")

_REMEMBERED: Final = 4
"""Regressions that are kept: those of both figures, of a set of sites and of its successor. One of 2,000 sites takes
up to 64 MB."""


class Novelty(StrEnum):
    """What of a configuration no measurement has seen."""

    SEEN = "gpu_and_model_seen"
    GPU_UNSEEN = "gpu_unseen"
    MODEL_UNSEEN = "model_unseen"
    BOTH_UNSEEN = "gpu_and_model_unseen"


class Nearness(StrEnum):
    """How near the nearest measurement of the same configuration is."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    FAR = "far"


Reach = Mapping[tuple[Figures, Novelty], float]
"""Standard deviations that a 90 % interval spans on each side, by figures and novelty."""

NO_REACH: Final[Reach] = MappingProxyType({})
"""No interval is known before a calibration has scored its own residuals."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What measurements say of one figure.

    Attributes:
        log_factor: natural log of the factor to multiply the step model's time with.
        log_reach: half width of the 90 % interval of the log; ``None`` where none is known.
        nearness: how near the nearest measurement of the configuration is.
        distance: how far it is, in the lengths over which residuals persist; infinite without any.
        engine_versions: of the measurements that make it measured or interpolated, oldest first; unknown ones left out.
    """

    log_factor: float
    log_reach: float | None
    nearness: Nearness
    distance: float
    engine_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Corrections:
    """Measured sites with how wide intervals have to be.

    The regression over the sites is solved when something is first asked, and kept for as long as the very same tuple
    of sites is asked about.

    Attributes:
        sites: where the step model was compared with measurements; answers do not depend on their order.
        reach: standard deviations that a 90 % interval spans on each side, by figures and novelty.
    """

    sites: tuple[Site, ...] = ()
    reach: Reach = field(default_factory=lambda: NO_REACH, hash=False)

    def with_sites(self, extra: tuple[Site, ...]) -> Corrections:
        """The same with more sites; equal for the very same ``extra``, so that it is solved once."""
        return Corrections(_joined(Same(self.sites), Same(extra)), self.reach) if extra else self

    def log_factors(self, situations: Sequence[Situation], input_tokens: float, output_tokens: float) -> Array:
        """(C, K) natural logs of the factors on times per token, at :data:`FACTOR_OCTAVES`; 0 without sites."""
        return self._factors(Figures.PER_TOKEN, situations, input_tokens, output_tokens)

    def first_token_log_factors(
        self, situations: Sequence[Situation], input_tokens: float, output_tokens: float
    ) -> Array:
        """(C,) natural logs of the factors on times to first token, the same at every load; 0 without sites."""
        found = self._factors(Figures.FIRST_TOKEN, situations, input_tokens, output_tokens)
        mean: Array = np.round(found.mean(axis=1), DECIMALS)
        return mean

    def _factors(
        self, figures: Figures, situations: Sequence[Situation], input_tokens: float, output_tokens: float
    ) -> Array:
        factors = _load_factors(Same(self.sites), figures)
        if factors is None or not situations:
            return np.zeros((len(situations), len(_LADDERS[figures])))
        return factors.of(situations, input_tokens, output_tokens)

    def engine_versions(self, engine: str) -> tuple[str, ...]:
        """Versions of an engine's core that were measured, oldest first; unknown ones left out."""
        return _versions(Same(self.sites)).get(engine, ())

    def judge(self, figures: Figures, at: Points) -> list[Judgement]:
        """What is known of N configurations at one load each; in chunks, so that N may be large."""
        solved = _solved(Same(self.sites), figures)
        skus, models = _seen(Same(self.sites))
        judgements = []
        for _, part in at.chunks():
            means, deviations = _mean_and_deviation(solved, figures, part)
            for row, (where, near) in enumerate(zip(part.situations, _nearest(solved, part), strict=True)):
                spans = self.reach.get((figures, novelty_of(where.sku in skus, where.model in models)))
                reach = None if spans is None else round(spans * float(deviations[row]), DECIMALS)
                judgements.append(Judgement(round(float(means[row]), DECIMALS) + 0.0, reach, *near))
        return judgements


NO_CORRECTIONS: Final = Corrections()
"""Nothing was measured: every factor is 1 and no interval is known."""


def novelty_of(gpu_seen: bool, model_seen: bool) -> Novelty:
    """The novelty of a configuration."""
    if gpu_seen:
        return Novelty.SEEN if model_seen else Novelty.MODEL_UNSEEN
    return Novelty.GPU_UNSEEN if model_seen else Novelty.BOTH_UNSEEN


def points_at(situations: Sequence[Situation], kind: Kind, running: Array, inputs: float, outputs: float) -> Points:
    """The points of N replicas that serve one kind of request, with (N,) decoding sequences of each."""
    count = len(situations)
    return points(situations, [kind] * count, running, np.full(count, inputs), np.full(count, outputs))


@lru_cache(maxsize=_REMEMBERED)
def _solved(sites: Same[tuple[Site, ...]], figures: Figures) -> Kriging | None:
    chosen = [site for site in sites.value if site.figures is figures]
    return Kriging(figures, chosen) if chosen else None


@lru_cache(maxsize=_REMEMBERED)
def _load_factors(sites: Same[tuple[Site, ...]], figures: Figures) -> LoadFactors | None:
    solved = _solved(sites, figures)
    return None if solved is None else LoadFactors(solved, _LADDERS[figures])


@lru_cache(maxsize=_REMEMBERED)
def _joined(sites: Same[tuple[Site, ...]], extra: Same[tuple[Site, ...]]) -> tuple[Site, ...]:
    return sites.value + extra.value


@lru_cache(maxsize=_REMEMBERED)
def _seen(sites: Same[tuple[Site, ...]]) -> tuple[frozenset[str], frozenset[str]]:
    """Devices and models that were measured."""
    situations = [site.situation for site in sites.value]
    return frozenset(where.sku for where in situations), frozenset(where.model for where in situations)


@lru_cache(maxsize=_REMEMBERED)
def _versions(sites: Same[tuple[Site, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Measured versions by engine core."""
    found: dict[str, set[str]] = {}
    for site in sites.value:
        if site.engine_version:
            found.setdefault(site.situation.engine, set()).add(site.engine_version)
    return {engine: tuple(sorted(versions, key=_version_key)) for engine, versions in found.items()}


def _mean_and_deviation(solved: Kriging | None, figures: Figures, at: Points) -> tuple[Array, Array]:
    if solved is not None:
        return solved.mean_and_deviation(at)
    count = len(at.situations)
    return np.zeros(count), np.full(count, np.sqrt(prior_variance(HYPERPARAMETERS[figures])))


def _nearest(solved: Kriging | None, at: Points) -> list[tuple[Nearness, float, tuple[str, ...]]]:
    """Nearness, distance and engine versions of each configuration."""
    if solved is None:
        return [_NO_SITE] * len(at.situations)
    places = solved.points.places
    alike = (places.get(configuration_of(where)) for where in at.situations)
    return [
        _NO_SITE if sites is None else _nearest_of(solved, sites, at.octaves[row : row + 1])
        for row, sites in enumerate(alike)
    ]


_NO_SITE: Final = (Nearness.FAR, float("inf"), ())


def _nearest_of(solved: Kriging, sites: NDArray[np.int64], octaves: Array) -> tuple[Nearness, float, tuple[str, ...]]:
    """The same of one place, (1, 4), among the sites of its configuration, of which there is one at least."""
    others = solved.points.octaves[sites]
    distance = np.sqrt(squared_distance(solved.h, octaves, others)[0])
    within = sites[distance <= _INTERPOLATED_DISTANCE]
    nearness = Nearness.INTERPOLATED if len(within) else Nearness.FAR
    if (np.abs(others - octaves).max(axis=1) <= _MEASURED_OCTAVES).any():
        nearness = Nearness.MEASURED
    versions = {solved.sites[site].engine_version for site in within.tolist()} - {""}
    return nearness, float(distance.min()), tuple(sorted(versions, key=_version_key))


def _version_key(version: str) -> list[tuple[bool, int, str]]:
    """Numbers in a version by value, so that 0.8.5 is before 0.11.0, words before numbers."""
    parts = re.findall(r"[0-9]{1,18}|[^\W\d_]+", version)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def reach_to_json(reach: Reach) -> list[dict[str, Any]]:
    """Spans of intervals as JSON values, sorted; numbers have six significant digits."""
    return [
        {"figures": figures.value, "novelty": novelty.value, "deviations": compact_number(deviations)}
        for (figures, novelty), deviations in sorted(reach.items())
    ]


def reach_from_json(values: object) -> Reach:
    """Spans of intervals from the values that :func:`reach_to_json` gives.

    Raises:
        InvalidInputError: they are no such values; the first fault is named with its place.
    """
    if not isinstance(values, list):
        raise InvalidInputError.single(REACH_FIELD, f"{values!r:.80} is no list")
    reach: dict[tuple[Figures, Novelty], float] = {}
    for index, value in enumerate(values):
        place = f"{REACH_FIELD}[{index}]"
        checked_keys(place, value, _REACH_KEYS)
        key = (
            checked_member(f"{place}.figures", value["figures"], Figures),
            checked_member(f"{place}.novelty", value["novelty"], Novelty),
        )
        if key in reach:
            raise InvalidInputError.single(place, f"{key[0]} with {key[1]} is listed twice")
        reach[key] = checked_number(f"{place}.deviations", value["deviations"], 0.0, _LARGEST_REACH)
    return MappingProxyType(reach)
