"""MIG instances laid out on physical GPUs: which starts, in which order to create them, what is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from capplan.errors import InvalidInputError
from capplan.estimation.identity import Same
from capplan.hardware.mig import (
    FOUR_PLUS_THREE_DRIVER_BRANCH,
    MigBoard,
    MigInstance,
    MigProfile,
)
from capplan.hardware.mig import (
    driver_branch as branch_of,
)
from capplan.hardware.mig_geometry import lay_out_gpu, legal_starts, most_additional

RESOURCE_NAME_SINGLE = "nvidia.com/gpu"
"""Kubernetes resource under the device plugin's ``single`` strategy, whatever the profile."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """What would still fit on a GPU: that many of this profile, if of no other one.

    Attributes:
        profile: the profile.
        count: most additional instances of it.
    """

    profile: MigProfile
    count: int

    def __str__(self) -> str:
        return f"{self.profile.name} x {self.count}"


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """Physical GPUs that are laid out alike.

    Attributes:
        gpu_count: how many GPUs get this layout.
        instances: instances with explicit starts, in the order to create them (largest first, each at its highest
            legal start).
        leftover: alternatives that still fit on each of these GPUs.
    """

    gpu_count: int
    instances: tuple[MigInstance, ...]
    leftover: tuple[Leftover, ...]


@dataclass(frozen=True, slots=True)
class SliceGroup:
    """All instances of one profile in a plan.

    Attributes:
        profile: the profile.
        count: instances over all GPUs.
        resource_name_mixed: Kubernetes resource of one instance under the ``mixed`` strategy.
        usable_bytes: memory one instance can use; ``None`` when it was never published.
    """

    profile: MigProfile
    count: int
    resource_name_mixed: str
    usable_bytes: int | None


@dataclass(frozen=True, slots=True)
class MigPlan:
    """Instances over physical GPUs of one board.

    Attributes:
        board: the board whose tables were used.
        layouts: what each GPU gets, identical GPUs grouped, full ones first.
        slices: the instances by profile.
        resource_name_single: Kubernetes resource under the ``single`` strategy; ``None`` when the plan mixes profiles,
            which that strategy does not allow.
        needs_idle: no process may use the GPU while it is repartitioned: true of every architecture.
        needs_reset: switching MIG mode on needs a GPU reset (A100, A30).
        min_driver: lowest driver branch that can create it, e.g. ``R525``; ``None`` when nothing in it asks for one.
        confidence: how sure the tables are.
        notes: what an operator must know besides.
    """

    board: MigBoard
    layouts: tuple[GpuLayout, ...]
    slices: tuple[SliceGroup, ...]
    resource_name_single: str | None
    needs_idle: bool
    needs_reset: bool
    min_driver: str | None
    confidence: str
    notes: tuple[str, ...]

    @property
    def gpu_count(self) -> int:
        """Physical GPUs in total."""
        return sum(layout.gpu_count for layout in self.layouts)

    @property
    def instance_count(self) -> int:
        """Instances in total."""
        return sum(group.count for group in self.slices)


def resource_name_mixed(profile: MigProfile) -> str:
    """Kubernetes resource of one instance under the ``mixed`` strategy; a ``+`` is written as a dot."""
    return f"nvidia.com/mig-{profile.name.replace('+', '.')}"


def instances_per_gpu(board: MigBoard, profile: MigProfile, driver_branch: int | None = None) -> int:
    """Most instances of one profile on one empty GPU; 0 when the driver is too old for it.

    Raises:
        NotFoundError: the profile is not on the board.
        InvalidInputError: the board's start table is unsound or was never published.
    """
    return _instances_per_gpu(Same(board), Same(profile), driver_branch)


@lru_cache(maxsize=1024)
def _instances_per_gpu(board: Same[MigBoard], profile: Same[MigProfile], driver_branch: int | None) -> int:
    return most_additional(board.value, profile.value.profile_id, (), driver_branch)


def lay_out(board: MigBoard, profile: MigProfile, count: int, driver_branch: int | None = None) -> MigPlan:
    """``count`` instances of one profile on as few GPUs as hold them.

    Every GPU but the last is full; the last one keeps its low starts free, where the larger profiles begin.

    Args:
        board: the board.
        profile: one of its profiles.
        count: instances wanted, at least 1.
        driver_branch: installed driver, e.g. 535; ``None`` for one new enough for everything.

    Raises:
        NotFoundError: the profile is not on the board.
        InvalidInputError: no instance asked for, a driver too old for the profile, or no usable start table.
    """
    if count < 1:
        raise InvalidInputError.single("count", f"{count} instances; at least 1 is needed")
    per_gpu = instances_per_gpu(board, profile, driver_branch)
    if per_gpu == 0:
        raise InvalidInputError.single(
            "driver", f"{profile.name} on {board.display_name} needs driver {profile.min_driver} or later"
        )
    full, rest = divmod(count, per_gpu)
    wanted = [(full, {profile.profile_id: per_gpu}), (1 if rest else 0, {profile.profile_id: rest})]
    return _plan(board, tuple(_gpu_layout(board, counts, gpus, driver_branch) for gpus, counts in wanted if gpus))


def lay_out_mixed(
    board: MigBoard, counts: Mapping[int, int], gpu_count: int = 1, driver_branch: int | None = None
) -> MigPlan:
    """The same multiset of profiles on each of ``gpu_count`` GPUs.

    Args:
        board: the board.
        counts: instances on each GPU, by profile id.
        gpu_count: GPUs that get the layout, at least 1.
        driver_branch: installed driver; ``None`` for one new enough for everything.

    Raises:
        NotFoundError: a profile is not on the board.
        InvalidInputError: nothing asked for, no GPU, a multiset that one GPU cannot hold, or no usable start table.
    """
    if gpu_count < 1:
        raise InvalidInputError.single("gpu_count", f"{gpu_count} GPUs; at least 1 is needed")
    if not any(counts.values()):
        raise InvalidInputError.single("counts", "no instance is asked for")
    return _plan(board, (_gpu_layout(board, counts, gpu_count, driver_branch),))


def _gpu_layout(board: MigBoard, counts: Mapping[int, int], gpu_count: int, driver_branch: int | None) -> GpuLayout:
    instances, leftover = _one_gpu(board, tuple(counts.items()), driver_branch)
    return GpuLayout(gpu_count, instances, leftover)


@lru_cache(maxsize=4096)
def _one_gpu(
    board: MigBoard, counts: tuple[tuple[int, int], ...], driver_branch: int | None
) -> tuple[tuple[MigInstance, ...], tuple[Leftover, ...]]:
    """Instances of one GPU and what is left beside them; every query asks for the same few."""
    instances = lay_out_gpu(board, dict(counts), (), driver_branch)
    if instances is None:
        asked = ", ".join(f"{board.profile(profile_id).name} x {count}" for profile_id, count in counts)
        raise InvalidInputError.single("counts", f"one {board.display_name} cannot hold {asked}")
    _check_creation_order(board, instances, driver_branch)
    leftover = (
        Leftover(profile, most_additional(board, profile.profile_id, instances, driver_branch))
        for profile in board.profiles
    )
    return instances, tuple(item for item in leftover if item.count)


def _plan(board: MigBoard, layouts: tuple[GpuLayout, ...]) -> MigPlan:
    totals: Counter[MigProfile] = Counter()
    for layout in layouts:
        for instance in layout.instances:
            totals[instance.profile] += layout.gpu_count
    slices = tuple(
        SliceGroup(profile, count, resource_name_mixed(profile), profile.memory_bytes)
        for profile, count in totals.items()
    )
    return MigPlan(
        board=board,
        layouts=layouts,
        slices=slices,
        resource_name_single=RESOURCE_NAME_SINGLE if len(slices) == 1 else None,
        needs_idle=True,
        needs_reset=board.needs_reset_to_toggle,
        min_driver=_min_driver(board, layouts),
        confidence=board.confidence,
        notes=_notes(board, slices),
    )


def _check_creation_order(board: MigBoard, instances: tuple[MigInstance, ...], driver_branch: int | None) -> None:
    """Replays the creation against the start table: a layout is only returned when each step is legal."""
    for index, instance in enumerate(instances):
        free = legal_starts(board, instance.profile.profile_id, instances[:index], driver_branch)
        if instance.start not in free:
            raise RuntimeError(f"{instance.profile.name}@{instance.start} cannot be created on {board.board}")


def _min_driver(board: MigBoard, layouts: tuple[GpuLayout, ...]) -> str | None:
    branches = set()
    for layout in layouts:
        profiles = [instance.profile for instance in layout.instances]
        branches |= {branch_of(profile.min_driver) for profile in profiles if profile.min_driver}
        if board.compute_slices == 7 and {3, 4} <= {profile.compute_slices for profile in profiles}:
            branches.add(FOUR_PLUS_THREE_DRIVER_BRANCH)
    return f"R{max(branches)}" if branches else None


def _notes(board: MigBoard, slices: tuple[SliceGroup, ...]) -> tuple[str, ...]:
    notes = ["create one compute instance of full size in each GPU instance; instances do not survive a reboot"]
    for group in slices:
        narrow = [
            other
            for other in board.profiles
            if other.compute_slices == group.profile.compute_slices
            and other.memory_slices < group.profile.memory_slices
            and (other.sm_count or 0) < (group.profile.sm_count or 0)
        ]
        if narrow:
            notes.append(
                f"{group.profile.name} has {group.profile.sm_count} SM only in a compute instance that spans it; the "
                f"one-slice compute instance some tools create has {narrow[0].sm_count}"
            )
    return tuple(notes)
