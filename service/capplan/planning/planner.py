"""The planner: question in, ranked placements and reasons out. A pure function."""

from __future__ import annotations

import numpy as np

from capplan.estimation.estimate import ReplicaEstimate, estimates_at
from capplan.planning.candidates import Dropped
from capplan.planning.explanation import assumptions, explain
from capplan.planning.mig_layout import lay_out
from capplan.planning.placement import Placement, Plan, Rejection
from capplan.planning.query import PlacementQuery
from capplan.planning.ranking import order, serving_power_w
from capplan.planning.relaxation import relaxations
from capplan.planning.sizing import MIN_BATCH, target_requests_per_s
from capplan.planning.solver import Sized, Solution, solve


def best_rows(sized: Sized) -> list[int]:
    """Rows best first, one per accelerator and slice profile."""
    seen, rows = set(), []
    for row in order(sized.candidates, sized.objective, sized.devices, sized.replicas, sized.e2e_ms):
        device = sized.candidates[row].replica.device
        key = (device.accelerator.sku, device.profile.profile_id if device.profile else None)
        if key not in seen:
            seen.add(key)
            rows.append(row)
    return rows


def _placements(query: PlacementQuery, solution: Solution, rows: list[int]) -> tuple[Placement, ...]:
    sized, table, curve = solution.sized, solution.table, solution.curve
    assert sized is not None
    assert table is not None
    assert curve is not None
    chosen = sized.rows[rows]
    loads = np.stack([sized.batch[rows], np.maximum(sized.operating[rows], MIN_BATCH)], axis=1)
    replicas = [sized.candidates[row].replica for row in rows]
    pairs = estimates_at(query.model, table.take(chosen), curve.take(chosen), replicas, loads, query.coefficients)
    return tuple(
        _placement(query, solution, row, capacity, point) for row, (capacity, point) in zip(rows, pairs, strict=True)
    )


def _placement(
    query: PlacementQuery, solution: Solution, row: int, capacity: ReplicaEstimate, operating: ReplicaEstimate
) -> Placement:
    sized = solution.sized
    assert sized is not None
    candidate = sized.candidates[row]
    device = candidate.replica.device
    replicas, devices = int(sized.replicas[row]), int(sized.devices[row])
    rate = target_requests_per_s(query.target, solution.request)
    if rate is None:
        rate = operating.requests_per_s.value * replicas
        utilization = query.target.value / (float(sized.batch[row]) * replicas)
    else:
        utilization = rate / (float(sized.requests_per_s[row]) * replicas)
    price = candidate.item.price
    cost = devices * price.usd_per_h if price else None
    power = serving_power_w(device.accelerator)
    plan = lay_out(device.board, device.profile, replicas) if device.board and device.profile else None
    tokens_per_h = rate * solution.request.output_tokens * 3600.0
    placement = Placement(
        accelerator=device.accelerator,
        device_count=devices,
        replica_count=replicas,
        parallelism=candidate.replica.parallelism,
        mig_plan=plan,
        settings=candidate.replica.settings,
        context_tokens=solution.context_tokens,
        memory=candidate.memory,
        capacity=capacity,
        operating_point=operating,
        utilization=utilization,
        binding_constraint=sized.binding[row],
        price=price,
        cost_usd_per_h=cost,
        cost_usd_per_million_output_tokens=None if cost is None else cost / tokens_per_h * 1e6,
        power_w=None if power is None else power * devices,
        objective_value=float(sized.objective[row]),
        explanation=(),
    )
    return explain(query, placement)


def _rejections(solution: Solution) -> tuple[Rejection, ...]:
    placed = {c.item.accelerator.sku for c in solution.sized.candidates} if solution.sized else set()
    closest: dict[str, Dropped] = {}
    for drop in solution.dropped:
        sku = drop.item.accelerator.sku
        best = closest.get(sku)
        if best is None or (-drop.stage, drop.distance) < (-best.stage, best.distance):
            closest[sku] = drop

    return tuple(
        Rejection(drop.item.accelerator, drop.configuration, drop.fault)
        for sku, drop in sorted(closest.items())
        if sku not in placed
    )


def plan(query: PlacementQuery) -> Plan:
    """Answers a placement question.

    Raises:
        InvalidInputError: the question contradicts itself or the model (context, engine version).
    """
    solution = solve(query)
    placements: tuple[Placement, ...] = ()
    if solution.sized is not None:
        rows = best_rows(solution.sized)[: query.max_placements]
        placements = _placements(query, solution, rows)
    return Plan(
        placements=placements,
        rejections=_rejections(solution),
        relaxations=() if placements else relaxations(query, solution),
        assumptions=assumptions(query, solution.context_tokens),
        evaluated_candidates=solution.evaluated,
    )
