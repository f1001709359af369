"""What was read of a config, however deep: the one record that all views of it share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReadLedger:
    """Keys looked at and defaults taken, by the path of the mapping they belong to.

    Attributes:
        reads: keys looked at. A mapping with an entry, even an empty one, was opened: its keys must be accounted for
            one by one.
        defaults: ``key value`` phrases of size-relevant keys that were absent.
    """

    reads: dict[str, set[str]] = field(default_factory=dict)
    defaults: dict[str, list[str]] = field(default_factory=dict)

    def keys_read(self, path: str) -> set[str]:
        """The keys looked at in the mapping at a path, which is opened by asking."""
        return self.reads.setdefault(path, set())

    def defaults_taken(self, path: str) -> list[str]:
        """The defaults taken in the mapping at a path."""
        return self.defaults.setdefault(path, [])

    def lift(self, path: str, onto: str) -> None:
        """Count keys of one mapping as read when they are read in another, onto which they were lifted."""
        self.reads[path] = self.keys_read(onto)

    def unread(self, values: Mapping[str, object], path: str) -> Iterator[tuple[str, str, object]]:
        """Every ``(path, key, value)`` at or below a path that nobody looked at.

        A mapping, or a list of mappings, that was opened is gone through key by key; one that was looked at as a whole
        counts as read.
        """
        seen = self.reads.get(path, set())
        for key, value in values.items():
            inner = f"{path}.{key}"
            if isinstance(value, Mapping) and inner in self.reads:
                yield from self.unread(value, inner)
            elif isinstance(value, list | tuple) and f"{inner}[0]" in self.reads:
                for number, item in enumerate(value):
                    if isinstance(item, Mapping):
                        yield from self.unread(item, f"{inner}[{number}]")
            elif key not in seen:
                yield path, key, value
