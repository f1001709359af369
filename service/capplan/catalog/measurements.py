"""Measured figures between SQL and the core: their identity, reading them, and the revision they are at."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from capplan.catalog.filtering import FieldKind, FilterField
from capplan.catalog.tables import (
    AcceleratorRow,
    MeasurementImportRow,
    MeasurementRevisionRow,
    MeasurementRow,
    ModelProfileRow,
)
from capplan.estimation.measurement import OWN_TRUST, Measurement

Row = Mapping[str, Any]

# Not the source and its date: a copy of a file, or the same file imported on another day, must have the same keys.
_IDENTITY: Final = (
    "engine",
    "engine_version",
    "model",
    "weights",
    "kv_cache",
    "sku",
    "mig_profile",
    "devices",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "attention_data_parallel",
    "input_tokens",
    "output_tokens",
    "load_kind",
    "load_value",
    "metric",
    "statistic",
    "value",
)


@dataclass(frozen=True, slots=True)
class MeasurementRecord:
    """One measurement and what the estimator does not need of it.

    Attributes:
        measurement: the estimator's view.
        notes: what a reader must know and no field says.
        import_id: the import that brought it; ``None`` for a shipped one.
    """

    measurement: Measurement
    notes: str | None
    import_id: int | None


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """One import of a benchmark result file.

    Attributes:
        digest: SHA-256 of the file's bytes, hexadecimal.
        imported_at: when (UTC).
        landed: figures that became measurements; 0 once the import was taken back.
        present: figures that were measurements already.
        rejected: parts of the file that could not be used.
    """

    import_id: int
    file_name: str
    digest: str
    format: str
    imported_at: datetime.datetime
    landed: int
    present: int
    rejected: int


def _measurement_field(name: str) -> Callable[[MeasurementRecord], Any]:
    def read(record: MeasurementRecord) -> Any:
        value = getattr(record.measurement, name)
        return None if value == "" else value

    return read


_KIND_OF_TYPE: Final = MappingProxyType(
    {
        "str": FieldKind.TEXT,
        "int": FieldKind.NUMBER,
        "int | None": FieldKind.NUMBER,
        "float": FieldKind.NUMBER,
        "float | None": FieldKind.NUMBER,
        "bool": FieldKind.BOOLEAN,
        "tuple[str, ...]": FieldKind.TEXTS,
    }
)

MEASUREMENT_FIELDS: Final[Mapping[str, FilterField[MeasurementRecord]]] = MappingProxyType(
    {
        # Annotations are text, since the module that declares them postpones their evaluation.
        field.name: FilterField(_KIND_OF_TYPE[str(field.type)], _measurement_field(field.name))
        for field in fields(Measurement)
    }
    | {
        "notes": FilterField(FieldKind.TEXT, lambda record: record.notes),
        "import_id": FilterField(FieldKind.NUMBER, lambda record: record.import_id),
    }
)
"""What a filter over measurements may name."""


def measurement_key(row: Row) -> str:
    """The digest that names a figure: of its configuration, load, metric and value, not of where it was read.

    Args:
        row: columns of ``measurements`` by name; a missing fact is ``None``.
    """
    # 128 and 128.0 tokens are one length.
    content = [float(value) if isinstance(value := row[column], int) else value for column in _IDENTITY]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]


def to_measurement(row: Row) -> Measurement:
    """A row of ``measurements``."""
    return Measurement(
        key=row["key"],
        source=row["source"],
        source_url=row["source_url"] or "",
        as_of=row["as_of"],
        engine=row["engine"],
        engine_version=row["engine_version"] or "",
        model=row["model"],
        weights=row["weights"],
        kv_cache=row["kv_cache"],
        sku=row["sku"],
        mig_profile=row["mig_profile"] or "",
        devices=row["devices"],
        tensor_parallel=row["tensor_parallel"],
        pipeline_parallel=row["pipeline_parallel"],
        expert_parallel=row["expert_parallel"],
        attention_data_parallel=row["attention_data_parallel"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        load_kind=row["load_kind"],
        load_value=row["load_value"],
        metric=row["metric"],
        statistic=row["statistic"] or "",
        value=row["value"],
        trust=row["trust"],
        flags=tuple((row["flags"] or "").split()),
        own=row["trust"] == OWN_TRUST,
    )


def read_measurements(session: Session) -> list[MeasurementRecord]:
    """Every measurement of a model and an accelerator that the catalogue has, by key."""
    return _read(session)


def read_own_measurements(session: Session) -> list[MeasurementRecord]:
    """The fleet's own of them, by key; next to nothing is read where nothing was imported."""
    imported = select(MeasurementImportRow.id).where(MeasurementImportRow.landed > 0).limit(1)
    return _read(session, MeasurementRow.trust == OWN_TRUST) if session.execute(imported).first() else []


def _read(session: Session, *conditions: ColumnElement[bool]) -> list[MeasurementRecord]:
    # Nothing deleted by an operator, nor of anything an operator deleted.
    query = (
        select(*MeasurementRow.__table__.columns)
        .join(ModelProfileRow, MeasurementRow.model == ModelProfileRow.name)
        .join(AcceleratorRow, MeasurementRow.sku == AcceleratorRow.sku)
        .where(~MeasurementRow.retired, ~ModelProfileRow.retired, ~AcceleratorRow.retired, *conditions)
        .order_by(MeasurementRow.key)
    )
    return [
        MeasurementRecord(to_measurement(dict(row)), row["notes"], row["import_id"])
        for row in session.execute(query).mappings()
    ]


def load_measurements(session: Session) -> tuple[Measurement, ...]:
    """What the estimator is calibrated on: every measurement, by key.

    They are no part of the catalogue's snapshot, since few readers need them: ask :func:`measurement_revision` first,
    and load them again only when it has grown.
    """
    return tuple(record.measurement for record in read_measurements(session))


def read_imports(session: Session) -> list[ImportRecord]:
    """Every import, oldest first."""
    rows = session.execute(select(*MeasurementImportRow.__table__.columns).order_by(MeasurementImportRow.id)).all()
    imports = (ImportRecord(*row) for row in rows)
    # SQLite drops the time zone.
    return [
        row if row.imported_at.tzinfo else replace(row, imported_at=row.imported_at.replace(tzinfo=datetime.UTC))
        for row in imports
    ]


def measurement_revision(session: Session) -> int:
    """The catalogue's revision at which the measurements last changed; 0 while there never were any."""
    return session.execute(select(MeasurementRevisionRow.revision)).scalar_one()


def mark_measurements_changed(session: Session, revision: int) -> None:
    """Record the catalogue's revision that a change of the measurements raised, in that change's transaction."""
    session.execute(update(MeasurementRevisionRow).values(revision=revision))
