"""What a fleet's own measurements change, told when they are imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from sqlalchemy.orm import Session

from capplan.catalog.measurements import read_own_measurements
from capplan.catalog.observations import Named
from capplan.catalog.own_sites import compare, with_own_sites
from capplan.catalog.snapshot import load_snapshot
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.measurement import Measurement
from capplan.estimation.prediction import judged
from capplan.estimation.site_selection import time_sign


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """What estimates of one metric said before its measurements came.

    Attributes:
        figures: those that correct estimates.
        median_ratio: median of measured over estimated.
    """

    figures: int
    median_ratio: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What measurements change.

    Attributes:
        correcting: figures that correct estimates.
        idle: figures that do not, by reason; most frequent first.
        by_metric: of those that do, by metric.
    """

    correcting: int
    idle: Mapping[str, int]
    by_metric: Mapping[str, MetricEffect]


def effect_of_import(session: Session, import_id: int) -> Effect:
    """What the measurements of an import change against estimates that rest on everything else."""
    catalog = load_snapshot(session)
    landed: list[Measurement] = []
    others: list[Measurement] = []
    for record in read_own_measurements(session):
        (landed if record.import_id == import_id else others).append(record.measurement)
    return effect_of(landed, others, catalog.fitted, catalog)


def effect_of(
    landed: Sequence[Measurement], others: Sequence[Measurement], fitted: Coefficients, catalog: Named
) -> Effect:
    """What own measurements change against estimates without them.

    Args:
        landed: the measurements.
        others: the fleet's other own ones.
        fitted: coefficients with the published sites of their calibration.
        catalog: the models and accelerators that they name.
    """
    found = compare(fitted, landed, catalog)
    if not found.sites:
        return Effect(0, found.idle, MappingProxyType({}))
    before = with_own_sites(fitted, others, catalog)
    # residuals are of predicted over measured
    logs = [
        time_sign(observation) * judgement.log_factor + log
        for observation, judgement, log in zip(
            found.observations,
            judged(found.observations, found.sequences, before),
            found.log_residuals.tolist(),
            strict=True,
        )
    ]
    ratios: dict[str, list[float]] = {}
    for observation, log in zip(found.observations, logs, strict=True):
        ratios.setdefault(observation.metric.value, []).append(float(np.exp(-log)))
    by_metric = {metric: MetricEffect(len(of), float(np.median(of))) for metric, of in sorted(ratios.items())}
    return Effect(len(found.sites), found.idle, MappingProxyType(by_metric))
