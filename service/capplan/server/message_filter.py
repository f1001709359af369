"""Fields of listed messages as filters see them, read from the messages' descriptors.

A filter therefore names fields exactly as the contract does. A field of a message inside is named with a dot
(``source.edited``), an entry of a map likewise (``peak_flop_per_s.bf16``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from capplan.catalog.filtering import FieldKind, FilterField

_KINDS: Final[Mapping[int, FieldKind]] = {
    FieldDescriptor.CPPTYPE_STRING: FieldKind.TEXT,
    FieldDescriptor.CPPTYPE_INT32: FieldKind.NUMBER,
    FieldDescriptor.CPPTYPE_INT64: FieldKind.NUMBER,
    FieldDescriptor.CPPTYPE_DOUBLE: FieldKind.NUMBER,
    FieldDescriptor.CPPTYPE_BOOL: FieldKind.BOOLEAN,
}
Read = Callable[[Any], Any]


def filter_fields(
    message: Descriptor, *, map_keys: Collection[str] = (), zero_is_a_value: Collection[str] = ()
) -> Mapping[str, FilterField[Any]]:
    """The fields of a message that a filter may name.

    A text that is empty and a number that is zero count as missing, as the contract says of unknown facts.

    Args:
        message: descriptor of the listed message.
        map_keys: keys its maps may have.
        zero_is_a_value: number fields of which zero is no missing fact.
    """
    return MappingProxyType(dict(_fields(message, "", lambda row: row, map_keys, zero_is_a_value)))


def _fields(
    message: Descriptor, prefix: str, parent: Read, map_keys: Collection[str], zero_is_a_value: Collection[str]
) -> list[tuple[str, FilterField[Any]]]:
    found: list[tuple[str, FilterField[Any]]] = []
    for field in message.fields:
        name, read = f"{prefix}{field.name}", _attribute(parent, field.name)
        inside = field.message_type
        if inside is not None and inside.GetOptions().map_entry:
            found += [(f"{name}.{key}", FilterField(FieldKind.NUMBER, _entry(read, key))) for key in map_keys]
        elif inside is not None:
            if not field.is_repeated:
                found += _fields(inside, f"{name}.", read, map_keys, zero_is_a_value)
        elif field.is_repeated:
            if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
                found.append((name, FilterField(FieldKind.TEXTS, read)))
        else:
            kind = _KINDS[field.cpp_type]
            missing = kind is FieldKind.TEXT or (kind is FieldKind.NUMBER and field.name not in zero_is_a_value)
            found.append((name, FilterField(kind, _or_none(read) if missing else read)))
    return found


def _attribute(parent: Read, name: str) -> Read:
    return lambda row: getattr(parent(row), name)


def _entry(parent: Read, key: str) -> Read:
    # Indexing a map by a key it lacks would add the key.
    return lambda row: parent(row).get(key)


def _or_none(read: Read) -> Read:
    return lambda row: read(row) or None
