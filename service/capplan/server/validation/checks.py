"""The checks requests are made of. Each notes a fault with its field and what would be accepted, and goes on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from capplan.errors import FieldViolation, InvalidInputError

MAX_SHOWN_CHARACTERS: Final = 64
"""A caller's text is quoted no longer than this."""


def shown(text: str) -> str:
    """A caller's text as it is quoted in a message."""
    return repr(text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…")


class Violations:
    """Collects faults; :meth:`refuse` raises when there are any."""

    def __init__(self) -> None:
        self._found: list[FieldViolation] = []

    def add(self, field: str, description: str) -> None:
        """Note a fault."""
        self._found.append(FieldViolation(field, description))

    def refuse(self) -> None:
        """End the checks.

        Raises:
            InvalidInputError: with every fault noted.
        """
        if self._found:
            raise InvalidInputError(self._found)

    def present(self, request: Message, name: str, field: str, expected: str) -> bool:
        """A message field that is required."""
        if request.HasField(name):
            return True
        self.add(field, f"is required: {expected}")
        return False

    def number(
        self,
        field: str,
        value: float,
        *,
        least: float,
        most: float,
        above: bool = False,
        below: bool = False,
        zero_means: str = "",
    ) -> None:
        """A finite number between two bounds.

        Args:
            field: its path.
            value: the number.
            least: lower bound, accepted itself unless ``above``.
            most: upper bound, accepted itself unless ``below``.
            above: whether the number must be greater than ``least``.
            below: whether the number must be less than ``most``.
            zero_means: when not empty, zero is accepted too and means this.
        """
        if zero_means and value == 0:
            return
        low_enough = value < most if below else value <= most
        if math.isfinite(value) and low_enough and (value > least if above else value >= least):
            return
        low = f"above {least:g}" if above else f"from {least:g}"
        accepted = f"accepted: a number {low} to {'below ' if below else ''}{most:g}"
        if zero_means:
            accepted += f", or 0 for {zero_means}"
        self.add(field, f"{value:g} is out of range; {accepted}")

    def text(self, field: str, value: str, *, most_characters: int, required: str = "") -> None:
        """A text of bounded length; when ``required`` says what for, it must not be blank."""
        if len(value) > most_characters:
            self.add(field, f"has {len(value)} characters; accepted: at most {most_characters}")
        elif required and not value.strip():
            self.add(field, f"is required: {required}")

    def texts(self, field: str, values: Sequence[str], *, most_items: int, most_characters: int, what: str) -> None:
        """A list of texts, none of them blank."""
        if self.count(field, values, most_items):
            for index, value in enumerate(values):
                self.text(f"{field}[{index}]", value, most_characters=most_characters, required=what)

    def count(self, field: str, values: Sequence[Any], most_items: int) -> bool:
        """A list of bounded length; says whether it is."""
        if len(values) > most_items:
            self.add(field, f"has {len(values)} entries; accepted: at most {most_items}")
            return False
        return True

    def one_of(self, field: str, value: str, accepted: Iterable[str], *, empty_means: str = "") -> None:
        """A text from a closed set; when ``empty_means`` says what it stands for, it may be empty."""
        known = tuple(accepted)
        if value in known or (empty_means and not value):
            return
        tail = f", or nothing for {empty_means}" if empty_means else ""
        self.add(field, f"{shown(value)} is not known; accepted: {', '.join(known)}{tail}")

    def enumeration(self, field: str, value: int, names: Collection[tuple[str, int]], *, refused: int | None) -> bool:
        """A number of an enumeration (an open one: any number arrives); says whether it is good.

        Args:
            field: its path.
            value: the number.
            names: names and numbers of the enumeration.
            refused: a number that is of the enumeration but not accepted.
        """
        if value != refused and any(value == number for _, number in names):
            return True
        accepted = ", ".join(name for name, number in names if number != refused)
        self.add(field, f"{value} is not accepted; accepted: {accepted}")
        return False
