"""A MIG layout: which instances to create on each GPU, and a picture of the slices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich.console import Console

from capplan.cli.output import NARROW_COLUMNS, print_heading
from capplan.cli.views.figures import count, gib
from capplan.v1 import placement_pb2

_MARGIN: Final = 7
_MAX_UNIT_COLUMNS: Final = 14
_MIN_UNIT_COLUMNS: Final = 5
_SPARE: Final = "spare"


def print_mig_layout(console: Console, layout: placement_pb2.MigLayout, grid_units: int) -> None:
    """The slices of a placement.

    Args:
        console: where to print.
        layout: the layout.
        grid_units: memory units of one GPU's placement grid.
    """
    gpus = sum(group.gpu_count for group in layout.gpus)
    print_heading(console, f"MIG layout: {layout.profile} (profile id {layout.profile_id}) on {count(gpus)} GPU(s)")
    console.print(f"board {layout.board}, {gib(layout.usable_bytes)} GiB usable per slice, {layout.confidence} facts")
    for group in layout.gpus:
        console.print()
        each = "each of " if group.gpu_count > 1 else ""
        console.print(f"{each}{count(group.gpu_count)} GPU(s), create in this order: {creation_order(group.instances)}")
        for line in draw(group.instances, grid_units):
            console.print(line, no_wrap=True, crop=False)
        if group.leftover:
            console.print(f"room left for {' or '.join(group.leftover)}")
    console.print()
    console.print(f"one slice is {layout.resource_name_mixed} (mixed strategy)")
    console.print(f"          or {layout.resource_name_single} (single strategy)")
    if layout.needs_reset:
        console.print("switching MIG mode on or off needs a GPU reset")


def creation_order(instances: Sequence[placement_pb2.MigInstance]) -> str:
    """The instances in words, equal neighbours together: ``1g.10gb (id 19) at 0, 1, 2``."""
    parts = []
    for (profile, profile_id, used), group in groupby(
        instances, key=lambda instance: (instance.profile, instance.profile_id, instance.used)
    ):
        starts = ", ".join(str(instance.start) for instance in group)
        parts.append(f"{profile} (id {profile_id}) at {starts}" + ("" if used else ", spare"))
    return "; ".join(parts)


def draw(instances: Sequence[placement_pb2.MigInstance], grid_units: int) -> list[str]:
    """A picture of one GPU: a line of starts and a line of cells, as wide as the instances are large.

    A cell shows the profile's name, or its id where the name is too long; spare instances and free units are marked.

    Args:
        instances: the GPU's instances.
        grid_units: memory units of the placement grid, at least the end of the last instance.
    """
    units = max([grid_units, 1, *(instance.start + instance.size for instance in instances)])
    wanted = max((-(-(len(instance.profile) + 1) // max(instance.size, 1)) for instance in instances), default=0)
    room = (NARROW_COLUMNS - _MARGIN - 1) // units
    width = max(1, min(max(wanted, _MIN_UNIT_COLUMNS), room, _MAX_UNIT_COLUMNS))
    cells = ["." * (width - 1) + "|"] * units
    starts = [" " * width] * units
    for instance in instances:
        size = max(instance.size, 1)
        columns = size * width - 1
        if not instance.used:
            label = _SPARE if len(_SPARE) <= columns else "-"
        else:
            label = instance.profile if len(instance.profile) <= columns else str(instance.profile_id)
        cells[instance.start : instance.start + size] = [label[:columns].center(columns) + "|", *[""] * (size - 1)]
        starts[instance.start] = str(instance.start).ljust(width)
    return [f"{'start':<{_MARGIN}}{''.join(starts)}".rstrip(), f"{'':<{_MARGIN - 1}}|{''.join(cells)}"]
