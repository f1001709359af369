"""The smallest single changes that make an infeasible question feasible, each verified by solving again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from capplan.estimation.engine import takes_gpu_memory_utilization
from capplan.planning.candidates import Stage
from capplan.planning.placement import Relaxation
from capplan.planning.query import MigPolicy, Objective, PlacementQuery
from capplan.planning.ranking import order
from capplan.planning.solver import Solution, solve

_BISECTIONS = 12
_LIMIT_FACTOR = 1024.0
"""Step by which a limit or target is loosened while a feasible value is sought."""
_LOOSEST_MS = 1e7
"""A latency limit of hours: when even this does not help, the limit is not what is in the way."""
_RAISED_UTILIZATION = 0.95
"""Memory share that published deployments still start with."""

Change = Callable[[PlacementQuery], PlacementQuery]


def _constrain(query: PlacementQuery, **changes: object) -> PlacementQuery:
    return replace(query, constraints=replace(query.constraints, **changes))  # type: ignore[arg-type]


def _feasible(query: PlacementQuery) -> bool:
    return solve(query).sized is not None


def _rounded(value: float, whole: Callable[[float], int] = math.ceil) -> float:
    """Three significant digits, upwards unless another way to a whole number is given."""
    digits = 2 - math.floor(math.log10(value))
    return whole(value * 10.0**digits) / 10.0**digits


def _smallest(low: float, high: float, feasible: Callable[[float], bool]) -> float:
    """Smallest feasible value between an infeasible ``low`` and a feasible ``high``, bisected in the logarithm."""
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high


def _best(query: PlacementQuery) -> tuple[str, float, float] | None:
    """SKU, devices and objective value of the best answer, ``None`` when infeasible."""
    sized = solve(query).sized
    if sized is None:
        return None
    row = order(sized.candidates, sized.objective, sized.devices, sized.replicas, sized.e2e_ms)[0]
    return sized.candidates[row].item.accelerator.sku, float(sized.devices[row]), float(sized.objective[row])


def _latency_limits(query: PlacementQuery) -> Iterator[Relaxation]:
    for index, limit in enumerate(query.limits):

        def at(value: float, index: int = index) -> PlacementQuery:
            limits = list(query.limits)
            limits[index] = replace(limits[index], limit_ms=value)
            return replace(query, limits=tuple(limits))

        lowest, highest = limit.limit_ms, limit.limit_ms * _LIMIT_FACTOR
        while not _feasible(at(highest)):
            lowest, highest = highest, highest * _LIMIT_FACTOR
            if highest > _LOOSEST_MS * _LIMIT_FACTOR:
                break
        else:
            value = _rounded(_smallest(lowest, highest, lambda v, at=at: _feasible(at(v))))  # type: ignore[misc]
            metric = limit.metric.value.upper()
            yield Relaxation(
                f"latency_limits[{index}].limit_ms", f"{value:g}", f"the {metric} limit can be met from {value:g} ms on"
            )


def _context(query: PlacementQuery, context_tokens: int) -> Iterator[Relaxation]:
    shortest = math.ceil(query.workload.input_tokens + query.workload.output_tokens)

    def at(tokens: int) -> PlacementQuery:
        return replace(query, workload=replace(query.workload, max_context_tokens=tokens))

    if shortest >= context_tokens or not _feasible(at(shortest)):
        return
    low, high = shortest, context_tokens
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if _feasible(at(middle)) else (low, middle)
    yield Relaxation(
        "workload.max_context_tokens", str(low), f"requests of up to {low} tokens of context fit beside the weights"
    )


def _amounts(query: PlacementQuery) -> Iterator[Relaxation]:
    limits = query.constraints
    if limits.max_devices is not None:
        # devices without a price must stay out where the question needs one
        needs_price = query.objective is Objective.COST or limits.max_usd_per_h is not None
        supply = tuple(item for item in query.supply if item.price is not None or not needs_price)
        best = _best(replace(_constrain(query, max_devices=None), objective=Objective.DEVICES, supply=supply))
        if best is not None:
            yield Relaxation(
                "constraints.max_devices", f"{best[1]:.0f}", f"{best[1]:.0f} devices are enough, of {best[0]}"
            )
    if limits.max_usd_per_h is not None:
        best = _best(replace(_constrain(query, max_usd_per_h=None), objective=Objective.COST))
        if best is not None:
            budget = _rounded(best[2])
            yield Relaxation(
                "constraints.max_usd_per_h", f"{budget:g}", f"a budget of {budget:g} $/h is enough, with {best[0]}"
            )


def _target(query: PlacementQuery, solution: Solution) -> Iterator[Relaxation]:
    if not any(drop.stage is Stage.AMOUNT and drop.fault.shortfall for drop in solution.dropped):
        return

    def at(value: float) -> PlacementQuery:
        return replace(query, target=replace(query.target, value=value))

    if not _feasible(at(query.target.value / _LIMIT_FACTOR)):
        return
    # the largest feasible value is the smallest feasible reciprocal
    factor = _smallest(1.0, _LIMIT_FACTOR, lambda f: _feasible(at(query.target.value / f)))
    value = _rounded(query.target.value / factor, math.floor)
    field = f"target.{query.target.kind.value}"
    yield Relaxation(field, f"{value:g}", f"{value:g} {query.target.kind.value} can be served within the bounds")


def _releases(query: PlacementQuery) -> Iterator[tuple[str, str, Change]]:
    """Constraints that can be let go: field, value, change."""
    c = query.constraints
    pinned: tuple[tuple[bool, str, str, dict[str, object]], ...] = (
        (bool(c.allowed_skus), "constraints.allowed_accelerators", "", {"allowed_skus": ()}),
        (bool(c.denied_skus), "constraints.denied_accelerators", "", {"denied_skus": ()}),
        (c.mig is not MigPolicy.ALLOWED, "constraints.mig_policy", MigPolicy.ALLOWED.value, {"mig": MigPolicy.ALLOWED}),
        (bool(c.mig_profiles), "constraints.mig_profiles", "", {"mig_profiles": ()}),
        (bool(c.tensor_parallel_sizes), "constraints.tensor_parallel_sizes", "", {"tensor_parallel_sizes": ()}),
        (
            takes_gpu_memory_utilization(c.engine) and (c.engine.gpu_memory_utilization or 0.0) < _RAISED_UTILIZATION,
            "constraints.engine.gpu_memory_utilization",
            f"{_RAISED_UTILIZATION}",
            {"engine": replace(c.engine, gpu_memory_utilization=_RAISED_UTILIZATION)},
        ),
        (c.max_devices is not None, "constraints.max_devices", "", {"max_devices": None}),
        (c.max_usd_per_h is not None, "constraints.max_usd_per_h", "", {"max_usd_per_h": None}),
    )
    for applies, field, value, changes in pinned:
        if applies:
            yield field, value, lambda q, changes=changes: _constrain(q, **changes)  # type: ignore[misc]


_BY_AMOUNT = frozenset({"constraints.max_devices", "constraints.max_usd_per_h"})


def _released(query: PlacementQuery) -> Iterator[Relaxation]:
    for field, value, change in _releases(query):
        if field in _BY_AMOUNT:
            continue  # told with the amount that is enough
        best = _best(change(query))
        if best is not None:
            verb = f"set to {value}" if value else "left empty"
            yield Relaxation(field, value, f"with this {verb}, {best[1]:.0f} x {best[0]} serve the target")


def _pairs(query: PlacementQuery) -> Iterator[Relaxation]:
    for (field_a, value_a, change_a), (field_b, value_b, change_b) in combinations(_releases(query), 2):
        best = _best(change_a(change_b(query)))
        if best is not None:
            yield Relaxation(
                f"{field_a}, {field_b}",
                f"{value_a}, {value_b}",
                f"only together: with both changed, {best[1]:.0f} x {best[0]} serve the target",
            )


def relaxations(query: PlacementQuery, solution: Solution) -> tuple[Relaxation, ...]:
    """Single changes that make the question feasible; pairs of changes when no single one does.

    Args:
        query: the infeasible question.
        solution: what solving it gave.
    """
    single = (
        *_latency_limits(query),
        *_context(query, solution.context_tokens),
        *_amounts(query),
        *_target(query, solution),
        *_released(query),
    )
    return single or tuple(_pairs(query))
