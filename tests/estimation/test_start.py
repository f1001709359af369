"""Would it start? Published verdicts: what fitted, what did not, what was never legal; and faults of other planners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from capplan.errors import InvalidInputError
from capplan.estimation.engine import EngineChoice
from capplan.estimation.legality import device_faults
from capplan.estimation.replica import Parallelism
from capplan.estimation.start import Start, predict_start
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from tests.estimation.configs import (
    DEEPSEEK_R1,
    GEMMA_3_27B,
    GPT_OSS_120B,
    LLAMA_2_13B,
    LLAMA_3_1_8B,
    LLAMA_3_1_70B,
    LLAMA_3_1_405B_FP8,
    MINIMAX_M2_7,
    MISTRAL_7B,
    QWEN2_5_7B,
    QWEN2_5_32B,
    QWEN3_4B,
    QWEN3_5_27B,
    QWEN3_8B,
    QWEN3_32B,
    QWEN3_235B_A22B,
)
from tests.estimation.devices import A10G, GB10, RTX_3090, RTX_PRO_6000
from tests.hardware.boards import seven_slice
from tests.hardware.devices import A100, H20, H100, L4, MI300X, RTX_5090, T4, V100

VLLM = "https://github.com/vllm-project/vllm/issues/"
LLMD = "https://github.com/llm-d-incubation/llm-d-planner/blob/e50305af/docs/empirical-vllm-memory-results.md"
GPUSTACK = "https://github.com/gpustack/gpustack/blob/47277d79/docs/performance-lab/"
RECIPES = "https://github.com/vllm-project/recipes/"


class Verdict(NamedTuple):
    """A published verdict: an empty ``reason`` means that it started."""

    source: str
    config: dict[str, Any]
    weights: str
    device: Accelerator
    tensor_parallel: int
    engine: EngineChoice
    context: int
    reason: str
    kv_cache: str = "auto"


def vllm(version: str, utilization: float | None = None, **pinned: Any) -> EngineChoice:
    return EngineChoice(version=version, gpu_memory_utilization=utilization, **pinned)


def sglang(version: str, fraction: float | None = None) -> EngineChoice:
    return EngineChoice("sglang", version, mem_fraction_static=fraction)


WEIGHTS, CONTEXT = "WEIGHTS_DO_NOT_FIT", "CONTEXT_DOES_NOT_FIT"
HEADS, FORMAT, STATES = "HEADS_NOT_DIVISIBLE", "FORMAT_UNSUPPORTED", "STATE_BLOCKS_BELOW_MAX_NUM_SEQS"

VERDICTS = [
    # memory: a length between two that fit does not, since the V0 engine chunks above 32,768 tokens only
    Verdict(VLLM + "10517", LLAMA_3_1_8B, "bf16", RTX_3090, 1, vllm("0.6", 0.9), 20_000, ""),
    Verdict(VLLM + "10517", LLAMA_3_1_8B, "bf16", RTX_3090, 1, vllm("0.6", 0.9), 29_000, CONTEXT),
    Verdict(VLLM + "10517", LLAMA_3_1_8B, "bf16", RTX_3090, 1, vllm("0.6", 0.9), 35_000, ""),
    Verdict(
        "https://github.com/Graph-COM/SubgraphRAG/issues/19",
        LLAMA_3_1_8B,
        "bf16",
        RTX_3090,
        1,
        vllm("0.7"),
        131_072,
        CONTEXT,
    ),
    Verdict(
        "https://github.com/BatsResearch/bonito/issues/7", MISTRAL_7B, "bf16", A10G, 1, vllm("0.6"), 32_768, CONTEXT
    ),
    Verdict(
        "https://github.com/MeetKai/functionary/issues/128",
        MISTRAL_7B | {"sliding_window": None},
        "bf16",
        RTX_3090,
        1,
        vllm("0.6", 0.9),
        32_768,
        CONTEXT,
    ),
    Verdict(VLLM + "23278", GPT_OSS_120B, "mxfp4", H100, 1, vllm("0.10", 0.9), 131_072, WEIGHTS),
    Verdict(
        VLLM + "27508",
        GPT_OSS_120B,
        "mxfp4",
        H100,
        1,
        vllm("0.11", 0.95, max_num_batched_tokens=1024),
        131_072,
        CONTEXT,
    ),
    Verdict(LLMD, GPT_OSS_120B, "mxfp4", H100, 1, vllm("0.16", 0.95), 16_000, ""),
    Verdict(LLMD, DEEPSEEK_R1, "fp8", H100, 1, vllm("0.16"), 16_000, WEIGHTS),
    Verdict(LLMD, LLAMA_3_1_70B, "fp8", H100, 2, vllm("0.16", 0.9), 16_000, ""),
    Verdict(LLMD, QWEN3_32B, "bf16", H100, 1, vllm("0.16", 0.9), 32_000, CONTEXT),
    Verdict(LLMD, QWEN3_32B, "bf16", H100, 1, vllm("0.16", 0.9), 16_000, ""),
    Verdict(VLLM + "17238", QWEN2_5_32B, "int8", RTX_3090, 2, vllm("0.8.1", 0.9, enforce_eager=True), 4_096, WEIGHTS),
    Verdict(VLLM + "14092", LLAMA_3_1_70B, "fp16", T4, 4, vllm("0.7"), 8_192, WEIGHTS),
    Verdict("https://github.com/gke-labs/open-rl/issues/230", QWEN3_8B, "bf16", L4, 1, vllm("0.16", 0.9), 1_024, ""),
    Verdict(GPUSTACK + "qwen3-32b/a100.md", QWEN3_32B, "bf16", A100, 1, vllm("0.11"), 8_192, ""),
    Verdict(GPUSTACK + "qwen3-235b-a22b/a100.md", QWEN3_235B_A22B, "fp8", A100, 4, vllm("0.11"), 32_768, ""),
    Verdict(
        "https://github.com/QwenLM/Qwen3/blob/7a2f61f/docs/source/getting_started/speed_benchmark.md",
        QWEN3_32B | {"max_position_embeddings": 131_072},
        "fp8",
        H20,
        1,
        sglang("0.4.6", 0.85),
        131_072,
        "",
    ),
    Verdict(RECIPES + "pull/273", MINIMAX_M2_7, "fp8", MI300X, 2, vllm("0.17"), 196_608, ""),
    # two of the same setup, told apart by the memory fraction alone
    Verdict(
        "https://github.com/eugr/spark-vllm-docker/issues/396",
        MINIMAX_M2_7,
        "int4",
        GB10,
        2,
        vllm("0.29", 0.80),
        196_608,
        CONTEXT,
    ),
    Verdict(
        "https://github.com/eugr/spark-vllm-docker/issues/396",
        MINIMAX_M2_7,
        "int4",
        GB10,
        2,
        vllm("0.29", 0.85),
        196_608,
        "",
    ),
    # hybrids: a block of state for each sequence; without graphs the engine starts
    Verdict(RECIPES + "pull/831", QWEN3_5_27B, "fp8", RTX_PRO_6000, 1, vllm("0.28"), 262_144, STATES),
    Verdict(RECIPES + "pull/831", QWEN3_5_27B, "bf16", RTX_PRO_6000, 1, vllm("0.28", 0.95), 262_144, STATES),
    Verdict(
        RECIPES + "blob/8959cf64/models/Qwen/Qwen3.8-27B.yaml",
        QWEN3_5_27B,
        "nvfp4",
        RTX_5090,
        1,
        vllm("0.26", enforce_eager=True),
        32_768,
        "",
        "fp8",
    ),
    Verdict(
        RECIPES + "blob/8959cf64/models/Qwen/Qwen3.8-27B.yaml",
        QWEN3_5_27B,
        "nvfp4",
        RTX_5090,
        1,
        vllm("0.26"),
        32_768,
        f"{STATES}|{CONTEXT}",
        "fp8",
    ),
    # widths
    Verdict(VLLM + "596", LLAMA_2_13B, "fp16", RTX_3090, 3, vllm("0.6"), 4_096, HEADS),
    Verdict("https://github.com/THU-KEG/AdaptThink/issues/1", QWEN2_5_7B, "bf16", H100, 8, vllm("0.8"), 8_192, HEADS),
    Verdict(
        "https://github.com/gpustack/gpustack/issues/2259", GEMMA_3_27B, "bf16", H100, 3, vllm("0.8"), 8_192, HEADS
    ),
    # formats
    Verdict(VLLM + "1400", MISTRAL_7B, "bf16", T4, 1, vllm("0.6"), 4_096, FORMAT),
    Verdict(VLLM + "14040", LLAMA_3_1_8B, "w4a16_g128", T4, 1, vllm("0.11"), 8_192, FORMAT),
    Verdict("github.com/1CatAI/1Cat-vLLM/issues/255", QWEN3_5_27B, "int4", V100, 1, vllm("0.26"), 8_192, FORMAT),
    Verdict(GPUSTACK + "glm-4.x/a100.md", QWEN3_235B_A22B, "fp8", A100, 8, sglang("0.5.3"), 8_192, FORMAT),
    # faults of other planners: a model that cannot load, a full context that cannot be held
    Verdict(
        "https://github.com/ai-dynamo/aiconfigurator/pull/509",
        LLAMA_3_1_405B_FP8,
        "fp8",
        H100,
        1,
        EngineChoice("tensorrt-llm"),
        2_048,
        WEIGHTS,
    ),
    Verdict(
        "https://github.com/ai-dynamo/dynamo/issues/10104",
        LLAMA_3_1_70B,
        "fp8",
        H100,
        1,
        vllm("0.19"),
        131_072,
        "DO_NOT_FIT|DOES_NOT_FIT",
    ),
]


def costs(config: dict[str, Any], weights: str, kv_cache: str = "auto") -> ModelCosts:
    """The model's costs; ``w4a16_g128`` is the recipe for int4 stored as compressed-tensors checkpoints store it."""
    model = model_costs(read_config(config), "int4" if weights == "w4a16_g128" else weights, kv_cache)
    if weights != "w4a16_g128":
        return model
    gemms = (replace(gemm, storage=weights) if "int4" in gemm.storage else gemm for gemm in model.gemms)
    return replace(model, gemms=tuple(gemms))


def start(case: Verdict) -> Start:
    return predict_start(
        costs(case.config, case.weights, case.kv_cache),
        case.device,
        case.engine,
        parallelism=Parallelism(case.tensor_parallel),
        max_context_tokens=case.context,
    )


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: f"{case.source.split('github.com/')[-1]}-{case.context}")
def test_verdicts_are_the_published_ones(case: Verdict) -> None:
    reasons = [fault.reason for fault in start(case).faults]
    if not case.reason:
        assert reasons == []
    else:
        assert any(part in reason for reason in reasons for part in case.reason.split("|")), reasons


def test_nothing_that_starts_exceeds_its_device() -> None:
    for case in VERDICTS:
        memory = start(case).memory
        if not start(case).faults:
            assert memory is not None
            assert memory.budget_bytes < memory.device_bytes


def test_a_replica_on_slices_is_one_instance() -> None:
    # kaito pull 2186, ray issue 32778: instances do not reach each other
    board = seven_slice(board="a100-80gb")
    profile = next(profile for profile in board.profiles if profile.name == "3g.40gb")
    small = costs(QWEN3_4B, "bf16")
    one = predict_start(small, A100, EngineChoice(), mig=(board, profile), max_context_tokens=8_192)
    two = predict_start(
        small, A100, EngineChoice(), mig=(board, profile), parallelism=Parallelism(2), max_context_tokens=8_192
    )
    assert one.starts
    assert [fault.reason for fault in two.faults] == ["MIG_NEEDS_TENSOR_PARALLEL_1"]
    # vllm pull 41776: the slice's memory counts, not the whole device's
    assert one.memory is not None
    assert profile.memory_bytes is not None
    assert one.memory.device_bytes < profile.memory_bytes


def test_a_model_without_a_stated_context_needs_one() -> None:
    model = replace(costs(QWEN3_4B, "bf16"), max_context_tokens=None)
    with pytest.raises(InvalidInputError, match="max_context_tokens"):
        predict_start(model, H100, EngineChoice())


def test_a_device_of_unknown_memory_is_told_so() -> None:
    unknown = replace(H100, memory_bytes=None)
    assert [fault.reason for fault in predict_start(costs(QWEN3_4B, "bf16"), unknown, EngineChoice()).faults] == [
        "MEMORY_UNKNOWN"
    ]


def test_more_stages_than_layers_are_a_fault_not_a_crash() -> None:
    found = predict_start(costs(QWEN3_4B, "bf16"), H100, EngineChoice(), parallelism=Parallelism(1, 40))
    assert [fault.reason for fault in found.faults] == ["MORE_STAGES_THAN_LAYERS"]


def test_a_format_is_refused_by_the_engine_that_lacks_it_only() -> None:
    fp8 = costs(LLAMA_3_1_8B, "fp8")
    assert not device_faults(fp8, A100, EngineChoice())
    assert device_faults(fp8, A100, EngineChoice("sglang"))[0].reason == FORMAT
    assert device_faults(fp8, A100, EngineChoice("trtllm"))[0].reason == FORMAT
    for name in ("sglang", "trtllm"):
        assert not device_faults(fp8, H100, EngineChoice(name))
