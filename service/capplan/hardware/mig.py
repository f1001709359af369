"""Multi-Instance GPU tables: what a profile, a placed instance and a board are, and when a board's table is sound.

A GPU instance owns compute slices and memory units. Its start and its size are **both counted in memory units** and
decide where it can sit; two instances conflict exactly when their unit ranges overlap. Beyond that only three things
limit a layout: the most instances of one profile, the driver branch, and the media engines of the GPU. The search over
layouts is in :mod:`capplan.hardware.mig_geometry`.

Profile names are neither unique nor stable (``1g.24gb`` is three different profiles on three boards), so the key is
always (board, profile id).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from capplan.errors import FieldViolation, InvalidInputError, NotFoundError

FOUR_PLUS_THREE_DRIVER_BRANCH = 510
"""First driver branch that allows a 4-slice and a 3-slice instance on one 7-slice GPU (mig-parted issue 100)."""

_RESET_PRODUCTS = frozenset({"a100", "a800", "a30"})


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One GPU instance profile of one board.

    Attributes:
        profile_id: the driver's GPU instance profile id; with the board it is the key, names are not unique.
        name: driver name, e.g. ``1g.10gb`` or ``1g.10gb+me``.
        compute_slices: compute slices.
        memory_slices: memory units, the size on the placement grid.
        memory_bytes: usable bytes of one instance; ``None`` when no listing was published.
        sm_count: streaming multiprocessors of one instance; ``None`` when no listing was published.
        max_count: most instances of this profile on one GPU.
        starts: legal start positions on the grid; empty when no start table was published.
        media_extension: ``None`` for the plain profile, else the suffix (``me``, ``gfx``, ``me.all``, ``-me``).
        media_engines: engine counts by name (decoder, encoder, jpeg, optical flow); empty when not published.
        min_driver: lowest driver branch that offers it (``R525``), ``None`` when any.
        confidence: ``measured``, ``partly-measured`` or as the facts say.
    """

    profile_id: int
    name: str
    compute_slices: int
    memory_slices: int
    memory_bytes: int | None
    sm_count: int | None
    max_count: int
    starts: tuple[int, ...]
    media_extension: str | None
    confidence: str
    min_driver: str | None = None
    media_engines: tuple[tuple[str, int], ...] = ()

    def mask(self, start: int) -> int:
        """Occupied grid units as a bit mask (bit u is unit u) when the instance starts at ``start``."""
        return ((1 << self.memory_slices) - 1) << start


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One instance placed on a GPU."""

    profile: MigProfile
    start: int

    @property
    def mask(self) -> int:
        """Occupied grid units as a bit mask."""
        return self.profile.mask(self.start)


@dataclass(frozen=True, slots=True)
class MigBoard:
    """The MIG tables of one board.

    Attributes:
        board: key, e.g. ``h100-80gb-sxm5``.
        display_name: as the facts name it.
        grid_units: memory units of the placement grid (8; 4 on A30; 12 on RTX PRO 6000).
        compute_slices: compute slices of the whole GPU.
        profiles: every profile, by id.
        confidence: the least certain of the profiles' confidences.
    """

    board: str
    display_name: str
    grid_units: int
    compute_slices: int
    profiles: tuple[MigProfile, ...]
    confidence: str

    def profile(self, profile_id: int) -> MigProfile:
        """The profile with this id.

        Raises:
            NotFoundError: the board has no such profile; the names of those it has are offered.
        """
        for profile in self.profiles:
            if profile.profile_id == profile_id:
                return profile
        raise NotFoundError(
            "MIG profile of " + self.board,
            str(profile_id),
            (f"{profile.profile_id} ({profile.name})" for profile in self.profiles),
        )

    @property
    def needs_reset_to_toggle(self) -> bool:
        """Whether switching MIG mode needs a GPU reset: on A100, A800 and A30; Hopper and later switch without."""
        return self.board.split("-", 1)[0] in _RESET_PRODUCTS

    @property
    def whole_gpu_profile(self) -> MigProfile | None:
        """The plain profile that takes every memory unit (``7g``, ``4g``), ``None`` when the table lacks it."""
        for profile in self.profiles:
            if profile.memory_slices == self.grid_units and profile.media_extension is None:
                return profile
        return None

    @property
    def media_engine_budget(self) -> tuple[tuple[str, int], ...] | None:
        """Media engines of the whole GPU by name, as its whole-GPU profile lists them.

        ``None`` when a profile's engines are not published: media engines then cannot rule a layout out. This is what
        makes ``+me.all`` (every engine) admit only ``-me`` siblings, and keeps a second ``+me`` instance off the GPU.
        """
        whole = self.whole_gpu_profile
        if whole is None or not all(profile.media_engines for profile in self.profiles):
            return None
        return whole.media_engines


def driver_branch(text: str, field: str = "driver") -> int:
    """Branch number of a driver, from ``R525``, ``525`` or a full version such as ``525.60.13``.

    Raises:
        InvalidInputError: the text is none of these.
    """
    found = re.fullmatch(r"R?(\d{3,4})(?:\.\d+)*", text.strip())
    if found is None:
        raise InvalidInputError.single(field, f"{text!r} is no driver branch; write R570, 570 or 570.86.15")
    return int(found.group(1))


def check_board(board: MigBoard) -> tuple[FieldViolation, ...]:
    """Every fault of a board's table; empty when it is sound.

    Checked: positive sizes that fit the board, starts inside the grid and distinct, most instances no higher than the
    starts allow, unique ids. A profile without starts is not a fault (its table was not published); the geometry
    refuses such a board when asked.
    """
    found: list[FieldViolation] = []

    def fault(field: str, description: str) -> None:
        found.append(FieldViolation(f"mig_boards[{board.board}].{field}", description))

    if board.grid_units < 1:
        fault("grid_units", f"{board.grid_units} is not positive")
    if board.compute_slices < 1:
        fault("compute_slices", f"{board.compute_slices} is not positive")
    if not board.profiles:
        fault("profiles", "the board has no profile")
    for profile_id, uses in Counter(profile.profile_id for profile in board.profiles).items():
        if uses > 1:
            fault("profiles", f"profile id {profile_id} is listed {uses} times; (board, id) is the key")
    for profile in board.profiles:
        where = f"profiles[{profile.profile_id} {profile.name}]"
        if not 1 <= profile.compute_slices <= board.compute_slices:
            fault(f"{where}.compute_slices", f"{profile.compute_slices} is outside 1..{board.compute_slices}")
        if not 1 <= profile.memory_slices <= board.grid_units:
            fault(f"{where}.memory_slices", f"{profile.memory_slices} is outside 1..{board.grid_units}")
            continue
        if profile.max_count < 1:
            fault(f"{where}.max_count", f"{profile.max_count} is not positive")
        for start in profile.starts:
            last = board.grid_units - profile.memory_slices
            if not 0 <= start <= last:
                fault(
                    f"{where}.starts", f"start {start} with {profile.memory_slices} units leaves the grid (0..{last})"
                )
        if len(set(profile.starts)) != len(profile.starts):
            fault(f"{where}.starts", "a start is listed twice")
        most = _most_disjoint(profile)
        if profile.starts and profile.max_count > most:
            fault(f"{where}.max_count", f"{profile.max_count} instances, but the starts allow {most} at most")
        if profile.memory_bytes is not None and profile.memory_bytes <= 0:
            fault(f"{where}.memory_bytes", f"{profile.memory_bytes} is not positive")
        if profile.sm_count is not None and profile.sm_count <= 0:
            fault(f"{where}.sm_count", f"{profile.sm_count} is not positive")
    return tuple(found)


def validate_board(board: MigBoard) -> MigBoard:
    """The board itself, when its table is sound.

    Raises:
        InvalidInputError: with every fault :func:`check_board` finds.
    """
    violations = check_board(board)
    if violations:
        raise InvalidInputError(violations)
    return board


def _most_disjoint(profile: MigProfile) -> int:
    """Most instances the starts allow at once; the intervals have one length, so taking the earliest is optimal."""
    count, free_from = 0, 0
    for start in sorted(profile.starts):
        if start >= free_from:
            count, free_from = count + 1, start + profile.memory_slices
    return count
