"""Architecture facts: a compact, JSON-able, schema-versioned form of an architecture, strict on read.

Every dataclass becomes an object of its fields, fields equal to their default left out. Where several kinds may stand
in one place (mixers, feed-forwards) a ``kind`` tells them apart. Layers are coded as a table of distinct blocks and a
list of ``[block, count]`` runs.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Union

from capplan.errors import InvalidInputError
from capplan.modeling.architecture import Block, LayerRun, ModelArchitecture
from capplan.modeling.architecture_check import check_architecture

SCHEMA = 1
"""Version of the form; raised whenever a reader of the old one would misread it."""

FACTS_FIELD = "model.facts"

_MAX_INTEGER = 1 << 40


def architecture_to_facts(architecture: ModelArchitecture) -> dict[str, Any]:
    """The facts of an architecture: mappings, lists, strings, integers, booleans and nulls only."""
    return {"schema": SCHEMA} | _encode_object(architecture)


def architecture_from_facts(facts: Mapping[str, Any]) -> ModelArchitecture:
    """The architecture that facts describe; the inverse of :func:`architecture_to_facts`.

    Raises:
        InvalidInputError: another schema, an unknown or missing field, or a value of the wrong type; names the field.
    """
    if not isinstance(facts, Mapping):
        raise InvalidInputError.single(FACTS_FIELD, "must be an object")
    schema = facts.get("schema")
    if isinstance(schema, bool) or schema != SCHEMA:
        raise InvalidInputError.single(f"{FACTS_FIELD}.schema", f"must be {SCHEMA}, not {schema!r}")
    body = {key: value for key, value in facts.items() if key != "schema"}
    architecture = _decode_object(ModelArchitecture, body, FACTS_FIELD)
    assert isinstance(architecture, ModelArchitecture)  # the decoder builds what it is asked for
    check_architecture(architecture, FACTS_FIELD)
    return architecture


def _encode_object(value: Any) -> dict[str, Any]:
    encoded = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if field.default is not MISSING and item == field.default:
            continue
        if field.name == "layers" and item and isinstance(item[0], LayerRun):
            encoded[field.name] = _encode_runs(item)
        else:
            encoded[field.name] = _encode(item, _hints(typing.cast(Hashable, type(value)))[field.name])
    return encoded


def _encode(item: Any, hint: Any) -> Any:
    if is_dataclass(item) and not isinstance(item, type):
        kinds = [option for option in typing.get_args(hint) if is_dataclass(option)]
        return ({"kind": type(item).__name__} if len(kinds) > 1 else {}) | _encode_object(item)
    if isinstance(item, tuple):
        arguments = typing.get_args(hint)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return [_encode(part, arguments[0]) for part in item]
        return [_encode(part, argument) for part, argument in zip(item, arguments, strict=True)]
    return str(item) if isinstance(item, StrEnum) else item


def _encode_runs(runs: tuple[LayerRun, ...]) -> dict[str, Any]:
    blocks = list(dict.fromkeys(run.block for run in runs))
    number = {block: index for index, block in enumerate(blocks)}
    return {
        "blocks": [_encode_object(block) for block in blocks],
        "runs": [[number[run.block], run.count] for run in runs],
    }


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_object(kind: type, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidInputError.single(path, "must be an object")
    hints = _hints(kind)
    unknown = sorted(str(key) for key in value if key not in hints)
    if unknown:
        raise InvalidInputError.single(f"{path}.{unknown[0]}", f"is no field of {kind.__name__}")
    arguments = {}
    for field in fields(kind):
        if field.name in value:
            arguments[field.name] = _decode(hints[field.name], value[field.name], f"{path}.{field.name}")
        elif field.default is MISSING:
            raise InvalidInputError.single(f"{path}.{field.name}", f"is missing in {kind.__name__}")
    return kind(**arguments)


def _decode(hint: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(typing.get_args(hint), value, path)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), value, path)
    if is_dataclass(hint):
        return _decode_object(typing.cast(type, hint), value, path)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        try:
            return hint(value)
        except ValueError:
            raise InvalidInputError.single(path, f"must be one of {', '.join(hint)}") from None
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INTEGER:
            raise InvalidInputError.single(path, f"must be an integer between 0 and {_MAX_INTEGER}")
    elif not isinstance(value, hint):
        raise InvalidInputError.single(path, f"must be of type {hint.__name__}")
    return value


def _decode_union(options: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in options:
        return None
    kinds: dict[str, Any] = {typing.cast(type, o).__name__: o for o in options if is_dataclass(o)}
    if len(kinds) < 2:
        return _decode(next(option for option in options if option is not type(None)), value, path)
    name = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or name not in kinds:
        raise InvalidInputError.single(f"{path}.kind", f"must be one of {', '.join(kinds)}")
    return _decode_object(kinds[name], {key: item for key, item in value.items() if key != "kind"}, path)


def _decode_tuple(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if arguments[0] is LayerRun:
        return _decode_runs(value, path)
    if not isinstance(value, list | tuple):
        raise InvalidInputError.single(path, "must be a list")
    if arguments[-1] is Ellipsis:
        return tuple(_decode(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if len(value) != len(arguments):
        raise InvalidInputError.single(path, f"must have {len(arguments)} entries")
    return tuple(
        _decode(argument, item, f"{path}[{index}]")
        for index, (argument, item) in enumerate(zip(arguments, value, strict=True))
    )


def _decode_runs(value: Any, path: str) -> tuple[LayerRun, ...]:
    if isinstance(value, list | tuple) and not value:
        return ()
    if not isinstance(value, Mapping) or set(value) != {"blocks", "runs"}:
        raise InvalidInputError.single(path, "must be an object of blocks and runs")
    blocks = _decode(tuple[Block, ...], value["blocks"], f"{path}.blocks")
    pairs = _decode(tuple[tuple[int, int], ...], value["runs"], f"{path}.runs")
    for index, (block, count) in enumerate(pairs):
        if block >= len(blocks) or count < 1:
            raise InvalidInputError.single(f"{path}.runs[{index}]", "must be [number of a block, count of at least 1]")
    return tuple(LayerRun(blocks[block], count) for block, count in pairs)
