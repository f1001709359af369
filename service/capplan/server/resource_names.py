"""Resource names: the one place that writes and reads them.

A name is ``collection/{id}``. Where the contract also takes an id or an alias alone, the ``parse`` functions let text
without the collection through unchanged, for the catalogue to resolve.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from capplan.errors import InvalidInputError

ACCELERATORS: Final = "accelerators"
MIG_BOARDS: Final = "migBoards"
MIG_PROFILES: Final = "profiles"
MODELS: Final = "models"
PRICES: Final = "prices"

ANY: Final = "-"
"""Id that stands for every parent (AIP-159)."""

_MAX_PROFILE_ID_DIGITS: Final = 9


def accelerator_name(sku: str) -> str:
    """``accelerators/{sku}``."""
    return f"{ACCELERATORS}/{sku}"


def mig_board_name(board: str) -> str:
    """``migBoards/{board}``."""
    return f"{MIG_BOARDS}/{board}"


def mig_profile_name(board: str, profile_id: int) -> str:
    """``migBoards/{board}/profiles/{id}``."""
    return f"{mig_board_name(board)}/{MIG_PROFILES}/{profile_id}"


def model_name(hub_id: str) -> str:
    """``models/{id}``, the hub id with ``/`` written as ``--``.

    No hub id contains ``--`` itself (the hub refuses it), so the name can be read back.
    """
    return f"{MODELS}/{hub_id.replace('/', '--')}"


def price_name(*parts: str) -> str:
    """``prices/{part~part~...}``; what a URL would have to escape is escaped in the parts."""
    return f"{PRICES}/{'~'.join(quote(part, safe='').replace('~', '%7E') for part in parts)}"


def parse_accelerator(text: str, field: str) -> str:
    """The SKU or alias in ``accelerators/{sku}``, or the text itself.

    Raises:
        InvalidInputError: the name has no id.
    """
    return _id_or_alias(text, ACCELERATORS, "sku", field)


def parse_model(text: str, field: str) -> str:
    """The hub id or alias in ``models/{id}``, or the text itself.

    Raises:
        InvalidInputError: the name has no id.
    """
    identifier = _id_or_alias(text, MODELS, "hub id with '/' as '--'", field)
    return identifier if identifier is text else identifier.replace("--", "/", 1)


def parse_mig_profile(text: str, field: str) -> tuple[str, int]:
    """Board and profile id in ``migBoards/{board}/profiles/{id}``.

    Raises:
        InvalidInputError: the text is no such name.
    """
    match text.split("/"):
        case [collection, board, profiles, number] if (collection, profiles) == (MIG_BOARDS, MIG_PROFILES) and board:
            if number.isascii() and number.isdigit() and len(number) <= _MAX_PROFILE_ID_DIGITS:
                return board, int(number)
    raise InvalidInputError.single(
        field, f"is no MIG profile name; expected {MIG_BOARDS}/{{board}}/{MIG_PROFILES}/{{id}} with a numeric id"
    )


def parse_mig_parent(text: str, field: str) -> str | None:
    """Board in ``migBoards/{board}``; ``None`` for every board (empty or ``migBoards/-``).

    Raises:
        InvalidInputError: the text is neither.
    """
    if text in {"", f"{MIG_BOARDS}/{ANY}"}:
        return None
    match text.split("/"):
        case [collection, board] if collection == MIG_BOARDS and board:
            return board
    raise InvalidInputError.single(
        field, f"is no MIG board name; expected {MIG_BOARDS}/{{board}}, or {MIG_BOARDS}/{ANY} or nothing for all boards"
    )


def parse_price(text: str, field: str) -> str:
    """The name itself, when it is ``prices/{id}``.

    Raises:
        InvalidInputError: the text is no such name.
    """
    collection, _, identifier = text.partition("/")
    if collection != PRICES or not identifier:
        raise InvalidInputError.single(field, f"is no price name; expected {PRICES}/{{id}} as ListPrices returns it")
    return text


def _id_or_alias(text: str, collection: str, what: str, field: str) -> str:
    prefix = f"{collection}/"
    if not text.startswith(prefix):
        return text
    identifier = text.removeprefix(prefix)
    if not identifier:
        raise InvalidInputError.single(field, f"names nothing; expected {prefix}{{{what}}} or an alias")
    return identifier
