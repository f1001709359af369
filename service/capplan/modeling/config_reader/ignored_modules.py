"""Lists of modules left unquantised: exact names, parents of modules, wildcards and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from capplan.errors import InvalidInputError

_ROOTS = ("model", "model.language_model", "language_model.model", "language_model", "backbone", "transformer")

# Families name the same module differently; canonical names stand left.
_SPELLINGS = (
    ("mlp.experts", ("block_sparse_moe.experts", "feed_forward.experts", "mixer.experts", "experts")),
    ("mlp.shared_experts", ("mlp.shared_expert", "mixer.shared_experts", "feed_forward.shared_expert")),
    ("block_sparse_moe", ("mlp",)),
    ("feed_forward", ("mlp",)),
    ("mlp", ("mixer",)),
    ("self_attn", ("mixer",)),
)

_FIELD = "model.config_json.quantization_config"
_MAX_PATTERN_CHARACTERS = 512

# Most lists name modules layer by layer; those are kept by layer, so that a name is compared with a handful of them.
_OF_A_LAYER = re.compile(r"(?:[\w.]+\.)?layers\.(\d+)(?:\.(.+))?")

_Path = tuple[str, ...]


class IgnoredModules:
    """A list of modules left unquantised, as a question: is this one on it?"""

    def __init__(self, entries: Iterable[str]) -> None:
        self._paths: set[_Path] = set()
        self._covered: dict[str, bool] = {}
        self._layer_paths: dict[int, set[_Path]] = {}
        self._layer_expressions: dict[int, list[re.Pattern[str]]] = {}
        expressions = []
        for entry in dict.fromkeys(entries):
            if len(entry) > _MAX_PATTERN_CHARACTERS:
                raise InvalidInputError.single(_FIELD, f"module name is too long: {entry[:40]}...")
            if entry.startswith("re:"):
                expressions.append(_checked(entry[3:]))
            elif not self._add_layer_entry(entry):
                if "*" in entry:
                    expressions.append(_wildcard(entry))
                else:
                    self._paths.add(tuple(entry.split(".")))
        joined = "|".join(f"(?:{expression})" for expression in expressions)
        self._expression = re.compile(f"(?:{joined})\\Z") if joined else None

    def _add_layer_entry(self, entry: str) -> bool:
        """Keep an entry that names one layer by number; false for any other."""
        found = _OF_A_LAYER.fullmatch(entry)
        if found is None:
            return False
        layer, rest = int(found[1]), found[2] or ""
        if "*" in rest:
            self._layer_expressions.setdefault(layer, []).append(re.compile(_wildcard(rest)))
        else:
            self._layer_paths.setdefault(layer, set()).add(tuple(rest.split(".")) if rest else ())
        return True

    def matches_layer(self, layer: int, name: str) -> bool:
        """Whether the linear map ``name`` of a layer is on the list, under any of the usual spellings."""
        paths = self._layer_paths.get(layer, set())
        expressions = self._layer_expressions.get(layer, [])
        for spelling in _spellings(name):
            parts = tuple(spelling.split("."))
            if paths and any(parts[:end] in paths for end in range(len(parts) + 1)):
                return True
            if any(expression.fullmatch(spelling) for expression in expressions):
                return True
            if self._covered_anywhere(spelling) or self._matched(f"layers.{layer}.{spelling}"):
                return True
        return False

    def matches(self, name: str) -> bool:
        """Whether a module outside the layers is on the list."""
        return self._covered_anywhere(name) or self._matched(name)

    def _covered_anywhere(self, path: str) -> bool:
        """Whether a plain entry without a layer's number names the module, a parent, or a part of its path."""
        known = self._covered.get(path)
        if known is None:
            parts = tuple(path.split("."))
            slices = {parts[start:end] for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)}
            rooted = {(*root.split("."), *parts[:end]) for root in _ROOTS for end in range(1, len(parts) + 1)}
            known = self._covered[path] = not self._paths.isdisjoint(slices | rooted)
        return known

    def _matched(self, below_root: str) -> bool:
        """Whether a pattern matches a module, under any of the usual roots."""
        if self._expression is None:
            return False
        matches = self._expression.match
        return matches(below_root) is not None or any(matches(f"{root}.{below_root}") for root in _ROOTS)


_MOST_REPEATS = 4
"""A matcher tries every way to share a name out over the repeats, which grows with their number as a power."""


def _wildcard(entry: str) -> str:
    """A pattern with ``*``, which also covers everything below what it names."""
    if entry.count("*") > _MOST_REPEATS:
        raise InvalidInputError.single(_FIELD, f"{entry!r} has more than {_MOST_REPEATS} wildcards")
    return ".*".join(re.escape(part) for part in entry.split("*")) + r"(?:\..*)?"


def _checked(expression: str) -> str:
    """A regular expression from a config; what may take forever (repeats of groups, or many repeats) is refused."""
    try:
        re.compile(expression)
    except re.error as error:
        raise InvalidInputError.single(_FIELD, f"{expression!r} is no regular expression: {error}") from None
    repeated = re.search(r"[*+}]\)?[*+{]|\)[*+{]", expression)
    if repeated or sum(expression.count(sign) for sign in "*+{") > _MOST_REPEATS:
        raise InvalidInputError.single(
            _FIELD,
            f"{expression!r} is too complex; accepted: {_MOST_REPEATS} of *, + and {{, none after a group or a repeat",
        )
    return expression


@lru_cache(maxsize=1024)
def _spellings(name: str) -> tuple[str, ...]:
    plain = name.replace(".*", ".0")
    found = [plain]
    for canonical, others in _SPELLINGS:
        if plain.startswith(canonical + "."):
            found.extend(other + plain[len(canonical) :] for other in others)
    return tuple(found)
