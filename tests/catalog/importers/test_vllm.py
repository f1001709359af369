"""Result files of `vllm bench serve`; the files here are made up in the documented layout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capplan.catalog.importers.vllm import parse_vllm
from capplan.errors import InvalidInputError

RESULT: dict[str, Any] = {
    "date": "20260312-101500",
    "backend": "vllm",
    "model_id": "org/m-8b",
    "num_prompts": 400,
    "request_rate": "inf",
    "max_concurrency": 32,
    "tp": "2",
    "gpu": "H100",
    "duration": 60.0,
    "completed": 400,
    "total_input_tokens": 400_000,
    "total_output_tokens": 100_000,
    "request_throughput": 6.5,
    "output_throughput": 1700.0,
    "total_token_throughput": 8500.0,
    "mean_ttft_ms": 180.0,
    "median_ttft_ms": 150.0,
    "std_ttft_ms": 40.0,
    "p99_ttft_ms": 900.0,
    "p99.9_ttft_ms": 950.0,
    "mean_tpot_ms": 18.0,
    "mean_itl_ms": 18.5,
    "ttfts": [0.1, 0.2],
}


def figures(parsed) -> dict[tuple[str, str], float]:
    (run,) = parsed.runs
    return {(figure.metric, figure.statistic): figure.value for figure in run.figures}


def parse(**changes: Any):
    return parse_vllm(json.dumps(RESULT | changes))


def test_every_known_figure_is_read() -> None:
    assert figures(parse()) == {
        ("requests_per_s", "mean"): 6.5,
        ("output_tokens_per_s", "mean"): 1700.0,
        ("total_tokens_per_s", "mean"): 8500.0,
        ("ttft_ms", "mean"): 180.0,
        ("ttft_ms", "p50"): 150.0,
        ("ttft_ms", "p99"): 900.0,
        ("tpot_ms", "mean"): 18.0,
        ("itl_ms", "mean"): 18.5,
    }


def test_the_setup_is_read_as_far_as_the_file_says_it() -> None:
    (run,) = parse().runs
    facts = run.facts
    assert (facts.model, facts.accelerator, facts.engine, facts.tensor_parallel) == ("org/m-8b", "H100", "vllm", 2)
    assert (facts.input_tokens, facts.output_tokens) == (1000.0, 250.0)  # totals over 400 requests
    assert facts.as_of == "2026-03-12"
    assert (facts.weights, facts.devices) == (None, None)


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        ({}, ("concurrency", 32.0)),
        ({"max_concurrency": None}, ("offline_max", None)),
        ({"max_concurrency": None, "request_rate": 4.0}, ("qps", 4.0)),
        ({"request_rate": 4}, ("qps", 4.0)),
    ],
)
def test_the_load_is_told_by_rate_and_concurrency(changes: dict[str, Any], load: tuple[str, float | None]) -> None:
    (run,) = parse(**changes).runs
    assert (run.facts.load_kind, run.facts.load_value) == load


def test_a_client_for_any_engine_names_none() -> None:
    (run,) = parse(backend="openai-chat").runs
    assert run.facts.engine is None


def test_failed_requests_and_speculation_are_noted() -> None:
    (run,) = parse(failed=3, spec_decode_acceptance_rate=0.7).runs
    assert run.notes == ("3 requests failed",)
    assert run.flags == ("speculative_decoding",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completed": 0}, "no request was answered"),
        ({"completed": None}, "no request was answered"),
        ({"request_rate": "fast"}, "request_rate is 'fast'"),
        ({"num_prompts": 8}, "8 prompts never make the concurrency of 32"),
    ],
)
def test_a_run_that_measured_nothing_is_rejected(changes: dict[str, Any], reason: str) -> None:
    parsed = parse(**changes)
    assert not parsed.runs
    (rejection,) = parsed.rejections
    assert rejection.place == "run"
    assert reason in rejection.reason


def test_appended_results_are_one_a_line_and_a_broken_line_is_named() -> None:
    lines = [json.dumps(RESULT), "{broken", json.dumps(RESULT | {"max_concurrency": 64}), "7"]
    parsed = parse_vllm("\n".join(lines))
    assert [run.place for run in parsed.runs] == ["line 1", "line 3"]
    assert [rejection.place for rejection in parsed.rejections] == ["line 2", "line 4"]


@pytest.mark.parametrize("text", ["", "not json", "7", '"text"', "{" * 5, "[" * 100_000])
def test_a_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_vllm(text)
    assert caught.value.violations[0].field == "file"
