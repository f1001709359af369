"""A CSV table that is evaluated row by row: its header, its rows, and the same table with predictions beside it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from capplan.catalog.importers.reading import FILE_FIELD, UnusableError, csv_lines, decode, shown
from capplan.errors import InvalidInputError


def read_rows(
    content: bytes, required: Iterable[str], added: Iterable[str]
) -> tuple[list[str], list[str], Iterator[tuple[int, list[str]]]]:
    """The header of a file, its columns without the blanks around them, and (line, cells) of every row that has cells.

    Args:
        content: its bytes.
        required: columns that must be there.
        added: columns that predictions will add.

    Raises:
        InvalidInputError: it is no UTF-8 or no CSV (the rows raise it too), or its header lacks a column, has one
            twice, or has one that predictions would add.
    """
    rows = ((line, cells) for line, cells in csv_lines(decode(content)) if cells)
    _, header = next(rows, (0, []))
    columns = [cell.strip() for cell in header]
    _check_header(columns, required, added)
    return header, columns, rows


def _check_header(names: Sequence[str], required: Iterable[str], added: Iterable[str]) -> None:
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
        UnusableError: it is.
    """
    if len(cells) != len(columns):
        raise UnusableError(f"the row has {len(cells)} cells, the header {len(columns)}")


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


def figure_cell(value: float | None) -> str:
    """A figure as a cell; empty where there is none."""
    # Ten digits: more than any estimate carries, and what is read back rounds to the same figure everywhere.
    return "" if value is None else f"{value:.10g}"


def count_reasons(reasons: Iterable[tuple[str, int]]) -> Mapping[str, tuple[int, int]]:
    """(rows, line of the first one) by reason, most frequent first.

    Args:
        reasons: (reason, line) row by row; an empty reason is none.
    """
    rows: Counter[str] = Counter()
    first: dict[str, int] = {}
    for reason, line in reasons:
        if reason:
            rows[reason] += 1
            first.setdefault(reason, line)
    return {reason: (count, first[reason]) for reason, count in rows.most_common()}
