"""Flags that several commands share, each declared once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from capplan.cli.backend import DEFAULT_ADDRESS

_MODEL = "Model"
_LOAD = "Workload"
_ENGINE = "Engine"
_ASKING = "Asking"

TARGET_PANEL: Final = "Target (exactly one)"
LIMITS_PANEL: Final = "Latency limits (means)"
CONSTRAINTS_PANEL: Final = "Constraints"


class OutputFormat(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"


class LeftOutFlag(StrEnum):
    """Values of ``--by``."""

    GPU = "gpu"
    MODEL = "model"
    SOURCE = "source"


class MigPolicyFlag(StrEnum):
    """Values of ``--mig``."""

    ALLOWED = "allowed"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"


class ObjectiveFlag(StrEnum):
    """Values of ``--objective``."""

    COST = "cost"
    DEVICES = "devices"
    ENERGY = "energy"
    LATENCY = "latency"


Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Published config.json to size instead of a catalogue model; - reads standard input. "
        "MODEL is then an optional display name.",
        rich_help_panel=_MODEL,
    ),
]
QuantizationConfig = Annotated[
    str | None,
    typer.Option(
        "--quantization-config",
        metavar="FILE",
        help="Separate hf_quant_config.json; only with --config.",
        rich_help_panel=_MODEL,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="FORMAT",
        help="Weights: fp32, tf32, bf16, fp16, fp8, int8, int4, mxfp4 or nvfp4. Default: as published.",
        rich_help_panel=_MODEL,
    ),
]
KvCache = Annotated[
    str | None,
    typer.Option(
        "--kv-cache",
        metavar="FORMAT",
        help="KV cache: auto, bf16, fp16 or fp8. Default: auto, what the checkpoint asks for, else 16 bit.",
        rich_help_panel=_MODEL,
    ),
]
InputTokens = Annotated[
    float | None, typer.Option("--input-tokens", help="Mean prompt length, required.", rich_help_panel=_LOAD)
]
OutputTokens = Annotated[
    float | None, typer.Option("--output-tokens", help="Mean generated length, required.", rich_help_panel=_LOAD)
]
MaxContextTokens = Annotated[
    int | None,
    typer.Option(
        "--max-context-tokens",
        metavar="N",
        min=1,
        help="Longest context one request may reach. Default: the model's full context, as engines do.",
        rich_help_panel=_LOAD,
    ),
]
PrefixCacheHitShare = Annotated[
    float | None,
    typer.Option(
        "--prefix-cache-hit-share",
        metavar="SHARE",
        help="Share of the prompt tokens found in the prefix cache, from 0 to below 1. Default: 0.",
        rich_help_panel=_LOAD,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Inference engine: vllm, sglang or tensorrt-llm. Default: vllm.",
        rich_help_panel=_ENGINE,
    ),
]
EngineVersion = Annotated[
    str | None,
    typer.Option(
        "--engine-version", metavar="X.Y", help="Its version. Default: the newest known.", rich_help_panel=_ENGINE
    ),
]
GpuMemoryUtilization = Annotated[
    float | None,
    typer.Option(
        "--gpu-memory-utilization",
        help="vLLM: share of device memory it may use, above 0 and up to 1. Default: the version's.",
        rich_help_panel=_ENGINE,
    ),
]
MemFractionStatic = Annotated[
    float | None,
    typer.Option(
        "--mem-fraction-static",
        help="SGLang: weights and memory pools over the memory that is free before the weights are loaded, above 0 and "
        "up to 1. Default: the version's.",
        rich_help_panel=_ENGINE,
    ),
]
FreeGpuMemoryFraction = Annotated[
    float | None,
    typer.Option(
        "--free-gpu-memory-fraction",
        help="TensorRT-LLM: KV cache over the memory that is free after weights and activations, above 0 and up to 1. "
        "Default: the version's.",
        rich_help_panel=_ENGINE,
    ),
]
MaxNumSeqs = Annotated[
    int | None,
    typer.Option(
        "--max-num-seqs",
        metavar="N",
        min=1,
        help="Most sequences in one step. Default: the version's.",
        rich_help_panel=_ENGINE,
    ),
]
MaxNumBatchedTokens = Annotated[
    int | None,
    typer.Option(
        "--max-num-batched-tokens",
        metavar="N",
        min=1,
        help="Token budget of one step. Default: the version's.",
        rich_help_panel=_ENGINE,
    ),
]
Output = Annotated[
    OutputFormat,
    typer.Option(
        "--output", "-o", help="table to read; json for programs, as the contract's JSON.", rich_help_panel=_ASKING
    ),
]
Local = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Answer in this process, without a server: from the shipped catalogue, or from the database that "
        "CAPPLAN_DATABASE_URL names.",
        rich_help_panel=_ASKING,
    ),
]
Address = Annotated[
    str,
    typer.Option(
        "--address", envvar="CAPPLAN_ADDRESS", metavar="HOST:PORT", help="Server to ask.", rich_help_panel=_ASKING
    ),
]
TimeoutS = Annotated[
    float,
    typer.Option("--timeout-s", min=0.001, max=86_400.0, help="Longest wait for the server.", rich_help_panel=_ASKING),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="Database, sqlite:///path or postgresql+psycopg://user@host/name. Default: CAPPLAN_DATABASE_URL, else "
        "sqlite:///capplan.sqlite3.",
    ),
]

CatalogUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="Database to take catalogue and measurements from. Default: CAPPLAN_DATABASE_URL, else what is shipped.",
    ),
]
"""Of commands that leave no database behind."""

ADDRESS_DEFAULT: Final = DEFAULT_ADDRESS
TIMEOUT_S_DEFAULT: Final = 30.0
