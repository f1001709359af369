"""Engine settings as a command line to paste.

Flags are vLLM's (``vllm/engine/arg_utils.py`` at v0.33.0; ``--kv-cache-dtype bfloat16`` since 0.12).
"""

from __future__ import annotations

import shlex

from capplan.v1 import placement_pb2


def vllm_command(
    model: str, settings: placement_pb2.EngineSettings, parallelism: placement_pb2.Parallelism, asked_kv_cache: str
) -> str:
    """``vllm serve ...`` for one replica, a flag per line.

    Args:
        model: hub id or path of the checkpoint.
        settings: resolved settings of the engine.
        parallelism: how the replica spreads.
        asked_kv_cache: what the question said; empty and ``auto`` leave the choice to the checkpoint.
    """
    flags = [
        ("--tensor-parallel-size", parallelism.tensor_parallel, parallelism.tensor_parallel > 1),
        ("--pipeline-parallel-size", parallelism.pipeline_parallel, parallelism.pipeline_parallel > 1),
        ("--data-parallel-size", parallelism.attention_data_parallel, parallelism.attention_data_parallel > 1),
        ("--enable-expert-parallel", "", parallelism.expert_parallel > 1),
        ("--max-model-len", settings.max_model_len_tokens, settings.max_model_len_tokens > 0),
        ("--gpu-memory-utilization", f"{settings.gpu_memory_utilization:.4g}", settings.gpu_memory_utilization > 0),
        ("--max-num-seqs", settings.max_num_seqs, settings.max_num_seqs > 0),
        ("--max-num-batched-tokens", settings.max_num_batched_tokens, settings.max_num_batched_tokens > 0),
        ("--kv-cache-dtype", _kv_cache_dtype(asked_kv_cache, settings.version), True),
    ]
    lines = [f"vllm serve {shlex.quote(model)}"]
    lines += [f"{flag} {value}".rstrip() for flag, value, wanted in flags if wanted and value is not None]
    return " \\\n  ".join(lines)


def _kv_cache_dtype(asked: str, version: str) -> str | None:
    if asked == "fp8":
        return "fp8"
    # Without the flag a checkpoint that asks for an 8-bit cache would get one, although 16 bit was asked for.
    if asked == "bf16" and _minor(version) >= 12:
        return "bfloat16"
    return None


def _minor(version: str) -> int:
    parts = version.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0
