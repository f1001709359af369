"""From compared measurements to measured sites: which rows correct estimates, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.kriging import Points, discounted, points
from capplan.estimation.observation import Load, Metric, Observation
from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import situation_of

RATES: Final = frozenset({Metric.OUTPUT, Metric.TOTAL, Metric.REQUESTS})
"""Figures that fall when times grow."""

_PER_GROUP: Final = 6
"""Sites of one source, model, device, engine, spread and kind of figure: more of them say little that is new."""
_NOISE: Final = {"A": 1.0, "B": 1.0}
"""Variance by trust. Rows of less trust correct nothing: single runs whose settings are half known."""
_OWN_NOISE: Final = 0.25
_LARGEST_LOG: Final = 1.5
"""A figure off by more than this factor of 4.5 is another deployment than its row says, or another figure."""


@dataclass(frozen=True, slots=True)
class Selection:
    """S sites, each from one of N observations.

    Attributes:
        sites: what was measured, sorted.
        rows: (S,) the observation of each.
    """

    sites: tuple[Site, ...]
    rows: NDArray[np.int64]


def figures_of(observation: Observation) -> Figures:
    """The errors that a figure shares: those of the first token, or those of every token."""
    return Figures.FIRST_TOKEN if observation.metric is Metric.TTFT else Figures.PER_TOKEN


def kind_of(observation: Observation) -> Kind:
    """How a figure was measured."""
    if observation.load is Load.OFFLINE:
        return Kind.OFFLINE
    if observation.load is Load.BATCH:
        return Kind.BATCH
    return Kind.RATE if observation.metric in RATES else Kind.LATENCY


def time_sign(observation: Observation) -> float:
    """1 for a figure that is a time, -1 for a rate."""
    return -1.0 if observation.metric in RATES else 1.0


def points_of_rows(observations: Sequence[Observation], running: NDArray[np.float64]) -> Points:
    """Where N observations stand among sites.

    Args:
        observations: the rows.
        running: (N,) decoding sequences of one replica.
    """
    return points(
        [situation_of(o.model, o.replica) for o in observations],
        [kind_of(o) for o in observations],
        running,
        np.array([o.request.input_tokens for o in observations]),
        np.array([o.request.output_tokens for o in observations]),
    )


def select_sites(
    observations: Sequence[Observation], log_residuals: NDArray[np.float64], running: NDArray[np.float64]
) -> Selection:
    """The sites that N compared observations make, the same whatever their order.

    Args:
        observations: what was measured.
        log_residuals: (N,) log of predicted over measured; rows without a finite one make no site.
        running: (N,) decoding sequences of one replica.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, observation in enumerate(observations):
        m = observation.measurement
        trusted = m.own or m.trust in _NOISE
        if trusted and np.isfinite(log_residuals[index]) and abs(log_residuals[index]) <= _LARGEST_LOG:
            settings = observation.replica.settings
            asked = (m.source, m.model, m.weights, m.sku, settings.name, settings.runtime)
            figure = (observation.metric, observation.load, observation.replica.parallelism)
            groups.setdefault((*asked, *figure), []).append(index)
    found = []
    for members in groups.values():
        # spread evenly over loads and lengths; own rows are all kept, as they are few and say what counts
        members.sort(key=lambda i: _load_of(observations[i]))
        steps = np.unique(np.linspace(0, len(members) - 1, min(_PER_GROUP, len(members))).round().astype(np.int64))
        chosen = {members[step] for step in steps} | {i for i in members if observations[i].measurement.own}
        found += [(_site(observations[i], float(log_residuals[i]), float(running[i])), i) for i in chosen]
    found.sort()
    sites = {row: site for site, row in found}
    for figures in Figures:
        own = [(site, row) for site, row in found if site.figures is figures]
        if own:
            weighed = discounted(figures, [site for site, _ in own])
            sites |= {row: site for (_, row), site in zip(own, weighed, strict=True)}
    return Selection(tuple(sites[row] for _, row in found), np.array([row for _, row in found], dtype=np.int64))


def _load_of(observation: Observation) -> tuple[float, float, str]:
    return observation.in_flight, observation.request.input_tokens, observation.measurement.key


def _site(observation: Observation, log_residual: float, running: float) -> Site:
    m = observation.measurement
    return Site(
        situation_of(observation.model, observation.replica),
        figures_of(observation),
        kind_of(observation),
        running,
        observation.request.input_tokens,
        observation.request.output_tokens,
        -time_sign(observation) * log_residual,
        _OWN_NOISE if m.own else _NOISE[m.trust],
        m.source,
        m.engine_version,
    )
