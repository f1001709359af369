"""Calibrations between SQL, the shipped file and the core: stored, read, made active, and checked on every way in."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from capplan.catalog.measurements import measurement_revision
from capplan.catalog.reconciliation import TableReport
from capplan.catalog.repository import lock_catalog, raise_revision, read_all, table_of
from capplan.catalog.tables import CalibrationRow
from capplan.catalog.tables.calibrations import OWN, SHIPPED
from capplan.errors import FieldViolation, InvalidInputError
from capplan.estimation.coefficients import Coefficients, checked_coefficients
from capplan.estimation.corrections import REACH_FIELD, Corrections, reach_from_json, reach_to_json
from capplan.estimation.observation import Metric
from capplan.estimation.sites import SITES_FIELD, sites_from_json, sites_to_json

_LINE_BY_LINE: Final = (SITES_FIELD, REACH_FIELD)
_CONTENT: Final = ("generations", "engines", "coefficients", "residuals", *_LINE_BY_LINE)
"""What a calibration says, by column and by key of the shipped file; the last ones have an item a line there."""


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Errors of predictions of one kind of figure against measured ones.

    Attributes:
        rows: rows that could be predicted.
        median: median of ``|predicted / measured - 1|``.
        p90: its 90th percentile.
        bias: median of ``predicted / measured``, less 1; above 0 where predictions are too high.
    """

    rows: int
    median: float
    p90: float
    bias: float

    @classmethod
    def of(cls, ratios: Sequence[float] | NDArray[np.float64]) -> Self:
        """The errors that at least one ratio of predicted over measured stands for; percentiles are interpolated."""
        found = np.asarray(ratios, dtype=np.float64)
        errors = np.abs(found - 1.0)
        return cls(
            rows=len(found),
            median=float(np.median(errors)),
            p90=float(np.quantile(errors, 0.9)),
            bias=float(np.median(found)) - 1.0,
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients and corrections, with their errors on the rows they were fitted to, by metric."""

    coefficients: Coefficients
    residuals: Mapping[str, ErrorSummary]


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """A stored calibration.

    Attributes:
        calibration_id: its number in the database.
        created_at: when it was stored (UTC).
        measurement_revision: the revision of the measurements it was stored at.
        source: ``shipped`` or ``own``.
        calibration: what it says.
    """

    calibration_id: int
    created_at: datetime.datetime
    measurement_revision: int
    source: str
    calibration: Calibration


def to_content(calibration: Calibration) -> dict[str, Any]:
    """A calibration as JSON values; the same calibration always gives the same ones.

    Numbers of sites and of the reach of intervals have six significant digits.
    """
    coefficients = calibration.coefficients
    return {
        "generations": sorted(coefficients.generations),
        "engines": sorted(coefficients.engines),
        "coefficients": dict(coefficients.values),
        "residuals": {metric: asdict(summary) for metric, summary in calibration.residuals.items()},
        SITES_FIELD: sites_to_json(coefficients.corrections.sites),
        REACH_FIELD: reach_to_json(coefficients.corrections.reach),
    }


def to_file_text(calibration: Calibration) -> str:
    """The text of a calibration file, as the package ships one."""
    members = (f"  {json.dumps(name)}: {_member_text(name, value)}" for name, value in to_content(calibration).items())
    return "{\n" + ",\n".join(members) + "\n}\n"


def _member_text(name: str, value: Any) -> str:
    if name in _LINE_BY_LINE and value:
        return "[\n" + ",\n".join(f"    {json.dumps(item)}" for item in value) + "\n  ]"
    return json.dumps(value, indent=2).replace("\n", "\n  ")


def parse_calibration(content: Mapping[str, Any]) -> Calibration:
    """A calibration from its JSON values.

    Raises:
        InvalidInputError: a key is missing or unknown, a coefficient is unknown or not a finite positive number, or a
            residual summary, a site or the reach of an interval is none.
    """
    if set(content) != set(_CONTENT):
        odd = ", ".join(sorted(set(content) ^ set(_CONTENT)))
        raise InvalidInputError.single("calibration", f"keys {odd} are missing or unknown")
    for name in ("generations", "engines"):
        if not isinstance(content[name], list) or not all(isinstance(word, str) and word for word in content[name]):
            raise InvalidInputError.single(name, f"{content[name]!r} is no list of names")
    for name in ("coefficients", "residuals"):
        if not isinstance(content[name], Mapping):
            raise InvalidInputError.single(name, f"{content[name]!r} is no object")
    corrections = Corrections(sites_from_json(content[SITES_FIELD]), reach_from_json(content[REACH_FIELD]))
    coefficients = checked_coefficients(
        content["coefficients"], content["generations"], content["engines"], corrections
    )
    residuals = {metric: _summary(metric, values) for metric, values in content["residuals"].items()}
    return Calibration(coefficients, MappingProxyType(residuals))


def _summary(metric: str, values: Any) -> ErrorSummary:
    field = f"residuals[{metric}]"
    if metric not in set(Metric):
        raise InvalidInputError.single(field, f"no such metric; one of {', '.join(Metric)}")
    try:
        return ErrorSummary(int(values["rows"]), *(float(values[name]) for name in ("median", "p90", "bias")))
    except (KeyError, OverflowError, TypeError, ValueError):
        raise InvalidInputError(
            [FieldViolation(field, f"{values!r:.80} is no summary with the numbers rows, median, p90 and bias")]
        ) from None


def read_active_calibration(session: Session) -> CalibrationRecord | None:
    """The calibration that estimates rest on; ``None`` where there is none."""
    table = table_of(CalibrationRow)
    row = session.execute(select(table).where(table.c.active)).mappings().one_or_none()
    if row is None:
        return None
    created = row["created_at"]
    return CalibrationRecord(
        calibration_id=row["id"],
        # SQLite drops the time zone.
        created_at=created if created.tzinfo else created.replace(tzinfo=datetime.UTC),
        measurement_revision=row["measurement_revision"],
        source=row["source"],
        calibration=parse_calibration({name: row[name] for name in _CONTENT}),
    )


def store_calibration(session: Session, calibration: Calibration, now: datetime.datetime) -> CalibrationRecord:
    """Store a calibration as this database's own and make it the active one; the catalogue's revision is raised.

    Raises:
        InvalidInputError: a coefficient is unknown or not a finite positive number, or a number of a site or of the
            reach of an interval is beyond its limits.
    """
    content = to_content(calibration)
    parse_calibration(content)
    lock_catalog(session)
    table = table_of(CalibrationRow)
    session.execute(update(table).values(active=False))
    session.execute(
        insert(table).values(
            **content, created_at=now, measurement_revision=measurement_revision(session), source=OWN, active=True
        )
    )
    raise_revision(session)
    record = read_active_calibration(session)
    assert record is not None
    return record


def land_shipped_calibrations(
    session: Session, shipped: Sequence[Mapping[str, Any]], now: datetime.datetime
) -> TableReport:
    """Bring the database to the shipped calibration; one of its own that is active stays so.

    Args:
        session: a session in which the catalogue is locked.
        shipped: the package's calibration, or none, as JSON values.
        now: when (UTC).
    """
    table = table_of(CalibrationRow)
    rows = read_all(session, CalibrationRow)
    there = [row for row in rows if row["source"] == SHIPPED]
    own = [row for row in rows if row["source"] == OWN]
    right = [row for row in there if _content(row) in shipped]
    gone = [row["id"] for row in there if row not in right]
    new = [values for values in shipped if all(_content(row) != values for row in right)]
    if gone:
        session.execute(delete(table).where(table.c.id.in_(gone)))
    if new:
        marks = {
            "created_at": now,
            "measurement_revision": measurement_revision(session),
            "source": SHIPPED,
            "active": not any(row["active"] for row in own),
        }
        session.execute(insert(table), [dict(values) | marks for values in new])
    updated = min(len(new), len(gone))
    return TableReport(len(new) - updated, updated, len(right), len(own), len(gone) - updated)


def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _CONTENT}
