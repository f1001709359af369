"""How far predicted memory is from start-up logs: errors by figure and by what may explain them, the worst rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from capplan.catalog.calibrations import ErrorSummary
from capplan.catalog.evaluation_memory_file import MemoryMetric, StatedStart

KNOWN, DEFAULTED = "version, fraction and tp stated", "an engine default stands in"
"""Whether a row states what its KV pool turns on."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What the words of a row were taken for; empty where they could not be.

    Attributes:
        model: catalogue name of the model profile.
        family: its family.
        weights: weight precision.
        kv_cache: KV-cache precision.
        sku: accelerator, with the MIG profile behind it.
        engine: engine.
        version: version whose rules were followed.
    """

    model: str = ""
    family: str = ""
    weights: str = ""
    kv_cache: str = ""
    sku: str = ""
    engine: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class MemoryComparison:
    """One prediction beside what the engine printed; both above 0.

    Attributes:
        line: line of the row.
        metric: the figure.
        measured: as printed.
        predicted: in the same unit.
        taken: what the row's words were taken for.
        settings: :data:`KNOWN` or :data:`DEFAULTED`.
        stated: the model, device and source in the row's words.
    """

    line: int
    metric: MemoryMetric
    measured: float
    predicted: float
    taken: Taken
    settings: str
    stated: StatedStart

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def error(self) -> float:
        """Relative error without its sign."""
        return abs(self.ratio - 1.0)


@dataclass(frozen=True, slots=True)
class MemoryErrorTable:
    """Errors by the values of one property.

    Attributes:
        by: the property; empty for all rows together.
        strata: errors by (value, figure).
    """

    by: str
    strata: Mapping[tuple[str, MemoryMetric], ErrorSummary]


_SPLITS: Final[Mapping[str, Callable[[MemoryComparison], str]]] = MappingProxyType(
    {
        "engine": lambda comparison: comparison.taken.engine or "not modelled",
        "settings": lambda comparison: comparison.settings,
        "GPU": lambda comparison: comparison.taken.sku or "not in the catalogue",
        "model family": lambda comparison: comparison.taken.family,
        "precision": lambda comparison: comparison.taken.weights,
    }
)


def memory_error_tables(comparisons: Sequence[MemoryComparison]) -> tuple[MemoryErrorTable, ...]:
    """Errors of every figure: over all rows, then by everything that may explain them."""
    splits = {"": lambda _: "all rows"} | dict(_SPLITS)
    return tuple(MemoryErrorTable(by, _split(comparisons, value_of)) for by, value_of in splits.items())


def _split(
    comparisons: Iterable[MemoryComparison], value_of: Callable[[MemoryComparison], str]
) -> Mapping[tuple[str, MemoryMetric], ErrorSummary]:
    parts: dict[tuple[str, MemoryMetric], list[MemoryComparison]] = {}
    for comparison in comparisons:
        parts.setdefault((value_of(comparison), comparison.metric), []).append(comparison)
    order = list(MemoryMetric)
    keys = sorted(parts, key=lambda key: (key[0], order.index(key[1])))
    return {key: ErrorSummary.of([comparison.ratio for comparison in parts[key]]) for key in keys}


def worst_rows(comparisons: Iterable[MemoryComparison], count: int) -> tuple[MemoryComparison, ...]:
    """The comparisons that are furthest off, by relative error; equal ones in the order of their rows."""
    return tuple(sorted(comparisons, key=lambda c: (-c.error, c.line))[:count])
