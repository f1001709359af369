"""Predictions of measured rows: their figures, how sure they are, what limits them and where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.corrections import NO_CORRECTIONS, Judgement
from capplan.estimation.estimate import Provenance, estimate_replicas, provenance_of, within
from capplan.estimation.observation import Observation, batches, predict, running, settle
from capplan.estimation.site_selection import figures_of, points_of_rows, time_sign
from capplan.estimation.sites import Figures


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one observation.

    Attributes:
        value: the figure over the whole deployment, in the metric's unit.
        lower: lower end of its 90 % interval; ``None`` where none is known.
        upper: upper end.
        provenance: where it comes from.
        distance: to the nearest measurement of the same configuration, in the lengths over which residuals persist;
            ``None`` where there is none.
        bottleneck: what most of the mean step is limited by at the row's load.
    """

    value: float
    lower: float | None
    upper: float | None
    provenance: Provenance
    distance: float | None
    bottleneck: str


def predict_rows(observations: Sequence[Observation], fitted: Coefficients) -> tuple[Prediction, ...]:
    """Predicts observations, in their order.

    Args:
        observations: what to predict; the measured values play no part.
        fitted: coefficients of the step model with the measured corrections.
    """
    groups = batches(observations)
    settle(groups, fitted)
    values = predict(groups, len(observations), fitted)
    judgements = judged(observations, running(groups, len(observations)), fitted)
    limits = _bottlenecks(observations, fitted)
    return tuple(
        _prediction(float(value), observation, judgement, limit, fitted)
        for value, observation, judgement, limit in zip(values, observations, judgements, limits, strict=True)
    )


def judged(
    observations: Sequence[Observation], sequences: NDArray[np.float64], fitted: Coefficients
) -> list[Judgement]:
    """What measurements say of each observation, with its (N,) decoding sequences."""
    found: dict[int, Judgement] = {}
    for figures in Figures:
        rows = [index for index, observation in enumerate(observations) if figures_of(observation) is figures]
        if rows:
            at = points_of_rows([observations[row] for row in rows], sequences[rows])
            found |= dict(zip(rows, fitted.corrections.judge(figures, at), strict=True))
    return [found[row] for row in range(len(observations))]


def _prediction(
    uncorrected: float, observation: Observation, judgement: Judgement, bottleneck: str, fitted: Coefficients
) -> Prediction:
    figure = within(uncorrected * math.exp(time_sign(observation) * judgement.log_factor), judgement.log_reach)
    return Prediction(
        figure.value,
        figure.lower,
        figure.upper,
        provenance_of(observation.replica, fitted, judgement.nearness),
        judgement.distance if math.isfinite(judgement.distance) else None,
        bottleneck,
    )


def _bottlenecks(observations: Sequence[Observation], fitted: Coefficients) -> list[str]:
    """What limits each row, found once for rows that run alike: several figures are measured in one run."""
    runs: dict[tuple[object, ...], dict[tuple[object, ...], Observation]] = {}
    keys = []
    for observation in observations:
        replica = observation.replica
        asked: tuple[object, ...] = (id(observation.model), observation.request)
        run = (
            observation.accelerator.sku,
            replica.parallelism,
            replica.settings.name,
            replica.settings.max_num_batched_tokens,
            _served(observation),
        )
        runs.setdefault(asked, {})[run] = observation
        keys.append((asked, run))
    found: dict[tuple[object, ...], str] = {}
    # the parts of a step are those before corrections, so that none need be looked up
    uncorrected = replace(fitted, corrections=NO_CORRECTIONS)
    for asked, alike in runs.items():
        first = next(iter(alike.values()))
        estimates = estimate_replicas(
            first.model,
            [observation.replica for observation in alike.values()],
            first.request,
            [_served(observation) for observation in alike.values()],
            uncorrected,
        )
        found |= {(asked, run): estimate.bottleneck for run, estimate in zip(alike, estimates, strict=True)}
    return [found[key] for key in keys]


def _served(observation: Observation) -> float:
    """Requests that run at once in one replica."""
    return min(observation.in_flight, observation.ceiling)
