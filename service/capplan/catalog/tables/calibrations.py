"""Calibrations of the step model: fitted coefficients with what they were fitted to and how well they fit it."""

from __future__ import annotations

import datetime
from typing import Any, Final

from sqlalchemy import JSON, BigInteger, DateTime, Index, String, false, text
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import at_least, one_of
from capplan.database import Base

SHIPPED: Final = "shipped"
OWN: Final = "own"
CALIBRATION_SOURCES: Final = (SHIPPED, OWN)
"""A calibration comes with the package, or was fitted to the measurements of this database."""


class CalibrationRow(Base):
    """One calibration. What estimates rest on is the active one.

    Attributes:
        created_at: when it was stored, UTC.
        measurement_revision: the revision of the measurements it was stored at.
        generations: device generations that took part, a sorted list.
        engines: engines that took part, a sorted list.
        coefficients: values by name, see ``estimation.coefficients``.
        residuals: errors on the rows it was fitted to, by metric.
        sites: where the step model was compared with measurements, see ``estimation.sites``.
        reach: how wide intervals have to be, see ``estimation.corrections``.
        source: one of :data:`CALIBRATION_SOURCES`.
        active: whether estimates rest on it; at most one row is.
    """

    __tablename__ = "calibrations"

    id: Mapped[int] = mapped_column(primary_key=True)
    created_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    measurement_revision: Mapped[int] = mapped_column(BigInteger)
    generations: Mapped[list[str]] = mapped_column(JSON)
    engines: Mapped[list[str]] = mapped_column(JSON)
    coefficients: Mapped[dict[str, Any]] = mapped_column(JSON)
    residuals: Mapped[dict[str, Any]] = mapped_column(JSON)
    sites: Mapped[list[dict[str, Any]]] = mapped_column(JSON, server_default="[]")
    reach: Mapped[list[dict[str, Any]]] = mapped_column(JSON, server_default="[]")
    source: Mapped[str] = mapped_column(String(16))
    active: Mapped[bool] = mapped_column(server_default=false())

    __table_args__ = (
        at_least("measurement_revision", 0),
        one_of("source", CALIBRATION_SOURCES),
        Index(
            "uq_calibrations_only_active",
            "active",
            unique=True,
            sqlite_where=text("active"),
            postgresql_where=text("active"),
        ),
    )
