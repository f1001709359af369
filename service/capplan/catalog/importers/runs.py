"""What a parser reads out of a file: runs with their figures, and what of the file could not be used."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    Attributes:
        metric: one of ``estimation.measurement.METRICS``.
        statistic: one of ``estimation.measurement.STATISTICS``; empty when not stated.
        value: the value over the whole deployment, in the metric's unit, be it as absurd as what the file says.
    """

    metric: str
    statistic: str
    value: float


@dataclass(frozen=True, slots=True)
class Facts:
    """How something was measured, as a file or a person states it; ``None`` is not stated.

    Names (model, accelerator, engine) are as written; the rest means what ``estimation.Measurement`` says.
    """

    model: str | None = None
    accelerator: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    weights: str | None = None
    kv_cache: str | None = None
    mig_profile: str | None = None
    devices: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    attention_data_parallel: int | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    load_kind: str | None = None
    load_value: float | None = None
    source: str | None = None
    source_url: str | None = None
    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a benchmark.

    Attributes:
        place: where in the file it stands, for messages: ``line 3``, ``benchmarks[2]``.
        facts: what the file says about it.
        figures: what was measured.
        flags: what to mind, as in ``estimation.Measurement``.
        notes: what else a reader must know.
    """

    place: str
    facts: Facts
    figures: tuple[Figure, ...]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A part of a file that could not be used.

    Attributes:
        place: where it stands.
        reason: why, and what would be accepted.
    """

    place: str
    reason: str


@dataclass(slots=True)
class Parsed:
    """What a parser made of a file, in the file's order."""

    runs: list[Run] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def reject(self, place: str, reason: str) -> None:
        """Note a part that could not be used."""
        self.rejections.append(Rejection(place, reason))
