"""JSON texts from callers: parsed strictly, with every way to break the parser or its reader refused by name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from capplan.errors import InvalidInputError

MAX_JSON_BYTES: Final = 1 << 20
"""Published configs stay below 100 kB; the longest list every layer of a large quantised model."""

MAX_JSON_DEPTH: Final = 32
"""Published configs nest six levels deep."""


class _RefusedError(ValueError):
    """A construct that JSON parsers let through and capplan does not."""


def parse_json_object(text: str, field: str) -> Mapping[str, Any]:
    """The object a JSON text holds.

    Args:
        text: the text.
        field: path of the text in the request, for the error.

    Raises:
        InvalidInputError: the text is too long, no JSON, no object, too deep, or has a number that is not finite, a
            key twice in one object, or characters that are no Unicode text.
    """

    def refuse(why: str) -> InvalidInputError:
        return InvalidInputError.single(field, f"{why}; expected the text of one JSON object")

    size = len(text.encode())
    if size > MAX_JSON_BYTES:
        raise refuse(f"has {size} bytes, more than the {MAX_JSON_BYTES} accepted")
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_float=_finite_float, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise refuse(f"is not JSON ({error.msg} in line {error.lineno}, column {error.colno})") from None
    except _RefusedError as error:
        raise refuse(str(error)) from None
    except RecursionError:
        raise refuse(f"nests deeper than the {MAX_JSON_DEPTH} levels accepted") from None
    except ValueError:
        # The one ValueError left is Python's limit on the digits of an integer.
        raise refuse("has an integer of thousands of digits") from None
    if not isinstance(value, dict):
        raise refuse(f"holds {_kind(value)}")
    problem = _problem(value)
    if problem is not None:
        raise refuse(problem)
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"has the key {key[:64]!r} twice in one object")
            seen.add(key)
    return result


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"has the number {text[:32]}, which is too large")
    return value


def _constant(text: str) -> float:
    """Published configs carry ``Infinity`` where a limit is open; the reader refuses it wherever a size is meant."""
    if text == "NaN":
        raise _RefusedError(f"has {text}, which JSON does not know")
    return float(text)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"


def _problem(value: object) -> str | None:
    """What a reader of the parsed value would stumble over; walked without recursion."""
    level: list[object] = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                if not _is_text(item):
                    return "has half of a surrogate pair in a string"
            elif isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return None
        level = below
    return f"nests deeper than the {MAX_JSON_DEPTH} levels accepted"


def _is_text(item: str) -> bool:
    if item.isascii():
        return True
    try:
        item.encode()
    except UnicodeEncodeError:
        return False
    return True
