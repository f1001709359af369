"""Names as people write them: one folded spelling per name, and near names for a name that is not there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self

from capplan.errors import NotFoundError

MAX_NEAR_NAMES: Final = 8

_MAX_COMPARED_CHARACTERS: Final = 128
"""Similarity costs the product of the lengths; a longer name is no misspelling."""

_SIMILARITY_CUTOFF: Final = 0.6


def fold_accelerator_name(name: str) -> str:
    """Letters, digits, ``.`` and ``+`` in lower case; ``RTX 4090``, ``rtx-4090`` and ``RTX4090`` fold alike."""
    return re.sub(r"[^0-9a-z.+]", "", name.casefold())


def fold_model_name(name: str) -> str:
    """Lower case with every run of blanks, ``-``, ``_`` and ``/`` as one ``-``.

    Separators stay, because they tell ``llama-3-18b`` from ``llama-31-8b``.
    """
    return re.sub(r"[\s_/-]+", "-", name.casefold()).strip("-")


def _tokens(name: str) -> frozenset[str]:
    return frozenset(token for token in re.split(r"[^0-9a-z.+]+", name.casefold()) if token)


@dataclass(frozen=True, slots=True)
class NameIndex:
    """Every spelling of every entry of one kind.

    Attributes:
        kind: what the entries are, for the error.
        fold: the folding under which two spellings are one name.
        entries: entry name by folded spelling.
        spellings: (entry name, tokens of one of its spellings), ordered by entry name.
    """

    kind: str
    fold: Callable[[str], str]
    entries: dict[str, str]
    spellings: tuple[tuple[str, frozenset[str]], ...]

    @classmethod
    def build(cls, kind: str, fold: Callable[[str], str], pairs: Iterable[tuple[str, str]]) -> Self:
        """An index of (spelling, entry name) pairs; the first pair that claims a folded spelling keeps it."""
        entries: dict[str, str] = {}
        spellings = []
        for spelling, entry in pairs:
            entries.setdefault(fold(spelling), entry)
            spellings.append((entry, _tokens(spelling)))
        return cls(kind, fold, entries, tuple(sorted(spellings, key=lambda pair: pair[0])))

    def resolve(self, name: str) -> str:
        """The entry a name means.

        Raises:
            NotFoundError: none, or more than one; ``near`` lists the entries that could be meant, best first.
        """
        found = self.entries.get(self.fold(name))
        if found is None:
            raise NotFoundError(self.kind, name, self.near(name))
        return found

    def near(self, name: str) -> tuple[str, ...]:
        """Entries that could be meant: those that have its words, else contain it, else look alike.

        A name that looks like no whole spelling is compared with the words of all of them.
        """
        if len(name) > _MAX_COMPARED_CHARACTERS:
            return ()
        words = _tokens(name)
        if words:
            complete = {entry for entry, tokens in self.spellings if words <= tokens}
            if complete:
                # Those whose own name has the words come before those with an alias that has.
                return _first_distinct(sorted(complete, key=lambda entry: (not words <= _tokens(entry), entry)))
        folded = self.fold(name)
        if len(folded) >= 2:
            containing = sorted(entry for key, entry in self.entries.items() if folded in key)
            if containing:
                return _first_distinct(containing)
        alike = difflib.get_close_matches(folded, self.entries, n=2 * MAX_NEAR_NAMES, cutoff=_SIMILARITY_CUTOFF)
        if alike:
            return _first_distinct(self.entries[key] for key in alike)
        vocabulary = sorted({token for _, tokens in self.spellings for token in tokens})
        close = difflib.get_close_matches(folded, vocabulary, n=MAX_NEAR_NAMES, cutoff=_SIMILARITY_CUTOFF)
        return _first_distinct(entry for word in close for entry, tokens in self.spellings if word in tokens)


def _first_distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:MAX_NEAR_NAMES]
