"""Estimated performance of one replica."""

from __future__ import annotations

from rich.console import Console

from capplan.cli.output import new_table, print_heading
from capplan.cli.views.figures import ABSENT, figure, interval, percent, sentence
from capplan.v1 import placement_pb2


def provenance_of(performance: placement_pb2.ReplicaPerformance) -> str:
    """Where an estimate comes from, in a word."""
    name = placement_pb2.Provenance.Name(performance.provenance)
    return sentence(name.removeprefix("PROVENANCE_"))


def print_performance(console: Console, columns: dict[str, placement_pb2.ReplicaPerformance]) -> None:
    """Performance of one replica at one or more loads.

    Args:
        console: where to print.
        columns: what each column is, to its figures.
    """
    print_heading(console, "Performance of one replica")
    table = new_table(console, "figure", *columns, right=tuple(columns))
    loads = list(columns.values())
    rows = (
        ("running sequences", [figure(load.batch) for load in loads]),
        ("output tokens/s", [interval(load.output_tokens_per_s) for load in loads]),
        ("requests/s", [interval(load.requests_per_s) for load in loads]),
        ("ITL ms", [interval(load.itl_ms) for load in loads]),
        ("TTFT ms", [interval(load.ttft_ms) for load in loads]),
        ("TTFT ms when idle", [interval(load.ttft_unloaded_ms) for load in loads]),
        ("end to end ms", [interval(load.e2e_ms) for load in loads]),
        (
            "steps with prefill",
            [percent(load.prefill_step_share) if load.prefill_step_share else ABSENT for load in loads],
        ),
        ("limited by", [sentence(load.bottleneck) or ABSENT for load in loads]),
        ("provenance", [provenance_of(load) for load in loads]),
    )
    for name, cells in rows:
        table.add_row(name, *cells)
    console.print(table)


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
