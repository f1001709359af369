"""Pages of a listing, by AIP-158: a page size that is capped, and opaque tokens that only this service can make.

A token says after which key to go on, not how many rows to skip: rows that come or go between two pages neither repeat
nor hide others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from capplan.errors import InvalidInputError

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 500

_MAC_BYTES: Final = 16
_MAX_TOKEN_CHARACTERS: Final = 4_096
_FOREIGN: Final = "not a token of this listing: send the next_page_token of the page before, with the same filter"

T = TypeVar("T")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page.

    Attributes:
        items: its rows.
        next_page_token: asks for the page after it; empty on the last one.
        total_size: rows in all pages.
    """

    items: tuple[T, ...]
    next_page_token: str
    total_size: int


class Paginator:
    """Cuts listings into pages and signs the tokens between them."""

    def __init__(self, key: bytes | None = None) -> None:
        """Replicas that share a key accept each other's tokens; without one, tokens die with the process."""
        self._key = hashlib.sha256(key).digest() if key is not None else secrets.token_bytes(32)

    def page(
        self,
        rows: Iterable[T],
        *,
        key: Callable[[T], Key],
        collection: str,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> Page[T]:
        """One page of the rows, by ascending key.

        Args:
            rows: every row of the listing, filtered already.
            key: a row's key, unique in the listing.
            collection: name of the listing; a token is good for one only.
            filter_text: the filter as the caller wrote it; likewise.
            page_size: most rows wanted; 0 for 50, and never more than 500.
            page_token: where to go on; empty for the first page.

        Raises:
            InvalidInputError: the page size is negative, or the token was not made for this listing and filter.
        """
        if page_size < 0:
            raise InvalidInputError.single(
                "page_size", f"{page_size} is negative; 0 means {DEFAULT_PAGE_SIZE}, {MAX_PAGE_SIZE} is the most"
            )
        size = min(page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
        ordered = sorted(rows, key=key)
        first = 0
        if page_token:
            after = self._read_token(page_token, collection, filter_text)
            first = next((index for index, row in enumerate(ordered) if key(row) > after), len(ordered))
        items = tuple(ordered[first : first + size])
        more = first + size < len(ordered)
        token = self._make_token(collection, filter_text, key(items[-1])) if more else ""
        return Page(items, token, len(ordered))

    def _make_token(self, collection: str, filter_text: str, after: Key) -> str:
        payload = json.dumps(after, ensure_ascii=True).encode()
        return _text(self._mac(collection, filter_text, payload) + payload)

    def _read_token(self, token: str, collection: str, filter_text: str) -> Key:
        try:
            if len(token) > _MAX_TOKEN_CHARACTERS:
                raise ValueError
            content = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
            if _text(content) != token:
                raise ValueError  # the last character has bits to spare
        except (ValueError, binascii.Error):
            raise InvalidInputError.single("page_token", _FOREIGN) from None
        mac, payload = content[:_MAC_BYTES], content[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(collection, filter_text, payload)):
            raise InvalidInputError.single("page_token", _FOREIGN)
        # The signature holds, so this process or one with its key wrote the payload.
        return tuple(json.loads(payload))

    def _mac(self, collection: str, filter_text: str, payload: bytes) -> bytes:
        bound = json.dumps([1, collection, filter_text]).encode()
        return hmac.digest(self._key, bound + b"\x00" + payload, "sha256")[:_MAC_BYTES]


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
