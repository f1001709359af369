"""A CSV table that is evaluated row by row: its lines, its header, and the same table with predictions beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from capplan.catalog.importers.reading import FILE_FIELD, shown
from capplan.errors import InvalidInputError


class MalformedRowError(Exception):
    """A row that cannot be read; the message says why."""


def csv_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row that is no empty line.

    Raises:
        InvalidInputError: it is no CSV; rows before the fault have been handed out.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InvalidInputError.single(FILE_FIELD, f"line {reader.line_num}: {error}") from None


def check_header(names: Sequence[str], required: Iterable[str], added: Iterable[str]) -> None:
    """Refuses a header that cannot be evaluated.

    Args:
        names: its columns, without the blanks around them.
        required: columns that must be there.
        added: columns that predictions will add.

    Raises:
        InvalidInputError: it lacks a column, has one twice, or has one that predictions would add.
    """
    missing = [column for column in required if column not in names]
    if missing:
        raise InvalidInputError.single(FILE_FIELD, f"the header has no column {', '.join(missing)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError.single(FILE_FIELD, f"the header names {', '.join(map(shown, twice))} more than once")
    taken = [column for column in added if column in names]
    if taken:
        raise InvalidInputError.single(FILE_FIELD, f"the header has columns of predictions already: {', '.join(taken)}")


def check_width(cells: Sequence[str], columns: Sequence[str]) -> None:
    """Refuses a row of another length than the header.

    Raises:
        MalformedRowError: it is.
    """
    if len(cells) != len(columns):
        raise MalformedRowError(f"the row has {len(cells)} cells, the header {len(columns)}")


def table_with_predictions(
    header: Sequence[str],
    added_columns: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Sequence[str]]],
) -> str:
    """The file's text with columns added.

    A row that is shorter than the header is filled up with empty cells; what a longer one has too much comes after the
    added columns, so that these stand where the header says.

    Args:
        header: the file's own.
        added_columns: what comes beside it.
        rows: (cells as they are in the file, cells of the added columns).
    """
    table = io.StringIO(newline="")
    # Lines end as RFC 4180 says: with a bare line feed, the module would leave a carriage return in a cell unquoted.
    writer = csv.writer(table)
    writer.writerow((*header, *added_columns))
    width = len(header)
    for cells, added in rows:
        own = cells[:width]
        writer.writerow((*own, *[""] * (width - len(own)), *added, *cells[width:]))
    return table.getvalue()
