"""An operator's changes of the catalogue: one row at a time, marked so that loading shipped facts leaves it alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import CheckConstraint, String, Table, UniqueConstraint, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from capplan.catalog.repository import lock_catalog, raise_revision, table_of
from capplan.catalog.tables import (
    AcceleratorAliasRow,
    AcceleratorRow,
    CloudInstanceRow,
    DevicePriceRow,
    MigBoardRow,
    MigProfileRow,
    MigProfileStartRow,
    ModelAliasRow,
    ModelProfileRow,
)
from capplan.errors import FieldViolation, InvalidInputError, NotFoundError

EditableRow = (
    type[AcceleratorRow]
    | type[AcceleratorAliasRow]
    | type[CloudInstanceRow]
    | type[DevicePriceRow]
    | type[MigBoardRow]
    | type[MigProfileRow]
    | type[ModelAliasRow]
    | type[ModelProfileRow]
)

_EDITED: Final = MappingProxyType({"edited": True, "retired": False})


def put_row(session: Session, row_type: EditableRow, values: Mapping[str, Any]) -> int:
    """Create a row or change the given columns of it, and raise the catalogue's revision.

    Args:
        session: a session; the change is part of its transaction, which stays usable when the row is refused.
        row_type: the table.
        values: columns by name, the whole key among them; a new row needs every column that must have a value.

    Returns:
        The new revision.

    Raises:
        InvalidInputError: a column is unknown, or a value breaks a rule of the table; the message states the rule.
    """
    table = table_of(row_type)
    lock_catalog(session)
    _write(session, table, values)
    return raise_revision(session)


def put_mig_profile(session: Session, values: Mapping[str, Any], starts: Sequence[int]) -> int:
    """Create or change a MIG profile together with its start table; otherwise like :func:`put_row`."""
    table, start_table = table_of(MigProfileRow), table_of(MigProfileStartRow)
    lock_catalog(session)
    with session.begin_nested():
        key = {column: values.get(column) for column in ("board", "profile_id")}
        session.execute(delete(start_table).where(*(start_table.c[name] == value for name, value in key.items())))
        _write(session, table, values)
        sizes = session.execute(
            select(table.c.memory_slices, table.c.grid_units).where(*(table.c[n] == v for n, v in key.items()))
        ).one()
        for start in starts:
            _write(session, start_table, {**key, **sizes._mapping, "start": start}, marks={})
    return raise_revision(session)


def retire_row(session: Session, row_type: EditableRow, key: Mapping[str, Any]) -> int:
    """Delete a row for its readers, and raise the revision. It stays as a mark, so that loading does not revive it.

    Raises:
        NotFoundError: there is no such row.
    """
    table = table_of(row_type)
    lock_catalog(session)
    found = session.execute(
        update(table).where(_is(table, key), ~table.c.retired).values(edited=True, retired=True).returning(table)
    ).first()
    if found is None:
        raise NotFoundError(table.name, "/".join(str(key[column.name]) for column in table.primary_key))
    return raise_revision(session)


def _write(
    session: Session,
    table: Table,
    values: Mapping[str, Any],
    marks: Mapping[str, Any] = _EDITED,
) -> None:
    _check_values(table, values)
    row = {**values, **marks}
    try:
        with session.begin_nested():
            present = session.execute(select(table).where(_is(table, values))).first()
            if present is None:
                session.execute(insert(table).values(row))
            else:
                session.execute(update(table).where(_is(table, values)).values(row))
    except IntegrityError as error:
        raise InvalidInputError([_violation(table, error)]) from None


def _is(table: Table, key: Mapping[str, Any]) -> Any:
    return and_(*(column == key[column.name] for column in table.primary_key))


def _check_values(table: Table, values: Mapping[str, Any]) -> None:
    """What the database would not refuse: SQLite knows no text lengths and stores NaN as null."""
    accepted = [column.name for column in table.columns if column.name not in _EDITED]
    faults = [
        FieldViolation(name, f"{table.name} has no such column; accepted: {', '.join(accepted)}")
        for name in values
        if name not in accepted
    ]
    faults += [
        FieldViolation(column.name, "is part of the key and must be given")
        for column in table.primary_key
        if values.get(column.name) is None
    ]
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            faults.append(FieldViolation(name, f"{value} is not a finite number"))
        kind = table.columns[name].type if name in table.columns else None
        if isinstance(kind, String) and kind.length and isinstance(value, str) and len(value) > kind.length:
            faults.append(FieldViolation(name, f"has {len(value)} characters, at most {kind.length} are accepted"))
    if faults:
        raise InvalidInputError(faults)


def _violation(table: Table, error: IntegrityError) -> FieldViolation:
    """The rule a refused row broke, as a violation of the column it is about."""
    message = str(error.orig)
    for constraint in table.constraints:
        if isinstance(constraint, CheckConstraint) and str(constraint.name) in message:
            rule = str(constraint.sqltext)
            named = [column.name for column in table.columns if column.name in rule]
            return FieldViolation(max(named, key=len, default=table.name), f"must fulfil: {rule}")
        if isinstance(constraint, UniqueConstraint):
            names = [column.name for column in constraint.columns]
            # PostgreSQL names the constraint, SQLite its columns.
            if str(constraint.name) in message or ", ".join(f"{table.name}.{name}" for name in names) in message:
                return FieldViolation(names[-1], f"another row has the same {', '.join(names)}")
    if "not null" in message.lower().replace("-", " "):
        for column in table.columns:
            if f"{table.name}.{column.name}" in message or f'column "{column.name}"' in message:
                return FieldViolation(column.name, "must have a value")
    references = sorted(
        f"{', '.join(key.column_keys)} ({key.referred_table.name})" for key in table.foreign_key_constraints
    )
    return FieldViolation(table.name, f"refers to a row that does not exist, by one of: {'; '.join(references)}")
