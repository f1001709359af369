"""Which bars apply to what, and which of them are missed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capplan.catalog.bars import Bars, bars_of, missed
from capplan.catalog.left_out import By
from capplan.estimation.evaluation import ErrorStatistics, FigureFamily

FINE = ErrorStatistics(100, 10, 0.05, 0.07, 0.2, 0.09, 1.02)


@pytest.mark.parametrize(
    ("family", "by", "bars"),
    [
        (FigureFamily.TPOT, By.SOURCE, Bars(0.08, 0.12, 0.30)),
        (FigureFamily.TPOT, By.GPU, Bars(0.08, 0.12, 0.30)),
        (FigureFamily.TPOT, By.MODEL, Bars(0.12, 0.12, 0.30)),
        (FigureFamily.OFFLINE, By.SOURCE, Bars(0.10, 0.12, 0.35)),
        (FigureFamily.OFFLINE, By.GPU, Bars(0.08, 0.12, 0.35)),
        (FigureFamily.OFFLINE, By.MODEL, Bars(0.12, 0.12, 0.35)),
        (FigureFamily.TTFT, By.GPU, Bars(0.25)),
        (FigureFamily.BATCH, By.GPU, Bars()),
    ],
)
def test_the_bars(family: FigureFamily, by: By, bars: Bars) -> None:
    assert bars_of(family, by) == bars


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ()),
        ({"median_error": 0.081}, ("median",)),
        ({"median_error": 0.08}, ()),
        ({"group_median_error": 0.13, "p90_error": 0.31}, ("by group", "p90")),
        ({"median_ratio": 1.05}, ("bias",)),
        ({"median_ratio": 0.95}, ("bias",)),
        ({"median_ratio": 0.97}, ()),
    ],
)
def test_what_is_missed(changes: dict[str, Any], names: tuple[str, ...]) -> None:
    assert missed(replace(FINE, **changes), Bars(0.08, 0.12, 0.30)) == names
