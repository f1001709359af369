"""InferenceX's aggregates (``utils/process_result.py``), as CSV with their keys for columns, or as JSON.

Latencies are in seconds, rates per GPU. Lengths are nominal: real ones are drawn uniformly from 0.8 to 1.0 of them, and
the means are stored. ``fp4`` may be nvfp4 or mxfp4, so the weights must then be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from capplan.catalog.importers.reading import (
    UnusableError,
    csv_records,
    json_records,
    number,
    shown,
    text_of,
    whole,
)
from capplan.catalog.importers.runs import Facts, Figure, Parsed, Run

MEAN_OF_NOMINAL: Final = 0.9
"""Mean of the uniform distribution from 0.8 to 1.0."""

_LATENCIES: Final = {"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2el": "e2e_latency_ms"}
_STATISTICS: Final = {"mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_ENGINES: Final = {"trt": "tensorrt-llm", "trtllm": "tensorrt-llm", "sglang": "sglang", "vllm": "vllm", "atom": "atom"}
_AMBIGUOUS_WEIGHTS: Final = frozenset({"fp4"})
_MS_PER_S: Final = 1e3


def parse_inferencex(text: str) -> Parsed:
    """Read aggregates; JSON when the file begins with a brace or bracket, else CSV.

    Raises:
        InvalidInputError: the file is neither.
    """
    parsed = Parsed()
    for place, record in _records(text, parsed):
        try:
            parsed.runs.append(_run(place, record))
        except UnusableError as error:
            parsed.reject(place, str(error))
    return parsed


def _records(text: str, parsed: Parsed) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if text.lstrip()[:1] in ("{", "["):
        yield from json_records(text, parsed)
        return
    for line, record in csv_records(text, ("hw", "model", "conc"), parsed):
        yield f"line {line}", record


def _run(place: str, record: Mapping[str, Any]) -> Run:
    split = _is_true(record.get("disagg")) or _is_true(record.get("is_multinode"))
    prefix = "decode_" if split else ""
    tensor = whole(record.get(f"{prefix}tp"))
    if tensor is None or tensor < 1:
        raise UnusableError(f"{prefix}tp is {shown(record.get(f'{prefix}tp'))}, no positive number")
    pipeline = _ranks(record, f"{prefix}pp")
    # With attention data parallelism tp counts the ranks, and each attends to sequences of its own.
    attention = tensor if _is_true(record.get(f"{prefix}dp_attention")) else 1
    if split:
        prefill_gpus, decode_gpus = whole(record.get("num_prefill_gpu")), whole(record.get("num_decode_gpu"))
        if prefill_gpus is None or decode_gpus is None:
            raise UnusableError("num_prefill_gpu or num_decode_gpu is missing: the deployment's size is unknown")
        devices, output_devices = prefill_gpus + decode_gpus, decode_gpus
    else:
        devices = output_devices = tensor * pipeline * _ranks(record, "pcp_size")
    lengths = (number(record.get("isl")), number(record.get("osl")))
    input_tokens, output_tokens = (MEAN_OF_NOMINAL * length if length else None for length in lengths)
    weights = text_of(record.get("precision"))
    flags = ["disaggregated"] if split else []
    if (text_of(record.get("spec_decoding")) or "none").lower() != "none":
        flags.append("speculative_decoding")
    if attention > 1:
        flags.append("dp_attention")
    return Run(
        place,
        Facts(
            model=text_of(record.get("model")),
            # A runner's name is the accelerator's with what runs on it: b200-trt.
            accelerator=(text_of(record.get("hw")) or "").partition("-")[0] or None,
            engine=_engine(record.get("framework")),
            weights=None if weights is None or weights.lower() in _AMBIGUOUS_WEIGHTS else weights.lower(),
            devices=devices,
            tensor_parallel=tensor // attention,
            pipeline_parallel=pipeline,
            expert_parallel=_ranks(record, f"{prefix}ep"),
            attention_data_parallel=attention,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            load_kind="concurrency",
            load_value=number(record.get("conc")),
        ),
        tuple(_figures(record, devices, output_devices)),
        tuple(flags),
        (f"lengths drawn from 0.8 to 1.0 of {lengths[0]:g}/{lengths[1]:g}, their means stored",)
        if all(lengths)
        else (),
    )


def _ranks(record: Mapping[str, Any], key: str) -> int:
    """A width that may be left out, which is 1 then."""
    if record.get(key) in (None, ""):
        return 1
    found = whole(record[key])
    if found is None or found < 1:
        raise UnusableError(f"{key} is {shown(record[key])}, no positive number")
    return found


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _engine(value: Any) -> str | None:
    # "dynamo-trt" and the like name the router first.
    name = (text_of(value) or "").lower()
    return _ENGINES.get(name) or _ENGINES.get(name.rpartition("-")[2])


def _figures(record: Mapping[str, Any], devices: int, output_devices: int) -> Iterator[Figure]:
    for key, metric, count in (
        ("tput_per_gpu", "total_tokens_per_s", devices),
        ("output_tput_per_gpu", "output_tokens_per_s", output_devices),
    ):
        value = number(record.get(key))
        if value is not None:
            yield Figure(metric, "mean", value * count)
    for key, metric in _LATENCIES.items():
        for prefix, statistic in _STATISTICS.items():
            value = number(record.get(f"{prefix}_{key}"))
            if value is not None:
                yield Figure(metric, statistic, _MS_PER_S * value)
