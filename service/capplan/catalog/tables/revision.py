"""The catalogue's revision: one row, raised by every change."""

from __future__ import annotations

import datetime

from sqlalchemy import BigInteger, CheckConstraint, DateTime
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import at_least
from capplan.database import Base


class CatalogRevisionRow(Base):
    """The only row of its table; made by the migration, raised in the transaction of every change.

    Attributes:
        revision: 0 for the empty catalogue; only grows.
        updated_at: when it last grew, UTC.
    """

    __tablename__ = "catalog_revision"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(BigInteger)
    updated_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))

    __table_args__ = (CheckConstraint("id = 1", "only_row"), at_least("revision", 0))
