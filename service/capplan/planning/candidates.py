"""Enumerates ways to use each device and drops, with a reason, those that would not start."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.estimation.engine import EngineSettings, MemoryRule
from capplan.estimation.footprint import RankFootprint, rank_footprint
from capplan.estimation.identity import Same
from capplan.estimation.legality import Fault, format_faults, memory_faults, model_formats, split_faults
from capplan.estimation.memory import MemoryBreakdown, RankDemand, place_demand, rank_demand
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import Request
from capplan.modeling.costs import ModelCosts
from capplan.planning.configurations import TENSOR_PARALLEL_SIZES, Configurations, Refused, Stage, describe
from capplan.planning.query import Constraints, PlacementQuery, SupplyItem

__all__ = [
    "Candidate",
    "Dropped",
    "Stage",
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
        fault: why.
        stage: how far it came.
        distance: relative size of the miss, to tell which configuration came closest.
    """

    item: SupplyItem
    configuration: str
    fault: Fault
    stage: Stage
    distance: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that starts.

    Attributes:
        item: the device with its price.
        replica: how one replica runs.
        memory: memory of one rank.
    """

    item: SupplyItem
    replica: Replica
    memory: MemoryBreakdown

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


class _Demands:
    """What a rank of the asked model demands, by tensor parallelism and by what of the settings it turns on."""

    def __init__(self, query: PlacementQuery, request: Request, context_tokens: int) -> None:
        self._model = query.model
        self._context_tokens = context_tokens
        self._request = request
        self._footprints: dict[int, RankFootprint] = {}
        self._demands: dict[tuple[int, Same[MemoryRule], int, int, int], RankDemand] = {}

    def of(self, size: int, settings: EngineSettings) -> RankDemand:
        # Settings of many devices differ in the memory fraction alone, or not at all. The rules are constants of the
        # engines, so that their identity tells them apart for less than their hash would.
        key = (
            size,
            Same(settings.memory),
            settings.max_num_seqs,
            settings.max_num_batched_tokens,
            settings.graph_sizes,
        )
        found = self._demands.get(key)
        if found is None:
            footprint = self._footprints.get(size)
            if footprint is None:
                footprint = self._footprints[size] = rank_footprint(self._model, size)
            found = self._demands[key] = rank_demand(
                footprint,
                settings,
                context_tokens=self._context_tokens,
                live_tokens=self._request.admitted_tokens(settings.memory),
            )
        return found


def enumerate_candidates(
    query: PlacementQuery, request: Request, context_tokens: int
) -> tuple[list[Candidate], list[Dropped]]:
    """Every configuration of every supplied device that starts, and every one that does not with its reason.

    Raises:
        InvalidInputError: the engine or its version is not modelled.
    """
    candidates: list[Candidate] = []
    dropped: list[Dropped] = []
    constraints, model = query.constraints, query.model
    sizes = {*TENSOR_PARALLEL_SIZES, *constraints.tensor_parallel_sizes}
    splits = {size: split_faults(model, Parallelism(tensor_parallel=size)) for size in sizes}
    configurations = Configurations(constraints, context_tokens)
    formats, demands = model_formats(model), _Demands(query, request, context_tokens)
    for item in query.supply:
        excluded = _excluded(item, constraints)
        if excluded is not None:
            dropped.append(Dropped(item, "", excluded, Stage.EXCLUDED))
            continue
        unsupported = format_faults(formats, item.accelerator, constraints.engine)
        if unsupported:
            dropped.append(Dropped(item, "", unsupported[0], Stage.UNSUPPORTED))
            continue
        for way in configurations.of(item):
            if isinstance(way, Refused):
                dropped.append(Dropped(item, way.configuration, way.fault, way.stage))
                continue
            device, size = way.device, way.parallelism.tensor_parallel
            if splits[size]:
                dropped.append(Dropped(item, describe(device, way.parallelism), splits[size][0], Stage.SPLIT))
                continue
            memory = place_demand(demands.of(size, way.settings), device, way.settings, peers=size > 1)
            faults = memory_faults(memory, context_tokens)
            if faults:
                distance = -faults[0].shortfall / memory.device_bytes
                dropped.append(Dropped(item, describe(device, way.parallelism), faults[0], Stage.MEMORY, distance))
                continue
            candidates.append(Candidate(item, way, memory))
    return candidates, dropped
