"""Which parser reads which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from capplan.catalog.importers.aiperf import parse_aiperf
from capplan.catalog.importers.guidellm import parse_guidellm
from capplan.catalog.importers.inferencex import parse_inferencex
from capplan.catalog.importers.reading import decode
from capplan.catalog.importers.runs import Parsed
from capplan.catalog.importers.table import parse_table
from capplan.catalog.importers.vllm import parse_vllm
from capplan.catalog.tables.measurements import IMPORT_FORMATS
from capplan.errors import InvalidInputError

PARSERS: Final[Mapping[str, Callable[[str], Parsed]]] = MappingProxyType(
    {
        "vllm": parse_vllm,
        "guidellm": parse_guidellm,
        "aiperf": parse_aiperf,
        "inferencex": parse_inferencex,
        "csv": parse_table,
    }
)
assert tuple(PARSERS) == IMPORT_FORMATS


def parse(content: bytes, format_: str) -> Parsed:
    """Read a benchmark result file.

    Args:
        content: the file's bytes.
        format_: one of :data:`PARSERS`.

    Raises:
        InvalidInputError: the format is unknown (field ``format``), or the file is not of it at all (field ``file``).
    """
    parser = PARSERS.get(format_)
    if parser is None:
        raise InvalidInputError.single("format", f"{format_!r} is unknown; accepted: {', '.join(PARSERS)}")
    return parser(decode(content))
