"""Encoded answers by what they depend on, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

ENTRY_OVERHEAD_BYTES = 400
"""What an entry costs beside its bytes: key, tuple, dictionary slot."""


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What an answer depends on, and nothing else.

    Attributes:
        revision: the catalogue's revision.
        method: full name of the method.
        request: bytes of the request.
    """

    revision: int
    method: str
    request: bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the key."""
        return len(self.request) + len(self.method)


class AnswerCache:
    """Bounded by the bytes it holds. Used from the event loop only."""

    def __init__(self, capacity_bytes: int) -> None:
        """Start empty; a capacity of 0 caches nothing."""
        self._capacity_bytes = capacity_bytes
        self._answers: OrderedDict[AnswerKey, bytes] = OrderedDict()
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._held_bytes

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: AnswerKey) -> bytes | None:
        """The answer, ``None`` when it is not held."""
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: AnswerKey, answer: bytes) -> None:
        """Hold an answer; what was not asked for the longest makes room. One too large for the cache is not held."""
        cost = _cost(key, answer)
        if cost > self._capacity_bytes:
            return
        held = self._answers.pop(key, None)
        if held is not None:
            self._held_bytes -= _cost(key, held)
        while self._held_bytes + cost > self._capacity_bytes:
            oldest, dropped = self._answers.popitem(last=False)
            self._held_bytes -= _cost(oldest, dropped)
        self._answers[key] = answer
        self._held_bytes += cost


def _cost(key: AnswerKey, answer: bytes) -> int:
    return key.size_bytes + len(answer) + ENTRY_OVERHEAD_BYTES
