"""GuideLLM's reports; the files here are made up in the documented layouts of 0.3 and 0.8."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capplan.catalog.importers.guidellm import parse_guidellm
from capplan.errors import InvalidInputError

METRICS: dict[str, Any] = {
    "requests_per_second": {"successful": {"mean": 3.9}, "errored": {"mean": 9.9}},
    "request_latency": {"successful": {"mean": 4.1, "percentiles": {"p50": 4.0, "p99": 6.5}}},
    "prompt_token_count": {"successful": {"mean": 512.0}},
    "output_token_count": {"successful": {"mean": 128.0}},
    "time_to_first_token_ms": {"successful": {"mean": 140.0, "percentiles": {"p50": 120.0, "p999": 800.0}}},
    "inter_token_latency_ms": {"successful": {"mean": 31.2}},
    "time_per_output_token_ms": {"successful": {"mean": 32.0}},
    "output_tokens_per_second": {"successful": {"mean": 499.2}},
}


def new(strategy: dict[str, Any]) -> dict[str, Any]:
    return {"config": {"strategy": strategy, "backend": {"model": "org/m-8b"}}, "metrics": METRICS}


def report(*benchmarks: Any) -> str:
    return json.dumps({"metadata": {"version": 2}, "benchmarks": list(benchmarks)})


def test_successful_requests_are_read_in_the_metrics_units() -> None:
    (run,) = parse_guidellm(report(new({"type_": "concurrent", "streams": 16}))).runs
    assert {(figure.metric, figure.statistic): figure.value for figure in run.figures} == {
        ("requests_per_s", "mean"): 3.9,
        ("output_tokens_per_s", "mean"): 499.2,
        ("ttft_ms", "mean"): 140.0,
        ("ttft_ms", "p50"): 120.0,
        # Time per output token by its definition; GuideLLM's own includes the prompt and is left out.
        ("tpot_ms", "mean"): 31.2,
        ("e2e_latency_ms", "mean"): 4100.0,  # seconds in the file
        ("e2e_latency_ms", "p50"): 4000.0,
        ("e2e_latency_ms", "p99"): 6500.0,
    }
    assert (run.facts.model, run.facts.input_tokens, run.facts.output_tokens) == ("org/m-8b", 512.0, 128.0)


@pytest.mark.parametrize(
    ("strategy", "load"),
    [
        ({"type_": "synchronous"}, ("concurrency", 1.0)),
        ({"type_": "concurrent", "streams": 16}, ("concurrency", 16.0)),
        ({"type_": "throughput", "max_concurrency": 512}, ("offline_max", None)),
        ({"type_": "constant", "rate": 2.5}, ("qps", 2.5)),
        ({"type_": "poisson", "rate": 2.5}, ("qps", 2.5)),
    ],
)
def test_the_strategy_is_the_load(strategy: dict[str, Any], load: tuple[str, float | None]) -> None:
    (run,) = parse_guidellm(report(new(strategy))).runs
    assert (run.facts.load_kind, run.facts.load_value) == load


def test_the_older_layout_is_read_too() -> None:
    old = {
        "args": {"strategy": {"type_": "concurrent", "streams": 4}},
        "worker": {"backend_model": "org/m-8b"},
        "start_time": 1773273600.0,  # 2026-03-12T00:00:00Z
        "metrics": METRICS,
    }
    (run,) = parse_guidellm(report(old)).runs
    assert (run.facts.model, run.facts.load_value, run.facts.as_of) == ("org/m-8b", 4.0, "2026-03-12")


def test_one_bad_benchmark_does_not_spoil_the_rest() -> None:
    parsed = parse_guidellm(report(new({"type_": "trace"}), 7, new({"type_": "synchronous"})))
    assert [run.place for run in parsed.runs] == ["benchmarks[2]"]
    assert [rejection.place for rejection in parsed.rejections] == ["benchmarks[0]", "benchmarks[1]"]
    assert "accepted: synchronous" in parsed.rejections[0].reason


@pytest.mark.parametrize("text", ["", "benchmarks:\n- a", "{}", "[]", '{"benchmarks": {}}'])
def test_a_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_guidellm(text)
    assert caught.value.violations[0].field == "file"
