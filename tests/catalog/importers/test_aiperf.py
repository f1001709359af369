"""AIPerf's and GenAI-Perf's exports; the files here are made up in the documented layouts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capplan.catalog.importers.aiperf import parse_aiperf
from capplan.errors import InvalidInputError

EXPORT: dict[str, Any] = {
    "schema_version": "1.4",
    "request_throughput": {"unit": "requests/sec", "avg": 5.2},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1310.4},
    "input_sequence_length": {"unit": "tokens", "avg": 1000.0},
    "output_sequence_length": {"unit": "tokens", "avg": 252.0},
    "time_to_first_token": {"unit": "ms", "avg": 95.1, "p50": 90.0, "p99": 210.0, "p75": 99.0, "std": 12.0},
    "inter_token_latency": {"unit": "ms", "avg": 18.2},
    "request_latency": {"unit": "sec", "avg": 4.663},
    "input_config": {
        "models": {"items": [{"name": "org/m-8b"}]},
        "phases": [
            {"name": "warmup", "type": "concurrency", "concurrency": 4},
            {"name": "profiling", "type": "concurrency", "concurrency": 24},
        ],
    },
    "telemetry_data": {"endpoints": {"node:9400": {"gpus": {"0": {"gpu_name": "H100"}, "1": {"gpu_name": "H100"}}}}},
}

CSV = """\
Metric,avg,min,max,p99,p95,p90,p75,p50,p25,p10,p5,p1
Time to First Token (ms),95.10,80.00,250.00,210.00,180.00,160.00,110.00,90.00,85.00,82.00,81.00,80.00
Request Latency (ms),"4,663.00",1,9000,1,1,1,1,"4,600.00",1,1,1,1
Input Sequence Length (tokens),"1,000.00",1,1,1,1,1,1,1,1,1,1,1
Output Sequence Length (tokens),252.00,1,1,1,1,1,1,1,1,1,1,1

Metric,Value
Output Token Throughput (tokens/sec),"1,310.40"
Request Throughput (per sec),5.20

Endpoint,GPU,Value
a,b,c
"""


def figures(parsed) -> dict[tuple[str, str], float]:
    (run,) = parsed.runs
    return {(figure.metric, figure.statistic): figure.value for figure in run.figures}


def test_the_json_export_is_read_in_the_metrics_units() -> None:
    parsed = parse_aiperf(json.dumps(EXPORT))
    assert figures(parsed) == {
        ("requests_per_s", "mean"): 5.2,
        ("output_tokens_per_s", "mean"): 1310.4,
        ("ttft_ms", "mean"): 95.1,
        ("ttft_ms", "p50"): 90.0,
        ("ttft_ms", "p99"): 210.0,
        ("tpot_ms", "mean"): 18.2,
        ("e2e_latency_ms", "mean"): pytest.approx(4663.0),  # seconds in the file
    }
    facts = parsed.runs[0].facts
    assert (facts.model, facts.accelerator) == ("org/m-8b", "H100")
    assert (facts.load_kind, facts.load_value) == ("concurrency", 24.0)  # not the warm-up's
    assert (facts.input_tokens, facts.output_tokens) == (1000.0, 252.0)


@pytest.mark.parametrize(
    ("config", "load", "model"),
    [
        (
            {"model_names": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 8}}},
            ("concurrency", 8.0),
            "m",
        ),
        (
            {"endpoint": {"model_names": ["m"]}, "loadgen": {"request_rate": 2.5, "concurrency": 900}},
            ("qps", 2.5),
            "m",
        ),
        ({"endpoint": {"model_names": ["m", "n"]}}, (None, None), None),
    ],
)
def test_older_layouts_say_load_and_model_elsewhere(config: dict, load: tuple, model: str | None) -> None:
    (run,) = parse_aiperf(json.dumps(EXPORT | {"input_config": config})).runs
    assert (run.facts.load_kind, run.facts.load_value, run.facts.model) == (*load, model)


def test_different_gpus_are_no_one_gpu() -> None:
    gpus = {"endpoints": {"a": {"gpus": {"0": {"gpu_name": "H100"}, "1": {"gpu_name": "A100"}}}}}
    (run,) = parse_aiperf(json.dumps(EXPORT | {"telemetry_data": gpus})).runs
    assert run.facts.accelerator is None


def test_the_csv_export_is_read_with_its_thousands() -> None:
    parsed = parse_aiperf(CSV)
    found = figures(parsed)
    assert found["ttft_ms", "mean"] == 95.1
    assert found["ttft_ms", "p50"] == 90.0
    assert found["ttft_ms", "p99"] == 210.0
    assert found["e2e_latency_ms", "mean"] == 4663.0
    assert found["output_tokens_per_s", "mean"] == 1310.4
    assert found["requests_per_s", "mean"] == 5.2
    facts = parsed.runs[0].facts
    assert (facts.input_tokens, facts.output_tokens) == (1000.0, 252.0)
    assert (facts.model, facts.load_kind) == (None, None)


def test_an_unknown_unit_is_not_taken_for_milliseconds() -> None:
    parsed = parse_aiperf(json.dumps(EXPORT | {"request_latency": {"unit": "min", "avg": 1}}))
    (rejection,) = parsed.rejections
    assert "request_latency is in 'min'" in rejection.reason


def test_an_export_without_figures_is_rejected() -> None:
    parsed = parse_aiperf("{}")
    assert not parsed.runs
    assert "has none of the metrics" in parsed.rejections[0].reason


@pytest.mark.parametrize("text", ["", "{broken", "a,b\n1,2\n"])
def test_a_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_aiperf(text)
