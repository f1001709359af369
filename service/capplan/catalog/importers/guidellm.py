"""GuideLLM's ``benchmarks.json``, versions 0.3 to 0.8; one run per entry of ``benchmarks``.

GuideLLM's inter-token latency is (last - first token) / (n - 1) per request, what other tools call the time per output
token, and is stored as that. Its own ``time_per_output_token_ms`` includes the prompt from 0.4 on and is not read.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final

from capplan.catalog.importers.reading import (
    FILE_FIELD,
    UnusableError,
    at,
    mapping,
    number,
    parse_json,
    shown,
    text_of,
)
from capplan.catalog.importers.runs import Facts, Figure, Parsed, Run
from capplan.errors import InvalidInputError

# name: (metric, factor to the metric's unit)
_RATES: Final = {
    "requests_per_second": "requests_per_s",
    "output_tokens_per_second": "output_tokens_per_s",
    "tokens_per_second": "total_tokens_per_s",
}
_LATENCIES: Final = {
    "time_to_first_token_ms": ("ttft_ms", 1.0),
    "inter_token_latency_ms": ("tpot_ms", 1.0),
    "request_latency": ("e2e_latency_ms", 1000.0),
}
_PERCENTILES: Final = ("p50", "p90", "p95", "p99")


def parse_guidellm(text: str) -> Parsed:
    """Read a report.

    Raises:
        InvalidInputError: the file is no JSON object with a list ``benchmarks``.
    """
    try:
        document = parse_json(text)
    except UnusableError as error:
        raise InvalidInputError.single(FILE_FIELD, f"{error}; save the report as JSON") from None
    benchmarks = at(document, "benchmarks")
    if not isinstance(benchmarks, list):
        raise InvalidInputError.single(FILE_FIELD, "has no list 'benchmarks': not a report of GuideLLM")
    parsed = Parsed()
    for index, benchmark in enumerate(benchmarks):
        place = f"benchmarks[{index}]"
        try:
            parsed.runs.append(_run(place, benchmark, text_of(at(document, "args", "model"))))
        except UnusableError as error:
            parsed.reject(place, str(error))
    return parsed


def _run(place: str, benchmark: Any, model: str | None) -> Run:
    strategy = mapping(at(benchmark, "config", "strategy")) or mapping(at(benchmark, "args", "strategy"))
    load_kind, load_value = _load(strategy)
    return Run(
        place,
        Facts(
            model=text_of(at(benchmark, "config", "backend", "model"))
            or text_of(at(benchmark, "worker", "backend_model"))
            or model,
            input_tokens=number(at(benchmark, "metrics", "prompt_token_count", "successful", "mean")),
            output_tokens=number(at(benchmark, "metrics", "output_token_count", "successful", "mean")),
            load_kind=load_kind,
            load_value=load_value,
            as_of=_date(benchmark),
        ),
        tuple(_figures(benchmark)),
    )


def _load(strategy: Any) -> tuple[str, float | None]:
    kind = strategy.get("type_")
    if kind == "synchronous":
        return "concurrency", 1.0
    if kind == "concurrent":
        return "concurrency", number(strategy.get("streams"))
    if kind == "throughput":
        return "offline_max", None
    if kind in ("constant", "poisson"):
        return "qps", number(strategy.get("rate"))
    raise UnusableError(
        f"the strategy is {shown(kind)}; accepted: synchronous, concurrent, throughput, constant, poisson"
    )


def _date(benchmark: Any) -> str | None:
    start = number(at(benchmark, "start_time")) or number(at(benchmark, "scheduler_metrics", "measure_start_time"))
    try:
        return datetime.datetime.fromtimestamp(start, datetime.UTC).date().isoformat() if start else None
    except (OverflowError, ValueError, OSError):
        return None


def _figures(benchmark: Any) -> Iterator[Figure]:
    for name, metric in _RATES.items():
        value = number(at(benchmark, "metrics", name, "successful", "mean"))
        if value is not None:
            yield Figure(metric, "mean", value)
    for name, (metric, factor) in _LATENCIES.items():
        summary = at(benchmark, "metrics", name, "successful")
        values = {"mean": number(at(summary, "mean"))}
        values |= {percentile: number(at(summary, "percentiles", percentile)) for percentile in _PERCENTILES}
        for statistic, value in values.items():
            if value is not None:
                yield Figure(metric, statistic, factor * value)
