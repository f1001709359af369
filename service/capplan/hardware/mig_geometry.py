"""Which sets of MIG instances fit on one GPU, and where: a search over start tables, never a sum of slices.

Sums are right only on an empty GPU. On a partly used one they accept many instances that no legal start can take
(the tests count them), so every question here is answered by looking at the start table and the occupied units.

A *state* is a set of placed instances. Every subset of a legal state is legal (a limit on counts or engines is never
repaired by adding), so the legal states are exactly the reachable ones, whatever the order of creation. Results are
cached per (board, driver branch); boards are frozen values, so the cache never goes stale.

``driver_branch`` is the installed driver's branch number (525 for R525); ``None`` means one new enough for everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from capplan.errors import InvalidInputError
from capplan.hardware.mig import (
    FOUR_PLUS_THREE_DRIVER_BRANCH,
    MigBoard,
    MigInstance,
    MigProfile,
    validate_board,
)
from capplan.hardware.mig import (
    driver_branch as branch_of,
)

Multiset = tuple[int, ...]
"""How many instances of each profile, aligned with ``MigBoard.profiles``."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """One board's tables under one driver, compiled for the search.

    ``slots[i]`` is one legal (profile index, start, unit mask); a state is a tuple of slot indices.
    ``slot_of`` finds the slot of a (profile id, start).
    ``engines[p]`` are profile p's media engines in the order of ``budget``; both are empty when engines are unknown.
    ``together`` holds the two groups of profiles an old driver does not allow on one GPU.
    """

    board: MigBoard
    slots: tuple[tuple[int, int, int], ...]
    slot_of: Mapping[tuple[int, int], int]
    engines: tuple[tuple[int, ...], ...]
    budget: tuple[int, ...]
    together: tuple[frozenset[int], frozenset[int]] | None

    def admits(self, state: tuple[int, ...], slot: int) -> bool:
        """Whether the slot can be added to the state."""
        profile, _, mask = self.slots[slot]
        used = [self.slots[index] for index in state]
        same = 0
        for other, _, other_mask in used:
            if mask & other_mask:
                return False
            same += other == profile
        if same >= self.board.profiles[profile].max_count:
            return False
        for kind, available in enumerate(self.budget):
            taken = sum(self.engines[other][kind] for other, _, _ in used)
            if taken + self.engines[profile][kind] > available:
                return False
        if self.together is not None:
            first, second = self.together
            others = {other for other, _, _ in used}
            if (profile in first and others & second) or (profile in second and others & first):
                return False
        return True

    def instances(self, state: tuple[int, ...]) -> tuple[MigInstance, ...]:
        """The state as instances, by start."""
        placed = (self.slots[index] for index in state)
        return tuple(
            MigInstance(self.board.profiles[profile], start) for profile, start, _ in sorted(placed, key=lambda s: s[1])
        )

    def multiset(self, state: tuple[int, ...]) -> Multiset:
        """How many of each profile the state holds."""
        counts = Counter(self.slots[index][0] for index in state)
        return tuple(counts[index] for index in range(len(self.board.profiles)))


@lru_cache(maxsize=256)
def _tables(board: MigBoard, driver_branch: int | None) -> _Tables:
    validate_board(board)
    unknown = [profile.name for profile in board.profiles if not profile.starts]
    if unknown:
        raise InvalidInputError.single(
            f"mig_boards[{board.board}].profiles",
            f"no start table was published for {', '.join(unknown)}; supply those that nvidia-smi mig -lgipp lists",
        )
    slots = []
    for index, profile in enumerate(board.profiles):
        if driver_branch is not None and profile.min_driver and driver_branch < branch_of(profile.min_driver):
            continue
        slots += [(index, start, profile.mask(start)) for start in sorted(profile.starts)]
    budget = board.media_engine_budget or ()
    names = [name for name, _ in budget]
    engines = tuple(tuple(dict(profile.media_engines).get(name, 0) for name in names) for profile in board.profiles)
    together = None
    if board.compute_slices == 7 and driver_branch is not None and driver_branch < FOUR_PLUS_THREE_DRIVER_BRANCH:
        four, three = (
            frozenset(index for index, profile in enumerate(board.profiles) if profile.compute_slices == slices)
            for slices in (4, 3)
        )
        together = (four, three)
    slot_of = {(board.profiles[profile].profile_id, start): slot for slot, (profile, start, _) in enumerate(slots)}
    return _Tables(board, tuple(slots), slot_of, engines, tuple(count for _, count in budget), together)


def _state(tables: _Tables, placed: Iterable[MigInstance]) -> tuple[int, ...]:
    """The placed instances as a state; refuses what the tables do not allow."""
    state: tuple[int, ...] = ()
    for instance in placed:
        key = (instance.profile.profile_id, instance.start)
        slot = tables.slot_of.get(key)
        if slot is None:
            legal = [start for profile_id, start in tables.slot_of if profile_id == instance.profile.profile_id]
            raise InvalidInputError.single(
                "placed",
                f"{instance.profile.name} (id {key[0]}) cannot start at {key[1]} on {tables.board.board}; "
                f"legal starts: {legal or 'none under this driver'}",
            )
        if not tables.admits(state, slot):
            raise InvalidInputError.single(
                "placed",
                f"{instance.profile.name}@{instance.start} overlaps another instance, or exceeds the profile's count, "
                f"the media engines or the driver's limits on {tables.board.board}",
            )
        state = tuple(sorted((*state, slot)))
    return state


@lru_cache(maxsize=4096)
def _extensions(
    board: MigBoard, driver_branch: int | None, state: tuple[int, ...]
) -> tuple[tuple[tuple[int, ...], bool], ...]:
    """Every set of slots that can be added to the state, and whether nothing more fits after it."""
    tables = _tables(board, driver_branch)
    found: list[tuple[tuple[int, ...], bool]] = []

    def extend(added: tuple[int, ...], first: int) -> None:
        whole = state + added
        fitting = [slot for slot in range(len(tables.slots)) if slot not in whole and tables.admits(whole, slot)]
        found.append((added, not fitting))
        for slot in fitting:
            if slot >= first:
                extend((*added, slot), slot + 1)

    extend((), 0)
    return tuple(found)


def occupancy_mask(placed: Iterable[MigInstance]) -> int:
    """Units taken by the instances, as a bit mask (bit u is unit u)."""
    mask = 0
    for instance in placed:
        mask |= instance.mask
    return mask


def legal_starts(
    board: MigBoard, profile_id: int, placed: tuple[MigInstance, ...] = (), driver_branch: int | None = None
) -> tuple[int, ...]:
    """Starts, ascending, at which one more instance of the profile can be created beside what is placed.

    Raises:
        NotFoundError: the board has no such profile.
        InvalidInputError: the board's table is unsound or unpublished, or what is placed is illegal itself.
    """
    board.profile(profile_id)
    tables = _tables(board, driver_branch)
    state = _state(tables, placed)
    return tuple(
        start
        for index, (profile, start, _) in enumerate(tables.slots)
        if board.profiles[profile].profile_id == profile_id and tables.admits(state, index)
    )


def can_place(
    board: MigBoard, profile_id: int, placed: tuple[MigInstance, ...] = (), driver_branch: int | None = None
) -> bool:
    """Whether one more instance of the profile fits without moving any other. Errors as :func:`legal_starts`."""
    return bool(legal_starts(board, profile_id, placed, driver_branch))


def most_additional(
    board: MigBoard, profile_id: int, placed: tuple[MigInstance, ...] = (), driver_branch: int | None = None
) -> int:
    """How many more instances of one profile fit beside what is placed. Errors as :func:`legal_starts`.

    The instances are intervals of one length, for which taking the lowest free start first is optimal; the other
    limits (count, media engines) do not depend on where they sit.
    """
    board.profile(profile_id)
    tables = _tables(board, driver_branch)
    state = occupied = _state(tables, placed)
    for slot, (profile, _, _) in enumerate(tables.slots):
        if board.profiles[profile].profile_id == profile_id and tables.admits(state, slot):
            state = (*state, slot)
    return len(state) - len(occupied)


def completions(
    board: MigBoard, placed: tuple[MigInstance, ...] = (), driver_branch: int | None = None
) -> tuple[tuple[MigInstance, ...], ...]:
    """Every way to fill up a partly used GPU until nothing more fits: the instances to add, by start.

    Errors as :func:`legal_starts`. A full GPU has one completion, the empty one.
    """
    tables = _tables(board, driver_branch)
    extensions = _extensions(board, driver_branch, _state(tables, placed))
    return tuple(tables.instances(added) for added, full in extensions if full)


def addable_multisets(
    board: MigBoard, placed: tuple[MigInstance, ...] = (), driver_branch: int | None = None
) -> frozenset[Multiset]:
    """Every multiset of profiles that can be added beside what is placed, the empty one included."""
    tables = _tables(board, driver_branch)
    return frozenset(tables.multiset(added) for added, _ in _extensions(board, driver_branch, _state(tables, placed)))


def pareto(multisets: Iterable[Multiset]) -> frozenset[Multiset]:
    """Those multisets that no other one contains."""
    kept = frozenset(multisets)
    return frozenset(
        one
        for one in kept
        if not any(other != one and all(a <= b for a, b in zip(one, other, strict=True)) for other in kept)
    )


def reachable_states(board: MigBoard, driver_branch: int | None = None) -> tuple[tuple[MigInstance, ...], ...]:
    """Every legal set of placed instances, the empty GPU first; each by start."""
    tables = _tables(board, driver_branch)
    return tuple(tables.instances(added) for added, _ in _extensions(board, driver_branch, ()))


def maximal_layouts(board: MigBoard, driver_branch: int | None = None) -> tuple[tuple[MigInstance, ...], ...]:
    """Every physical layout to which nothing can be added."""
    return completions(board, (), driver_branch)


def feasible_multisets(board: MigBoard, driver_branch: int | None = None) -> frozenset[Multiset]:
    """Every multiset of profiles one empty GPU can hold, the empty one included."""
    return addable_multisets(board, (), driver_branch)


@lru_cache(maxsize=256)
def pareto_multisets(board: MigBoard, driver_branch: int | None = None) -> frozenset[Multiset]:
    """The multisets one empty GPU can hold that no other one contains: the columns of a packing program."""
    return pareto(feasible_multisets(board, driver_branch))


def largest_first(board: MigBoard, counts: Mapping[int, int]) -> tuple[MigProfile, ...]:
    """The asked profiles (by id), one entry per instance, in creation order: most memory units, then most compute.

    Raises:
        NotFoundError: the board has no such profile.
        InvalidInputError: a count is negative.
    """
    _check_counts(board, counts)
    wanted = [board.profile(profile_id) for profile_id, count in counts.items() for _ in range(count)]
    return tuple(sorted(wanted, key=lambda p: (-p.memory_slices, -p.compute_slices, p.profile_id)))


def _check_counts(board: MigBoard, counts: Mapping[int, int]) -> None:
    for profile_id, count in counts.items():
        board.profile(profile_id)
        if count < 0:
            raise InvalidInputError.single(f"counts[{profile_id}]", f"{count} is negative")


def lay_out_gpu(
    board: MigBoard,
    counts: Mapping[int, int],
    placed: tuple[MigInstance, ...] = (),
    driver_branch: int | None = None,
) -> tuple[MigInstance, ...] | None:
    """Explicit starts for a multiset of profiles on one GPU, in creation order; ``None`` when it cannot be done.

    Largest first, each at its highest legal start: on an empty GPU that order needs no second thought, and a tool
    which is given no starts still ends up there. Beside placed instances the search backtracks, so that ``None`` means
    there is no legal layout at all.

    Raises:
        NotFoundError: the board has no such profile.
        InvalidInputError: a negative count, an unsound or unpublished table, or an illegal ``placed``.
    """
    tables = _tables(board, driver_branch)
    occupied = _state(tables, placed)
    _check_counts(board, counts)
    if sum(counts.values()) > board.grid_units:  # before an absurd count is written out
        return None
    order = largest_first(board, counts)

    def place(state: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...] | None:
        if len(chosen) == len(order):
            return chosen
        profile = order[len(chosen)]
        previous = tables.slots[chosen[-1]] if chosen else None
        for slot in range(len(tables.slots) - 1, -1, -1):
            index, start, _ = tables.slots[slot]
            if board.profiles[index].profile_id != profile.profile_id:
                continue
            if previous is not None and previous[0] == index and start > previous[1]:
                continue  # equal instances go downwards: every other order is the same layout
            if tables.admits(state, slot):
                found = place((*state, slot), (*chosen, slot))
                if found is not None:
                    return found
        return None

    chosen = place(occupied, ())
    if chosen is None:
        return None
    return tuple(MigInstance(board.profiles[tables.slots[slot][0]], tables.slots[slot][1]) for slot in chosen)
