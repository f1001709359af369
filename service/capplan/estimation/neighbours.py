"""Measured neighbours: what nearby measurements say the model gets wrong here, and how near they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.observation import Metric, Observation

_LENGTHS = np.array([1.5, 1.5, 1.5, 1.0])
"""Octaves of requests in flight, prompt length, answer length and devices that count as one unit of distance."""

_MODEL, _GENERATION, _SKU, _ENGINE, _WEIGHTS, _SPREAD = 3.0, 3.0, 1.0, 1.5, 1.0, 1.0
"""Squared distance that another model, device generation, device, engine, weight format or spread adds."""

_CAUTION = 0.7
"""Weight of the belief that the model is right, against which neighbours' weights are set."""

_RESIDUAL_LIMIT = 1.0
"""Largest log residual a neighbour may vote with."""

_OWN_WEIGHT = 5.0
"""How much more a fleet's own row weighs than a shipped one."""

_CHUNK = 512


class Family(StrEnum):
    """Figures that share their errors."""

    PER_TOKEN = "per_token"
    FIRST_TOKEN = "first_token"
    RATE = "rate"


def family_of(metric: Metric) -> Family:
    """The family of a metric."""
    if metric in (Metric.TPOT, Metric.ITL):
        return Family.PER_TOKEN
    return Family.FIRST_TOKEN if metric is Metric.TTFT else Family.RATE


@dataclass(frozen=True, slots=True)
class Correction:
    """What neighbours say of N observations.

    Attributes:
        log_factor: (N,) log of the factor to multiply a prediction with.
        distance: (N,) distance of the nearest neighbour of the same family; infinite without any.
    """

    log_factor: NDArray[np.float64]
    distance: NDArray[np.float64]


def _numbers(observations: Sequence[Observation]) -> NDArray[np.float64]:
    rows = [
        (
            np.log2(max(o.in_flight, 0.5)),
            np.log2(o.request.input_tokens),
            np.log2(o.request.output_tokens),
            np.log2(o.replica.parallelism.devices),
        )
        for o in observations
    ]
    scaled: NDArray[np.float64] = np.array(rows).reshape(-1, len(_LENGTHS)) / _LENGTHS
    return scaled


def _words(observations: Sequence[Observation]) -> list[NDArray[np.str_]]:
    def column(values: list[str]) -> NDArray[np.str_]:
        return np.array(values, dtype=np.str_)

    spreads = [o.replica.parallelism for o in observations]
    return [
        column([o.measurement.model for o in observations]),
        column([o.accelerator.architecture for o in observations]),
        column([o.accelerator.sku for o in observations]),
        column([o.replica.settings.name for o in observations]),
        column([o.measurement.weights for o in observations]),
        column([f"{s.expert_parallel > 1}{s.attention_data_parallel > 1}" for s in spreads]),
    ]


_PENALTIES = (_MODEL, _GENERATION, _SKU, _ENGINE, _WEIGHTS, _SPREAD)


class Neighbourhood:
    """Measurements with the model's residuals on them, to be asked for corrections."""

    def __init__(self, observations: Sequence[Observation], log_residuals: NDArray[np.float64]) -> None:
        """Keeps the observations on which the model has a finite residual.

        Args:
            observations: what was measured.
            log_residuals: (N,) log of predicted over measured.
        """
        kept = [i for i, value in enumerate(log_residuals) if np.isfinite(value)]
        self.observations = tuple(observations[i] for i in kept)
        self._residuals = np.clip(log_residuals[kept], -_RESIDUAL_LIMIT, _RESIDUAL_LIMIT)
        self._numbers = _numbers(self.observations)
        self._words = _words(self.observations)
        self._families = np.array([family_of(o.metric).value for o in self.observations], dtype=np.str_)
        self._weights = np.array([_OWN_WEIGHT if o.measurement.own else 1.0 for o in self.observations])

    def correct(self, observations: Sequence[Observation], exclude: NDArray[np.bool_] | None = None) -> Correction:
        """Corrections for observations.

        Args:
            observations: N configurations to correct.
            exclude: (N, M) kept neighbours that must not be asked, e.g. the observation's own group in a
                cross-validation.
        """
        count = len(observations)
        factor, distance = np.zeros(count), np.full(count, np.inf)
        for low in range(0, count, _CHUNK):
            part = observations[low : low + _CHUNK]
            barred = None if exclude is None else exclude[low : low + _CHUNK]
            factor[low : low + _CHUNK], distance[low : low + _CHUNK] = self._correct(part, barred)
        return Correction(factor, distance)

    def _correct(
        self, observations: Sequence[Observation], barred: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if not self.observations or not observations:
            return np.zeros(len(observations)), np.full(len(observations), np.inf)
        numbers = _numbers(observations)
        squared = ((numbers[:, None, :] - self._numbers[None, :, :]) ** 2).sum(axis=2)
        for mine, theirs, penalty in zip(_words(observations), self._words, _PENALTIES, strict=True):
            squared += penalty * (mine[:, None] != theirs[None, :])
        families = np.array([family_of(o.metric).value for o in observations], dtype=np.str_)
        other = families[:, None] != self._families[None, :]
        squared[other if barred is None else other | barred] = np.inf
        weights = np.exp(-0.5 * squared) * self._weights
        pull = (weights * -self._residuals).sum(axis=1) / (weights.sum(axis=1) + _CAUTION)
        return pull, np.sqrt(squared.min(axis=1))
