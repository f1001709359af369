"""Multi-Instance GPU boards, their profiles and the starts a profile may take.

The sizes a start depends on are repeated down the keys (board to profile to start), so that the database itself can
refuse an instance that would leave the grid.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import (
    Provenance,
    at_least,
    between,
    driver_branch,
    not_blank,
    one_of,
    provenance_checks,
)
from capplan.database import Base

MIG_CONFIDENCES: Final = ("measured", "partly-measured", "names-documented", "unverified")
MEDIA_EXTENSIONS: Final = ("me", "gfx", "me.all", "-me")
MEDIA_ENGINES: Final = ("decoder", "encoder", "jpeg", "optical_flow")


class MigBoardRow(Provenance, Base):
    """One board's placement grid.

    Attributes:
        grid_units: memory units of the grid; null when no placement was ever published, then nothing can be placed.
        compute_slices: compute slices of the whole GPU.
        min_driver: first driver branch that offers MIG on this board.
    """

    __tablename__ = "mig_boards"

    board: Mapped[str] = mapped_column(String(64), primary_key=True)
    display_name: Mapped[str] = mapped_column(String(128))
    grid_units: Mapped[int | None]
    compute_slices: Mapped[int]
    min_driver: Mapped[str | None] = mapped_column(String(8))
    confidence: Mapped[str] = mapped_column(String(32))
    notes: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        UniqueConstraint("board", "grid_units"),
        not_blank("board"),
        CheckConstraint("board = lower(board)", "board_lower_case"),
        not_blank("display_name"),
        between("grid_units", 1, 64),
        between("compute_slices", 1, 64),
        driver_branch("min_driver"),
        one_of("confidence", MIG_CONFIDENCES),
        *provenance_checks(),
    )


class MigProfileRow(Provenance, Base):
    """One GPU instance profile. The key is (board, id): a name means different things on different boards.

    Attributes:
        grid_units: the board's grid, repeated.
        memory_bytes: usable bytes of one instance, null when no listing was published.
        min_driver: first driver branch that offers this profile, where it is later than the board's.
        decoder_count: media engines of one instance; null when not published.
    """

    __tablename__ = "mig_profiles"

    board: Mapped[str] = mapped_column(String(64), primary_key=True)
    profile_id: Mapped[int] = mapped_column(primary_key=True)
    grid_units: Mapped[int]
    name: Mapped[str] = mapped_column(String(32))
    compute_slices: Mapped[int]
    memory_slices: Mapped[int]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    sm_count: Mapped[int | None]
    max_count: Mapped[int]
    media_extension: Mapped[str | None] = mapped_column(String(8))
    decoder_count: Mapped[int | None]
    encoder_count: Mapped[int | None]
    jpeg_count: Mapped[int | None]
    optical_flow_count: Mapped[int | None]
    min_driver: Mapped[str | None] = mapped_column(String(8))
    confidence: Mapped[str] = mapped_column(String(32))
    notes: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        ForeignKeyConstraint(
            ["board", "grid_units"],
            ["mig_boards.board", "mig_boards.grid_units"],
            name="fk_mig_profiles_board",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        UniqueConstraint("board", "name"),
        UniqueConstraint("board", "profile_id", "memory_slices", "grid_units"),
        between("profile_id", 0, 255),
        not_blank("name"),
        at_least("compute_slices", 1),
        CheckConstraint("memory_slices BETWEEN 1 AND grid_units", "memory_slices_on_the_grid"),
        between("memory_bytes", 1 << 30, 100e12),
        at_least("sm_count", 1),
        between("max_count", 1, 64),
        one_of("media_extension", MEDIA_EXTENSIONS),
        *(at_least(f"{engine}_count", 0) for engine in MEDIA_ENGINES),
        driver_branch("min_driver"),
        one_of("confidence", MIG_CONFIDENCES),
        *provenance_checks(),
    )


class MigProfileStartRow(Base):
    """One legal start of a profile, in memory units. Belongs to its profile, whose provenance it shares."""

    __tablename__ = "mig_profile_starts"

    board: Mapped[str] = mapped_column(String(64), primary_key=True)
    profile_id: Mapped[int] = mapped_column(primary_key=True)
    start: Mapped[int] = mapped_column(primary_key=True)
    memory_slices: Mapped[int]
    grid_units: Mapped[int]

    __table_args__ = (
        ForeignKeyConstraint(
            ["board", "profile_id", "memory_slices", "grid_units"],
            [
                "mig_profiles.board",
                "mig_profiles.profile_id",
                "mig_profiles.memory_slices",
                "mig_profiles.grid_units",
            ],
            # By hand: the rule's name is longer than PostgreSQL's 63 characters.
            name="fk_mig_profile_starts_profile",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        at_least("start", 0),
        CheckConstraint("start + memory_slices <= grid_units", "ends_on_the_grid"),
    )
