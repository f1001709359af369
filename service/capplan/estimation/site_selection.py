"""From compared measurements to measured sites: which rows correct estimates, and how."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.hyperparameters import HYPERPARAMETERS
from capplan.estimation.kriging import (
    Points,
    configuration_of,
    correlations,
    discounted,
    points,
    points_of,
    squared_distance,
)
from capplan.estimation.observation import (
    Load,
    Metric,
    Observation,
    batches,
    measured,
    predict,
    running,
    settle,
)
from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import situation_of

RATES: Final = frozenset({Metric.OUTPUT, Metric.TOTAL, Metric.REQUESTS})
"""Figures that fall when times grow."""

_PER_GROUP: Final = 6
"""Sites of one source, model, device, engine, spread and kind of figure: more of them say little that is new."""
_NOISE: Final = {"A": 1.0, "B": 1.0}
"""Variance by trust. Rows of less trust correct nothing: single runs whose settings are half known."""
_OWN_NOISE: Final = 0.1
"""The same of a fleet's own rows: a time per token repeats within 2 %, a time to first token within 8 %."""
_MOST_OWN: Final = 2_000
"""Own sites at most, spread evenly over what was measured: solving for more takes seconds."""
_LEAST_LEFT: Final = 1e-4
"""Share of its weight that a published site keeps at the very place of an own one."""
LARGEST_LOG: Final = 1.5
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


def compared(
    observations: Sequence[Observation], fitted: Coefficients
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N,) logs of the step model's figures over those measured, before corrections, and (N,) decoding sequences."""
    groups = batches(observations)
    # what comes of odd rows is no number, and makes no site
    with np.errstate(all="ignore"):
        settle(groups, fitted)
        logs: NDArray[np.float64] = np.log(predict(groups, len(observations), fitted) / measured(observations))
        return logs, running(groups, len(observations))


def select_sites(
    observations: Sequence[Observation], log_residuals: NDArray[np.float64], running: NDArray[np.float64]
) -> Selection:
    """The sites that N compared observations make, the same whatever their order.

    Of published rows a few of each run are taken, and those that others contradict lose weight. A fleet's own are all
    taken, up to 2,000, are believed, and take the place of published ones beside them.

    Args:
        observations: what was measured.
        log_residuals: (N,) log of predicted over measured; rows without a finite one make no site.
        running: (N,) decoding sequences of one replica.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    own: list[int] = []
    for index, observation in enumerate(observations):
        m = observation.measurement
        if not (np.isfinite(running[index]) and abs(log_residuals[index]) <= LARGEST_LOG):
            continue
        if m.own:
            own.append(index)
        elif m.trust in _NOISE:
            settings = observation.replica.settings
            asked = (m.source, m.model, m.weights, m.sku, settings.name, settings.runtime)
            figure = (observation.metric, observation.load, observation.replica.parallelism)
            groups.setdefault((*asked, *figure), []).append(index)
    chosen = _evenly(sorted(own, key=lambda i: _run_of(observations[i])), _MOST_OWN)
    for members in groups.values():
        chosen += _evenly(sorted(members, key=lambda i: _load_of(observations[i])), _PER_GROUP)
    found = sorted((_site(observations[i], float(log_residuals[i]), float(running[i])), i) for i in chosen)
    published = [(site, row) for site, row in found if not observations[row].measurement.own]
    sites = {row: site for site, row in found}
    for figures in Figures:
        alike = [(site, row) for site, row in published if site.figures is figures]
        if alike:
            weighed = discounted(figures, [site for site, _ in alike])
            sites |= {row: site for (_, row), site in zip(alike, weighed, strict=True)}
    rows = [row for _, row in published]
    yielded = yielding([sites[row] for row in rows], [sites[row] for row in own if row in sites])
    sites |= dict(zip(rows, yielded, strict=True))
    return Selection(tuple(sites[row] for _, row in found), np.array([row for _, row in found], dtype=np.int64))


def yielding(published: Sequence[Site], own: Sequence[Site]) -> tuple[Site, ...]:
    """Published sites, in order, with less weight the nearer an own one of the same configuration is.

    Where a fleet measured itself, others' figures of another installation have nothing to add. The weight falls with
    the square of what the short-ranging part of the residual does not yet say, see :mod:`capplan.estimation.kriging`.
    """
    places: dict[tuple[Figures, Hashable], list[Site]] = {}
    for site in own:
        places.setdefault((site.figures, configuration_of(site.situation)), []).append(site)
    if not places:
        return tuple(published)
    beside: dict[tuple[Figures, Hashable], list[int]] = {}
    for index, site in enumerate(published):
        place = (site.figures, configuration_of(site.situation))
        if place in places:
            beside.setdefault(place, []).append(index)
    result = list(published)
    for place, rows in beside.items():
        h = HYPERPARAMETERS[place[0]]
        octaves = points_of([published[row] for row in rows]).octaves
        _, short = correlations(squared_distance(h, octaves, points_of(places[place]).octaves))
        kept = np.maximum((1.0 - short.max(axis=1)) ** 2, _LEAST_LEFT)
        for row, share in zip(rows, kept.tolist(), strict=True):
            result[row] = replace(published[row], noise=published[row].noise / share)
    return tuple(result)


def _evenly(rows: list[int], most: int) -> list[int]:
    """At most so many of some rows, spread over all of them, the first and the last included."""
    steps = np.unique(np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(np.int64))
    return [rows[step] for step in steps]


def _run_of(observation: Observation) -> tuple[object, ...]:
    """Sorts rows so that like ones stand together."""
    m = observation.measurement
    return m.model, m.sku, m.weights, m.engine, observation.metric, observation.load, _load_of(observation)


def _load_of(observation: Observation) -> tuple[float, float, str]:
    return observation.in_flight, observation.request.input_tokens, observation.measurement.key


def _site(observation: Observation, log_residual: float, running: float) -> Site:
    m = observation.measurement
    figures = figures_of(observation)
    return Site(
        situation_of(observation.model, observation.replica),
        figures,
        kind_of(observation),
        running,
        observation.request.input_tokens,
        observation.request.output_tokens,
        -time_sign(observation) * log_residual,
        _own_noise(figures) if m.own else _NOISE[m.trust],
        m.key if m.own else m.source,
        m.engine_version,
    )


def _own_noise(figures: Figures) -> float:
    """Noise of own sites, less what the regression puts down to a source's way of measuring: below 0.

    A published residual is in part its source's, which says nothing of other installations. A fleet's own way of
    running and measuring is what its estimates are about, so that part of its residuals must be believed too. It is
    taken back here row by row, for which each own site is a source by itself; what is left of both is positive: that of
    repeating a run.
    """
    h = HYPERPARAMETERS[figures]
    return _OWN_NOISE - (h.source / h.noise) ** 2
