"""AIPerf's and GenAI-Perf's exports, JSON and CSV.

Both define the inter-token latency per request, as (latency - time to first token) / (tokens - 1), or nearly so: the
time per output token of other tools, and stored as that. The CSV export says neither the model nor the load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from capplan.catalog.importers.reading import (
    FILE_FIELD,
    UnusableError,
    at,
    csv_rows,
    mapping,
    number,
    parse_json,
    shown,
    text_of,
)
from capplan.catalog.importers.runs import Facts, Figure, Parsed, Run
from capplan.errors import InvalidInputError

_RATES: Final = {
    "request_throughput": "requests_per_s",
    "output_token_throughput": "output_tokens_per_s",
    "total_token_throughput": "total_tokens_per_s",
}
_LATENCIES: Final = {
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "request_latency": "e2e_latency_ms",
}
_MS_PER_UNIT: Final = {"ms": 1.0, "milliseconds": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}
_STATISTICS: Final = {"avg": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_INPUT: Final = "input_sequence_length"
_OUTPUT: Final = "output_sequence_length"
Summaries = Mapping[str, Mapping[str, Any]]
"""Statistics of a metric, its unit among them, by the metric's name."""

_METRIC_CELL: Final = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]*)\))?\s*")


def parse_aiperf(text: str) -> Parsed:
    """Read an export; JSON when it begins with a brace, else CSV.

    Raises:
        InvalidInputError: the file is neither.
    """
    parsed = Parsed()
    if text.lstrip().startswith("{"):
        try:
            document = mapping(parse_json(text))
        except UnusableError as error:
            raise InvalidInputError.single(FILE_FIELD, str(error)) from None
        summaries: Summaries = {name: mapping(document.get(name)) for name in (*_RATES, *_LATENCIES, _INPUT, _OUTPUT)}
        load = _load(document)
        facts = Facts(model=_model(document), accelerator=_gpu(document), load_kind=load[0], load_value=load[1])
        place = "run"
    else:
        summaries, place = _csv_summaries(text), "table"
        facts = Facts()
    try:
        parsed.runs.append(_run(place, facts, summaries))
    except UnusableError as error:
        parsed.reject(place, str(error))
    return parsed


def _run(place: str, facts: Facts, summaries: Summaries) -> Run:
    figures = tuple(_figures(summaries))
    if not figures:
        raise UnusableError(f"has none of the metrics {', '.join((*_RATES, *_LATENCIES))}")
    lengths = (number(mapping(summaries.get(name)).get("avg")) for name in (_INPUT, _OUTPUT))
    input_tokens, output_tokens = lengths
    return Run(
        place,
        Facts(
            model=facts.model,
            accelerator=facts.accelerator,
            load_kind=facts.load_kind,
            load_value=facts.load_value,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        ),
        figures,
    )


def _figures(summaries: Summaries) -> Iterator[Figure]:
    for name, metric in _RATES.items():
        value = number(mapping(summaries.get(name)).get("avg"))
        if value is not None:
            yield Figure(metric, "mean", value)
    for name, metric in _LATENCIES.items():
        summary = mapping(summaries.get(name))
        unit = summary.get("unit", "ms")
        factor = _MS_PER_UNIT.get(str(unit).lower())
        for key, statistic in _STATISTICS.items():
            value = number(summary.get(key))
            if value is None:
                continue
            if factor is None:
                raise UnusableError(f"{name} is in {shown(unit)}; accepted: {', '.join(_MS_PER_UNIT)}")
            yield Figure(metric, statistic, factor * value)


def _model(document: Mapping[str, Any]) -> str | None:
    items = at(document, "input_config", "models", "items")
    names: Any
    if isinstance(items, list):
        names = [at(item, "name") for item in items]
    else:
        names = at(document, "input_config", "endpoint", "model_names") or at(document, "input_config", "model_names")
    # Several models served at once are no measurement of one.
    return text_of(names[0]) if isinstance(names, list) and len(names) == 1 else None


def _gpu(document: Mapping[str, Any]) -> str | None:
    names = {
        text_of(at(gpu, "gpu_name"))
        for endpoint in mapping(at(document, "telemetry_data", "endpoints")).values()
        for gpu in mapping(at(endpoint, "gpus")).values()
    }
    return names.pop() if len(names) == 1 else None


def _is_warmup(phase: Any) -> bool:
    return (text_of(at(phase, "name")) or "").lower().startswith("warm")


def _load(document: Mapping[str, Any]) -> tuple[str | None, float | None]:
    phases = at(document, "input_config", "phases")
    profiled = [phase for phase in phases if not _is_warmup(phase)] if isinstance(phases, list) else []
    places: list[Any] = profiled if len(profiled) == 1 else []
    places += [
        at(document, "input_config", "loadgen"),
        at(document, "input_config", "perf_analyzer", "stimulus"),
    ]
    for place in places:
        rate = number(at(place, "request_rate")) or number(at(place, "rate"))
        if rate is not None:
            return "qps", rate
        concurrency = number(at(place, "concurrency"))
        if concurrency is not None:
            return "concurrency", concurrency
    return None, None


def _csv_summaries(text: str) -> Summaries:
    """Statistics by metric, from the blocks that begin with a cell ``Metric``; a plain value counts as the average."""
    summaries: dict[str, Mapping[str, Any]] = {}
    header: list[str] = []
    for _, row in csv_rows(text):
        if not row:
            header = []
        elif row[0].strip().lower() == "metric":
            header = ["avg" if cell.strip().lower() == "value" else cell.strip().lower() for cell in row]
        elif header:
            cell = _METRIC_CELL.fullmatch(row[0])
            if cell is None:
                continue
            name = re.sub(r"\W+", "_", cell["name"].strip().lower())
            values = {key: value.replace(",", "") for key, value in zip(header[1:], row[1:], strict=False)}
            summaries.setdefault(name, values | ({"unit": cell["unit"]} if cell["unit"] else {}))
    if not summaries:
        raise InvalidInputError.single(FILE_FIELD, "has no table that begins with a column 'Metric'")
    return summaries
