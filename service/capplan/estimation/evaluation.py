"""How far predictions are from measurements: error statistics by stratum, interval coverage, the worst rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np

from capplan.estimation.corrections import Novelty
from capplan.estimation.observation import Load, Metric

GroupKey = tuple[str, str, str]
"""Source, model and accelerator: rows of one group err together, so they count as one where groups are counted."""


class FigureFamily(StrEnum):
    """Figures that one bar applies to: they are wrong for the same reasons."""

    TPOT = "tpot_concurrency"
    TTFT = "ttft_concurrency"
    E2E = "e2e_concurrency"
    OUTPUT_RATE = "output_rate_concurrency"
    OFFLINE = "offline_maximum"
    BATCH = "batch"
    TOTAL_RATE = "total_rate"

    @property
    def label(self) -> str:
        """The family in words."""
        return _LABELS.get(self, self.value.replace("_", " "))


_LABELS: Final[Mapping[FigureFamily, str]] = MappingProxyType(
    {
        FigureFamily.TPOT: "TPOT",
        FigureFamily.TTFT: "TTFT",
        FigureFamily.E2E: "end-to-end latency",
        FigureFamily.OUTPUT_RATE: "output rate",
    }
)


def figure_family(load: Load, metric: Metric) -> FigureFamily:
    """The family of a figure: a fixed batch is one whatever is measured, and so are rates that count prompt tokens."""
    if load is Load.BATCH:
        return FigureFamily.BATCH
    if metric in (Metric.TPOT, Metric.ITL):
        return FigureFamily.TPOT
    if metric is Metric.TTFT:
        return FigureFamily.TTFT
    if metric is Metric.E2E:
        return FigureFamily.E2E
    if metric is Metric.TOTAL:
        return FigureFamily.TOTAL_RATE
    return FigureFamily.OFFLINE if load is Load.OFFLINE else FigureFamily.OUTPUT_RATE


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prediction beside what was measured.

    Attributes:
        row: the row's number in its file, to find it again.
        family: what kind of figure it is.
        metric: what was measured.
        concurrency: requests in flight, or the size of the batch, over the whole deployment; ``None`` for an offline
            maximum.
        measured: positive, in the metric's unit.
        predicted: positive, in the same unit.
        lower: lower end of the 90 % interval; ``None`` without one.
        upper: upper end.
        group: source, model and accelerator.
        engine: canonical engine name.
        model_family: family of the catalogue's model profile.
        precision: weight precision it was costed in.
        provenance: where the prediction comes from.
        novelty: what is new about it.
        bottleneck: what the step is limited by.
        chosen_tensor_parallel: tensor parallelism of the best layout, where the measured one is not stated.
    """

    row: int
    family: FigureFamily
    metric: Metric
    concurrency: float | None
    measured: float
    predicted: float
    lower: float | None
    upper: float | None
    group: GroupKey
    engine: str
    model_family: str
    precision: str
    provenance: str
    novelty: Novelty
    bottleneck: str
    chosen_tensor_parallel: int | None = None

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def error(self) -> float:
        """Relative error without its sign: 0.1 is 10 % off."""
        return abs(self.ratio - 1.0)


@dataclass(frozen=True, slots=True)
class ErrorStatistics:
    """Errors of some comparisons; all but the counts are shares of the measured figure.

    Attributes:
        rows: comparisons.
        groups: (source, model, accelerator) groups they fall into.
        median_error: over rows.
        mean_error: over rows.
        p90_error: over rows, interpolated linearly.
        group_median_error: median over groups of the mean error inside each.
        median_ratio: median of predicted over measured; the bias, 1 without any.
    """

    rows: int
    groups: int
    median_error: float
    mean_error: float
    p90_error: float
    group_median_error: float
    median_ratio: float


def error_statistics(comparisons: Sequence[Comparison]) -> ErrorStatistics:
    """Errors of at least one comparison.

    Raises:
        ValueError: there are none.
    """
    if not comparisons:
        raise ValueError("no comparison to take statistics of")
    errors = np.array([comparison.error for comparison in comparisons])
    by_group: dict[GroupKey, list[float]] = {}
    for comparison, error in zip(comparisons, errors, strict=True):
        by_group.setdefault(comparison.group, []).append(float(error))
    return ErrorStatistics(
        rows=len(comparisons),
        groups=len(by_group),
        median_error=float(np.median(errors)),
        mean_error=float(np.mean(errors)),
        p90_error=float(np.percentile(errors, 90)),
        group_median_error=float(np.median([np.mean(group) for group in by_group.values()])),
        median_ratio=float(np.median([comparison.ratio for comparison in comparisons])),
    )


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """Error statistics by the values of one property.

    Attributes:
        family: the metric family that is split; ``None`` for tables over all of them.
        property_name: what it is split by.
        strata: statistics by value; metric families in their order, layouts by size, anything else by name.
    """

    family: FigureFamily | None
    property_name: str
    strata: Mapping[str, ErrorStatistics]

    @property
    def title(self) -> str:
        """What it splits, and by what."""
        return self.property_name if self.family is None else f"{self.family.label} by {self.property_name}"


_SPLITS: Final[Mapping[str, Callable[[Comparison], str]]] = MappingProxyType(
    {
        "engine": lambda comparison: comparison.engine,
        "GPU": lambda comparison: comparison.group[2],
        "model family": lambda comparison: comparison.model_family,
        "precision": lambda comparison: comparison.precision,
        "provenance": lambda comparison: comparison.provenance,
        "novelty": lambda comparison: comparison.novelty.value,
    }
)

_LEAST_SPLIT_ROWS: Final = 20


def families_to_split(comparisons: Iterable[Comparison]) -> tuple[FigureFamily, ...]:
    """TPOT, and every family with at least twenty comparisons: parts of fewer would say nothing."""
    rows = Counter(comparison.family for comparison in comparisons)
    return tuple(f for f in FigureFamily if f is FigureFamily.TPOT or rows[f] >= _LEAST_SPLIT_ROWS)


def error_tables(
    comparisons: Sequence[Comparison], split: Iterable[FigureFamily] = (FigureFamily.TPOT,)
) -> tuple[ErrorTable, ...]:
    """Errors by metric family and by chosen layout, then those of some families by everything that may explain them.

    Args:
        comparisons: what to take errors of.
        split: families to split.
    """
    by_family = {
        family.value: error_statistics(chosen)
        for family in FigureFamily
        if (chosen := [comparison for comparison in comparisons if comparison.family is family])
    }
    tables = [
        ErrorTable(None, "metric family", MappingProxyType(by_family)),
        ErrorTable(None, "layout chosen", _by_chosen_layout(comparisons)),
    ]
    for family in split:
        rows = [comparison for comparison in comparisons if comparison.family is family]
        tables += [ErrorTable(family, name, _split(rows, value_of)) for name, value_of in _SPLITS.items()]
    return tuple(tables)


def _by_chosen_layout(comparisons: Iterable[Comparison]) -> Mapping[str, ErrorStatistics]:
    sizes: dict[int, list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.chosen_tensor_parallel is not None:
            sizes.setdefault(comparison.chosen_tensor_parallel, []).append(comparison)
    return MappingProxyType({f"tensor parallel {size}": error_statistics(sizes[size]) for size in sorted(sizes)})


def _split(comparisons: Iterable[Comparison], value_of: Callable[[Comparison], str]) -> Mapping[str, ErrorStatistics]:
    parts: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        parts.setdefault(value_of(comparison), []).append(comparison)
    return MappingProxyType({value: error_statistics(parts[value]) for value in sorted(parts)})


class CoverageVerdict(StrEnum):
    """Whether intervals hold as many measured figures as they should."""

    BELOW = "below"
    MET = "met"
    ABOVE = "above"
    FEW_ROWS = "few rows"


COVERAGE_TARGET: Final = (0.87, 0.93)
"""Least and greatest share of the measured figures that 90 % intervals should hold, ends included."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many measured figures lie inside their interval.

    Attributes:
        rows: comparisons that have an interval.
        inside: those whose measured figure lies in it, ends included.
    """

    rows: int
    inside: int

    @property
    def share(self) -> float:
        """Share of the rows that lie inside."""
        return self.inside / self.rows

    @property
    def verdict(self) -> CoverageVerdict:
        """The share against the target; of fewer than twenty rows it says too little to be held against it."""
        if self.rows < _LEAST_SPLIT_ROWS:
            return CoverageVerdict.FEW_ROWS
        if self.share < COVERAGE_TARGET[0]:
            return CoverageVerdict.BELOW
        return CoverageVerdict.ABOVE if self.share > COVERAGE_TARGET[1] else CoverageVerdict.MET


_COVERAGE_SPLITS: Final[Mapping[str, Callable[[Comparison], str]]] = MappingProxyType(
    {
        "all": lambda _: "all",
        "family": lambda comparison: comparison.family.value,
        "provenance": _SPLITS["provenance"],
        "novelty": _SPLITS["novelty"],
    }
)


def interval_coverage(comparisons: Iterable[Comparison]) -> Mapping[str, Mapping[str, Coverage]]:
    """Coverage of the intervals by property, then by its value, in the order of names.

    Properties are ``all`` (whose one value is ``all``), ``family``, ``provenance`` and ``novelty``. Comparisons without
    an interval are left out, and with them values that have no other.
    """
    inside: dict[str, dict[str, list[bool]]] = {name: {} for name in _COVERAGE_SPLITS}
    for c in comparisons:
        if c.lower is not None and c.upper is not None:
            for name, value_of in _COVERAGE_SPLITS.items():
                inside[name].setdefault(value_of(c), []).append(c.lower <= c.measured <= c.upper)
    return MappingProxyType({name: _coverages(values) for name, values in inside.items()})


def _coverages(inside: Mapping[str, Sequence[bool]]) -> Mapping[str, Coverage]:
    return MappingProxyType({value: Coverage(len(inside[value]), sum(inside[value])) for value in sorted(inside)})


def worst(comparisons: Iterable[Comparison], count: int) -> tuple[Comparison, ...]:
    """The comparisons that are furthest off by ratio, up or down; equal ones in the order of their rows."""
    return tuple(sorted(comparisons, key=lambda c: (-abs(np.log(c.ratio)), c.row))[:count])
