"""Ways to run one replica on a kind of device, whatever the model: whole devices side by side, and MIG instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capplan.errors import InvalidInputError
from capplan.estimation.device import RankDevice, mig_rank_device, whole_device
from capplan.estimation.engine import EngineChoice, settings_key, settings_resolver
from capplan.estimation.engine_records import EngineSettings, MemoryRule
from capplan.estimation.identity import Same
from capplan.estimation.legality import Fault, link_faults
from capplan.estimation.pools import Ranks
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.replica_groups import ReplicaGroups
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.collectives import all_reduce_ranks_limit
from capplan.hardware.mig import MigBoard
from capplan.planning.query import Constraints, MigPolicy, SupplyItem

TENSOR_PARALLEL_SIZES = (1, 2, 4, 8, 16)
"""Sizes that are tried when none are pinned."""

_REMEMBERED = 2048
"""Devices of which the ways are remembered, for each set of constraints: a catalogue's, some dozens of times."""

_REMEMBERED_SUPPLIES = 64
"""Sets of devices of which all ways are remembered in columns, for each set of constraints: some 100 KB each."""


class Stage(IntEnum):
    """How far a configuration came before it was dropped; later is closer to a plan."""

    EXCLUDED = 0
    UNSUPPORTED = 1
    SPLIT = 2
    MEMORY = 3
    LATENCY = 4
    AMOUNT = 5


@dataclass(frozen=True, slots=True)
class Refused:
    """A way that is ruled out before any model is looked at.

    Attributes:
        configuration: the way of using the device.
        fault: why.
        stage: how far it came.
    """

    configuration: str
    fault: Fault
    stage: Stage


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What of a question's constraints decides on the ways."""

    mig: MigPolicy
    mig_profiles: tuple[str, ...]
    tensor_parallel_sizes: tuple[int, ...]
    max_devices: int | None


def describe(device: RankDevice, parallelism: Parallelism) -> str:
    """Names a configuration."""
    return device.label if device.profile else f"tensor parallel {parallelism.tensor_parallel}"


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Every way of using some devices, N that no rule forbids and those that are refused, whatever the model.

    Attributes:
        replicas: the N ways, device by device.
        device: (N,) position of the device of each.
        place: (N,) where each stands among all ways, those refused included.
        groups: the same in groups of the step model.
        sizes: (N,) tensor parallelism.
        ranks: by memory rule, which of the N ways follow it and the ranks of those.
        asked: tensor parallelism and settings, one each of those that ask the same memory of a rank of a model.
        asks: (N,) which of them each way is like.
        refused: where each refused way stands, position of its device, and why.
    """

    replicas: tuple[Replica, ...]
    device: NDArray[np.int64]
    place: NDArray[np.int64]
    groups: ReplicaGroups
    sizes: NDArray[np.int64]
    ranks: tuple[tuple[NDArray[np.int64], Ranks], ...]
    asked: tuple[tuple[int, EngineSettings], ...]
    asks: NDArray[np.int64]
    refused: tuple[tuple[int, int, Refused], ...]

    @classmethod
    def of(cls, by_device: Sequence[Sequence[Replica | Refused]]) -> Ways:
        """The ways of devices in order."""
        every = [(device, way) for device, ways in enumerate(by_device) for way in ways]
        legal = [(place, device, way) for place, (device, way) in enumerate(every) if isinstance(way, Replica)]
        replicas = tuple(replica for _, _, replica in legal)
        asked: dict[tuple[int, Same[MemoryRule], int, int, int], tuple[int, int, EngineSettings]] = {}
        rules: dict[Same[MemoryRule], list[int]] = {}
        asks = []
        for row, replica in enumerate(replicas):
            settings, size = replica.settings, replica.parallelism.tensor_parallel
            rule = Same(settings.memory)
            rules.setdefault(rule, []).append(row)
            # settings of many devices differ in the memory fraction alone, or not at all
            key = size, rule, settings.max_num_seqs, settings.max_num_batched_tokens, settings.graph_sizes
            asks.append(asked.setdefault(key, (len(asked), size, settings))[0])
        return cls(
            replicas,
            np.array([device for _, device, _ in legal], dtype=np.int64),
            np.array([place for place, _, _ in legal], dtype=np.int64),
            ReplicaGroups.of(replicas),
            np.array([replica.parallelism.tensor_parallel for replica in replicas], dtype=np.int64),
            tuple((np.array(rows), Ranks.of([_rank(replicas[row]) for row in rows])) for rows in rules.values()),
            tuple((size, settings) for _, size, settings in asked.values()),
            np.array(asks, dtype=np.int64),
            tuple((place, device, way) for place, (device, way) in enumerate(every) if isinstance(way, Refused)),
        )


def _rank(replica: Replica) -> tuple[RankDevice, EngineSettings, bool]:
    return replica.device, replica.settings, replica.parallelism.devices > 1


class Configurations:
    """The ways of one question's constraints; what they are for a device is worked out once for all questions."""

    def __init__(self, constraints: Constraints, context_tokens: int) -> None:
        """Prepares for one question.

        Args:
            constraints: what limits the ways, and the engine.
            context_tokens: context a replica is started with.

        Raises:
            InvalidInputError: the engine or version is not modelled.
        """
        self._allowed = Same(
            _allowed(
                _Allowed(
                    constraints.mig,
                    tuple(constraints.mig_profiles),
                    tuple(constraints.tensor_parallel_sizes),
                    constraints.max_devices,
                )
            )
        )
        choice, self._context_tokens = settings_key(constraints.engine, context_tokens)
        self._engine = Same(choice)

    def of(self, item: SupplyItem) -> tuple[Replica | Refused, ...]:
        """Every way of using a device.

        Raises:
            InvalidInputError: the engine refuses the pinned settings.
        """
        return _configurations(
            Same(item.accelerator), Same(item.mig_board), self._allowed, self._engine, self._context_tokens
        )

    def of_all(self, items: Sequence[SupplyItem]) -> Ways:
        """Every way of using some devices.

        Raises:
            InvalidInputError: the engine refuses the pinned settings.
        """
        devices = tuple((Same(item.accelerator), Same(item.mig_board)) for item in items)
        return _ways_of(devices, self._allowed, self._engine, self._context_tokens)


@lru_cache(maxsize=256)
def _allowed(allowed: _Allowed) -> _Allowed:
    """One object for equal constraints."""
    return allowed


@lru_cache(maxsize=_REMEMBERED_SUPPLIES)
def _ways_of(
    devices: tuple[tuple[Same[Accelerator], Same[MigBoard | None]], ...],
    allowed: Same[_Allowed],
    engine: Same[EngineChoice],
    context_tokens: int | None,
) -> Ways:
    return Ways.of([_configurations(*device, allowed, engine, context_tokens) for device in devices])


@lru_cache(maxsize=_REMEMBERED)
def _configurations(
    same_accelerator: Same[Accelerator],
    same_board: Same[MigBoard | None],
    same_allowed: Same[_Allowed],
    engine: Same[EngineChoice],
    context_tokens: int | None,
) -> tuple[Replica | Refused, ...]:
    accelerator, allowed = same_accelerator.value, same_allowed.value
    resolve = settings_resolver(engine.value, context_tokens)
    ways: list[Replica | Refused] = []
    for way in _ways(accelerator, same_board.value, allowed):
        if isinstance(way, Refused):
            ways.append(way)
        else:
            device, parallelism = way
            settings = resolve(accelerator, device.memory_bytes, parallelism.devices)
            ways.append(Replica(device, parallelism, settings))
    return tuple(ways)


def _ways(
    accelerator: Accelerator, board: MigBoard | None, allowed: _Allowed
) -> Iterator[tuple[RankDevice, Parallelism] | Refused]:
    if allowed.mig is not MigPolicy.REQUIRED and not allowed.mig_profiles:
        yield from _whole_devices(accelerator, allowed)
    if allowed.mig is MigPolicy.FORBIDDEN:
        return
    if board is not None:
        yield from _instances(accelerator, board, allowed)
    elif allowed.mig is MigPolicy.REQUIRED or allowed.mig_profiles:
        fault = Fault("MIG_NOT_AVAILABLE", f"{accelerator.product_name} has no Multi-Instance GPU")
        yield Refused("", fault, Stage.EXCLUDED)


def _whole_devices(accelerator: Accelerator, allowed: _Allowed) -> Iterator[tuple[RankDevice, Parallelism] | Refused]:
    device, most = whole_device(accelerator), allowed.max_devices
    if device is None:
        fault = Fault("MEMORY_UNKNOWN", f"the memory size of {accelerator.product_name} is not in the catalogue")
        yield Refused("", fault, Stage.UNSUPPORTED)
        return
    reach = all_reduce_ranks_limit(accelerator)
    sizes = allowed.tensor_parallel_sizes or tuple(size for size in TENSOR_PARALLEL_SIZES if size <= reach)
    for size in sizes:
        parallelism = Parallelism(tensor_parallel=size)
        beyond = link_faults(accelerator, parallelism)
        if beyond:
            yield Refused(describe(device, parallelism), beyond[0], Stage.SPLIT)
        elif most is not None and size > most:
            text = f"one replica takes {size} devices, at most {most} are allowed"
            fault = Fault("TOO_MANY_DEVICES", text, float(most - size), "devices")
            yield Refused(describe(device, parallelism), fault, Stage.EXCLUDED)
        else:
            yield device, parallelism


def _instances(
    accelerator: Accelerator, board: MigBoard, allowed: _Allowed
) -> Iterator[tuple[RankDevice, Parallelism] | Refused]:
    if allowed.tensor_parallel_sizes and 1 not in allowed.tensor_parallel_sizes:
        fault = Fault("MIG_NEEDS_TENSOR_PARALLEL_1", "instances have no peer access, so a replica is one instance")
        yield Refused("MIG", fault, Stage.EXCLUDED)
        return
    names = allowed.mig_profiles
    wanted = [
        profile for profile in board.profiles if (profile.name in names if names else profile.media_extension is None)
    ]
    if not wanted:
        offered = ", ".join(profile.name for profile in board.profiles)
        fault = Fault("MIG_PROFILE_NOT_ON_BOARD", f"this board offers {offered}")
        yield Refused("MIG", fault, Stage.EXCLUDED)
    for profile in wanted:
        try:
            yield mig_rank_device(accelerator, board, profile), Parallelism()
        except InvalidInputError as error:
            fault = Fault("MIG_FACTS_UNKNOWN", "; ".join(v.description for v in error.violations))
            yield Refused(f"MIG {profile.name}", fault, Stage.UNSUPPORTED)
