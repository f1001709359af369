"""Model profiles and the names they go by."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import JSON, BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import Provenance, between, not_blank, one_of, provenance_checks
from capplan.database import Base

MODEL_CONFIDENCES: Final = ("high", "medium", "low")


class ModelProfileRow(Provenance, Base):
    """One model: the facts its architecture is built from, and figures that check them.

    Attributes:
        name: as published, e.g. ``meta-llama/Llama-3.1-8B-Instruct``.
        folded: the name as it is looked up.
        total_parameters: published or counted total, an independent check of the facts.
        parameters_source: where that total comes from.
        cache_bytes_per_token_16bit: KV-cache bytes per token over all layers in a 16-bit format.
        state_bytes_per_sequence: bytes of recurrent state of one sequence over all layers; 0 without recurrence.
        facts: what ``modeling.facts`` builds the architecture from.
    """

    __tablename__ = "model_profiles"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    folded: Mapped[str] = mapped_column(String(128), unique=True)
    family: Mapped[str] = mapped_column(String(64))
    total_parameters: Mapped[int] = mapped_column(BigInteger)
    parameters_source: Mapped[str] = mapped_column(String(512))
    cache_bytes_per_token_16bit: Mapped[int | None] = mapped_column(BigInteger)
    state_bytes_per_sequence: Mapped[int | None] = mapped_column(BigInteger)
    facts: Mapped[dict[str, Any]] = mapped_column(JSON)
    confidence: Mapped[str] = mapped_column(String(16))

    __table_args__ = (
        not_blank("name"),
        not_blank("folded"),
        not_blank("family"),
        between("total_parameters", 1, 1e15),
        not_blank("parameters_source"),
        between("cache_bytes_per_token_16bit", 0, 1e12),
        between("state_bytes_per_sequence", 0, 1e12),
        one_of("confidence", MODEL_CONFIDENCES),
        *provenance_checks(),
    )


class ModelAliasRow(Provenance, Base):
    """One more name of a model. The folded spelling is the key, so a name can mean one model only."""

    __tablename__ = "model_aliases"

    folded: Mapped[str] = mapped_column(String(128), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128))
    name: Mapped[str] = mapped_column(
        ForeignKey("model_profiles.name", onupdate="CASCADE", ondelete="CASCADE"), index=True
    )

    __table_args__ = (not_blank("folded"), not_blank("alias"), *provenance_checks())
