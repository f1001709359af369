"""Measured serving figures, the imports that brought a fleet's own ones, and the revision they are at."""

from __future__ import annotations

import datetime
from typing import Final

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Double, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import (
    OperatorMarks,
    at_least,
    between,
    not_blank,
    one_of,
    operator_marks_checks,
    positive_below,
)
from capplan.database import Base
from capplan.estimation.measurement import LOAD_KINDS, METRICS, OWN_TRUST, SLO_BOUND_STATISTICS, STATISTICS, TRUSTS

IMPORT_FORMATS: Final = ("vllm", "guidellm", "aiperf", "inferencex", "csv")
"""Formats of benchmark result files that can be imported."""

MAX_DEVICES: Final = 65_536


class MeasurementRow(OperatorMarks, Base):
    """One measured figure; the columns mean what ``estimation.Measurement`` says. Null means not stated.

    Attributes:
        key: digest of the configuration, the load and the figure; see ``catalog.measurements``.
        as_of: date or version of the source, as it gives it.
        flags: words separated by blanks.
        notes: what a reader must know and no column says, the model's name as published among it.
        import_id: the import that brought the row; null for a shipped one.
    """

    __tablename__ = "measurements"

    key: Mapped[str] = mapped_column(String(32), primary_key=True)
    source: Mapped[str] = mapped_column(String(256))
    source_url: Mapped[str | None] = mapped_column(String(512))
    as_of: Mapped[str] = mapped_column(String(64))
    engine: Mapped[str] = mapped_column(String(64))
    engine_version: Mapped[str | None] = mapped_column(String(128))
    model: Mapped[str] = mapped_column(ForeignKey("model_profiles.name", onupdate="CASCADE", ondelete="CASCADE"))
    weights: Mapped[str] = mapped_column(String(16))
    kv_cache: Mapped[str] = mapped_column(String(16))
    sku: Mapped[str] = mapped_column(ForeignKey("accelerators.sku", ondelete="CASCADE"))
    mig_profile: Mapped[str | None] = mapped_column(String(32))
    devices: Mapped[int]
    tensor_parallel: Mapped[int | None]
    pipeline_parallel: Mapped[int]
    expert_parallel: Mapped[int]
    attention_data_parallel: Mapped[int]
    input_tokens: Mapped[float | None] = mapped_column(Double)
    output_tokens: Mapped[float | None] = mapped_column(Double)
    load_kind: Mapped[str] = mapped_column(String(16))
    load_value: Mapped[float | None] = mapped_column(Double)
    metric: Mapped[str] = mapped_column(String(32))
    statistic: Mapped[str | None] = mapped_column(String(32))
    value: Mapped[float] = mapped_column(Double)
    trust: Mapped[str] = mapped_column(String(8))
    flags: Mapped[str | None] = mapped_column(String(256))
    notes: Mapped[str | None] = mapped_column(Text)
    import_id: Mapped[int | None] = mapped_column(ForeignKey("measurement_imports.id", ondelete="CASCADE"))

    __table_args__ = (
        not_blank("key"),
        not_blank("source"),
        not_blank("as_of"),
        not_blank("engine"),
        not_blank("weights"),
        not_blank("kv_cache"),
        between("devices", 1, MAX_DEVICES),
        between("tensor_parallel", 1, MAX_DEVICES),
        between("pipeline_parallel", 1, MAX_DEVICES),
        between("expert_parallel", 1, MAX_DEVICES),
        between("attention_data_parallel", 1, MAX_DEVICES),
        # A null tensor_parallel passes; the cast keeps the product from overflowing.
        CheckConstraint(
            "CAST(tensor_parallel AS BIGINT) * pipeline_parallel * attention_data_parallel <= devices",
            "ranks_within_devices",
        ),
        positive_below("input_tokens", 1e9),
        positive_below("output_tokens", 1e9),
        one_of("load_kind", LOAD_KINDS),
        positive_below("load_value", 1e9),
        CheckConstraint(
            "load_value IS NOT NULL OR load_kind = 'offline_max' OR "
            f"statistic IN ({', '.join(repr(statistic) for statistic in SLO_BOUND_STATISTICS)})",
            "load_is_stated",
        ),
        one_of("metric", METRICS),
        one_of("statistic", STATISTICS),
        positive_below("value", 1e12),
        one_of("trust", TRUSTS),
        CheckConstraint(f"(trust = '{OWN_TRUST}') = (import_id IS NOT NULL)", "own_rows_were_imported"),
        CheckConstraint("edited OR import_id IS NULL", "imported_by_an_operator"),
        *operator_marks_checks(),
    )


class MeasurementImportRow(Base):
    """One import of a benchmark result file.

    Attributes:
        file_name: the file's name, without its directories.
        digest: SHA-256 of its bytes, hexadecimal.
        format: one of :data:`IMPORT_FORMATS`.
        imported_at: when, UTC.
        landed: figures that are measurements now.
        present: figures that were measurements already.
        rejected: records of the file that could not be used.
    """

    __tablename__ = "measurement_imports"

    id: Mapped[int] = mapped_column(primary_key=True)
    file_name: Mapped[str] = mapped_column(String(256))
    digest: Mapped[str] = mapped_column(String(64))
    format: Mapped[str] = mapped_column(String(32))
    imported_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    landed: Mapped[int]
    present: Mapped[int]
    rejected: Mapped[int]

    __table_args__ = (
        not_blank("file_name"),
        CheckConstraint("length(digest) = 64", "digest_is_sha256"),
        one_of("format", IMPORT_FORMATS),
        at_least("landed", 0),
        at_least("present", 0),
        at_least("rejected", 0),
    )


class MeasurementRevisionRow(Base):
    """The only row of its table.

    Attributes:
        revision: the catalogue's revision at which the measurements last changed; 0 while there are none.
    """

    __tablename__ = "measurement_revision"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(BigInteger)

    __table_args__ = (CheckConstraint("id = 1", "only_row"), at_least("revision", 0))
