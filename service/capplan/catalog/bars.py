"""The errors that estimates are held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from capplan.catalog.left_out import By
from capplan.estimation.evaluation import ErrorStatistics, FigureFamily

MOST_BIAS: Final = 0.04
"""Greatest median of predicted over measured, less 1 and without its sign."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Greatest errors, as shares; ``None`` where none is set.

    Attributes:
        median: of the median over rows.
        by_group: of the median over (source, model, accelerator) groups of their mean errors.
        p90: of the 90th percentile over rows.
    """

    median: float | None = None
    by_group: float | None = None
    p90: float | None = None


_FAMILIES: Final[Mapping[FigureFamily, Bars]] = MappingProxyType(
    {
        FigureFamily.TPOT: Bars(0.08, 0.12, 0.30),
        FigureFamily.OFFLINE: Bars(0.10, 0.12, 0.35),
        FigureFamily.TTFT: Bars(0.25),
    }
)
_UNSEEN: Final = MappingProxyType({By.GPU: 0.08, By.MODEL: 0.12})
"""Of the median over rows of devices, and of models, that were never seen: TPOT and offline maxima."""


def bars_of(family: FigureFamily, by: By) -> Bars:
    """The bars of a family when something of a kind is left out; none for families without any."""
    bars = _FAMILIES.get(family, Bars())
    if family in (FigureFamily.TPOT, FigureFamily.OFFLINE) and by in _UNSEEN:
        return Bars(_UNSEEN[by], bars.by_group, bars.p90)
    return bars


def missed(statistics: ErrorStatistics, bars: Bars) -> tuple[str, ...]:
    """Names of the bars that are missed: ``median``, ``by group``, ``p90``, ``bias``."""
    pairs = (
        ("median", statistics.median_error, bars.median),
        ("by group", statistics.group_median_error, bars.by_group),
        ("p90", statistics.p90_error, bars.p90),
        ("bias", abs(statistics.median_ratio - 1.0), MOST_BIAS),
    )
    return tuple(name for name, error, bar in pairs if bar is not None and error > bar)
