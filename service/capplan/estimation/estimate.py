"""What the estimator answers for a replica at a load: figures, where they come from, what limits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.replica import Replica
from capplan.estimation.steady_state import Request, prefill_mix, steady_state, step_load
from capplan.estimation.step import group_times
from capplan.estimation.table import Array, ReplicaTable, build_table
from capplan.modeling.costs import ModelCosts
from capplan.units import MS_PER_S


class Provenance(StrEnum):
    """Where an estimate comes from."""

    ANALYTIC = "analytic"
    CALIBRATED = "calibrated"
    INTERPOLATED = "interpolated"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimated figure with the ends of its 90 % interval, ``None`` while no interval is known."""

    value: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class StepPart:
    """One operator group's part in the mean step.

    Attributes:
        group: operator group.
        time_ms: milliseconds of the mean step.
        limited_by: ``memory_bandwidth``, ``compute``, ``interconnect`` or ``overhead``.
    """

    group: str
    time_ms: float
    limited_by: str


@dataclass(frozen=True, slots=True)
class ReplicaEstimate:
    """One replica at one load.

    Attributes:
        batch: decoding sequences.
        output_tokens_per_s: generated tokens per second.
        requests_per_s: finished requests per second.
        requests_in_flight: requests being served.
        itl_ms: mean inter-token latency.
        ttft_ms: mean time to first token at this load.
        ttft_unloaded_ms: time to first token on an idle replica.
        e2e_ms: mean end-to-end latency.
        prefill_step_share: share of the steps that carry prompt tokens.
        provenance: where the figures come from.
        bottleneck: what most of the mean step is limited by.
        parts: the mean step by operator group, longest first.
        distance: how far the nearest measurement of the same configuration is: 0 at it, 1 where what its residual
            still says has fallen to ``exp(-1/2)``; ``None`` where no such measurement is known.
        engine_versions: oldest to newest engine version of the measurements that the figures rest on, e.g.
            ``vllm 0.8.5 to 0.11.0``; empty when they rest on none.
    """

    batch: float
    output_tokens_per_s: Figure
    requests_per_s: Figure
    requests_in_flight: float
    itl_ms: Figure
    ttft_ms: Figure
    ttft_unloaded_ms: Figure
    e2e_ms: Figure
    prefill_step_share: float
    provenance: Provenance
    bottleneck: str
    parts: tuple[StepPart, ...]
    distance: float | None = None
    engine_versions: str = ""


def _mean_step_parts(table: ReplicaTable, request: Request, batch: Array) -> list[tuple[StepPart, ...]]:
    """The mean step of each replica by operator group, longest first."""
    mix = prefill_mix(table, request, batch)
    decode = np.maximum(batch / table.stages, 1.0)
    totals: dict[str, list[Array]] = {}
    for weight, prefill in ((1.0 - mix.step_share, np.zeros_like(batch)), (mix.step_share, mix.chunk)):
        for group in group_times(table, step_load(request, decode, prefill)):
            sums = totals.setdefault(group.name, [np.zeros_like(batch) for _ in range(3)])
            for index, seconds in enumerate((group.total_s, group.memory_s, group.compute_s)):
                sums[index] = sums[index] + weight * seconds
    rows = []
    for row in range(table.rows):
        parts = []
        for name, (total, memory, compute) in totals.items():
            by_rate = "memory_bandwidth" if memory[row, 0] >= compute[row, 0] else "compute"
            time_ms = float(total[row, 0]) * MS_PER_S
            if time_ms > 0:
                parts.append(StepPart(name, time_ms, _WITHOUT_ROOFLINE.get(name, by_rate)))
        rows.append(tuple(sorted(parts, key=lambda part: (-part.time_ms, part.group))))
    return rows


_WITHOUT_ROOFLINE = {"all_reduce": "interconnect", "overhead": "overhead"}


def _bottleneck(parts: Sequence[StepPart]) -> str:
    sums: dict[str, float] = {}
    for part in parts:
        sums[part.limited_by] = sums.get(part.limited_by, 0.0) + part.time_ms
    return max(sums, key=lambda name: (sums[name], name))


def provenance_of(replica: Replica, fitted: Coefficients) -> Provenance:
    """Calibrated where the fit saw both the device's generation and the engine, else analytic."""
    seen = replica.device.accelerator.architecture in fitted.generations and replica.settings.name in fitted.engines
    return Provenance.CALIBRATED if seen else Provenance.ANALYTIC


def estimate_replicas(
    model: ModelCosts,
    replicas: Sequence[Replica],
    request: Request,
    batches: Sequence[float],
    fitted: Coefficients = UNFITTED,
) -> tuple[ReplicaEstimate, ...]:
    """Estimates legal replicas of one model.

    Args:
        model: the model in its formats.
        replicas: C ways to run it.
        request: mean lengths.
        batches: decoding sequences of each replica, positive.
        fitted: coefficients of the step model.
    """
    table = build_table(model, replicas, fitted)
    batch = np.array(batches, dtype=np.float64)[:, None]
    state = steady_state(table, request, batch)
    steps = _mean_step_parts(table, request, batch)
    return tuple(
        ReplicaEstimate(
            batch=float(batch[row, 0]),
            output_tokens_per_s=Figure(float(state.output_tokens_per_s[row, 0])),
            requests_per_s=Figure(float(state.requests_per_s[row, 0])),
            requests_in_flight=float(state.requests_in_flight[row, 0]),
            itl_ms=Figure(float(state.itl_ms[row, 0])),
            ttft_ms=Figure(float(state.ttft_ms[row, 0])),
            ttft_unloaded_ms=Figure(float(state.ttft_unloaded_ms[row, 0])),
            e2e_ms=Figure(float(state.e2e_ms[row, 0])),
            prefill_step_share=float(state.prefill_step_share[row, 0]),
            provenance=provenance_of(replicas[row], fitted),
            bottleneck=_bottleneck(parts),
            parts=parts,
        )
        for row, parts in enumerate(steps)
    )
