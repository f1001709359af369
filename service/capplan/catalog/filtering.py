r"""A small subset of AIP-160 filters over rows in memory: ``field op value``, joined by ``AND``.

Operators are ``= != < <= > >=`` and ``:`` (contains). A value is bare or in double quotes, inside which ``\"`` and
``\\`` stand for a quote and a backslash. A row that lacks the field's value fails every comparison, ``!=`` included.
``OR``, ``NOT``, brackets, functions and wildcards are refused by name.
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from capplan.errors import InvalidInputError

MAX_FILTER_CHARACTERS: Final = 2_000
MAX_CONDITIONS: Final = 32

T = TypeVar("T")

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*")
      | (?P<operator><=|>=|!=|=|<|>|:)
      | (?P<bracket>[()])
      | (?P<bare>[^\s"()=<>!:]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?")
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class FieldKind(StrEnum):
    """What a field's values are, and with which operators they can be compared."""

    TEXT = "text"
    TEXTS = "list of texts"
    NUMBER = "number"
    BOOLEAN = "true or false"
    DATE = "date (YYYY-MM-DD)"


_OPERATORS: Final[Mapping[FieldKind, tuple[str, ...]]] = {
    FieldKind.TEXT: ("=", "!=", "<", "<=", ">", ">=", ":"),
    FieldKind.TEXTS: (":",),
    FieldKind.NUMBER: ("=", "!=", "<", "<=", ">", ">="),
    FieldKind.BOOLEAN: ("=", "!="),
    FieldKind.DATE: ("=", "!=", "<", "<=", ">", ">="),
}


@dataclass(frozen=True, slots=True)
class FilterField(Generic[T]):
    """A field that a filter may name.

    Attributes:
        kind: what its values are.
        read: its value in a row; ``None`` when the row has none.
    """

    kind: FieldKind
    read: Callable[[T], Any]


@dataclass(frozen=True, slots=True)
class _Condition(Generic[T]):
    read: Callable[[T], Any]
    holds: Callable[[Any], bool]

    def matches(self, row: T) -> bool:
        value = self.read(row)
        return value is not None and self.holds(value)


@dataclass(frozen=True, slots=True)
class Filter(Generic[T]):
    """A parsed filter; the empty one matches every row."""

    conditions: tuple[_Condition[T], ...]

    def matches(self, row: T) -> bool:
        """Whether the row fulfils every condition."""
        return all(condition.matches(row) for condition in self.conditions)

    def apply(self, rows: Iterable[T]) -> list[T]:
        """The rows that match, in their order."""
        return [row for row in rows if self.matches(row)]


def parse_filter(text: str, fields: Mapping[str, FilterField[T]]) -> Filter[T]:
    """Parse a filter over rows with the given fields.

    Raises:
        InvalidInputError: on field ``filter``; the message names what is wrong and what would be accepted.
    """
    if len(text) > MAX_FILTER_CHARACTERS:
        raise _refused(f"it has {len(text)} characters, at most {MAX_FILTER_CHARACTERS} are accepted")
    tokens = _tokens(text)
    conditions: list[_Condition[T]] = []
    while tokens:
        if conditions:
            joint = tokens.pop(0)
            if joint != ("bare", "AND"):
                raise _refused(f"conditions are joined by AND, not by {joint[1]!r}")
        conditions.append(_condition(tokens, fields))
    if len(conditions) > MAX_CONDITIONS:
        raise _refused(f"it has {len(conditions)} conditions, at most {MAX_CONDITIONS} are accepted")
    return Filter(tuple(conditions))


def _refused(description: str) -> InvalidInputError:
    return InvalidInputError.single("filter", description)


def _tokens(text: str) -> list[tuple[str, str]]:
    """(group, text) of every token; quoted ones without their quotes."""
    tokens = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise _refused(f"cannot read {text[position : position + 20].strip()!r} (a quote left open?)")
        token = found[found.lastgroup]
        if found.lastgroup == "bracket":
            raise _refused("brackets and functions are not supported; join conditions by AND")
        if found.lastgroup == "quoted":
            token = re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
        tokens.append((found.lastgroup, token))
        position = found.end()
    return tokens


def _condition(tokens: list[tuple[str, str]], fields: Mapping[str, FilterField[T]]) -> _Condition[T]:
    """Take one condition off the front of the tokens."""
    accepted = f"accepted fields: {', '.join(sorted(fields))}"
    if not tokens:
        raise _refused(f"a condition is missing after AND; {accepted}")
    group, name = tokens.pop(0)
    if group == "bare" and name in {"OR", "NOT"}:
        raise _refused(f"{name} is not supported; join conditions by AND")
    if group != "bare" or name not in fields:
        raise _refused(f"there is no field {name!r}; {accepted}")
    field = fields[name]
    operators = " ".join(_OPERATORS[field.kind])
    if not tokens or tokens[0][0] != "operator":
        raise _refused(f"{name} must be followed by an operator, one of {operators}")
    sign = tokens.pop(0)[1]
    if sign not in _OPERATORS[field.kind]:
        raise _refused(f"{name} is a {field.kind}, which {sign} cannot compare; one of {operators} can")
    if not tokens or tokens[0][0] == "operator":
        raise _refused(f"a value is missing after {name} {sign}")
    literal = tokens.pop(0)[1]
    # A bare value may hold colons, which the tokens were split at.
    while len(tokens) >= 2 and tokens[0] == ("operator", ":") and tokens[1][0] == "bare":
        literal = f"{literal}:{tokens[1][1]}"
        del tokens[:2]
    return _Condition(field.read, _test(name, field.kind, sign, literal))


def _test(name: str, kind: FieldKind, sign: str, literal: str) -> Callable[[Any], bool]:
    if "*" in literal and kind in {FieldKind.TEXT, FieldKind.TEXTS}:
        raise _refused(f"wildcards are not supported ({name} {sign} {literal!r}); use ':' for a part of a text")
    wanted = _value(name, kind, literal)
    if sign == ":":
        part = literal.casefold()
        if kind is FieldKind.TEXTS:
            return lambda value: any(part == text.casefold() for text in value)
        return lambda value: part in value.casefold()
    compare = _COMPARISONS[sign]
    return lambda value: compare(value, wanted)


def _value(name: str, kind: FieldKind, literal: str) -> str | int | float | bool | datetime.date:
    if kind is FieldKind.NUMBER and _NUMBER.fullmatch(literal):
        number = float(literal) if re.search(r"[.eE]", literal) else int(literal)
        if math.isfinite(number):
            return number
    elif kind is FieldKind.BOOLEAN and literal in {"true", "false"}:
        return literal == "true"
    elif kind is FieldKind.DATE and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", literal):
        try:
            return datetime.date.fromisoformat(literal)
        except ValueError:
            pass
    elif kind in {FieldKind.TEXT, FieldKind.TEXTS}:
        return literal
    raise _refused(f"{name} is a {kind}, {literal!r} is none")
