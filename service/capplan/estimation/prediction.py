"""Predictions of measured rows: their figures, what limits them and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.estimate import Provenance, estimate_replicas, provenance_of
from capplan.estimation.observation import Observation, batches, predict, settle


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one observation.

    Attributes:
        value: the figure over the whole deployment, in the metric's unit.
        provenance: where it comes from.
        bottleneck: what most of the mean step is limited by at the row's load.
    """

    value: float
    provenance: Provenance
    bottleneck: str


def predict_rows(observations: Sequence[Observation], fitted: Coefficients) -> tuple[Prediction, ...]:
    """Predicts observations, in their order.

    Args:
        observations: what to predict; the measured values play no part.
        fitted: coefficients of the step model.
    """
    groups = batches(observations)
    settle(groups, fitted)
    values = predict(groups, len(observations), fitted)
    limits = _bottlenecks(observations, fitted)
    return tuple(
        Prediction(float(value), provenance_of(observation.replica, fitted), limit)
        for value, observation, limit in zip(values, observations, limits, strict=True)
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
    for asked, alike in runs.items():
        first = next(iter(alike.values()))
        estimates = estimate_replicas(
            first.model,
            [observation.replica for observation in alike.values()],
            first.request,
            [_served(observation) for observation in alike.values()],
            fitted,
        )
        found |= {(asked, run): estimate.bottleneck for run, estimate in zip(alike, estimates, strict=True)}
    return [found[key] for key in keys]


def _served(observation: Observation) -> float:
    """Requests that run at once in one replica."""
    return min(observation.in_flight, observation.ceiling)
