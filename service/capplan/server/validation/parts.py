"""Checks of the messages that several requests share: the model, its formats, the workload, the engine."""

from __future__ import annotations

from typing import Final

from capplan.modeling.precision import KV_CACHE_PRECISIONS, WEIGHT_PRECISIONS
from capplan.server.json_text import MAX_JSON_BYTES
from capplan.server.validation.checks import Violations
from capplan.v1 import model_pb2, placement_pb2

MAX_TOKENS: Final = 1e8
MAX_NAME_CHARACTERS: Final = 256
MAX_LIST_ENTRIES: Final = 256
MAX_PARALLEL: Final = 1024
MAX_SEQUENCES: Final = 1e6
MAX_STEP_TOKENS: Final = 1e7

_MODEL_EXPECTED = "set model.name (a catalogue name) or model.config_json (the text of a config.json)"


def check_model(violations: Violations, model: model_pb2.ModelSelection) -> None:
    """The ``model`` field."""
    source = model.WhichOneof("source")
    if source is None:
        violations.add("model", f"is required: {_MODEL_EXPECTED}")
    elif source == "name":
        violations.text("model.name", model.name, most_characters=MAX_NAME_CHARACTERS, required=_MODEL_EXPECTED)
    else:
        # A character takes one byte at least, so this bound never refuses what the parser would accept.
        violations.text(
            "model.config_json", model.config_json, most_characters=MAX_JSON_BYTES, required="the text of a config.json"
        )
    if source != "config_json":
        for name in ("quantization_config_json", "display_name"):
            if getattr(model, name):
                violations.add(f"model.{name}", "is accepted only together with model.config_json")
    violations.text("model.quantization_config_json", model.quantization_config_json, most_characters=MAX_JSON_BYTES)
    violations.text("model.display_name", model.display_name, most_characters=MAX_NAME_CHARACTERS)
    if not model.display_name.isprintable():
        violations.add("model.display_name", "has characters that do not print; accepted: printable text on one line")


def check_kv_cache(violations: Violations, field: str, kv_cache: str) -> None:
    """A KV-cache format."""
    violations.one_of(field, kv_cache, KV_CACHE_PRECISIONS, empty_means="auto")


def check_precision(violations: Violations, precision: model_pb2.Precision) -> None:
    """The ``precision`` field."""
    violations.one_of(
        "precision.weights", precision.weights, WEIGHT_PRECISIONS, empty_means="the checkpoint's own format"
    )
    check_kv_cache(violations, "precision.kv_cache", precision.kv_cache)


def check_workload(violations: Violations, workload: placement_pb2.Workload) -> None:
    """The ``workload`` field, when it is there."""
    violations.number("workload.input_tokens", workload.input_tokens, least=1, most=MAX_TOKENS)
    violations.number("workload.output_tokens", workload.output_tokens, least=1, most=MAX_TOKENS)
    violations.number(
        "workload.max_context_tokens",
        workload.max_context_tokens,
        least=1,
        most=MAX_TOKENS,
        zero_means="the model's full context",
    )
    violations.number("workload.prefix_cache_hit_share", workload.prefix_cache_hit_share, least=0, most=1, below=True)


def check_engine(violations: Violations, engine: placement_pb2.EngineSelection, field: str) -> None:
    """An ``engine`` field; which names and versions are modelled is the core's to say."""
    violations.text(f"{field}.name", engine.name, most_characters=MAX_NAME_CHARACTERS)
    violations.text(f"{field}.version", engine.version, most_characters=MAX_NAME_CHARACTERS)
    default = "the version's default"
    for name in ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction"):
        violations.number(f"{field}.{name}", getattr(engine, name), least=0, most=1, above=True, zero_means=default)
    violations.number(f"{field}.max_num_seqs", engine.max_num_seqs, least=1, most=MAX_SEQUENCES, zero_means=default)
    violations.number(
        f"{field}.max_num_batched_tokens",
        engine.max_num_batched_tokens,
        least=1,
        most=MAX_STEP_TOKENS,
        zero_means=default,
    )
