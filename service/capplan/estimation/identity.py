"""Cache keys for values that have no cheap hash, or none: the same object is the same key, an equal one is another."""

from __future__ import annotations

from typing import Generic, TypeVar

_T = TypeVar("_T")


class Same(Generic[_T]):
    """A value as a key that equals itself only.

    The key holds the value, so that its identity is not given to another while a cache remembers it.
    """

    __slots__ = ("value",)

    def __init__(self, value: _T) -> None:
        """Wraps a value that does not change."""
        self.value = value

    def __hash__(self) -> int:
        """The identity of the value."""
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the very same object."""
        return isinstance(other, Same) and self.value is other.value
