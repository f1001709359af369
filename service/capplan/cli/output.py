"""Where output goes: JSON alone on standard output, or text that fits a terminal and survives a pipe."""

from __future__ import annotations

import sys
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROW_COLUMNS: Final = 80
WIDE_COLUMNS: Final = 110

# SIMPLE_HEAD's layout in ASCII, for files, pipes and logs.
_PLAIN_HEAD: Final = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def open_console() -> Console:
    """Standard output for text: at most 110 columns on a terminal, exactly 80 and without colour elsewhere."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.width = min(console.width, WIDE_COLUMNS)
    else:
        console.width = NARROW_COLUMNS
    return console


def new_table(console: Console, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table with a header; ``right`` names the columns of figures.

    Args:
        console: where it will be printed.
        columns: headers; a line break in one starts a second header line.
        right: headers of the columns to align to the right.
    """
    table = Table(
        box=SIMPLE_HEAD if console.is_terminal else _PLAIN_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for column in columns:
        justify = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", vertical="top")  # type: ignore[arg-type]
    return table


def print_heading(console: Console, text: str) -> None:
    """A heading with an empty line above."""
    console.print()
    console.print(Text(text, style="bold"))


def print_bullets(console: Console, lines: list[str]) -> None:
    """Sentences, one item each, wrapped with a hanging indent."""
    for line in lines:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        grid.add_row("-", Text(line))
        console.print(grid)


def to_json(message: Message, *, indent: int | None = 2) -> str:
    """The contract's JSON with snake_case names; fields at their default are written out too.

    Args:
        message: any message of the contract.
        indent: spaces per level; ``None`` gives one line.
    """
    return json_format.MessageToJson(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=indent
    )


def print_json(message: Message) -> None:
    """A message as JSON on standard output."""
    sys.stdout.write(to_json(message) + "\n")
