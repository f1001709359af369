"""The facts that come with the package: data files under ``catalog/data``, read into rows of the catalogue's tables."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from sqlalchemy import Date, Double, Integer, Table
from sqlalchemy.types import TypeEngine

from capplan.catalog.measurements import measurement_key
from capplan.catalog.names import fold_accelerator_name, fold_model_name
from capplan.catalog.repository import table_of
from capplan.catalog.tables import (
    AcceleratorAliasRow,
    AcceleratorRow,
    CloudInstanceRow,
    DevicePriceRow,
    MeasurementRow,
    MigBoardRow,
    MigProfileRow,
)

Values = dict[str, Any]
"""One row, by column."""

_MODELS_FILE: Final = "model_profiles.jsonl"
_CALIBRATION_FILE: Final = "calibration.json"

_MODEL_COLUMNS: Final = (
    "name",
    "family",
    "total_parameters",
    "parameters_source",
    "confidence",
    "facts",
    "cache_bytes_per_token_16bit",
    "state_bytes_per_sequence",
)


@dataclass(frozen=True, slots=True)
class ShippedCatalog:
    """Rows as the package ships them, without the operator's marks.

    Attributes:
        mig_profile_starts: legal starts by (board, profile id).
        calibrations: the calibration of the step model, as JSON values by column.
    """

    accelerators: tuple[Values, ...]
    accelerator_aliases: tuple[Values, ...]
    mig_boards: tuple[Values, ...]
    mig_profiles: tuple[Values, ...]
    mig_profile_starts: Mapping[tuple[str, int], tuple[int, ...]]
    device_prices: tuple[Values, ...]
    cloud_instances: tuple[Values, ...]
    model_profiles: tuple[Values, ...]
    model_aliases: tuple[Values, ...]
    measurements: tuple[Values, ...]
    calibrations: tuple[Values, ...]


def read_shipped() -> ShippedCatalog:
    """Read every data file of the package.

    Raises:
        ValueError: a file does not have the table's columns, or a cell not the column's type; the package is broken.
    """
    boards = tuple(_csv_rows("mig_boards.csv", table_of(MigBoardRow)))
    grids = {board["board"]: board["grid_units"] for board in boards}
    profiles, starts = [], {}
    for row in _csv_rows("mig_profiles.csv", table_of(MigProfileRow), derived=("grid_units",), extra=("starts",)):
        listed = row.pop("starts")
        starts[row["board"], row["profile_id"]] = tuple(sorted(int(start) for start in listed.split()))
        profiles.append(row | {"grid_units": grids[row["board"]]})
    models, model_aliases = parse_model_profiles(_text(_MODELS_FILE))
    return ShippedCatalog(
        accelerators=tuple(_csv_rows("accelerators.csv", table_of(AcceleratorRow))),
        accelerator_aliases=tuple(
            row | {"folded": fold_accelerator_name(row["alias"])}
            for row in _csv_rows("accelerator_aliases.csv", table_of(AcceleratorAliasRow), derived=("folded",))
        ),
        mig_boards=boards,
        mig_profiles=tuple(profiles),
        mig_profile_starts=starts,
        device_prices=tuple(_csv_rows("device_prices.csv", table_of(DevicePriceRow))),
        cloud_instances=tuple(_csv_rows("cloud_instances.csv", table_of(CloudInstanceRow))),
        model_profiles=models,
        model_aliases=model_aliases,
        measurements=tuple(_measurements()),
        calibrations=_calibrations(),
    )


def _measurements() -> Iterator[Values]:
    """Rows of the measurements, with their sources from the file that lists each source once."""
    with_source = ("source", "source_url")
    records = csv.DictReader(_text("measurement_sources.csv").splitlines())
    sources = {record["source_id"]: {name: record[name] for name in with_source} for record in records}
    derived = ("key", *with_source, "import_id")
    for line, row in enumerate(
        _csv_rows("measurements.csv", table_of(MeasurementRow), derived=derived, extra=("source_id",)), start=2
    ):
        source = sources.get(row.pop("source_id"))
        if source is None:
            raise ValueError(f"measurements.csv, line {line}: its source is not in measurement_sources.csv")
        yield row | source | {"key": measurement_key(row), "import_id": None}


def _calibrations() -> tuple[Values, ...]:
    file = files("capplan.catalog") / "data" / _CALIBRATION_FILE
    return (json.loads(file.read_text(encoding="utf-8")),) if file.is_file() else ()


def _text(name: str) -> str:
    return (files("capplan.catalog") / "data" / name).read_text(encoding="utf-8")


def _csv_rows(name: str, table: Table, derived: tuple[str, ...] = (), extra: tuple[str, ...] = ()) -> Iterator[Values]:
    """Rows of one file, cells in the type of their column; an empty cell is a missing fact.

    Args:
        name: the file.
        table: whose columns it must have, except the operator's marks.
        derived: columns the file leaves out, because they follow from others.
        extra: columns of the file that the table does not have; their cells stay text.
    """
    columns = {column.name: column for column in table.columns if column.name not in {"edited", "retired", *derived}}
    parsers = {column.name: _parser(column.type) for column in columns.values()}
    reader = csv.DictReader(_text(name).splitlines())
    expected = {*columns, *extra}
    if set(reader.fieldnames or ()) != expected:
        raise ValueError(f"{name}: columns {sorted(expected ^ set(reader.fieldnames or ()))} are missing or unknown")
    for line, record in enumerate(reader, start=2):
        row: Values = {}
        for column, cell in record.items():
            try:
                row[column] = cell if column in extra else parsers[column](cell) if cell else None
            except ValueError as error:
                raise ValueError(f"{name}, line {line}, {column}: {error}") from None
        yield row


def _parser(column_type: TypeEngine[Any]) -> Callable[[str], Any]:
    if isinstance(column_type, Integer):
        return int
    if isinstance(column_type, Double):
        return float
    if isinstance(column_type, Date):
        return datetime.date.fromisoformat
    return str


def parse_model_profiles(text: str) -> tuple[tuple[Values, ...], tuple[Values, ...]]:
    """Rows of the model profiles and of their aliases, from one JSON object a line.

    Raises:
        ValueError: a line is no such object or lacks a key; the package is broken.
    """
    profiles, aliases = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            record = json.loads(line)
            provenance = {"source": record["source"], "as_of": datetime.date.fromisoformat(record["as_of"])}
            profiles.append(
                {column: record[column] for column in _MODEL_COLUMNS}
                | provenance
                | {"folded": fold_model_name(record["name"])}
            )
            aliases += [
                {"folded": fold_model_name(alias), "alias": alias, "name": record["name"]} | provenance
                for alias in record["aliases"]
            ]
        except KeyError as error:
            raise ValueError(f"{_MODELS_FILE}, line {number}: {error} is missing") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{_MODELS_FILE}, line {number}: {error}") from None
    return tuple(profiles), tuple(aliases)
