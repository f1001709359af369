"""How the command fails: exit codes, and one place that turns an error into words."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from capplan.cli.fields import flag_of
from capplan.errors import CapplanError, InvalidInputError


class ExitCode(IntEnum):
    """What the exit code of ``capplan`` says."""

    OK = 0
    """Answered; for a question, feasible."""
    FAILED = 1
    """No answer: an unknown name, no server, a failed call."""
    USAGE = 2
    """The command line or a field of the question is not valid."""
    INFEASIBLE = 3
    """Answered: nothing meets the target, or the layout does not start."""


_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "UNREACHABLE": "start one with `capplan serve`, or add --local to answer in this process",
        "DEADLINE_EXCEEDED": "allow more time with --timeout-s",
        "DEADLINE_TOO_NEAR": "allow more time with --timeout-s",
    }
)
"""What to do about an error, by its reason."""


class UsageError(CapplanError):
    """A command line that contradicts itself or names a file that cannot be used."""

    reason = "USAGE"


def exit_code_of(error: CapplanError) -> ExitCode:
    """The exit code an error leads to."""
    return ExitCode.USAGE if isinstance(error, UsageError | InvalidInputError) else ExitCode.FAILED


def describe(error: CapplanError) -> list[str]:
    """The error in lines: what is wrong, then what to do where that is known."""
    if isinstance(error, InvalidInputError):
        return [_violation(violation.field, violation.description) for violation in error.violations] or [str(error)]
    hint = _HINTS.get(error.reason)
    return [str(error), hint] if hint else [str(error)]


def _violation(field: str, description: str) -> str:
    flag = flag_of(field)
    return f"{field} ({flag}): {description}" if flag else f"{field}: {description}"


def report(error: CapplanError) -> None:
    """Writes the error to standard error, one line each."""
    first, *rest = describe(error)
    sys.stderr.write(f"error: {_printable(first)}\n")
    for line in rest:
        sys.stderr.write(f"       {_printable(line)}\n")


def _printable(text: str) -> str:
    # A name from the command line may carry bytes that are no UTF-8; they must not break the message about it.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
