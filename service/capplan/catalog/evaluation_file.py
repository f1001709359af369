"""A CSV table of published figures to predict: read with the importers' own rules, and written back with predictions.

Columns are those of the plain table that can be imported. ``value`` may be empty or missing: such a row is predicted
and compared with nothing. Every row of the file is kept with its cells as they are, be it as unusable as it may.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from capplan.catalog.evaluation_table import check_width, read_rows, table_with_predictions
from capplan.catalog.importers.reading import UnusableError, cell_number, number
from capplan.catalog.importers.resolution import Resolver
from capplan.catalog.importers.runs import Facts
from capplan.catalog.importers.table import parse_table
from capplan.catalog.measurements import to_measurement
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.estimation.measurement import Measurement

ADDED_COLUMNS: Final = (
    "predicted",
    "lower",
    "upper",
    "provenance",
    "bottleneck",
    "layout_chosen",
    "not_predicted_reason",
)
"""Columns that a table of predictions has beside those of its input."""

_REQUIRED: Final = ("model", "gpu", "load_kind", "metric")
_UNSTATED: Final = "unstated"
_NOT_STATED: Final = "not stated"


@dataclass(frozen=True, slots=True)
class PublishedNames:
    """What a row calls its model, formats, device and engine."""

    model: str
    weight_precision: str
    kv_precision: str
    gpu: str
    engine: str


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One row of the file.

    Attributes:
        line: line of the file on which it ends.
        cells: as they are in the file.
        names: what it calls things; ``None`` where its cells are not those of the header.
        measurement: its figure over the whole deployment, NaN where the row states none; ``None`` where the row cannot
            be used.
        measured: the figure in the row's own unit; ``None`` where the row states none.
        unit: what the row's own figure is to be multiplied with for the whole deployment's: the devices where a rate is
            per device, else 1.
        fault: why the row cannot be used, empty where it can.
        malformed: whether the row itself is at fault, not what the catalogue knows.
    """

    line: int
    cells: tuple[str, ...]
    names: PublishedNames | None
    measurement: Measurement | None
    measured: float | None
    unit: float
    fault: str
    malformed: bool


@dataclass(frozen=True, slots=True)
class EvaluationFile:
    """The whole file."""

    header: tuple[str, ...]
    rows: tuple[EvaluationRow, ...]


def read_evaluation_file(content: bytes, snapshot: CatalogSnapshot, engines: Collection[str]) -> EvaluationFile:
    """Reads the file.

    Args:
        content: its bytes.
        snapshot: the catalogue that names are looked up in.
        engines: canonical engine names that measurements are known of.

    Raises:
        InvalidInputError: it is no UTF-8 or no CSV, or its header lacks a column, has one twice, or has one that
            predictions would add.
    """
    header, columns, rows = read_rows(content, _REQUIRED, ADDED_COLUMNS)
    resolver = Resolver(snapshot, Facts(), _NOT_STATED, _NOT_STATED)
    reader = _RowReader(columns, resolver, frozenset(engines))
    return EvaluationFile(tuple(header), tuple(reader.read(line, cells) for line, cells in rows))


class _RowReader:
    def __init__(self, columns: Sequence[str], resolver: Resolver, engines: frozenset[str]) -> None:
        self._columns = columns
        self._resolver = resolver
        self._engines = engines

    def read(self, line: int, cells: Sequence[str]) -> EvaluationRow:
        row = EvaluationRow(line, tuple(cells), None, None, None, 1.0, "", False)
        try:
            check_width(cells, self._columns)
            record = dict(zip(self._columns, cells, strict=True))
            row = replace(row, names=_published(record))
            measured = _measured(record)
            return self._resolved(replace(row, measured=measured), record)
        except UnusableError as error:
            return replace(row, fault=str(error), malformed=True)

    def _resolved(self, row: EvaluationRow, record: Mapping[str, str]) -> EvaluationRow:
        # Each figure is read as 1: what comes back is the factor from the row's unit to the whole deployment's.
        parsed = parse_table(_one_row_table({**record, "value": "1", **self._respelled(record)}))
        if parsed.rejections:
            raise UnusableError(parsed.rejections[0].reason)
        run = parsed.runs[0]
        found, fault = self._resolver.rows(run)
        if not found:
            return replace(row, fault=fault)
        unit = run.figures[0].value
        value = math.nan if row.measured is None else row.measured * unit
        return replace(row, measurement=to_measurement({"source_url": None} | found[0] | {"value": value}), unit=unit)

    def _respelled(self, record: Mapping[str, str]) -> dict[str, str]:
        """Spellings of published tables that the importer leaves to whoever makes a table for it."""
        respelled = {}
        if record.get("statistic", "").strip().lower().startswith(_UNSTATED):
            respelled["statistic"] = ""
        if "engine" in record:
            respelled["engine"] = canonical_engine(record["engine"], self._engines)
        return respelled


def canonical_engine(name: str, known: Collection[str]) -> str:
    """An engine under a known name, in lower case.

    Remarks in parentheses are left out, ``vLLM (2023)`` is ``vllm``, and a product is the engine it says it runs,
    ``NIM (TensorRT-LLM)`` is ``tensorrt-llm``, as long as that name is known; any other name stays as it is.
    """
    whole = name.strip().lower()
    before, _, rest = whole.partition("(")
    candidates = (whole, rest.partition(")")[0].strip(), before.strip())
    return next((candidate for candidate in candidates if candidate in known), whole)


def _measured(record: Mapping[str, str]) -> float | None:
    value = cell_number(record, "value", number)
    if value is not None and value <= 0.0:
        raise UnusableError(f"value is {value:g}, not above 0")
    return value


def _published(record: Mapping[str, str]) -> PublishedNames:
    columns = ("model", "weight_precision", "kv_precision", "gpu", "engine")
    return PublishedNames(*(record.get(column, "").strip() for column in columns))


def _one_row_table(record: Mapping[str, str]) -> str:
    table = io.StringIO(newline="")
    csv.writer(table).writerows((record.keys(), record.values()))
    return table.getvalue()


def predictions_table(file: EvaluationFile, added: Iterable[Sequence[str]]) -> str:
    """The file's text with :data:`ADDED_COLUMNS`.

    Args:
        file: what was read.
        added: cells of the added columns, row by row.
    """
    return table_with_predictions(file.header, ADDED_COLUMNS, zip((row.cells for row in file.rows), added, strict=True))
