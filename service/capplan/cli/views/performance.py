"""Estimated performance of one replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console

from capplan.cli.output import new_table, print_heading
from capplan.cli.views.figures import ABSENT, figure, interval, percent, sentence
from capplan.cli.views.provenance import ESTIMATES, print_provenance, provenance_word
from capplan.v1 import placement_pb2


def print_performance(console: Console, columns: Mapping[str, placement_pb2.ReplicaPerformance]) -> None:
    """Performance of one replica at one or more loads, as many side by side as fit, and where the figures come from.

    Args:
        console: where to print.
        columns: what each column is, to its figures.
    """
    print_heading(console, "Performance of one replica")
    cells = {name: _cells(load) for name, load in columns.items()}
    for place, names in enumerate(_side_by_side(console.width, cells)):
        if place:
            console.print()
        table = new_table(console, "figure", *names, right=tuple(names))
        for row, title in enumerate(_ROWS):
            table.add_row(title, *(cells[name][row] for name in names))
        console.print(table)
    print_provenance(console, columns)


_ROWS: Final = (
    "running sequences",
    "output tokens/s",
    "requests/s",
    "ITL ms",
    "TTFT ms",
    "TTFT ms when idle",
    "end to end ms",
    "steps with prefill",
    "limited by",
    "provenance",
)


def _cells(load: placement_pb2.ReplicaPerformance) -> tuple[str, ...]:
    """A column's cells, in the order of the rows."""
    return (
        figure(load.batch),
        *(interval(getattr(load, name)) for name in ESTIMATES),
        percent(load.prefill_step_share) if load.prefill_step_share else ABSENT,
        sentence(load.bottleneck) or ABSENT,
        provenance_word(load.provenance),
    )


def _side_by_side(width: int, cells: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The columns in order, dealt out over as few tables of at most this width as they need; each has one at least."""
    tables: list[list[str]] = []
    left = 0
    for name, column in cells.items():
        needed = max(map(cell_len, (name, *column))) + 1
        if not tables or needed > left:
            tables.append([])
            left = width - max(map(cell_len, _ROWS)) - 1
        tables[-1].append(name)
        left -= needed
    return tables


def print_step_parts(console: Console, performance: placement_pb2.ReplicaPerformance, load: str) -> None:
    """The mean step by operator group.

    Args:
        console: where to print.
        performance: figures at one load.
        load: which load, e.g. "at the target".
    """
    if not performance.step_parts:
        return
    total_ms = sum(part.time_ms for part in performance.step_parts)
    print_heading(console, f"Mean step {load}: {figure(total_ms)} ms")
    table = new_table(console, "operators", "ms", "share", "limited by", right=("ms", "share"))
    for part in performance.step_parts:
        share = part.time_ms / total_ms if total_ms else 0.0
        table.add_row(sentence(part.group), figure(part.time_ms), percent(share), sentence(part.limited_by))
    console.print(table)
