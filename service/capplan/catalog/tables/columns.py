"""Column groups and constraints that several tables share."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from sqlalchemy import CheckConstraint, String, false
from sqlalchemy.orm import Mapped, mapped_column


class OperatorMarks:
    """Whether an operator has taken a row over.

    Attributes:
        edited: an operator created or changed the row; loading shipped facts leaves it alone from then on.
        retired: an operator deleted the row; it stays as a mark, so that loading does not bring it back.
    """

    edited: Mapped[bool] = mapped_column(server_default=false())
    retired: Mapped[bool] = mapped_column(server_default=false())


class Provenance(OperatorMarks):
    """Where a row comes from, and whether an operator has taken it over.

    Attributes:
        source: what the row's facts were read from.
        as_of: when they were read or, for a row that carries observations, when the last one was made.
    """

    source: Mapped[str] = mapped_column(String(512))
    as_of: Mapped[datetime.date]


def operator_marks_checks() -> tuple[CheckConstraint, ...]:
    """Constraints of the :class:`OperatorMarks` columns."""
    return (CheckConstraint("edited OR NOT retired", "retired_by_an_operator"),)


def provenance_checks() -> tuple[CheckConstraint, ...]:
    """Constraints of the :class:`Provenance` columns."""
    return (not_blank("source"), *operator_marks_checks())


def not_blank(column: str) -> CheckConstraint:
    """Text with something in it."""
    return CheckConstraint(f"length(trim({column})) > 0", f"{column}_not_blank")


def one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    """Text from a closed set."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", f"{column}_known")


def driver_branch(column: str) -> CheckConstraint:
    """An NVIDIA driver branch such as ``R525``; a null passes."""
    return CheckConstraint(f"substr({column}, 1, 1) = 'R' AND length({column}) = 4", f"{column}_is_a_branch")


def between(column: str, low: float, high: float) -> CheckConstraint:
    """A number in a closed range; a null passes. Ranges are wide, but catch a figure in the wrong unit."""
    return CheckConstraint(f"{column} BETWEEN {low:.0f} AND {high:.0f}", f"{column}_in_range")


def at_least(column: str, low: int) -> CheckConstraint:
    """A number that is not below a limit; a null passes."""
    return CheckConstraint(f"{column} >= {low}", f"{column}_at_least_{low}")


def positive_below(column: str, limit: float) -> CheckConstraint:
    """A number above zero; a null passes. The limit also keeps infinity out, and what PostgreSQL sorts above it."""
    return CheckConstraint(f"{column} > 0 AND {column} < {limit:.0f}", f"{column}_positive")
