"""Enumerates ways to use each device and drops, with a reason, those that would not start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.estimation.footprint import RankFootprint, rank_footprint
from capplan.estimation.legality import Fault, format_faults, memory_faults, model_formats, split_faults
from capplan.estimation.memory import MemoryBreakdown, RankDemand, place_demand, rank_demand
from capplan.estimation.pools import Pools
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.replica_groups import ReplicaGroups
from capplan.estimation.steady_state import Request
from capplan.modeling.costs import ModelCosts
from capplan.planning.configurations import Configurations, Stage, Ways, describe
from capplan.planning.query import Constraints, PlacementQuery, SupplyItem

__all__ = [
    "Candidate",
    "Dropped",
    "Stage",
    "Started",
    "asked_context_tokens",
    "describe",
    "enumerate_candidates",
    "refuse_without_output",
]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A configuration that was ruled out.

    Attributes:
        item: the device.
        configuration: the way of using it.
        reason: why, or what tells it: a plan gives the reason of one configuration of a device, out of many.
        stage: how far it came.
        distance: relative size of the miss, to tell which configuration came closest.
    """

    item: SupplyItem
    configuration: str
    reason: Fault | Callable[[], Fault]
    stage: Stage
    distance: float = 0.0

    @property
    def fault(self) -> Fault:
        """Why it was ruled out."""
        return self.reason if isinstance(self.reason, Fault) else self.reason()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that starts.

    Attributes:
        item: the device with its price.
        replica: how one replica runs.
        demand: what a rank of it asks of its device.
    """

    item: SupplyItem
    replica: Replica
    demand: RankDemand

    @property
    def memory(self) -> MemoryBreakdown:
        """Memory of one rank."""
        replica = self.replica
        return place_demand(self.demand, replica.device, replica.settings, peers=replica.parallelism.devices > 1)

    @property
    def configuration(self) -> str:
        """The way of using the device, in words."""
        return describe(self.replica.device, self.replica.parallelism)


def refuse_without_output(model: ModelCosts) -> None:
    """Refuses models that generate nothing: their work is samples, not tokens, and is not planned yet.

    Raises:
        UnsupportedModelError: the model is an encoder, or an embedding or reward model.
    """
    if not model.generates_tokens:
        raise UnsupportedModelError.single(
            "model",
            f"{model.model} has no language-model head, so it generates no output tokens; encoders, embedding and "
            "reward models are not planned yet, describe-model sizes them",
        )


def asked_context_tokens(model: ModelCosts, asked: int | None, request: Request) -> int:
    """Context every replica must hold for one request.

    Raises:
        InvalidInputError: the asked context exceeds the model's, is shorter than the mean request, or is not given for
            a model whose config does not say its own.
    """
    mean = int(request.input_tokens + request.output_tokens)
    limit = model.max_context_tokens
    if asked is None:
        if limit is None:
            raise InvalidInputError.single(
                "workload.max_context_tokens", "the model's config does not state its context length; give one"
            )
        asked = limit
    if limit is not None and asked > limit:
        raise InvalidInputError.single(
            "workload.max_context_tokens", f"{asked} exceeds the model's context of {limit} tokens"
        )
    if asked < mean:
        raise InvalidInputError.single(
            "workload.input_tokens",
            f"a mean request of {mean} tokens (input_tokens + output_tokens) exceeds the context of {asked} tokens",
        )
    return asked


def _excluded(item: SupplyItem, constraints: Constraints) -> Fault | None:
    sku = item.accelerator.sku
    if constraints.allowed_skus and sku not in constraints.allowed_skus:
        return Fault("NOT_ALLOWED", "not among the allowed accelerators")
    if sku in constraints.denied_skus:
        return Fault("DENIED", "among the denied accelerators")
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Started:
    """C configurations that start; arrays are (C,).

    Attributes:
        candidates: the configurations.
        groups: the same in groups of the step model.
        concurrent_requests: requests of mean live length that the pool of a rank holds.
    """

    candidates: tuple[Candidate, ...]
    groups: ReplicaGroups
    concurrent_requests: NDArray[np.float64]


def _demands(query: PlacementQuery, ways: Ways, request: Request, context_tokens: int) -> list[RankDemand | Fault]:
    """What a rank of the asked model demands in each of the ways that differ, or why the model does not split so."""
    footprints: dict[int, RankFootprint | Fault] = {}
    demands: list[RankDemand | Fault] = []
    for size, settings in ways.asked:
        footprint = footprints.get(size)
        if footprint is None:
            faults = split_faults(query.model, Parallelism(tensor_parallel=size))
            footprint = footprints[size] = faults[0] if faults else rank_footprint(query.model, size)
        if isinstance(footprint, Fault):
            demands.append(footprint)
        else:
            live_tokens = request.admitted_tokens(settings.memory)
            demands.append(rank_demand(footprint, settings, context_tokens=context_tokens, live_tokens=live_tokens))
    return demands


def _pools(ways: Ways, demands: Sequence[RankDemand | Fault]) -> Pools:
    """Pools of the ways, of which those that the model does not split in do not start."""
    splits = np.array([isinstance(demand, RankDemand) for demand in demands], dtype=np.bool_)
    known = [demand for demand in demands if isinstance(demand, RankDemand)]
    count = len(ways.replicas)
    starts, short, concurrent = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.int64), np.zeros(count)
    if known:
        which = np.maximum(np.cumsum(splits) - 1, 0)[ways.asks]
        for rows, ranks in ways.ranks:
            pools = ranks.pools(known, which[rows])
            starts[rows], short[rows] = pools.starts & splits[ways.asks[rows]], pools.short_bytes
            concurrent[rows] = pools.concurrent_requests
    return Pools(starts, short, concurrent)


def enumerate_candidates(query: PlacementQuery, request: Request, context_tokens: int) -> tuple[Started, list[Dropped]]:
    """Every configuration of every supplied device that starts, and every one that does not with its reason.

    Raises:
        InvalidInputError: the engine or its version is not modelled.
    """
    constraints, formats = query.constraints, model_formats(query.model)
    configurations = Configurations(constraints, context_tokens)
    usable: list[int] = []
    # by position in the supply, then among the ways of its device
    dropped: list[tuple[int, int, Dropped]] = []
    for position, item in enumerate(query.supply):
        excluded = _excluded(item, constraints)
        unsupported = () if excluded else format_faults(formats, item.accelerator, constraints.engine)
        if excluded:
            dropped.append((position, 0, Dropped(item, "", excluded, Stage.EXCLUDED)))
        elif unsupported:
            dropped.append((position, 0, Dropped(item, "", unsupported[0], Stage.UNSUPPORTED)))
        else:
            usable.append(position)
    ways = configurations.of_all([query.supply[position] for position in usable])
    for place, device, way in ways.refused:
        position = usable[device]
        drop = Dropped(query.supply[position], way.configuration, way.fault, way.stage)
        dropped.append((position, place, drop))
    demands = _demands(query, ways, request, context_tokens)
    pools = _pools(ways, demands)
    device, place, asks = ways.device.tolist(), ways.place.tolist(), ways.asks.tolist()
    candidates = []
    for row, (starts, short) in enumerate(zip(pools.starts.tolist(), pools.short_bytes.tolist(), strict=True)):
        position, demand, replica = usable[device[row]], demands[asks[row]], ways.replicas[row]
        item = query.supply[position]
        if isinstance(demand, Fault):
            drop = Dropped(item, describe(replica.device, replica.parallelism), demand, Stage.SPLIT)
            dropped.append((position, place[row], drop))
            continue
        candidate = Candidate(item, replica, demand)
        if starts:
            candidates.append(candidate)
            continue
        told, distance = partial(_memory_fault, candidate), short / replica.device.memory_bytes
        drop = Dropped(item, candidate.configuration, told, Stage.MEMORY, distance)
        dropped.append((position, place[row], drop))
    dropped.sort(key=lambda placed: placed[:2])
    rows = np.flatnonzero(pools.starts)
    started = Started(tuple(candidates), ways.groups.take(rows), pools.concurrent_requests[rows])
    return started, [drop for _, _, drop in dropped]


def _memory_fault(candidate: Candidate) -> Fault:
    """Why a rank does not start."""
    return memory_faults(candidate.memory, candidate.demand.context_tokens)[0]
