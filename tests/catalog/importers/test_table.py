"""The plain table: one figure a row."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from capplan.catalog.importers.table import parse_table
from capplan.errors import InvalidInputError

ROW: dict[str, Any] = {
    "model": "org/m-8b",
    "gpu": "H100",
    "engine": "vLLM",
    "weight_precision": "fp8",
    "num_gpus": 4,
    "tp": 2,
    "isl": 1000,
    "osl": 250.5,
    "load_kind": "concurrency",
    "load_value": 16,
    "metric": "output_tokens_per_s",
    "statistic": "mean",
    "value": 700,
    "per_gpu": "true",
    "flags": "speculative_decoding;power_limited",
    "serving_mode": "agg",
    "notes": "a note",
    "trust": "A",
}


def table(*rows: dict[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(ROW))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def test_a_row_becomes_a_run_of_one_figure() -> None:
    (run,) = parse_table(table(ROW)).runs
    (figure,) = run.figures
    assert (figure.metric, figure.statistic, figure.value) == ("output_tokens_per_s", "mean", 4 * 700.0)
    facts = run.facts
    assert (facts.model, facts.accelerator, facts.engine, facts.weights) == ("org/m-8b", "H100", "vLLM", "fp8")
    assert (facts.devices, facts.tensor_parallel, facts.pipeline_parallel) == (4, 2, None)
    assert (facts.input_tokens, facts.output_tokens) == (1000.0, 250.5)
    assert run.flags == ("speculative_decoding", "power_limited")
    assert run.notes == ("a note",)


def test_a_latency_is_not_multiplied_by_the_devices() -> None:
    (run,) = parse_table(table(ROW | {"metric": "tpot_ms", "value": 20})).runs
    assert run.figures[0].value == 20.0


def test_a_blank_tensor_parallelism_stays_blank() -> None:
    (run,) = parse_table(table(ROW | {"tp": ""})).runs
    assert run.facts.tensor_parallel is None


def test_disaggregated_rows_are_flagged() -> None:
    (run,) = parse_table(table(ROW | {"serving_mode": "disagg", "flags": ""})).runs
    assert run.flags == ("disaggregated",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"value": ""}, "value is empty"),
        ({"value": "fast"}, "value is 'fast', not a number"),
        ({"value": "nan"}, "value is 'nan', not a number"),
        ({"tp": "1.5"}, "tp is '1.5', not a whole number"),
        ({"num_gpus": ""}, "per_gpu is true, but num_gpus is empty"),
        ({"per_gpu": "perhaps"}, "per_gpu is 'perhaps'; accepted: true, false"),
        ({"serving_mode": "both"}, "serving_mode is 'both'; accepted: agg, disagg"),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_the_rest_is_read(changes: dict[str, Any], reason: str) -> None:
    parsed = parse_table(table(ROW, ROW | changes, ROW))
    assert [run.place for run in parsed.runs] == ["line 2", "line 4"]
    assert [(rejection.place, rejection.reason) for rejection in parsed.rejections] == [("line 3", reason)]


def test_a_quoted_line_break_does_not_move_the_lines() -> None:
    parsed = parse_table(table(ROW | {"notes": "two\nlines"}, ROW | {"value": ""}))
    assert [rejection.place for rejection in parsed.rejections] == ["line 4"]
    assert parsed.runs[0].notes == ("two\ufffdlines",)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InvalidInputError, match="no column metric, value"):
        parse_table("model,gpu,load_kind\n")
