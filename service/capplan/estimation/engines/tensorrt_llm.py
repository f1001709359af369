"""TensorRT-LLM by version: default settings and memory accounting.

Sources: https://github.com/NVIDIA/TensorRT-LLM (``tensorrt_llm/llmapi/llm_args.py``, ``commands/serve.py`` and
``_torch/pyexecutor/_util.py`` of 1.0 to 1.4rc). From 1.0 on the PyTorch backend is the default: it runs dummy context
requests up to ``max_num_tokens`` and gives the KV cache a fraction of what is then free. Before, an engine was built,
and its activations were fixed at build time.
"""

from __future__ import annotations

from capplan.errors import InvalidInputError
from capplan.estimation.engine_records import (
    ENGINE_FIELD,
    BudgetRule,
    EngineChoice,
    EngineSettings,
    GraphRule,
    MemoryRule,
    StateRule,
    Version,
    WindowRule,
    capture_sizes,
    parse_version,
)
from capplan.hardware.accelerator import Accelerator
from capplan.units import GIB, MIB

NAME = "tensorrt-llm"
NEWEST = "1.4"
OLDEST = "0.13"
"""Older releases built engines with other default limits."""

_MIN_COMPUTE_CAPABILITY = (8, 0)
_PYTORCH_SINCE = (1, 0)

_FREE_GPU_MEMORY_FRACTION = 0.9
_MAX_BATCH_SIZE = 2048
_MAX_NUM_TOKENS = 8192
_GRAPH_BATCH = 128


def _rule(copies: float, forward_share: float, runtime_gib: float, block_tokens: int) -> MemoryRule:
    return MemoryRule(
        budget=BudgetRule.OF_FREE_AFTER_LOAD,
        sampler_logit_copies=copies,
        forward_share=forward_share,
        graphs=GraphRule(base_bytes=int(0.1 * GIB), layer_bytes=10 * MIB),
        graphs_in_budget=True,
        runtime_bytes=int(runtime_gib * GIB),
        peer_bytes=int(1.4 * GIB),
        pcie_peer_bytes=int(0.4 * GIB),
        block_tokens=block_tokens,
        windows=WindowRule.NONE,
        states=StateRule.SLOTS,
        mxfp4_width_multiple=64,
        # GUARANTEED_NO_EVICT is the default capacity scheduler policy (TensorRT-LLM docs, useful runtime options)
        reserves_answers=True,
    )


# Built engines reuse activation memory between layers; with decoder buffers for 2,048 sequences an A100 40 GB shows
# 21.89 GiB free of 39.39 beside the 14.4 GiB of Qwen1.5-7B (TensorRT-LLM issue 2268).
_ENGINE_MEMORY = _rule(2.0, 0.4, 0.5, 64)
_PYTORCH_MEMORY = _rule(0.0, 1.0, 1.5, 32)


def version_of(choice: EngineChoice) -> Version:
    """The version asked for, or the newest.

    Raises:
        InvalidInputError: no version, or one that is not modelled.
    """
    version = parse_version(choice.version or NEWEST, NEWEST)
    if not parse_version(OLDEST, NEWEST)[:2] <= version[:2] <= parse_version(NEWEST, NEWEST)[:2]:
        raise InvalidInputError.single(
            f"{ENGINE_FIELD}.version", f"TensorRT-LLM {choice.version} is not modelled; accepted: {OLDEST} to {NEWEST}"
        )
    return version


def label(version: Version) -> str:
    """The version as ``major.minor``."""
    return f"{version[0]}.{version[1]}"


def refusal(accelerator: Accelerator) -> str | None:
    """Why TensorRT-LLM does not run on an accelerator, or ``None`` when it does."""
    if accelerator.vendor != "nvidia" or accelerator.compute_capability is None:
        return f"TensorRT-LLM runs on NVIDIA GPUs only, not on {accelerator.vendor} {accelerator.architecture}"
    major, minor = (int(part) for part in accelerator.compute_capability.split("."))
    if (major, minor) < _MIN_COMPUTE_CAPABILITY:
        return f"TensorRT-LLM needs compute capability 8.0 or higher, this device has {accelerator.compute_capability}"
    return None


def resolve(
    choice: EngineChoice, accelerator: Accelerator, device_bytes: int, ranks: int, context_tokens: int | None
) -> EngineSettings:
    """Fills in what TensorRT-LLM defaults to; device, ranks and context change nothing.

    Raises:
        InvalidInputError: the version is not modelled.
    """
    del accelerator, device_bytes, ranks, context_tokens
    version = version_of(choice)
    pytorch = version[:2] >= _PYTORCH_SINCE
    graphs = pytorch and not choice.enforce_eager
    return EngineSettings(
        name=NAME,
        version=label(version),
        memory_fraction=choice.free_gpu_memory_fraction or _FREE_GPU_MEMORY_FRACTION,
        max_num_seqs=choice.max_num_seqs or _MAX_BATCH_SIZE,
        max_num_batched_tokens=choice.max_num_batched_tokens or _MAX_NUM_TOKENS,
        graph_sizes=capture_sizes(_GRAPH_BATCH) if graphs else 0,
        memory=_PYTORCH_MEMORY if pytorch else _ENGINE_MEMORY,
    )
