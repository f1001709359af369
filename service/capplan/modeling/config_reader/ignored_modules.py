"""Lists of modules left unquantised: exact names, parents of modules, wildcards and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

_MAX_PATTERN_CHARACTERS = 512


class IgnoredModules:
    """A list of modules left unquantised, as a question: is this one on it?"""

    def __init__(self, entries: Iterable[str]) -> None:
        self._plain: set[tuple[str, ...]] = set()
        expressions = []
        for entry in entries:
            if len(entry) > _MAX_PATTERN_CHARACTERS:
                raise InvalidInputError.single(
                    "model.config_json.quantization_config", f"module name is too long: {entry[:40]}..."
                )
            if entry.startswith("re:"):
                expressions.append(_checked(entry[3:]))
            elif "*" in entry:
                expressions.append(".*".join(re.escape(part) for part in entry.split("*")) + r"(\..*)?")
            else:
                self._plain.add(tuple(entry.split(".")))
        self._expressions = [re.compile(f"(?:{expression})\\Z") for expression in dict.fromkeys(expressions)]

    def matches_layer(self, layer: int, name: str) -> bool:
        """Whether the linear map ``name`` of a layer is on the list, under any of the usual spellings."""
        return any(
            self._listed(f"{root}.layers.{layer}.{spelling}") for spelling in _spellings(name) for root in _ROOTS
        )

    def matches(self, name: str) -> bool:
        """Whether a module outside the layers is on the list."""
        return self._listed(name) or any(self._listed(f"{root}.{name}") for root in _ROOTS)

    def _listed(self, full_name: str) -> bool:
        parts = tuple(full_name.split("."))
        # A plain entry names the module, a parent of it, or a part of its path ("gate", "self_attn").
        for start in range(len(parts)):
            for end in range(start + 1, len(parts) + 1):
                if parts[start:end] in self._plain:
                    return True
        return any(expression.match(full_name) for expression in self._expressions)


def _checked(expression: str) -> str:
    """A regular expression from a config; nested repeats, which may take forever, are refused."""
    field = "model.config_json.quantization_config.ignore"
    try:
        re.compile(expression)
    except re.error as error:
        raise InvalidInputError.single(field, f"{expression!r} is no regular expression: {error}") from None
    if re.search(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]", expression) or expression.count("*") > 8:
        raise InvalidInputError.single(field, f"{expression!r} is too complex")
    return expression


def _spellings(name: str) -> list[str]:
    found = [name.replace(".*", ".0")]
    for canonical, others in _SPELLINGS:
        if found[0].startswith(canonical + "."):
            found.extend(other + found[0][len(canonical) :] for other in others)
    return found
