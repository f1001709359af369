"""From a replica's steady state to the most it can take, and from the target to how many replicas that is.

Every search runs on fixed dyadic points of log2(batch). A predicate that only gets harder therefore never finds a
larger batch, which is what makes answers monotone in limits, rates and layers to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.engine import EngineSettings
from capplan.estimation.load_curve import MAX_LOG2_BATCH, MIN_LOG2_BATCH, LoadCurve
from capplan.estimation.steady_state import PREFILL_BUDGET_LIMIT, Latencies, Request
from capplan.estimation.table import Array
from capplan.planning.query import LatencyLimit, LatencyMetric, Target, TargetKind

MIN_BATCH = 2.0**MIN_LOG2_BATCH
"""Smallest load looked at."""
_ROUNDS = 8
_POINTS = 3
# Eight rounds of 3 inner points split the range into 4^8 dyadic cells of 0.00037 octaves (0.03 % of the batch).
_CELL = (MAX_LOG2_BATCH - MIN_LOG2_BATCH) / (_POINTS + 1) ** _ROUNDS


@dataclass(frozen=True, slots=True)
class BatchCaps:
    """Upper bounds on the running batch of C candidates that hold whatever the latency limits.

    Attributes:
        batch: (C,) the bounds.
        binding: what each comes from.
    """

    batch: NDArray[np.float64]
    binding: tuple[str, ...]


_CAPS = ("kv_capacity", "max_num_seqs", "prefill_saturation")


def batch_caps(
    settings: Sequence[EngineSettings], concurrent_requests: NDArray[np.float64], request: Request
) -> BatchCaps:
    """The tightest of: sequences per step, KV pool at the mean live length, and the token budget that prompts need.

    Args:
        settings: engine settings of C candidates.
        concurrent_requests: (C,) requests of mean live length that the pool of a rank holds.
        request: mean lengths.
    """
    tokens = np.array([float(one.max_num_batched_tokens) for one in settings])
    budget = PREFILL_BUDGET_LIMIT * tokens * request.output_tokens / request.prefill_tokens
    caps = np.stack([concurrent_requests, np.array([float(one.max_num_seqs) for one in settings]), budget])
    # of equal ones the first, by name
    tightest = caps.argmin(axis=0).tolist()
    return BatchCaps(caps.min(axis=0), tuple(_CAPS[cap] for cap in tightest))


def limit_values(mean: Latencies, metric: LatencyMetric) -> Array:
    """The mean latency a limit is about, (C, B) milliseconds."""
    return {LatencyMetric.TTFT: mean.ttft_ms, LatencyMetric.ITL: mean.itl_ms, LatencyMetric.E2E: mean.e2e_ms}[metric]


def _largest(rows: int, holds: Callable[[Array], NDArray[np.bool_]]) -> Array:
    """Largest dyadic log2(batch), (rows, 1), at which a predicate that holds up to some batch still holds."""
    low = np.full((rows, 1), float(MIN_LOG2_BATCH))
    width = float(MAX_LOG2_BATCH - MIN_LOG2_BATCH)
    fractions = np.arange(1, _POINTS + 1)[None, :] / (_POINTS + 1)
    for _ in range(_ROUNDS):
        # a predicate that fails once must not hold again further on
        good = np.logical_and.accumulate(holds(low + width * fractions), axis=1)
        width /= _POINTS + 1
        low = low + width * good.sum(axis=1, keepdims=True)
    return low


@dataclass(frozen=True, slots=True)
class Capacity:
    """Highest load of C candidates at which everything asked holds.

    Attributes:
        batch: (C,) running sequences; 0 where a limit fails even on an idle replica.
        binding: what kept each batch from growing.
        floor: (C, L) value of every limit's metric on an all but idle replica, milliseconds.
    """

    batch: NDArray[np.float64]
    binding: tuple[str, ...]
    floor: NDArray[np.float64]


def capacities(curve: LoadCurve, caps: BatchCaps, limits: Sequence[LatencyLimit]) -> Capacity:
    """Finds the highest load of every candidate.

    Args:
        curve: latencies of the C candidates over their load, up to the highest cap at least.
        caps: upper bounds of their batch that hold whatever the limits.
        limits: latency limits, all of which hold.
    """
    batch, binding = caps.batch.copy(), list(caps.binding)
    floor = np.zeros((len(batch), len(limits)))
    if limits:
        idle = curve.latencies_at(np.full((len(batch), 1), MIN_BATCH))
        floor = np.hstack([limit_values(idle, limit.metric) for limit in limits])
        # where all holds at the first cell's end not below the cap, the search would end there or beyond
        beyond = MIN_LOG2_BATCH + np.ceil((np.log2(batch) - MIN_LOG2_BATCH) / _CELL) * _CELL
        held = _all_hold(curve, np.exp2(beyond[:, None]), limits)[:, 0] & (beyond < MAX_LOG2_BATCH)
        limited = np.flatnonzero(~held)
        part = curve.take(limited)
        reached = np.exp2(_largest(len(limited), lambda log2: _all_hold(part, np.exp2(log2), limits))[:, 0])
        reached[(floor[limited] > np.array([limit.limit_ms for limit in limits])).any(axis=1)] = 0.0
        # the limit with the least slack is the one in the way
        mean = part.latencies_at(np.maximum(reached, MIN_BATCH)[:, None])
        tightest = np.hstack([limit_values(mean, limit.metric) / limit.limit_ms for limit in limits]).argmax(axis=1)
        for row, most, limit in zip(limited.tolist(), reached.tolist(), tightest.tolist(), strict=True):
            if most < batch[row]:
                batch[row] = most
                binding[row] = f"{limits[limit].metric.value}_limit"
    return Capacity(batch=batch, binding=tuple(binding), floor=floor)


def _all_hold(curve: LoadCurve, batch: Array, limits: Sequence[LatencyLimit]) -> NDArray[np.bool_]:
    mean = curve.latencies_at(batch)
    held = np.ones(batch.shape, dtype=np.bool_)
    for limit in limits:
        held &= limit_values(mean, limit.metric) <= limit.limit_ms
    return held


def target_requests_per_s(target: Target, request: Request) -> float | None:
    """The target as requests per second; ``None`` for concurrent users, who are no rate."""
    match target.kind:
        case TargetKind.OUTPUT_TOKENS_PER_S:
            return target.value / request.output_tokens
        case TargetKind.REQUESTS_PER_S:
            return target.value
        case TargetKind.CONCURRENT_USERS:
            return None


def replicas_needed(
    target: Target,
    headroom_share: float,
    request: Request,
    capacity: NDArray[np.float64],
    batch: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Replicas of each candidate that take the target with headroom, (C,); whole numbers.

    Args:
        target: load to serve.
        headroom_share: capacity kept free.
        request: mean lengths.
        capacity: (C,) requests per second of one replica at its highest load.
        batch: (C,) running sequences of one replica at its highest load; each serves one concurrent user.
    """
    rate = target_requests_per_s(target, request)
    asked, per_replica = (target.value, batch) if rate is None else (rate, capacity)
    # a relative 1e-9 keeps a target that divides evenly from costing one more replica to rounding
    return np.maximum(1.0, np.ceil(asked * (1.0 + headroom_share) / per_replica * (1.0 - 1e-9)))


def operating_batch(
    curve: LoadCurve, target: Target, replicas: NDArray[np.float64], ceiling: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Running sequences of each replica when the target is divided evenly, (C,); at most ``ceiling``."""
    rate = target_requests_per_s(target, curve.request)
    if rate is None:
        return np.minimum(target.value / replicas, ceiling)
    wanted = (rate / replicas)[:, None]
    found = _largest(len(replicas), lambda log2: curve.requests_per_s_at(np.exp2(log2)) <= wanted)
    return np.minimum(np.exp2(found[:, 0]), ceiling)
