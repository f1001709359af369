"""What every evaluation prints alike: why rows are not predicted, and what names were taken for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from capplan.cli.output import new_table
from capplan.cli.views.figures import count


def print_reasons(console: Console, reasons: Iterable[tuple[str, tuple[int, int]]]) -> None:
    """A table of (reason, (rows, line of the first one))."""
    table = new_table(console, "rows", "first line", "reason", right=("rows", "first line"))
    for reason, (rows, line) in reasons:
        table.add_row(count(rows), str(line), reason)
    console.print(table)


def json_reasons(reasons: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{"reason": reason, "rows": rows, "first_line": line} for reason, (rows, line) in reasons.items()]


def print_names(console: Console, pairs: Mapping[tuple[str, str], int]) -> None:
    """A table of rows by (published, taken for)."""
    table = new_table(console, "rows", "published", "taken for", right=("rows",))
    for (published, taken), rows in pairs.items():
        table.add_row(count(rows), published, taken)
    console.print(table)
