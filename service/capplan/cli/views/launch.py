"""Engine settings as a command line to paste.

Flags are those of vLLM (``vllm/engine/arg_utils.py`` at v0.33.0; ``--kv-cache-dtype bfloat16`` since 0.12), SGLang
(``python/sglang/srt/server_args.py`` at v0.5.23) and TensorRT-LLM (``tensorrt_llm/commands/serve.py`` of 1.x).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from capplan.v1 import placement_pb2

_Flag = tuple[str, object, bool]
"""A flag, its value (empty for none), and whether it is wanted; a value of ``None`` is not."""


def launch_command(
    model: str, settings: placement_pb2.EngineSettings, parallelism: placement_pb2.Parallelism, asked_kv_cache: str
) -> str:
    """The command that starts one replica, a flag per line.

    Args:
        model: hub id or path of the checkpoint.
        settings: resolved settings of the engine.
        parallelism: how the replica spreads.
        asked_kv_cache: what the question said; empty and ``auto`` leave the choice to the checkpoint.
    """
    match settings.name:
        case "sglang":
            return _lines(
                f"python3 -m sglang.launch_server --model-path {shlex.quote(model)}",
                _sglang_flags(settings, parallelism, asked_kv_cache),
            )
        case "tensorrt-llm":
            return _lines(f"trtllm-serve {shlex.quote(model)}", _tensorrt_llm_flags(settings, parallelism))
        case _:
            return _lines(f"vllm serve {shlex.quote(model)}", _vllm_flags(settings, parallelism, asked_kv_cache))


def _lines(command: str, flags: Iterable[_Flag]) -> str:
    wanted = (f"{flag} {value}".rstrip() for flag, value, is_wanted in flags if is_wanted and value is not None)
    return " \\\n  ".join((command, *wanted))


def _vllm_flags(
    settings: placement_pb2.EngineSettings, parallelism: placement_pb2.Parallelism, asked_kv_cache: str
) -> tuple[_Flag, ...]:
    return (
        ("--tensor-parallel-size", parallelism.tensor_parallel, parallelism.tensor_parallel > 1),
        ("--pipeline-parallel-size", parallelism.pipeline_parallel, parallelism.pipeline_parallel > 1),
        ("--data-parallel-size", parallelism.attention_data_parallel, parallelism.attention_data_parallel > 1),
        ("--enable-expert-parallel", "", parallelism.expert_parallel > 1),
        ("--max-model-len", settings.max_model_len_tokens, settings.max_model_len_tokens > 0),
        ("--gpu-memory-utilization", f"{settings.gpu_memory_utilization:.4g}", settings.gpu_memory_utilization > 0),
        ("--max-num-seqs", settings.max_num_seqs, settings.max_num_seqs > 0),
        ("--max-num-batched-tokens", settings.max_num_batched_tokens, settings.max_num_batched_tokens > 0),
        ("--enforce-eager", "", settings.enforce_eager),
        ("--kv-cache-dtype", _kv_cache_dtype(asked_kv_cache, settings.version), True),
    )


def _sglang_flags(
    settings: placement_pb2.EngineSettings, parallelism: placement_pb2.Parallelism, asked_kv_cache: str
) -> tuple[_Flag, ...]:
    shares = parallelism.attention_data_parallel
    ranks = parallelism.tensor_parallel * shares  # attention data parallelism is inside SGLang's tensor parallelism
    return (
        ("--tp-size", ranks, ranks > 1),
        ("--pp-size", parallelism.pipeline_parallel, parallelism.pipeline_parallel > 1),
        ("--dp-size", f"{shares} --enable-dp-attention", shares > 1),
        ("--ep-size", parallelism.expert_parallel, parallelism.expert_parallel > 1),
        ("--context-length", settings.max_model_len_tokens, settings.max_model_len_tokens > 0),
        ("--mem-fraction-static", f"{settings.mem_fraction_static:.4g}", settings.mem_fraction_static > 0),
        ("--max-running-requests", settings.max_num_seqs, settings.max_num_seqs > 0),
        ("--chunked-prefill-size", settings.max_num_batched_tokens, settings.max_num_batched_tokens > 0),
        ("--disable-cuda-graph", "", settings.enforce_eager),
        ("--kv-cache-dtype", "fp8_e4m3", asked_kv_cache == "fp8"),
    )


def _tensorrt_llm_flags(
    settings: placement_pb2.EngineSettings, parallelism: placement_pb2.Parallelism
) -> tuple[_Flag, ...]:
    fraction = settings.free_gpu_memory_fraction
    return (
        ("--tp_size", parallelism.tensor_parallel, parallelism.tensor_parallel > 1),
        ("--pp_size", parallelism.pipeline_parallel, parallelism.pipeline_parallel > 1),
        ("--ep_size", parallelism.expert_parallel, parallelism.expert_parallel > 1),
        ("--max_seq_len", settings.max_model_len_tokens, settings.max_model_len_tokens > 0),
        ("--kv_cache_free_gpu_memory_fraction", f"{fraction:.4g}", fraction > 0),
        ("--max_batch_size", settings.max_num_seqs, settings.max_num_seqs > 0),
        ("--max_num_tokens", settings.max_num_batched_tokens, settings.max_num_batched_tokens > 0),
    )


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
