"""A CSV table of engine start-up logs: what each row states of a start, and the figures its engine printed.

Must be there: ``model`` and ``gpu``. Read when there: the figures ``weights_gib_per_gpu``, ``kv_cache_gib_per_gpu``,
``kv_tokens`` and ``max_concurrency``; and ``engine``, ``engine_version`` (or ``vllm`` for both), ``date``,
``weight_precision``, ``quant``, ``dtype``, ``kv_dtype``, ``gpu_mem_gb``, ``mig_profile``, ``tp``, ``pp``, ``ep``,
``dp``, ``gpu_memory_utilization`` (the memory fraction, whichever the engine's is), ``max_model_len``,
``max_num_seqs``, ``max_num_batched_tokens``, ``enforce_eager``, ``url`` and ``notes``. An empty cell is not stated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from capplan.catalog.evaluation_table import check_width, read_rows
from capplan.catalog.importers.reading import FILE_FIELD, UnusableError, cell_number, number, shown, text_of, whole
from capplan.catalog.tables.measurements import MAX_DEVICES
from capplan.errors import InvalidInputError


class MemoryMetric(StrEnum):
    """Figures an engine prints when it starts; each is a column of the file."""

    WEIGHTS = "weights_gib_per_gpu"
    KV_CACHE = "kv_cache_gib_per_gpu"
    KV_TOKENS = "kv_tokens"
    CONCURRENCY = "max_concurrency"


ADDED_COLUMNS: Final = (*(f"predicted_{metric.value}" for metric in MemoryMetric), "not_predicted_reason")
"""Columns that a table of predictions has beside those of its input."""

_REQUIRED: Final = ("model", "gpu")
_OTHER_NAMES: Final = MappingProxyType(
    {
        "weights_gib_per_gpu": ("weight_gib",),
        "kv_cache_gib_per_gpu": ("kv_cache_gib",),
        "kv_dtype": ("kv_cache_dtype", "kv_precision"),
        "engine_version": ("vllm",),
        "gpu_mem_gb": ("gpu_memory_gb",),
        "gpu_memory_utilization": ("mem_fraction_static", "free_gpu_memory_fraction"),
        "weight_precision": ("quant",),
        "url": ("source_url", "source"),
        "notes": ("note",),
    }
)
_NOT_STATED: Final = frozenset({"", "default", "auto", "unknown", "unspecified", "not stated", "none", "n/a", "-"})
_YES, _NO = frozenset({"yes", "true", "1"}), frozenset({"no", "false", "0"})
_MAX_TOKENS: Final = 100_000_000

# Settings that logs state in a remark, under the engine's own name for them.
_STATED_SEQUENCES: Final = re.compile(r"max[-_]num[-_]seqs[ =]+([0-9]{1,6})\b", re.ASCII)
_STATED_BATCH: Final = re.compile(r"max[-_]num[-_]batched[-_]tokens[ =]+([0-9]{1,8})\b", re.ASCII)
_WITHOUT_TOWERS: Final = re.compile(r"language[-_]model[-_]only|vision (?:tower )?(?:off|dropped)", re.ASCII)

_T = TypeVar("_T", int, float)


@dataclass(frozen=True, slots=True)
class StatedStart:
    """What one row says was started; ``None`` and the empty text are not stated.

    Attributes:
        model: published name.
        weights: weight format in the source's words.
        kv_cache: KV-cache format in the source's words.
        gpu: device in the source's words.
        gpu_memory_gb: its memory, as a rule in round GB.
        mig_profile: MIG profile.
        engine: engine in the source's words.
        version: version in the source's words.
        date: date of the source.
        tensor_parallel: ranks that divide the layers.
        pipeline_parallel: stages.
        expert_parallel: ranks over which whole experts are spread.
        data_parallel: groups of ranks that attend for different sequences.
        memory_fraction: the engine's memory fraction.
        max_model_len: context the engine was started with.
        max_num_seqs: most sequences of a step.
        max_num_batched_tokens: token budget of a step.
        enforce_eager: whether graphs were left out.
        without_towers: whether a multimodal model was started for text alone.
        source: address of the source.
    """

    model: str
    weights: str
    kv_cache: str
    gpu: str
    gpu_memory_gb: float | None
    mig_profile: str
    engine: str
    version: str
    date: str
    tensor_parallel: int | None
    pipeline_parallel: int | None
    expert_parallel: int | None
    data_parallel: int | None
    memory_fraction: float | None
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    enforce_eager: bool
    without_towers: bool
    source: str


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One row of the file.

    Attributes:
        line: line of the file on which it ends.
        cells: as they are in the file.
        stated: what was started; ``None`` where the row cannot be read.
        measured: figures the row states.
        fault: why the row cannot be read, empty where it can.
    """

    line: int
    cells: tuple[str, ...]
    stated: StatedStart | None
    measured: Mapping[MemoryMetric, float]
    fault: str


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The whole file."""

    header: tuple[str, ...]
    rows: tuple[MemoryRow, ...]


def read_memory_file(content: bytes) -> MemoryFile:
    """Reads the file.

    Raises:
        InvalidInputError: it is no UTF-8 or no CSV, or its header lacks a column, has one twice, has one under two
            names, or has one that predictions would add.
    """
    header, columns, rows = read_rows(content, _REQUIRED, ADDED_COLUMNS)
    canonical = _canonical(columns)
    return MemoryFile(tuple(header), tuple(_row(line, cells, columns, canonical) for line, cells in rows))


def _canonical(columns: Sequence[str]) -> list[str]:
    """The columns under the names this module uses."""
    renamed = {other: name for name, others in _OTHER_NAMES.items() for other in others}
    found: dict[str, str] = {}
    for column in columns:
        name = renamed.get(column, column)
        if name in found and name in _OTHER_NAMES:
            raise InvalidInputError.single(FILE_FIELD, f"the header has both {found[name]} and {column}: keep one")
        found[name] = column
    return [renamed.get(column, column) for column in columns]


def _row(line: int, cells: Sequence[str], columns: Sequence[str], canonical: Sequence[str]) -> MemoryRow:
    try:
        check_width(cells, columns)
        record = {
            name: "" if cell.strip().lower() in _NOT_STATED else cell.strip()
            for name, cell in zip(canonical, cells, strict=True)
        }
        if "vllm" in columns:
            record.setdefault("engine", "vllm")
        stated, measured = _stated(record), _measured(record)
        return MemoryRow(line, tuple(cells), stated, measured, "")
    except UnusableError as error:
        return MemoryRow(line, tuple(cells), None, {}, str(error))


def _stated(record: Mapping[str, str]) -> StatedStart:
    notes = record.get("notes", "")
    dtype, weights = record.get("dtype", ""), record.get("weight_precision", "")
    return StatedStart(
        model=_text(record, "model"),
        weights=weights or dtype,
        kv_cache=_text(record, "kv_dtype"),
        gpu=_text(record, "gpu"),
        gpu_memory_gb=_positive(record, "gpu_mem_gb", number, 100_000),
        mig_profile=_text(record, "mig_profile"),
        engine=_text(record, "engine"),
        version=_text(record, "engine_version"),
        date=_text(record, "date"),
        tensor_parallel=_positive(record, "tp", whole, MAX_DEVICES),
        pipeline_parallel=_positive(record, "pp", whole, MAX_DEVICES),
        expert_parallel=_positive(record, "ep", whole, MAX_DEVICES),
        data_parallel=_positive(record, "dp", whole, MAX_DEVICES),
        memory_fraction=_positive(record, "gpu_memory_utilization", number, 1),
        max_model_len=_positive(record, "max_model_len", whole, _MAX_TOKENS),
        max_num_seqs=_positive(record, "max_num_seqs", whole, _MAX_TOKENS) or _remarked(_STATED_SEQUENCES, notes),
        max_num_batched_tokens=_positive(record, "max_num_batched_tokens", whole, _MAX_TOKENS)
        or _remarked(_STATED_BATCH, notes),
        enforce_eager=_boolean(record, "enforce_eager"),
        without_towers=_WITHOUT_TOWERS.search(notes) is not None,
        source=_text(record, "url"),
    )


def _text(record: Mapping[str, str], column: str) -> str:
    return text_of(record.get(column)) or ""


def _remarked(pattern: re.Pattern[str], notes: str) -> int | None:
    found = pattern.search(notes)
    return (int(found.group(1)) or None) if found else None


def _measured(record: Mapping[str, str]) -> dict[MemoryMetric, float]:
    figures = {metric: cell_number(record, metric.value, number) for metric in MemoryMetric}
    return {metric: value for metric, value in figures.items() if value is not None}


def _positive(record: Mapping[str, str], column: str, read: Callable[[str], _T | None], largest: float) -> _T | None:
    found = cell_number(record, column, read)
    if found is not None and not 0 < found <= largest:
        raise UnusableError(f"{column} is {found:g}; accepted: above 0, at most {largest:g}")
    return found


def _boolean(record: Mapping[str, str], column: str) -> bool:
    cell = record.get(column, "").lower()
    if cell in _YES:
        return True
    if cell and cell not in _NO:
        raise UnusableError(f"{column} is {shown(cell)}; accepted: yes, no")
    return False
