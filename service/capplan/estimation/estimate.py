"""What the estimator answers for a replica at a load: figures, where they come from, what limits them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.confidence import Confidence, confidences
from capplan.estimation.corrections import Nearness
from capplan.estimation.load_curve import LoadCurve, curve_of
from capplan.estimation.replica import Replica
from capplan.estimation.steady_state import Request, SteadyState, prefill_mix, step_load
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

    def times(self, count: int) -> Figure:
        """The figure of so many replicas that all run alike, whose errors are the same error."""
        lower, upper = self.lower, self.upper
        return Figure(
            self.value * count, None if lower is None else lower * count, None if upper is None else upper * count
        )


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
        parts: the mean step by operator group, longest first, as the step model has it before corrections.
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


def _mean_step_parts(table: ReplicaTable, request: Request, batch: Array) -> list[list[tuple[StepPart, ...]]]:
    """The mean step of each replica at each load by operator group, longest first, before corrections."""
    mix = prefill_mix(table, request, batch)
    decode = np.maximum(batch / table.stages, 1.0)
    totals: dict[str, list[Array]] = {}
    for weight, prefill in ((1.0 - mix.step_share, np.zeros_like(batch)), (mix.step_share, mix.chunk)):
        for group in group_times(table, step_load(request, decode, prefill)):
            sums = totals.setdefault(group.name, [np.zeros_like(batch) for _ in range(3)])
            for index, seconds in enumerate((group.total_s, group.memory_s, group.compute_s)):
                sums[index] = sums[index] + weight * seconds
    limits = {
        name: [[_WITHOUT_ROOFLINE.get(name) or by_rate for by_rate in row] for row in _by_rate(memory, compute)]
        for name, (_, memory, compute) in totals.items()
    }
    times_ms = {name: (total * MS_PER_S).tolist() for name, (total, _, _) in totals.items()}
    return [
        [
            tuple(
                sorted(
                    (
                        StepPart(name, times[row][load], limits[name][row][load])
                        for name, times in times_ms.items()
                        if times[row][load] > 0
                    ),
                    key=lambda part: (-part.time_ms, part.group),
                )
            )
            for load in range(batch.shape[1])
        ]
        for row in range(table.rows)
    ]


def _by_rate(memory_s: Array, compute_s: Array) -> list[list[str]]:
    """Which of the two rates holds a group back, (C, B)."""
    names: list[list[str]] = np.where(memory_s >= compute_s, "memory_bandwidth", "compute").tolist()
    return names


_WITHOUT_ROOFLINE = {"all_reduce": "interconnect", "overhead": "overhead"}


def _bottleneck(parts: Sequence[StepPart]) -> str:
    sums: dict[str, float] = {}
    for part in parts:
        sums[part.limited_by] = sums.get(part.limited_by, 0.0) + part.time_ms
    return max(sums, key=lambda name: (sums[name], name))


def provenance_of(replica: Replica, fitted: Coefficients, nearness: Nearness = Nearness.FAR) -> Provenance:
    """Where a replica's figures come from.

    Measured or interpolated where a measurement of the same configuration is near enough; else calibrated where the fit
    saw both the device's generation and the engine, else analytic.
    """
    if nearness is not Nearness.FAR:
        return Provenance.MEASURED if nearness is Nearness.MEASURED else Provenance.INTERPOLATED
    seen = replica.device.accelerator.architecture in fitted.generations and replica.settings.name in fitted.engines
    return Provenance.CALIBRATED if seen else Provenance.ANALYTIC


def estimate_replicas(
    model: ModelCosts,
    replicas: Sequence[Replica],
    request: Request,
    batches: Sequence[float],
    fitted: Coefficients = UNFITTED,
) -> tuple[ReplicaEstimate, ...]:
    """Estimates legal replicas of one model, from the same curves that plans are made on.

    The parts of the mean step are the step model's own, before corrections.

    Args:
        model: the model in its formats.
        replicas: C ways to run it.
        request: mean lengths.
        batches: decoding sequences of each replica, positive.
        fitted: coefficients of the step model.
    """
    table = build_table(model, replicas, fitted)
    curve = curve_of(model, replicas, table, request, fitted, max(batches))
    batch = np.array(batches, dtype=np.float64)[:, None]
    return tuple(estimate for (estimate,) in estimates_at(model, table, curve, replicas, batch, fitted))


def estimates_at(
    model: ModelCosts,
    table: ReplicaTable,
    curve: LoadCurve,
    replicas: Sequence[Replica],
    batch: Array,
    fitted: Coefficients,
) -> list[list[ReplicaEstimate]]:
    """Estimates of replicas whose curves are known, by replica and load.

    Args:
        model: the model in its formats.
        table: C replicas.
        curve: their curves.
        replicas: what they are, in order.
        batch: (C, B) decoding sequences, positive.
        fitted: coefficients the table was packed with.
    """
    state = curve.at(batch)
    parts = _mean_step_parts(table, curve.request, batch)
    known = confidences(model, replicas, curve.request, batch, fitted)
    return [
        [
            _estimate(state, (row, load), replica, parts[row][load], known[row][load], curve.request, fitted)
            for load in range(batch.shape[1])
        ]
        for row, replica in enumerate(replicas)
    ]


def _estimate(
    state: SteadyState,
    at: tuple[int, int],
    replica: Replica,
    parts: tuple[StepPart, ...],
    known: Confidence,
    request: Request,
    fitted: Coefficients,
) -> ReplicaEstimate:
    per_token, first_token = known.token_log_reach, known.first_token_log_reach
    itl, ttft = within(float(state.itl_ms[at]), per_token), within(float(state.ttft_ms[at]), first_token)
    return ReplicaEstimate(
        batch=float(state.batch[at]),
        output_tokens_per_s=within(float(state.output_tokens_per_s[at]), per_token),
        requests_per_s=within(float(state.requests_per_s[at]), per_token),
        requests_in_flight=float(state.requests_in_flight[at]),
        itl_ms=itl,
        ttft_ms=ttft,
        ttft_unloaded_ms=within(float(state.ttft_unloaded_ms[at]), first_token),
        e2e_ms=_end_to_end(float(state.e2e_ms[at]), ttft, itl, request),
        prefill_step_share=float(state.prefill_step_share[at]),
        provenance=provenance_of(replica, fitted, known.nearness),
        bottleneck=_bottleneck(parts),
        parts=parts,
        distance=known.distance,
        engine_versions=known.engine_versions,
    )


def within(value: float, log_reach: float | None) -> Figure:
    """A figure with its interval, which is as wide on either side of its log; none where no reach is known."""
    if log_reach is None:
        return Figure(value)
    return Figure(value, value * math.exp(-log_reach), value * math.exp(log_reach))


def _end_to_end(value: float, ttft: Figure, itl: Figure, request: Request) -> Figure:
    """From the first token to the last: at most as long as both together can be, at least as short."""
    if ttft.lower is None or ttft.upper is None or itl.lower is None or itl.upper is None:
        return Figure(value)
    later = request.output_tokens - 1.0
    return Figure(value, ttft.lower + later * itl.lower, ttft.upper + later * itl.upper)
