"""Compares a table with the rows it should have, and writes the difference; rows of an operator stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, delete, insert, update
from sqlalchemy.orm import Session

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableReport:
    """What loading did to one table.

    Attributes:
        inserted: rows that were not there.
        updated: rows whose shipped facts had changed.
        unchanged: rows that were right already.
        kept: rows an operator had changed or deleted, left as they are.
        withdrawn: rows that are no longer shipped and that no operator had touched; deleted.
    """

    inserted: int
    updated: int
    unchanged: int
    kept: int
    withdrawn: int

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return bool(self.inserted or self.updated or self.withdrawn)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What is to be written to one table. Rows are whole, and found again by their key columns."""

    table: Table
    key: tuple[str, ...]
    inserted: tuple[Row, ...]
    updated: tuple[Row, ...]
    withdrawn: tuple[Row, ...]
    unchanged: int
    kept: int

    @property
    def report(self) -> TableReport:
        """The plan, counted."""
        return TableReport(len(self.inserted), len(self.updated), self.unchanged, self.kept, len(self.withdrawn))

    def withdraw(self, session: Session) -> None:
        """Delete the rows that are no longer shipped."""
        for row in self.withdrawn:
            session.execute(delete(self.table).where(self._is(row)))

    def write(self, session: Session) -> None:
        """Insert and update."""
        if self.inserted:
            session.execute(insert(self.table), self._columns(self.inserted))
        for row, values in zip(self.updated, self._columns(self.updated), strict=True):
            session.execute(update(self.table).where(self._is(row)).values(values))

    def _is(self, row: Row) -> ColumnElement[bool]:
        return and_(*(self.table.c[column] == row[column] for column in self.key))

    def _columns(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        names = set(self.table.c.keys())
        return [{column: value for column, value in row.items() if column in names} for row in rows]


def plan_table(
    table: Table,
    key: tuple[str, ...],
    shipped: Iterable[Row],
    existing: Iterable[Row],
    *,
    needed: Callable[[Row], bool] = lambda _: False,
    frozen: Callable[[Row], bool] = lambda _: False,
) -> TablePlan:
    """Compare what is shipped with what is there.

    Args:
        table: the table.
        key: columns that identify a row.
        shipped: whole rows as they should be, without the operator's marks.
        existing: whole rows as they are.
        needed: whether a row must not be deleted, because a row of an operator refers to it.
        frozen: whether a row must not be touched, because it is part of something an operator changed.
    """
    old = {_key(row, key): row for row in existing}
    new = {_key(row, key): row for row in shipped}
    inserted, updated = [], []
    unchanged = kept = 0
    for identity, row in new.items():
        present = old.get(identity)
        if present is None:
            if frozen(row):
                kept += 1
            else:
                inserted.append(row)
        elif all(present[column] == value for column, value in row.items()):
            unchanged += 1
        elif present["edited"] or frozen(present):
            kept += 1
        else:
            updated.append(row)
    withdrawn = tuple(
        row
        for identity, row in old.items()
        if identity not in new and not (row["edited"] or needed(row) or frozen(row))
    )
    return TablePlan(table, key, tuple(inserted), tuple(updated), withdrawn, unchanged, kept)


def _key(row: Row, columns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)
