"""The rule for keys that no reader looked at: harmless by name, carried by the type, blank, or refused by name.

A config is sized from the keys its reader asks for. Any other key may name something the reader does not know of:
layers that share a cache, memory slots, adapters. Sizes read past it would be wrong without a word, so a key that
says anything is refused unless it is known to change no size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from capplan.errors import FieldViolation, UnsupportedModelError
from capplan.modeling.config_reader.family_keys import AUDIO_KEYS, CARRIED_KEYS, EXPECTED_VALUES, VISION_KEYS
from capplan.modeling.config_reader.harmless_keys import asks_for_nothing, is_harmless
from capplan.modeling.config_reader.quantization_keys import ACTIVATION_KEYS, QUANTIZATION_KEYS, WEIGHT_KEYS
from capplan.modeling.config_reader.view import ConfigView, is_one_of, shown

_MOST_NAMED = 8
_MOST_CHARACTERS = 60

_QUANTIZATION = re.compile(r"\.quantization(_config)?(\.|$)|hf_quant_config_json")


def refuse_unexplained(root: ConfigView, text: ConfigView) -> None:
    """Refuse a config that holds a key nobody can explain.

    Args:
        root: the whole config, after everything was read that would be.
        text: its text part, the same view where there is none.

    Raises:
        UnsupportedModelError: naming every such key (the first few of many).
    """
    found = list(_unexplained(root, (text.model_type, root.model_type)))
    if not found:
        return
    named = found[:_MOST_NAMED]
    violations = [FieldViolation(f"{path}.{_short(key)}", why) for path, key, why in named]
    if len(found) > len(named):
        violations.append(FieldViolation(root.path, f"{len(found) - len(named)} more keys are not understood"))
    raise UnsupportedModelError(violations)


def _unexplained(root: ConfigView, model_types: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    carried = frozenset[str]().union(*(CARRIED_KEYS.get(kind, ()) for kind in model_types))
    expected: dict[str, tuple[object, ...]] = {}
    for kind in model_types:
        expected |= EXPECTED_VALUES.get(kind, {})
    for path, key, value in root.unread():
        if _QUANTIZATION.search(path):
            if not asks_for_nothing(key, value) and key not in _quantization_keys(path):
                yield path, key, "not understood, and may change what is stored; accepted are blocks without it"
        elif key in expected:
            if value is not None and not _all_expected(value, expected[key]):
                listed = ", ".join(shown(item) for item in expected[key])
                yield path, key, f"is {shown(value)}; known for model type {root.model_type!r}: {listed}"
        elif not (asks_for_nothing(key, value) or is_harmless(key) or key in carried or key in _keys_of_towers(path)):
            yield (
                path,
                key,
                f"not understood for model type {root.model_type!r}, and may change a size; accepted are configs "
                "without it",
            )


def _quantization_keys(path: str) -> frozenset[str]:
    if path.endswith((".input_activations", ".kv_cache_scheme")):
        return ACTIVATION_KEYS
    return WEIGHT_KEYS if path.endswith(".weights") else QUANTIZATION_KEYS


def _keys_of_towers(path: str) -> frozenset[str]:
    if path.endswith(".vision_config"):
        return VISION_KEYS
    return AUDIO_KEYS if path.endswith(".audio_config") else frozenset()


def _all_expected(value: object, expected: tuple[object, ...]) -> bool:
    """Whether a value, or each entry of a list, is one of those known."""
    if isinstance(value, list | tuple):
        return all(_all_expected(item, expected) for item in value)
    return is_one_of(value, expected)


def _short(key: str) -> str:
    return key if len(key) <= _MOST_CHARACTERS else f"{key[: _MOST_CHARACTERS - 3]}..."
