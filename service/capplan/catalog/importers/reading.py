"""Reading what may be anything: text out of bytes, JSON and CSV out of text, numbers out of values."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from capplan.catalog.importers.runs import Parsed
from capplan.errors import InvalidInputError

FILE_FIELD: Final = "file"

_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?\s*")
_MAX_SHOWN: Final = 60

_T = TypeVar("_T", int, float)


class UnusableError(Exception):
    """A record that cannot be used; the message is the reason."""


def decode(content: bytes) -> str:
    """The text of a file.

    Raises:
        InvalidInputError: it is no UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError.single(FILE_FIELD, f"is no UTF-8 text: {error.reason} at byte {error.start}") from None


def parse_json(text: str) -> Any:
    """A JSON value; ``Infinity`` and ``NaN`` are read too, since benchmark tools write them.

    Raises:
        UnusableError: it is no JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise UnusableError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise UnusableError(f"no JSON: {error}") from None


def json_records(text: str, parsed: Parsed) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, object) of every object in a file of one object, of a list of objects, or of one object a line.

    Raises:
        InvalidInputError: the file is none of these.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    try:
        document = parse_json(text)
    except UnusableError as whole:
        if len(lines) < 2 or not lines[0][1].rstrip().endswith("}"):
            raise InvalidInputError.single(FILE_FIELD, str(whole)) from None
        for number, line in lines:
            try:
                yield from _objects(parse_json(line), f"line {number}", parsed)
            except UnusableError as error:
                parsed.reject(f"line {number}", str(error))
        return
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from _objects(item, f"[{index}]", parsed)
        return
    if not isinstance(document, dict):
        raise InvalidInputError.single(FILE_FIELD, f"holds {shown(document)}, not an object or a list of them")
    yield "run", document


def _objects(value: Any, place: str, parsed: Parsed) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, dict):
        yield place, value
    else:
        parsed.reject(place, f"is {shown(value)}, not an object")


def csv_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it ends, cells as they are) of every row; an empty line has none.

    Raises:
        InvalidInputError: it is no CSV; rows before the fault have been handed out.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InvalidInputError.single(FILE_FIELD, f"line {reader.line_num}: {error}") from None


def csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """:func:`csv_lines` in which a row of blanks alone is an empty line.

    Raises:
        InvalidInputError: it is no CSV; rows before the fault have been handed out.
    """
    return ((line, row if any(cell.strip() for cell in row) else []) for line, row in csv_lines(text))


def csv_records(text: str, required: tuple[str, ...], parsed: Parsed) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, cells by column) of every row under a header; a row of another length is rejected.

    Raises:
        InvalidInputError: it is no CSV, or the header lacks a required column.
    """
    rows = ((line, row) for line, row in csv_rows(text) if row)
    _, header = next(rows, (0, []))
    header = [cell.strip() for cell in header]
    missing = [column for column in required if column not in header]
    if missing:
        raise InvalidInputError.single(FILE_FIELD, f"the header has no column {', '.join(missing)}")
    for line, row in rows:
        if len(row) != len(header):
            parsed.reject(f"line {line}", f"has {len(row)} cells, the header {len(header)}")
        else:
            yield line, dict(zip(header, row, strict=True))


def number(value: Any) -> float | None:
    """A finite number, written as one or as text; anything else is ``None``."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def whole(value: Any) -> int | None:
    """A whole number of at most nine digits, written as one or as text; anything else is ``None``."""
    result = number(value)
    return int(result) if result is not None and result.is_integer() and abs(result) < 1e9 else None


def cell_number(record: Mapping[str, str], column: str, read: Callable[[str], _T | None]) -> _T | None:
    """The number in a cell; ``None`` where it is empty or there is no such column.

    Args:
        record: cells by column.
        column: the cell's.
        read: :func:`number` or :func:`whole`.

    Raises:
        UnusableError: it holds something else.
    """
    cell = record.get(column, "").strip()
    if not cell:
        return None
    found = read(cell)
    if found is None:
        raise UnusableError(f"{column} is {shown(cell)}, not a {'whole ' if read is whole else ''}number")
    return found


def text_of(value: Any) -> str | None:
    """Text with something in it, without the blanks around it; anything else is ``None``.

    What cannot be printed, and what a database would refuse (half a surrogate pair, a null byte), becomes U+FFFD.
    """
    if not isinstance(value, str):
        return None
    return "".join(character if character.isprintable() else "\ufffd" for character in value.strip()) or None


def mapping(value: Any) -> Mapping[str, Any]:
    """An object as it is; anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def at(record: Any, *path: str) -> Any:
    """The value at a path of keys; ``None`` when any of them is missing."""
    for key in path:
        record = mapping(record).get(key)
    return record


def shown(value: Any) -> str:
    """A value as a message may show it: short, and on one line."""
    text = repr(value) if isinstance(value, str | int | float | bool) or value is None else f"a {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
