"""Enumerates ways to use each device and drops, with a reason, those that would not start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.estimation.device import RankDevice, mig_rank_device, whole_device
from capplan.estimation.engine import resolve_settings
from capplan.estimation.legality import Fault, device_faults, link_faults, memory_faults, split_faults
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import Request
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.collectives import all_reduce_ranks_limit
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
    accelerator, board = item.accelerator, item.mig_board
    if constraints.mig is not MigPolicy.REQUIRED and not constraints.mig_profiles:
        device = whole_device(accelerator)
        if device is None:
            fault = Fault("MEMORY_UNKNOWN", f"the memory size of {accelerator.product_name} is not in the catalogue")
            yield Dropped(item, "", fault, Stage.UNSUPPORTED)
        else:
            for size in tensor_parallel_sizes(accelerator, constraints):
                parallelism = Parallelism(tensor_parallel=size)
                beyond = link_faults(accelerator, parallelism)
                most = constraints.max_devices
                if beyond:
                    yield Dropped(item, describe(device, parallelism), beyond[0], Stage.SPLIT)
                elif most is not None and parallelism.devices > most:
                    text = f"one replica takes {parallelism.devices} devices, at most {most} are allowed"
                    fault = Fault("TOO_MANY_DEVICES", text, float(most - parallelism.devices), "devices")
                    yield Dropped(item, describe(device, parallelism), fault, Stage.EXCLUDED)
                else:
                    yield device, parallelism
    if constraints.mig is MigPolicy.FORBIDDEN:
        return
    if board is None:
        if constraints.mig is MigPolicy.REQUIRED or constraints.mig_profiles:
            fault = Fault("MIG_NOT_AVAILABLE", f"{accelerator.product_name} has no Multi-Instance GPU")
            yield Dropped(item, "", fault, Stage.EXCLUDED)
        return
    if constraints.tensor_parallel_sizes and 1 not in constraints.tensor_parallel_sizes:
        fault = Fault("MIG_NEEDS_TENSOR_PARALLEL_1", "instances have no peer access, so a replica is one instance")
        yield Dropped(item, "MIG", fault, Stage.EXCLUDED)
        return
    wanted = [
        profile
        for profile in board.profiles
        if (profile.name in constraints.mig_profiles if constraints.mig_profiles else profile.media_extension is None)
    ]
    if not wanted:
        names = ", ".join(profile.name for profile in board.profiles)
        fault = Fault("MIG_PROFILE_NOT_ON_BOARD", f"this board offers {names}")
        yield Dropped(item, "MIG", fault, Stage.EXCLUDED)
    for profile in wanted:
        try:
            yield mig_rank_device(accelerator, board, profile), Parallelism()
        except InvalidInputError as error:
            fault = Fault("MIG_FACTS_UNKNOWN", "; ".join(v.description for v in error.violations))
            yield Dropped(item, f"MIG {profile.name}", fault, Stage.UNSUPPORTED)


def _excluded(item: SupplyItem, constraints: Constraints) -> Fault | None:
    sku = item.accelerator.sku
    if constraints.allowed_skus and sku not in constraints.allowed_skus:
        return Fault("NOT_ALLOWED", "not among the allowed accelerators")
    if sku in constraints.denied_skus:
        return Fault("DENIED", "among the denied accelerators")
    return None


def enumerate_candidates(
    query: PlacementQuery, request: Request, context_tokens: int
) -> tuple[list[Candidate], list[Dropped]]:
    """Every configuration of every supplied device that starts, and every one that does not with its reason.

    Raises:
        InvalidInputError: the engine or its version is not modelled.
    """
    candidates: list[Candidate] = []
    dropped: list[Dropped] = []
    sizes = {1, *_TENSOR_PARALLEL_SIZES, *query.constraints.tensor_parallel_sizes}
    splits = {size: split_faults(query.model, Parallelism(tensor_parallel=size)) for size in sizes}
    footprints = {size: rank_footprint(query.model, size) for size in sizes if not splits[size]}
    for item in query.supply:
        excluded = _excluded(item, query.constraints)
        if excluded is not None:
            dropped.append(Dropped(item, "", excluded, Stage.EXCLUDED))
            continue
        unsupported = device_faults(query.model, item.accelerator, query.constraints.engine)
        if unsupported:
            dropped.append(Dropped(item, "", unsupported[0], Stage.UNSUPPORTED))
            continue
        for way in _ways(item, query.constraints):
            if isinstance(way, Dropped):
                dropped.append(way)
                continue
            device, parallelism = way
            configuration = describe(device, parallelism)
            if splits[parallelism.tensor_parallel]:
                dropped.append(Dropped(item, configuration, splits[parallelism.tensor_parallel][0], Stage.SPLIT))
                continue
            settings = resolve_settings(
                query.constraints.engine,
                item.accelerator,
                device.memory_bytes,
                ranks=parallelism.devices,
                context_tokens=context_tokens,
            )
            memory = memory_breakdown(
                footprints[parallelism.tensor_parallel],
                device,
                settings,
                peers=parallelism.tensor_parallel > 1,
                context_tokens=context_tokens,
                live_tokens=request.live_tokens,
            )
            faults = memory_faults(memory, context_tokens)
            if faults:
                distance = -faults[0].shortfall / memory.device_bytes
                dropped.append(Dropped(item, configuration, faults[0], Stage.MEMORY, distance))
                continue
            candidates.append(Candidate(item, Replica(device, parallelism, settings), memory))
    return candidates, dropped
