"""Writes what was read from a benchmark file into the measurements, once."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from capplan.catalog.importers.formats import parse
from capplan.catalog.importers.reading import text_of
from capplan.catalog.importers.resolution import Resolver
from capplan.catalog.importers.runs import Facts, Rejection
from capplan.catalog.measurements import mark_measurements_changed
from capplan.catalog.repository import lock_catalog, raise_revision, read_revision, table_of
from capplan.catalog.snapshot import load_snapshot
from capplan.catalog.tables import MeasurementImportRow, MeasurementRow
from capplan.errors import NotFoundError

_CHUNK_ROWS = 500
_MAX_FILE_NAME = 200

Progress = Callable[[int, int], None]
"""Called with the runs done and the runs there are."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        import_id: names the import, e.g. to take it back.
        landed: figures that are measurements now.
        present: figures that were measurements already.
        rejections: what could not be used, in the file's order.
        revision: the catalogue's revision afterwards.
    """

    import_id: int
    landed: int
    present: int
    rejections: tuple[Rejection, ...]
    revision: int


def import_measurements(
    session: Session,
    content: bytes,
    format_: str,
    file_name: str,
    given: Facts,
    now: datetime.datetime,
    progress: Progress = lambda _done, _all: None,
) -> ImportReport:
    """Import a benchmark result file as the fleet's own measurements, in the session's transaction.

    What cannot be used is reported, and the rest lands; a figure that is there already does not land again.

    Args:
        session: a session on a database with the current schema.
        content: the file's bytes.
        format_: one of ``importers.formats.PARSERS``.
        file_name: for the record, and the source's title where none is stated.
        given: what is known of every run of the file. Where the file says something else, a name given here wins, and
            a run that differs in anything else is rejected.
        now: time of the import; its date stands in for a date the file does not state.
        progress: told how far it is.

    Raises:
        InvalidInputError: the format is unknown, or the file is not of that format at all; nothing was written.
    """
    parsed = parse(content, format_)
    name = (text_of(file_name) or "-")[:_MAX_FILE_NAME]
    lock_catalog(session)
    resolver = Resolver(load_snapshot(session), given, f"import of {name}", now.date().isoformat())
    table = table_of(MeasurementRow)
    known = set(session.execute(select(table.c.key)).scalars())
    rejections = list(parsed.rejections)
    landing: list[dict[str, Any]] = []
    present = 0
    for done, run in enumerate(parsed.runs, start=1):
        rows, fault = resolver.rows(run)
        if fault:
            rejections.append(Rejection(run.place, fault))
        for row in rows:
            if row["key"] in known:
                present += 1
            else:
                known.add(row["key"])
                landing.append(row)
        progress(done, len(parsed.runs))
    import_id = session.execute(
        insert(MeasurementImportRow)
        .values(
            file_name=name,
            digest=hashlib.sha256(content).hexdigest(),
            format=format_,
            imported_at=now,
            landed=len(landing),
            present=present,
            rejected=len(rejections),
        )
        .returning(MeasurementImportRow.id)
    ).scalar_one()
    marks = {"import_id": import_id, "edited": True, "retired": False}
    for chunk in _chunks(landing):
        session.execute(insert(table), [row | marks for row in chunk])
    revision = read_revision(session).number
    if landing:
        revision = raise_revision(session)
        mark_measurements_changed(session, revision)
    return ImportReport(import_id, len(landing), present, tuple(rejections), revision)


def forget_import(session: Session, import_id: int) -> int:
    """Take an import back: its measurements go, and its record stays, with nothing landed.

    Returns:
        How many measurements went.

    Raises:
        NotFoundError: there is no such import.
    """
    lock_catalog(session)
    record = table_of(MeasurementImportRow)
    if (
        session.execute(update(record).where(record.c.id == import_id).values(landed=0).returning(record.c.id)).first()
        is None
    ):
        raise NotFoundError("import", str(import_id))
    table = table_of(MeasurementRow)
    gone = len(session.execute(delete(table).where(table.c.import_id == import_id).returning(table.c.key)).all())
    if gone:
        mark_measurements_changed(session, raise_revision(session))
    return gone


def _chunks(rows: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    for start in range(0, len(rows), _CHUNK_ROWS):
        yield rows[start : start + _CHUNK_ROWS]
