"""Typed errors of the core, raised by every room and translated once at the edge.

Each error knows which field of the caller's input is at fault and what would have been accepted, so that an edge
(gRPC, command line) can report it without inventing text of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One fault of one input field.

    Attributes:
        field: path of the field in the request, e.g. ``workload.input_tokens`` or ``model.config_json.num_experts``.
        description: what is wrong and what would be accepted.
    """

    field: str
    description: str


class CapplanError(Exception):
    """Base of every error a caller can cause or must know about.

    Attributes:
        reason: a stable UPPER_SNAKE identifier for programs.
    """

    reason: str = "CAPPLAN_ERROR"


class InvalidInputError(CapplanError):
    """The input breaks a rule; every fault found is listed at once."""

    reason = "INVALID_INPUT"

    def __init__(self, violations: Iterable[FieldViolation]) -> None:
        self.violations: tuple[FieldViolation, ...] = tuple(violations)
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in self.violations))

    @classmethod
    def single(cls, field: str, description: str) -> InvalidInputError:
        """The common case of one fault."""
        return cls((FieldViolation(field, description),))


class UnsupportedModelError(InvalidInputError):
    """A model description that capplan cannot size exactly, refused by name instead of guessed at."""

    reason = "MODEL_UNSUPPORTED"


class UnsupportedPrecisionError(InvalidInputError):
    """A number format that is unknown, or that the model cannot be stored in."""

    reason = "PRECISION_UNSUPPORTED"


class NotFoundError(CapplanError):
    """A catalogue entry that does not exist.

    Attributes:
        kind: what was looked for, e.g. ``accelerator`` or ``model``.
        name: the name as the caller wrote it.
        near: existing names that look alike, best first.
    """

    reason = "NOT_FOUND"

    def __init__(self, kind: str, name: str, near: Iterable[str] = ()) -> None:
        self.kind = kind
        self.name = name
        self.near: tuple[str, ...] = tuple(near)
        hint = f"; did you mean {', '.join(self.near)}?" if self.near else ""
        super().__init__(f"no {kind} named {name!r}{hint}")
