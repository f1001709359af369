"""Whole numbers as the contract carries them."""

from __future__ import annotations

from typing import Final

from capplan.errors import InvalidInputError

MAX_INT64: Final = (1 << 63) - 1


def int64(value: int, what: str) -> int:
    """The number, when 64 bits hold it.

    Args:
        value: a count of bytes, tokens, devices ...
        what: what it counts, for the error.

    Raises:
        InvalidInputError: they do not. Only a model that no machine could hold leads to such numbers.
    """
    if -MAX_INT64 <= value <= MAX_INT64:
        return value
    raise InvalidInputError.single("model", f"the {what} come to more than 2^63; accepted: models that stay below")
