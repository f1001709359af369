"""Evaluates every configuration against a question: what meets it with which amounts, and what was dropped and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.errors import FieldViolation, InvalidInputError
from capplan.estimation.legality import Fault
from capplan.estimation.load_curve import LoadCurve, curve_of
from capplan.estimation.steady_state import Request
from capplan.estimation.table import ReplicaTable, build_table
from capplan.planning.candidates import (
    Candidate,
    Dropped,
    Stage,
    asked_context_tokens,
    enumerate_candidates,
    refuse_without_output,
)
from capplan.planning.query import LatencyLimit, Objective, PlacementQuery
from capplan.planning.ranking import Packing, Values, objective_values, packing, serving_power_w
from capplan.planning.sizing import (
    MIN_BATCH,
    Capacity,
    batch_caps,
    capacities,
    operating_batch,
    replicas_needed,
)


@dataclass(frozen=True, slots=True)
class Sized:
    """Candidates that meet every limit, with their amounts; arrays are (C,).

    Attributes:
        candidates: what starts and meets the limits.
        rows: their positions in the solution's table and curve.
        batch: highest running batch of a replica.
        binding: what kept it from growing.
        requests_per_s: capacity of one replica.
        replicas: replicas planned.
        devices: physical devices planned.
        operating: running batch at the target.
        e2e_ms: mean end-to-end latency at the target, of a replica that runs at least one request.
        objective: what the ranking compares.
    """

    candidates: tuple[Candidate, ...]
    rows: NDArray[np.int64]
    batch: Values
    binding: tuple[str, ...]
    requests_per_s: Values
    replicas: Values
    devices: Values
    operating: Values
    e2e_ms: Values
    objective: Values


@dataclass(frozen=True, slots=True)
class Solution:
    """Everything a question leads to before it is reported: what fits and what was dropped.

    Attributes:
        request: mean lengths.
        context_tokens: context every replica is started with.
        sized: what meets the question; ``None`` when nothing does.
        dropped: what does not, with the reason.
        evaluated: configurations looked at.
        table: everything that starts, packed; ``None`` when nothing does.
        curve: latency over load of everything that starts.
    """

    request: Request
    context_tokens: int
    sized: Sized | None
    dropped: tuple[Dropped, ...]
    evaluated: int
    table: ReplicaTable | None = None
    curve: LoadCurve | None = None


def _latency_drops(
    candidates: Sequence[Candidate], capacity: Capacity, limits: Sequence[LatencyLimit]
) -> list[Dropped]:
    drops = []
    for row, candidate in enumerate(candidates):
        if capacity.batch[row] >= MIN_BATCH:
            continue
        missed = [
            (float(capacity.floor[row, i]) / limit.limit_ms, limit, float(capacity.floor[row, i]))
            for i, limit in enumerate(limits)
            if capacity.floor[row, i] > limit.limit_ms
        ]
        if missed:
            ratio, limit, floor = max(missed, key=lambda m: m[0])
            fault = Fault(
                f"{limit.metric.value.upper()}_LIMIT",
                f"{limit.metric.value.upper()} is {floor:.4g} ms even on an all but idle replica, the limit is "
                f"{limit.limit_ms:.4g} ms",
                limit.limit_ms - floor,
                "ms",
            )
            drops.append(Dropped(candidate.item, candidate.configuration, fault, Stage.LATENCY, ratio))
        else:
            fault = Fault(
                "PREFILL_SATURATED",
                "the prompts of even one request at a time exceed the token budget of the steps that answer it",
            )
            drops.append(Dropped(candidate.item, candidate.configuration, fault, Stage.LATENCY, np.inf))
    return drops


def _grow_for_latency(
    query: PlacementQuery, candidates: Sequence[Candidate], pack: Packing, needed: Values, idle_batch: Values
) -> Values:
    """Under the latency objective: as many replicas as the bounds allow, at most one running sequence each."""
    bound = np.full(len(candidates), np.inf)
    if query.constraints.max_devices is not None:
        bound = np.minimum(bound, query.constraints.max_devices)
    if query.constraints.max_usd_per_h is not None:
        unit = np.array([c.item.price.usd_per_h if c.item.price else np.inf for c in candidates])
        bound = np.minimum(bound, np.floor(query.constraints.max_usd_per_h / unit * (1 + 1e-12)))
    affordable = np.where(np.isinf(bound), np.inf, pack.replicas(np.where(np.isinf(bound), 0.0, bound)))
    return np.maximum(needed, np.minimum(affordable, idle_batch))


def _amount_fault(query: PlacementQuery, candidate: Candidate, devices: float) -> tuple[Fault, float] | None:
    limits, price = query.constraints, candidate.item.price
    if price is None and (query.objective is Objective.COST or limits.max_usd_per_h is not None):
        return Fault("NO_PRICE", "the catalogue has no price under the asked term"), 0.0
    if query.objective is Objective.ENERGY and serving_power_w(candidate.item.accelerator) is None:
        return Fault("POWER_UNKNOWN", "the board power is not in the catalogue"), 0.0
    if limits.max_devices is not None and devices > limits.max_devices:
        short = limits.max_devices - devices
        text = f"the target takes {devices:.0f} devices, at most {limits.max_devices} are allowed"
        return Fault("TOO_MANY_DEVICES", text, short, "devices"), devices / limits.max_devices
    if limits.max_usd_per_h is not None and price is not None:
        cost = devices * price.usd_per_h
        if cost > limits.max_usd_per_h * (1 + 1e-12):
            text = f"the target costs {cost:.2f} $/h, the budget is {limits.max_usd_per_h:.2f} $/h"
            return Fault("OVER_BUDGET", text, limits.max_usd_per_h - cost, "usd_per_h"), cost / limits.max_usd_per_h
    return None


def _refuse_unknown_profiles(query: PlacementQuery) -> None:
    known = {profile.name for item in query.supply if item.mig_board for profile in item.mig_board.profiles}
    unknown = [
        FieldViolation(
            f"constraints.mig_profiles[{index}]",
            f"no board has a profile {name!r}; accepted: {', '.join(sorted(known)) or 'none, no device has MIG'}",
        )
        for index, name in enumerate(query.constraints.mig_profiles)
        if name not in known
    ]
    if unknown:
        raise InvalidInputError(unknown)


def solve(query: PlacementQuery) -> Solution:
    """Evaluates every configuration of every supplied device.

    Raises:
        InvalidInputError: the engine, the asked context or a slice profile is not possible whatever the device.
        UnsupportedModelError: the model generates no tokens.
    """
    refuse_without_output(query.model)
    _refuse_unknown_profiles(query)
    request = query.workload.request
    context = asked_context_tokens(query.model, query.workload.max_context_tokens, request)
    started, dropped = enumerate_candidates(query, request, context)
    candidates = started.candidates
    evaluated = len(candidates) + sum(1 for d in dropped if d.stage >= Stage.SPLIT)
    if not candidates:
        return Solution(request, context, None, tuple(dropped), evaluated)
    replicas = [candidate.replica for candidate in candidates]
    caps = batch_caps([replica.settings for replica in replicas], started.concurrent_requests, request)
    table = build_table(query.model, started.groups, query.coefficients)
    curves = curve_of(query.model, replicas, table, request, query.coefficients, float(caps.batch.max()))
    capacity = capacities(curves, caps, query.limits)
    dropped += _latency_drops(candidates, capacity, query.limits)
    rows = np.flatnonzero(capacity.batch >= MIN_BATCH)
    sized = _sized(query, candidates, rows, capacity, curves.take(rows)) if len(rows) else None
    return _within_amounts(query, Solution(request, context, sized, tuple(dropped), evaluated, table, curves))


def _sized(
    query: PlacementQuery,
    started: Sequence[Candidate],
    rows: NDArray[np.int64],
    capacity: Capacity,
    curve: LoadCurve,
) -> Sized:
    """Amounts of the candidates at the given rows, which meet every limit up to a capacity; the curve is theirs."""
    candidates = tuple(started[row] for row in rows)
    batch, request = capacity.batch[rows], curve.request
    binding = tuple(capacity.binding[row] for row in rows)
    rates = curve.requests_per_s_at(batch[:, None])[:, 0]
    pack = packing(candidates)
    headroom = query.constraints.headroom_share
    replicas = replicas_needed(query.target, headroom, request, rates, batch)
    if query.objective is Objective.LATENCY:
        one = np.ones(len(candidates))
        single = curve.requests_per_s_at(one[:, None])[:, 0]
        idle = replicas_needed(query.target, headroom, request, single, one)
        replicas = _grow_for_latency(query, candidates, pack, replicas, idle)
    devices = pack.devices(replicas)
    operating = operating_batch(curve, query.target, replicas, batch)
    # compared at one running request or more: below that a replica only idles in between
    e2e = curve.at(np.maximum(operating, 1.0)[:, None]).e2e_ms[:, 0]
    objective = objective_values(query.objective, candidates, devices, e2e)
    return Sized(candidates, rows, batch, binding, rates, replicas, devices, operating, e2e, objective)


def _within_amounts(query: PlacementQuery, solution: Solution) -> Solution:
    sized = solution.sized
    if sized is None:
        return solution
    keep, drops = [], []
    for row, candidate in enumerate(sized.candidates):
        fault = _amount_fault(query, candidate, float(sized.devices[row]))
        if fault is None:
            keep.append(row)
        else:
            drops.append(Dropped(candidate.item, candidate.configuration, fault[0], Stage.AMOUNT, fault[1]))
    if not drops:
        return solution
    kept = Sized(
        tuple(sized.candidates[i] for i in keep),
        sized.rows[keep],
        sized.batch[keep],
        tuple(sized.binding[i] for i in keep),
        sized.requests_per_s[keep],
        sized.replicas[keep],
        sized.devices[keep],
        sized.operating[keep],
        sized.e2e_ms[keep],
        sized.objective[keep],
    )
    return replace(solution, sized=kept if keep else None, dropped=(*solution.dropped, *drops))
