"""The catalogue's SQL: whole tables in, one row out. Nothing here decides anything."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, select, update
from sqlalchemy.orm import Session

from capplan.catalog.conversion import (
    Row,
    to_accelerator_record,
    to_cloud_instance,
    to_mig_board_record,
    to_model_profile,
    to_price_record,
)
from capplan.catalog.records import AcceleratorRecord, CloudInstance, MigBoardRecord, ModelProfile, PriceRecord
from capplan.catalog.tables import (
    AcceleratorAliasRow,
    AcceleratorRow,
    CatalogRevisionRow,
    CloudInstanceRow,
    DevicePriceRow,
    MigBoardRow,
    MigProfileRow,
    MigProfileStartRow,
    ModelAliasRow,
    ModelProfileRow,
)
from capplan.database import Base


@dataclass(frozen=True, slots=True)
class Revision:
    """The catalogue's revision and when it was raised (UTC)."""

    number: int
    updated_at: datetime.datetime


def table_of(row_type: type[Base]) -> Table:
    """The table of a row class."""
    table = row_type.__table__
    assert isinstance(table, Table)
    return table


def read_all(session: Session, row_type: type[Base]) -> Sequence[Row]:
    """Every row of a table, by primary key."""
    table = table_of(row_type)
    rows = session.execute(select(table).order_by(*table.primary_key))
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _read_live(session: Session, row_type: type[Base]) -> list[Row]:
    return [row for row in read_all(session, row_type) if not row["retired"]]


def read_revision(session: Session) -> Revision:
    """The revision now."""
    number, updated_at = session.execute(select(CatalogRevisionRow.revision, CatalogRevisionRow.updated_at)).one()
    # SQLite drops the time zone.
    return Revision(number, updated_at if updated_at.tzinfo else updated_at.replace(tzinfo=datetime.UTC))


def lock_catalog(session: Session) -> None:
    """Wait for every other writer of the catalogue and keep further ones out until the transaction ends."""
    session.execute(update(CatalogRevisionRow).values(revision=CatalogRevisionRow.revision))


def raise_revision(session: Session) -> int:
    """Raise the revision by one, in the transaction of the change it announces, and return it."""
    session.execute(
        update(CatalogRevisionRow).values(
            revision=CatalogRevisionRow.revision + 1, updated_at=datetime.datetime.now(datetime.UTC)
        )
    )
    return read_revision(session).number


def read_accelerators(session: Session) -> list[AcceleratorRecord]:
    """Every accelerator with its names, by SKU."""
    aliases = _grouped(_read_live(session, AcceleratorAliasRow), "sku", "alias")
    return [to_accelerator_record(row, aliases[row["sku"]]) for row in _read_live(session, AcceleratorRow)]


def read_mig_boards(session: Session) -> list[MigBoardRecord]:
    """Every MIG board with its profiles, by key."""
    starts: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row in read_all(session, MigProfileStartRow):
        starts[row["board"], row["profile_id"]].append(row["start"])
    profiles: defaultdict[str, list[tuple[Row, list[int]]]] = defaultdict(list)
    for row in _read_live(session, MigProfileRow):
        profiles[row["board"]].append((row, starts[row["board"], row["profile_id"]]))
    return [to_mig_board_record(row, profiles[row["board"]]) for row in _read_live(session, MigBoardRow)]


def read_prices(session: Session) -> list[PriceRecord]:
    """Every summary price, by SKU, term and market."""
    return [to_price_record(row) for row in _read_live(session, DevicePriceRow)]


def read_cloud_instances(session: Session) -> list[CloudInstance]:
    """Every cloud shape, by cloud, type and region."""
    return [to_cloud_instance(row) for row in _read_live(session, CloudInstanceRow)]


def read_models(session: Session) -> list[ModelProfile]:
    """Every model profile with its names, by name."""
    aliases = _grouped(_read_live(session, ModelAliasRow), "name", "alias")
    return [to_model_profile(row, aliases[row["name"]]) for row in _read_live(session, ModelProfileRow)]


def _grouped(rows: list[Row], by: str, value: str) -> defaultdict[str, list[Any]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row[by]].append(row[value])
    return groups
