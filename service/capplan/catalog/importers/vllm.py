"""Result files of ``vllm bench serve --save-result``: one JSON object, or one a line with ``--append-result``.

Keys as in vLLM 0.33 (``vllm/benchmarks/serve.py``); latencies are in milliseconds, counts and rates of the whole run.
The file does not say what was served on: ``--metadata tp=4 gpu=H100`` adds such keys, arguments give the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from capplan.catalog.importers.reading import UnusableError, json_records, number, shown, text_of, whole
from capplan.catalog.importers.runs import Facts, Figure, Parsed, Run

_RATES: Final = {
    "request_throughput": "requests_per_s",
    "output_throughput": "output_tokens_per_s",
    "total_token_throughput": "total_tokens_per_s",
}
_LATENCIES: Final = {"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2el": "e2e_latency_ms"}
_STATISTICS: Final = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}

# The client's name for what it speaks to; "openai" and the like may be any engine.
_ENGINES: Final = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt-llm", "lmdeploy": "lmdeploy"}


def parse_vllm(text: str) -> Parsed:
    """Read a result file.

    Raises:
        InvalidInputError: the file is no JSON, neither whole nor line by line.
    """
    parsed = Parsed()
    for place, record in json_records(text, parsed):
        try:
            parsed.runs.append(_run(place, record))
        except UnusableError as error:
            parsed.reject(place, str(error))
    return parsed


def _run(place: str, record: Mapping[str, Any]) -> Run:
    completed = number(record.get("completed"))
    if completed is None or completed < 1:
        raise UnusableError(f"completed is {shown(record.get('completed'))}: no request was answered")
    load_kind, load_value, notes = _load(record)
    failed = number(record.get("failed"))
    if failed:
        notes.append(f"{failed:.0f} requests failed")
    date = text_of(record.get("date"))
    return Run(
        place,
        Facts(
            model=text_of(record.get("model_id")),
            accelerator=text_of(record.get("gpu")) or text_of(record.get("accelerator")),
            engine=_ENGINES.get(str(record.get("backend", record.get("endpoint_type"))).lower()),
            engine_version=text_of(record.get("engine_version")),
            tensor_parallel=whole(record.get("tp", record.get("tensor_parallel_size"))),
            input_tokens=_mean(record.get("total_input_tokens"), completed),
            output_tokens=_mean(record.get("total_output_tokens"), completed),
            load_kind=load_kind,
            load_value=load_value,
            as_of=f"{date[:4]}-{date[4:6]}-{date[6:8]}" if date and date[:8].isdigit() else None,
        ),
        tuple(_figures(record)),
        flags=("speculative_decoding",) if number(record.get("spec_decode_acceptance_rate")) else (),
        notes=tuple(notes),
    )


def _load(record: Mapping[str, Any]) -> tuple[str, float | None, list[str]]:
    concurrency, rate = number(record.get("max_concurrency")), record.get("request_rate")
    prompts = number(record.get("num_prompts"))
    endless = rate in ("inf", float("inf"))
    if not endless:
        per_s = number(rate)
        if per_s is None:
            raise UnusableError(f"request_rate is {shown(rate)}, neither a number nor 'inf'")
        return "qps", per_s, [f"at most {concurrency:.0f} in flight"] if concurrency else []
    if concurrency is None:
        return "offline_max", None, []
    if prompts is not None and prompts < concurrency:
        raise UnusableError(f"{prompts:.0f} prompts never make the concurrency of {concurrency:.0f}")
    return "concurrency", concurrency, []


def _mean(total: Any, completed: float) -> float | None:
    tokens = number(total)
    return tokens / completed if tokens else None


def _figures(record: Mapping[str, Any]) -> Iterator[Figure]:
    for key, metric in _RATES.items():
        value = number(record.get(key))
        if value is not None:
            yield Figure(metric, "mean", value)
    for key, metric in _LATENCIES.items():
        found = {}
        for prefix, statistic in _STATISTICS.items():
            value = number(record.get(f"{prefix}_{key}_ms"))
            if value is not None:
                found[statistic] = value
        yield from (Figure(metric, statistic, value) for statistic, value in found.items())
