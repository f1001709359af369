"""Brings a database's catalogue to the shipped facts, leaving alone what an operator wrote."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from capplan.catalog.calibrations import land_shipped_calibrations
from capplan.catalog.measurements import mark_measurements_changed
from capplan.catalog.reconciliation import Row, TablePlan, TableReport, plan_table
from capplan.catalog.repository import lock_catalog, raise_revision, read_all, read_revision, table_of
from capplan.catalog.shipped import ShippedCatalog, read_shipped
from capplan.catalog.tables import (
    AcceleratorAliasRow,
    AcceleratorRow,
    CloudInstanceRow,
    DevicePriceRow,
    MeasurementRow,
    MigBoardRow,
    MigProfileRow,
    MigProfileStartRow,
    ModelAliasRow,
    ModelProfileRow,
)
from capplan.catalog.verification import verify_shipped


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What loading did.

    Attributes:
        tables: report by table.
        revision: the catalogue's revision afterwards; raised by one when any table changed.
    """

    tables: Mapping[str, TableReport]
    revision: int


def load_catalog(session: Session, shipped: ShippedCatalog | None = None) -> LoadReport:
    """Write the shipped facts into the catalogue, in the session's transaction.

    Loading again changes nothing. A row that an operator created, changed or deleted stays as it is, and so do the
    profiles of a MIG board an operator changed. A row that is no longer shipped goes, unless an operator's row needs
    it.

    Args:
        session: a session on a database with the current schema.
        shipped: the facts; those of the package when not given.

    Raises:
        InvalidInputError: the facts contradict themselves; nothing was written.
    """
    facts = shipped if shipped is not None else read_shipped()
    verify_shipped(facts)
    lock_catalog(session)
    there = _Existing.read(session)
    boards = plan_table(table_of(MigBoardRow), ("board",), facts.mig_boards, there.boards, needed=there.needs_board)
    profiles = plan_table(
        table_of(MigProfileRow),
        ("board", "profile_id"),
        [row | {"starts": facts.mig_profile_starts[row["board"], row["profile_id"]]} for row in facts.mig_profiles],
        there.profiles,
        frozen=there.belongs_to_edited_board,
    )
    leaves = {
        "accelerators": plan_table(
            table_of(AcceleratorRow), ("sku",), facts.accelerators, there.accelerators, needed=there.needs_accelerator
        ),
        "accelerator_aliases": plan_table(
            table_of(AcceleratorAliasRow), ("folded",), facts.accelerator_aliases, there.accelerator_aliases
        ),
        "device_prices": plan_table(
            table_of(DevicePriceRow), ("sku", "term", "market"), facts.device_prices, there.prices
        ),
        "cloud_instances": plan_table(
            table_of(CloudInstanceRow), ("cloud", "instance_type", "region"), facts.cloud_instances, there.instances
        ),
        # By folded name: a model whose published name only changed its case or separators is the same model.
        "model_profiles": plan_table(
            table_of(ModelProfileRow), ("folded",), facts.model_profiles, there.models, needed=there.needs_model
        ),
        "model_aliases": plan_table(table_of(ModelAliasRow), ("folded",), facts.model_aliases, there.model_aliases),
        "measurements": plan_table(table_of(MeasurementRow), ("key",), facts.measurements, there.measurements),
    }
    plans = {"mig_boards": boards, "mig_profiles": profiles, **leaves}
    # Children go before their parents, and a board only after the accelerators that leave it have been written.
    for plan in (*reversed(leaves.values()), profiles):
        plan.withdraw(session)
    boards.write(session)
    _write_profiles(session, profiles)
    for plan in leaves.values():
        plan.write(session)
    boards.withdraw(session)
    reports = {name: plan.report for name, plan in plans.items()}
    changed = any(report.changed for report in reports.values())
    revision = raise_revision(session) if changed else read_revision(session).number
    if reports["measurements"].changed:
        mark_measurements_changed(session, revision)
    # After the measurements, since a calibration records the revision of theirs that it was stored at.
    reports["calibrations"] = land_shipped_calibrations(
        session, facts.calibrations, datetime.datetime.now(datetime.UTC)
    )
    if reports["calibrations"].changed and not changed:
        revision = raise_revision(session)
    return LoadReport(reports, revision)


def _write_profiles(session: Session, plan: TablePlan) -> None:
    """Write profiles and their starts; the old starts go first, since they may not lie on the new grid."""
    starts = table_of(MigProfileStartRow)
    for row in plan.updated:
        session.execute(delete(starts).where(starts.c.board == row["board"], starts.c.profile_id == row["profile_id"]))
    plan.write(session)
    key = ("board", "profile_id", "memory_slices", "grid_units")
    new = [
        {column: row[column] for column in key} | {"start": start}
        for row in (*plan.inserted, *plan.updated)
        for start in row["starts"]
    ]
    if new:
        session.execute(insert(starts), new)


@dataclass(frozen=True, slots=True)
class _Existing:
    """The catalogue's tables as they are; profiles carry their starts."""

    boards: Sequence[Row]
    profiles: Sequence[Row]
    accelerators: Sequence[Row]
    accelerator_aliases: Sequence[Row]
    prices: Sequence[Row]
    instances: Sequence[Row]
    models: Sequence[Row]
    model_aliases: Sequence[Row]
    measurements: Sequence[Row]

    @classmethod
    def read(cls, session: Session) -> Self:
        starts: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for row in read_all(session, MigProfileStartRow):
            starts[row["board"], row["profile_id"]].append(row["start"])
        return cls(
            boards=read_all(session, MigBoardRow),
            profiles=[
                {**row, "starts": tuple(starts[row["board"], row["profile_id"]])}
                for row in read_all(session, MigProfileRow)
            ],
            accelerators=read_all(session, AcceleratorRow),
            accelerator_aliases=read_all(session, AcceleratorAliasRow),
            prices=read_all(session, DevicePriceRow),
            instances=read_all(session, CloudInstanceRow),
            models=read_all(session, ModelProfileRow),
            model_aliases=read_all(session, ModelAliasRow),
            measurements=read_all(session, MeasurementRow),
        )

    def belongs_to_edited_board(self, profile: Row) -> bool:
        """Whether an operator changed the profile's board."""
        return any(board["edited"] for board in self.boards if board["board"] == profile["board"])

    def needs_board(self, board: Row) -> bool:
        """Whether a profile or an accelerator of an operator refers to the board."""
        rows = (*_edited(self.profiles, "board"), *_edited(self.accelerators, "mig_board"))
        return board["board"] in rows

    def needs_accelerator(self, accelerator: Row) -> bool:
        """Whether a name, price, instance or measurement of an operator refers to the accelerator."""
        return any(
            accelerator["sku"] in _edited(rows, "sku")
            for rows in (self.accelerator_aliases, self.prices, self.instances, self.measurements)
        )

    def needs_model(self, model: Row) -> bool:
        """Whether a name or a measurement of an operator refers to the model."""
        return model["name"] in _edited(self.model_aliases, "name") | _edited(self.measurements, "model")


def _edited(rows: Iterable[Row], column: str) -> set[Any]:
    return {row[column] for row in rows if row["edited"]}
