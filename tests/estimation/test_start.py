"""Would it start, and for what reason not? One published verdict for each; the catalogue's tests have all of them."""

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
    GPT_OSS_120B,
    LLAMA_2_13B,
    LLAMA_3_1_8B,
    LLAMA_3_1_405B_FP8,
    MINIMAX_M2_7,
    MISTRAL_7B,
    QWEN3_4B,
    QWEN3_5_27B,
    QWEN3_32B,
    QWEN3_235B_A22B,
)
from tests.hardware.boards import seven_slice
from tests.hardware.devices import A100, GB10, H100, RTX_3090, RTX_5090, RTX_PRO_6000, T4

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
    # two of the same setup, told apart by the memory fraction alone; the host of a GB10 keeps part of the memory
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
    Verdict(RECIPES + "pull/831", QWEN3_5_27B, "fp8", RTX_PRO_6000, 1, vllm("0.28", enforce_eager=True), 262_144, ""),
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
    # reasons that are not memory
    Verdict(VLLM + "596", LLAMA_2_13B, "fp16", RTX_3090, 3, vllm("0.6"), 4_096, HEADS),
    Verdict(VLLM + "1400", MISTRAL_7B, "bf16", T4, 1, vllm("0.6"), 4_096, FORMAT),
    Verdict(VLLM + "14040", LLAMA_3_1_8B, "w4a16_g128", T4, 1, vllm("0.11"), 8_192, FORMAT),
    Verdict(GPUSTACK + "glm-4.x/a100.md", QWEN3_235B_A22B, "fp8", A100, 8, sglang("0.5.3"), 8_192, FORMAT),
    # memory
    Verdict(VLLM + "23278", GPT_OSS_120B, "mxfp4", H100, 1, vllm("0.10", 0.9), 131_072, WEIGHTS),
    Verdict(LLMD, QWEN3_32B, "bf16", H100, 1, vllm("0.16", 0.9), 32_000, CONTEXT),
    Verdict(LLMD, QWEN3_32B, "bf16", H100, 1, vllm("0.16", 0.9), 16_000, ""),
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
