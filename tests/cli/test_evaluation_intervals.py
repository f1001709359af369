"""Intervals and provenances of an evaluation in its tables, its JSON and its CSV, on invented rows."""

from __future__ import annotations

import csv
import io
import json

import pytest

from capplan.catalog.evaluation import Evaluation, RowOutcome, added_cells
from capplan.catalog.evaluation_file import ADDED_COLUMNS, EvaluationFile, EvaluationRow, predictions_table
from capplan.cli.output import open_console
from capplan.cli.views.evaluation import print_evaluation, print_json_evaluation
from capplan.estimation.corrections import Novelty
from capplan.estimation.evaluation import Comparison, FigureFamily
from capplan.estimation.observation import Metric


def compared(
    inside: bool, *, family: FigureFamily, provenance: str, novelty: Novelty, has_interval: bool = True
) -> Comparison:
    """Measured is 10, predicted 11; the interval starts at 9 or only above what was measured."""
    return Comparison(
        row=2,
        family=family,
        metric=Metric.TPOT,
        concurrency=16.0,
        measured=10.0,
        predicted=11.0,
        lower=(9.0 if inside else 10.5) if has_interval else None,
        upper=12.0 if has_interval else None,
        group=("a source with a long title", "an-organisation/a-model-with-a-long-name", "h100-sxm-80gb"),
        engine="vllm",
        model_family="llama",
        precision="fp8",
        provenance=provenance,
        novelty=novelty,
        bottleneck="compute",
    )


# 100 rows of TPOT, measured and seen, 90 inside; 40 of TTFT, interpolated, on a new GPU, 30 inside; 25 of the output
# rate, calibrated, new in both ways, all inside; 4 analytic of a new model, none inside; 3 without an interval.
COMPARISONS = [
    compared(place < inside, family=family, provenance=provenance, novelty=novelty)
    for rows, inside, family, provenance, novelty in (
        (100, 90, FigureFamily.TPOT, "measured", Novelty.SEEN),
        (40, 30, FigureFamily.TTFT, "interpolated", Novelty.GPU_UNSEEN),
        (25, 25, FigureFamily.OUTPUT_RATE, "calibrated", Novelty.BOTH_UNSEEN),
        (4, 0, FigureFamily.BATCH, "analytic", Novelty.MODEL_UNSEEN),
    )
    for place in range(rows)
] + [
    compared(True, family=FigureFamily.TPOT, provenance="analytic", novelty=Novelty.SEEN, has_interval=False)
    for _ in range(3)
]
# (split, value): rows, inside, percent to one decimal, verdict against 87 to 93 %
EXPECTED = {
    ("", "all"): (169, 145, "85.8", "below"),  # 145 / 169 = 0.858
    ("family", "tpot_concurrency"): (100, 90, "90.0", "met"),
    ("family", "ttft_concurrency"): (40, 30, "75.0", "below"),
    ("family", "output_rate_concurrency"): (25, 25, "100.0", "above"),
    ("family", "batch"): (4, 0, "0.0", "few rows"),
    ("provenance", "measured"): (100, 90, "90.0", "met"),
    ("provenance", "interpolated"): (40, 30, "75.0", "below"),
    ("provenance", "calibrated"): (25, 25, "100.0", "above"),
    ("provenance", "analytic"): (4, 0, "0.0", "few rows"),
    ("novelty", "gpu_and_model_seen"): (100, 90, "90.0", "met"),
    ("novelty", "gpu_unseen"): (40, 30, "75.0", "below"),
    ("novelty", "gpu_and_model_unseen"): (25, 25, "100.0", "above"),
    ("novelty", "model_unseen"): (4, 0, "0.0", "few rows"),
}


def evaluation(comparisons) -> Evaluation:
    return Evaluation(EvaluationFile((), ()), (), tuple(comparisons), ())


def test_the_table_says_coverage_by_family_provenance_and_novelty(capsys):
    print_evaluation(open_console(), evaluation(COMPARISONS), "made up", verbose=False)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    heading = "Measured figures inside the 90 % interval (target 87 to 93 %)\n"
    lines = out[out.index(heading) + len(heading) :].split("\n\n")[0].splitlines()[2:]
    found = {}
    for line in lines:
        *names, rows, inside, percent, target = line.replace("few rows", "few_rows").split()
        split, value = names if len(names) == 2 else ("", *names)
        found[split, value] = (int(rows), int(inside), percent, target.replace("_", " "))
    assert found == EXPECTED


def test_without_an_interval_the_table_says_so(capsys):
    print_evaluation(open_console(), evaluation(COMPARISONS[-3:]), "made up", verbose=False)
    assert "no prediction has an interval" in capsys.readouterr().out


def test_json_has_the_same_and_every_row_its_interval(capsys):
    print_json_evaluation(evaluation(COMPARISONS), {})
    answer = json.loads(capsys.readouterr().out)
    assert answer["interval_coverage_target"] == [0.87, 0.93]
    assert answer["interval_coverage_all"] == {
        "rows": 169,
        "inside": 145,
        "share": pytest.approx(145 / 169),
        "verdict": "below",
    }
    for split, key in (
        ("family", "interval_coverage"),
        ("provenance", "interval_coverage_by_provenance"),
        ("novelty", "interval_coverage_by_novelty"),
    ):
        found = {
            (split, row[split]): (row["rows"], row["inside"], f"{row['share'] * 100:.1f}", row["verdict"])
            for row in answer[key]
        }
        assert found == {names: figures for names, figures in EXPECTED.items() if names[0] == split}
    assert (answer["worst"][0]["lower"], answer["worst"][0]["upper"]) == (9.0, 12.0)
    assert answer["worst"][0]["provenance"] == "measured"


def test_json_without_an_interval_has_no_coverage(capsys):
    print_json_evaluation(evaluation(COMPARISONS[-3:]), {})
    answer = json.loads(capsys.readouterr().out)
    assert answer["interval_coverage_all"] is None
    assert answer["interval_coverage"] == answer["interval_coverage_by_provenance"] == []
    assert answer["interval_coverage_by_novelty"] == []


@pytest.mark.parametrize(
    ("lower", "upper", "cells"), [(10.25, 13.5, ["10.25", "13.5"]), (None, None, ["", ""]), (0.0, 13.5, ["0", "13.5"])]
)
def test_the_csv_has_ends_and_provenance_of_every_row(lower, upper, cells):
    row = EvaluationRow(
        line=2, cells=("m",), names=None, measurement=None, measured=10.0, unit=1.0, fault="", malformed=False
    )
    outcome = RowOutcome(row, predicted=12.0, lower=lower, upper=upper, provenance="interpolated", bottleneck="compute")
    text = predictions_table(EvaluationFile(("model",), (row,)), [added_cells(outcome)])
    (written,) = csv.DictReader(io.StringIO(text))
    assert list(written) == ["model", *ADDED_COLUMNS]
    assert [written["predicted"], written["lower"], written["upper"]] == ["12", *cells]
    assert (written["provenance"], written["bottleneck"]) == ("interpolated", "compute")
