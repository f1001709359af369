"""Error statistics, worked out by hand on a few numbers."""

from __future__ import annotations

import pytest

from capplan.estimation.corrections import Novelty, novelty_of
from capplan.estimation.evaluation import (
    Comparison,
    Coverage,
    FigureFamily,
    error_statistics,
    error_tables,
    families_to_split,
    figure_family,
    interval_coverage,
    worst,
)
from capplan.estimation.observation import Load, Metric


def compared(
    measured: float,
    predicted: float,
    *,
    row: int = 2,
    family: FigureFamily = FigureFamily.TPOT,
    source: str = "a",
    engine: str = "vllm",
    interval: tuple[float, float] | tuple[None, None] = (None, None),
    novelty: Novelty = Novelty.SEEN,
    provenance: str = "analytic",
    chosen_tensor_parallel: int | None = None,
) -> Comparison:
    return Comparison(
        row=row,
        family=family,
        metric=Metric.TPOT,
        concurrency=16,
        measured=measured,
        predicted=predicted,
        lower=interval[0],
        upper=interval[1],
        group=(source, "m", "h100"),
        engine=engine,
        model_family="llama",
        precision="fp8",
        provenance=provenance,
        novelty=novelty,
        bottleneck="compute",
        chosen_tensor_parallel=chosen_tensor_parallel,
    )


# Errors 10 %, 20 %, 50 % in source a and 40 % in source b; ratios 1.1, 0.8, 1.5, 1.4.
ROWS = [compared(10, 11), compared(10, 8), compared(100, 150), compared(10, 14, source="b", engine="sglang")]


def test_errors_are_relative_to_what_was_measured_whatever_their_sign():
    found = error_statistics(ROWS)
    assert (found.rows, found.groups) == (4, 2)
    assert found.median_error == pytest.approx((0.2 + 0.4) / 2)
    assert found.mean_error == pytest.approx((0.1 + 0.2 + 0.5 + 0.4) / 4)
    # Linear between the third and the fourth of 0.1, 0.2, 0.4, 0.5: place 0.9 * 3 = 2.7.
    assert found.p90_error == pytest.approx(0.4 + 0.7 * 0.1)


def test_bias_is_the_median_ratio_and_keeps_its_direction():
    assert error_statistics(ROWS).median_ratio == pytest.approx((1.1 + 1.4) / 2)
    assert error_statistics([compared(10, 8), compared(10, 9), compared(10, 20)]).median_ratio == pytest.approx(0.9)


def test_a_large_group_counts_once_among_groups():
    # Means inside the groups: a (0.1 + 0.2 + 0.5) / 3, b 0.4; the median of two is their mean.
    assert error_statistics(ROWS).group_median_error == pytest.approx((0.8 / 3 + 0.4) / 2)


def test_no_rows_have_no_statistics():
    with pytest.raises(ValueError, match="no comparison"):
        error_statistics([])


@pytest.mark.parametrize(
    ("load", "metric", "family"),
    [
        (Load.CONCURRENCY, Metric.TPOT, FigureFamily.TPOT),
        (Load.CONCURRENCY, Metric.ITL, FigureFamily.TPOT),
        (Load.CONCURRENCY, Metric.TTFT, FigureFamily.TTFT),
        (Load.CONCURRENCY, Metric.OUTPUT, FigureFamily.OUTPUT_RATE),
        (Load.CONCURRENCY, Metric.TOTAL, FigureFamily.TOTAL_RATE),
        (Load.CONCURRENCY, Metric.E2E, FigureFamily.E2E),
        (Load.BATCH, Metric.E2E, FigureFamily.BATCH),
        (Load.OFFLINE, Metric.OUTPUT, FigureFamily.OFFLINE),
        (Load.OFFLINE, Metric.REQUESTS, FigureFamily.OFFLINE),
        (Load.OFFLINE, Metric.TOTAL, FigureFamily.TOTAL_RATE),
        (Load.BATCH, Metric.TPOT, FigureFamily.BATCH),
        (Load.BATCH, Metric.TOTAL, FigureFamily.BATCH),
    ],
)
def test_figures_of_one_kind_are_one_family(load, metric, family):
    assert figure_family(load, metric) is family


def test_novelty_names_what_is_new():
    assert [novelty_of(gpu, model) for gpu in (True, False) for model in (True, False)] == [
        Novelty.SEEN,
        Novelty.MODEL_UNSEEN,
        Novelty.GPU_UNSEEN,
        Novelty.BOTH_UNSEEN,
    ]


def test_tables_split_families_and_then_tpot_only():
    ttft = compared(10, 20, family=FigureFamily.TTFT, engine="atom")
    unseen = compared(10, 13, novelty=Novelty.GPU_UNSEEN)
    tables = {table.title: table.strata for table in error_tables([ttft, *ROWS, unseen])}
    assert {name: s.rows for name, s in tables["metric family"].items()} == {
        "tpot_concurrency": 5,
        "ttft_concurrency": 1,
    }
    assert {name: s.rows for name, s in tables["TPOT by engine"].items()} == {"sglang": 1, "vllm": 4}
    assert tables["TPOT by novelty"]["gpu_unseen"].median_error == pytest.approx(0.3)
    assert set(tables) == {"metric family", "layout chosen"} | {
        f"TPOT by {what}" for what in ("engine", "GPU", "model family", "precision", "provenance", "novelty")
    }


def test_any_family_is_split_when_asked_for():
    ttft = [compared(10, 20, family=FigureFamily.TTFT, engine=engine) for engine in ("atom", "vllm", "vllm")]
    tables = {table.title: table.strata for table in error_tables([*ROWS, *ttft], (FigureFamily.TTFT,))}
    assert {name: s.rows for name, s in tables["TTFT by engine"].items()} == {"atom": 1, "vllm": 2}
    assert "TPOT by engine" not in tables


def test_families_of_fewer_than_twenty_rows_are_not_split_but_tpot_is():
    batch = [compared(10, 11, family=FigureFamily.BATCH)] * 20
    ttft = [compared(10, 11, family=FigureFamily.TTFT)] * 19
    assert families_to_split([*batch, *ttft]) == (FigureFamily.TPOT, FigureFamily.BATCH)


def test_rows_in_a_chosen_layout_have_errors_of_their_own_by_its_size():
    rows = [compared(10, 8, chosen_tensor_parallel=size) for size in (16, 2, 2)]
    layouts = next(table for table in error_tables([*ROWS, *rows]) if table.title == "layout chosen").strata
    assert [(name, s.rows) for name, s in layouts.items()] == [("tensor parallel 2", 2), ("tensor parallel 16", 1)]
    assert layouts["tensor parallel 2"].median_ratio == pytest.approx(0.8)


def test_coverage_counts_rows_with_an_interval_ends_included():
    rows = [
        compared(10, 11, interval=(10, 12)),
        compared(10, 11, interval=(10.5, 12)),
        compared(10, 11, interval=(8, 10)),
        compared(10, 11),
        compared(10, 11, family=FigureFamily.BATCH),
    ]
    families = interval_coverage(rows)["family"]
    assert list(families) == ["tpot_concurrency"]
    assert (families["tpot_concurrency"].rows, families["tpot_concurrency"].inside) == (3, 2)
    assert families["tpot_concurrency"].share == pytest.approx(2 / 3)


def test_coverage_is_split_by_provenance_and_by_novelty_over_all_families():
    inside, outside = (10, 12), (11, 12)
    rows = [
        compared(10, 11, interval=inside, provenance="measured"),
        compared(10, 11, interval=outside, provenance="measured", family=FigureFamily.TTFT),
        compared(10, 11, interval=inside, provenance="analytic", novelty=Novelty.GPU_UNSEEN),
        compared(10, 11, provenance="calibrated", novelty=Novelty.MODEL_UNSEEN),
    ]
    assert interval_coverage(rows) == {
        "all": {"all": Coverage(3, 2)},
        "family": {"tpot_concurrency": Coverage(2, 2), "ttft_concurrency": Coverage(1, 0)},
        "provenance": {"analytic": Coverage(1, 1), "measured": Coverage(2, 1)},
        "novelty": {"gpu_and_model_seen": Coverage(2, 1), "gpu_unseen": Coverage(1, 1)},
    }


def test_without_intervals_nothing_is_covered():
    assert not any(interval_coverage([compared(10, 11)]).values())


@pytest.mark.parametrize(
    ("rows", "inside", "verdict"),
    [
        (100, 86, "below"),
        (100, 87, "met"),
        (100, 93, "met"),
        (100, 94, "above"),
        (20, 18, "met"),
        (20, 17, "below"),
        (19, 0, "few rows"),
    ],
)
def test_coverage_is_held_against_87_to_93_percent_where_rows_are_enough(rows, inside, verdict):
    assert Coverage(rows, inside).verdict.value == verdict


def test_too_low_by_a_factor_is_as_bad_as_too_high_by_it():
    rows = [compared(10, 30, row=2), compared(40, 10, row=3), compared(10, 40, row=4), compared(10, 11, row=5)]
    # Factors 3, 1/4, 4, 1.1.
    assert [row.row for row in worst(rows, 3)] == [3, 4, 2]
