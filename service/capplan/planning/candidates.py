"""Enumerates ways to use each device and drops, with a reason, those that would not start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.estimation.device import RankDevice, mig_rank_device, whole_device
from capplan.estimation.engine import EngineSettings, settings_resolver
from capplan.estimation.footprint import RankFootprint, rank_footprint
from capplan.estimation.identity import Same
from capplan.estimation.legality import Fault, format_faults, link_faults, memory_faults, model_formats, split_faults
from capplan.estimation.memory import MemoryBreakdown, RankDemand, place_demand, rank_demand
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import Request
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.collectives import all_reduce_ranks_limit
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.modeling.costs import ModelCosts
from capplan.planning.query import Constraints, MigPolicy, PlacementQuery, SupplyItem

_TENSOR_PARALLEL_SIZES = (1, 2, 4, 8, 16)


class Stage(IntEnum):
    """How far a configuration came before it was dropped; later is closer to a plan."""

    EXCLUDED = 0
    UNSUPPORTED = 1
    SPLIT = 2
    MEMORY = 3
    LATENCY = 4
    AMOUNT = 5


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


def describe(device: RankDevice, parallelism: Parallelism) -> str:
    """Names a configuration."""
    return device.label if device.profile else f"tensor parallel {parallelism.tensor_parallel}"


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


def tensor_parallel_sizes(accelerator: Accelerator, constraints: Constraints) -> tuple[int, ...]:
    """Sizes to try on an accelerator: the pinned ones, or powers of two as far as devices reach each other."""
    if constraints.tensor_parallel_sizes:
        return constraints.tensor_parallel_sizes
    reach = all_reduce_ranks_limit(accelerator)
    return tuple(size for size in _TENSOR_PARALLEL_SIZES if size <= reach)


def _ways(item: SupplyItem, constraints: Constraints) -> Iterator[tuple[RankDevice, Parallelism] | Dropped]:
    if constraints.mig is not MigPolicy.REQUIRED and not constraints.mig_profiles:
        yield from _whole_devices(item, constraints)
    if constraints.mig is not MigPolicy.FORBIDDEN:
        yield from _instances(item, constraints)


def _whole_devices(item: SupplyItem, constraints: Constraints) -> Iterator[tuple[RankDevice, Parallelism] | Dropped]:
    accelerator, most = item.accelerator, constraints.max_devices
    device = whole_device(accelerator)
    if device is None:
        fault = Fault("MEMORY_UNKNOWN", f"the memory size of {accelerator.product_name} is not in the catalogue")
        yield Dropped(item, "", fault, Stage.UNSUPPORTED)
        return
    for size in tensor_parallel_sizes(accelerator, constraints):
        parallelism = _tensor_parallel(size)
        # sizes that nobody pinned are within reach
        beyond = link_faults(accelerator, parallelism) if constraints.tensor_parallel_sizes else ()
        if beyond:
            yield Dropped(item, describe(device, parallelism), beyond[0], Stage.SPLIT)
        elif most is not None and size > most:
            text = f"one replica takes {size} devices, at most {most} are allowed"
            fault = Fault("TOO_MANY_DEVICES", text, float(most - size), "devices")
            yield Dropped(item, describe(device, parallelism), fault, Stage.EXCLUDED)
        else:
            yield device, parallelism


def _instances(item: SupplyItem, constraints: Constraints) -> Iterator[tuple[RankDevice, Parallelism] | Dropped]:
    accelerator, board = item.accelerator, item.mig_board
    if board is None:
        if constraints.mig is MigPolicy.REQUIRED or constraints.mig_profiles:
            fault = Fault("MIG_NOT_AVAILABLE", f"{accelerator.product_name} has no Multi-Instance GPU")
            yield Dropped(item, "", fault, Stage.EXCLUDED)
        return
    if constraints.tensor_parallel_sizes and 1 not in constraints.tensor_parallel_sizes:
        fault = Fault("MIG_NEEDS_TENSOR_PARALLEL_1", "instances have no peer access, so a replica is one instance")
        yield Dropped(item, "MIG", fault, Stage.EXCLUDED)
        return
    names = constraints.mig_profiles
    wanted = [
        (profile, device)
        for profile, device in _slices(Same(accelerator), Same(board))
        if (profile.name in names if names else profile.media_extension is None)
    ]
    if not wanted:
        offered = ", ".join(profile.name for profile in board.profiles)
        fault = Fault("MIG_PROFILE_NOT_ON_BOARD", f"this board offers {offered}")
        yield Dropped(item, "MIG", fault, Stage.EXCLUDED)
    for profile, device in wanted:
        if isinstance(device, Fault):
            yield Dropped(item, f"MIG {profile.name}", device, Stage.UNSUPPORTED)
        else:
            yield device, _ONE_RANK


@lru_cache(maxsize=1024)
def _slices(accelerator: Same[Accelerator], board: Same[MigBoard]) -> tuple[tuple[MigProfile, RankDevice | Fault], ...]:
    """Every profile of a board with its instance as a device, or why there is none."""

    def device(profile: MigProfile) -> RankDevice | Fault:
        try:
            return mig_rank_device(accelerator.value, board.value, profile)
        except InvalidInputError as error:
            return Fault("MIG_FACTS_UNKNOWN", "; ".join(v.description for v in error.violations))

    return tuple((profile, device(profile)) for profile in board.value.profiles)


@lru_cache(maxsize=64)
def _tensor_parallel(size: int) -> Parallelism:
    return Parallelism(tensor_parallel=size)


_ONE_RANK = _tensor_parallel(1)


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
        self._live_tokens = request.live_tokens
        self._footprints: dict[int, RankFootprint] = {}
        self._demands: dict[tuple[int, int, int, int, int], RankDemand] = {}

    def of(self, size: int, settings: EngineSettings) -> RankDemand:
        # Settings of many devices differ in the memory fraction alone, or not at all. The rules are constants of the
        # engines, so that their identity tells them apart for less than their hash would.
        key = (
            size,
            id(settings.memory),
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
                footprint, settings, context_tokens=self._context_tokens, live_tokens=self._live_tokens
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
    engine = query.constraints.engine
    sizes = {1, *_TENSOR_PARALLEL_SIZES, *query.constraints.tensor_parallel_sizes}
    splits = {size: split_faults(query.model, _tensor_parallel(size)) for size in sizes}
    resolved = settings_resolver(engine, context_tokens)
    formats, demands = model_formats(query.model), _Demands(query, request, context_tokens)
    for item in query.supply:
        excluded = _excluded(item, query.constraints)
        if excluded is not None:
            dropped.append(Dropped(item, "", excluded, Stage.EXCLUDED))
            continue
        unsupported = format_faults(formats, item.accelerator, engine)
        if unsupported:
            dropped.append(Dropped(item, "", unsupported[0], Stage.UNSUPPORTED))
            continue
        for way in _ways(item, query.constraints):
            if isinstance(way, Dropped):
                dropped.append(way)
                continue
            device, parallelism = way
            size = parallelism.tensor_parallel
            if splits[size]:
                dropped.append(Dropped(item, describe(device, parallelism), splits[size][0], Stage.SPLIT))
                continue
            settings = resolved(item.accelerator, device.memory_bytes, size)
            memory = place_demand(demands.of(size, settings), device, settings, peers=size > 1)
            faults = memory_faults(memory, context_tokens)
            if faults:
                distance = -faults[0].shortfall / memory.device_bytes
                dropped.append(Dropped(item, describe(device, parallelism), faults[0], Stage.MEMORY, distance))
                continue
            candidates.append(Candidate(item, Replica(device, parallelism, settings), memory))
    return candidates, dropped
