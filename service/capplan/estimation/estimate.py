"""What the estimator answers for one replica, and the interface another estimator can plug into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capplan.estimation.replica import Replica, ReplicaTable, build_table
from capplan.estimation.steady_state import Request, SteadyState, prefill_mix, steady_state
from capplan.estimation.step import StepLoad, group_times
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


def _mean_step_parts(table: ReplicaTable, request: Request, batch: float) -> tuple[StepPart, ...]:
    load = np.array([[batch]])
    mix = prefill_mix(table, request, load)
    decode = np.maximum(load, 1.0)
    share = float(mix.step_share[0, 0])
    totals: dict[str, list[float]] = {}
    for weight, prefill in ((1.0 - share, np.zeros_like(load)), (share, mix.chunk)):
        step = StepLoad(decode, prefill, request.live_tokens, request.input_tokens)
        for group in group_times(table, step):
            sums = totals.setdefault(group.name, [0.0, 0.0, 0.0])
            for index, seconds in enumerate((group.total_s, group.memory_s, group.compute_s)):
                sums[index] += weight * float(seconds[0, 0])
    parts = []
    for name, (total, memory, compute) in totals.items():
        limited_by = {"all_reduce": "interconnect", "overhead": "overhead"}.get(name)
        parts.append(
            StepPart(name, total * MS_PER_S, limited_by or ("memory_bandwidth" if memory >= compute else "compute"))
        )
    return tuple(sorted((p for p in parts if p.time_ms > 0), key=lambda p: (-p.time_ms, p.group)))


def _bottleneck(parts: Sequence[StepPart]) -> str:
    sums: dict[str, float] = {}
    for part in parts:
        sums[part.limited_by] = sums.get(part.limited_by, 0.0) + part.time_ms
    return max(sums, key=lambda name: (sums[name], name))


def estimate_replica(model: ModelCosts, replica: Replica, request: Request, batch: float) -> ReplicaEstimate:
    """Estimates one legal replica at ``batch`` decoding sequences (positive)."""
    table = build_table(model, [replica])
    state: SteadyState = steady_state(table, request, np.array([[batch]]))
    parts = _mean_step_parts(table, request, batch)

    def at(values: object) -> float:
        return float(np.asarray(values)[0, 0])

    return ReplicaEstimate(
        batch=batch,
        output_tokens_per_s=Figure(at(state.output_tokens_per_s)),
        requests_per_s=Figure(at(state.requests_per_s)),
        requests_in_flight=at(state.requests_in_flight),
        itl_ms=Figure(at(state.itl_ms)),
        ttft_ms=Figure(at(state.ttft_ms)),
        ttft_unloaded_ms=Figure(at(state.ttft_unloaded_ms)),
        e2e_ms=Figure(at(state.e2e_ms)),
        prefill_step_share=at(state.prefill_step_share),
        provenance=Provenance.ANALYTIC,
        bottleneck=_bottleneck(parts),
        parts=parts,
    )
