"""Memory of a rank against published start-up logs, and what must hold of it whatever the figures."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.demand import graph_bytes
from capplan.estimation.device import whole_device
from capplan.estimation.engine import ENGINE_NAMES, EngineChoice, resolve_settings
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint
from capplan.estimation.paging import cache_layout
from capplan.estimation.replica import Parallelism
from capplan.estimation.start import Start, predict_start
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.units import GIB
from tests.estimation.configs import (
    DEEPSEEK_R1,
    GPT_OSS_120B,
    LLAMA_3_1_8B,
    LLAMA_3_1_70B,
    QWEN1_5_7B,
    QWEN2_5_7B,
    QWEN2_5_14B,
    QWEN3_5_27B,
    QWEN3_8B,
    QWEN3_14B,
    QWEN3_30B_A3B,
    QWEN3_32B,
    QWEN3_235B_A22B,
)
from tests.hardware.devices import A100_40GB, B200, GB10, H100, H200, MI355X, RTX_3090, RTX_4090

# llm-d-planner: docs/empirical-vllm-memory-results.md at e50305af (0.16 and older), docs/accuracy (0.17, 0.19).
LLMD = "https://github.com/llm-d-incubation/llm-d-planner"
VLLM = "https://github.com/vllm-project/vllm/issues/"


class Log(NamedTuple):
    """One published start-up log; sizes in GiB per GPU, ``None`` where the log does not say."""

    source: str
    config: dict[str, Any]
    weights: str
    device: Accelerator
    engine: EngineChoice
    tensor_parallel: int
    context: int
    weights_gib: float | None = None
    kv_pool_gib: float | None = None
    kv_tokens: int | None = None
    concurrency: float | None = None
    kv_cache: str = "auto"
    pipeline_parallel: int = 1


def vllm(version: str, utilization: float, tokens: int | None = None) -> EngineChoice:
    return EngineChoice(version=version, gpu_memory_utilization=utilization, max_num_batched_tokens=tokens)


def sglang(version: str, fraction: float | None = None) -> EngineChoice:
    return EngineChoice("sglang", version, mem_fraction_static=fraction)


LOGS = [
    Log(LLMD, GPT_OSS_120B, "mxfp4", H100, vllm("0.16", 0.95), 1, 16_000, 64.38, 3.33),
    Log(VLLM + "23278", GPT_OSS_120B, "mxfp4", H100, vllm("0.10", 0.90), 1, 131_072, 65.97, -2.14),
    Log(VLLM + "27508", GPT_OSS_120B, "mxfp4", H100, vllm("0.11", 0.95, 1024), 1, 131_072, None, 1.71),
    Log(LLMD, LLAMA_3_1_70B, "fp8", H100, vllm("0.16", 0.90), 2, 16_000, 33.88, 32.0),
    Log(LLMD, LLAMA_3_1_8B, "bf16", H100, vllm("0.16", 0.90), 1, 16_000, 14.99, 51.38),
    Log(LLMD, QWEN3_32B, "bf16", H100, vllm("0.16", 0.90), 1, 16_000, 61.03, 4.45),
    Log(LLMD, QWEN3_32B, "bf16", H100, vllm("0.16", 0.90), 2, 16_000, 30.59, 34.49),
    Log(LLMD, QWEN3_14B, "bf16", H100, vllm("0.15", 0.95), 1, 8_192, 27.52, 41.94),
    Log(LLMD, QWEN3_14B, "bf16", H100, vllm("0.16", 0.95), 1, 8_192, 27.52, 41.94, None, 33.55),
    Log(LLMD, QWEN3_14B, "bf16", H100, vllm("0.17", 0.95), 1, 8_192, 27.52, 45.34, None, 36.27),
    Log(LLMD, LLAMA_3_1_8B, "bf16", H100, vllm("0.19", 0.95), 1, 8_192, 14.99, 58.11, 476_016),
    Log(LLMD, LLAMA_3_1_8B, "bf16", H100, vllm("0.19", 0.95), 1, 8_192, 14.99, 58.11, 952_032, None, "fp8"),
    Log(LLMD, LLAMA_3_1_8B, "bf16", H100, vllm("0.19", 0.95), 4, 8_192, 3.77),
    Log(LLMD, QWEN2_5_7B, "bf16", H100, vllm("0.19", 0.95), 1, 8_192, 14.25, 58.53, 1_096_000),
    Log(LLMD, QWEN2_5_7B, "bf16", H100, vllm("0.19", 0.95), 2, 8_192, 7.12),
    Log(LLMD, QWEN3_8B, "bf16", H100, vllm("0.19", 0.95), 1, 8_192, 5.48, pipeline_parallel=3),
    Log(VLLM + "10517", LLAMA_3_1_8B, "bf16", RTX_3090, vllm("0.6", 0.90), 1, 20_000, 14.9888, 3.81, 31_232, 1.56),
    Log(VLLM + "13061", QWEN2_5_14B, "bf16", RTX_4090, vllm("0.7", 0.98), 2, 131_072, None, None, 81_536),
    Log(VLLM + "21348", QWEN3_235B_A22B, "fp8", H100, sglang("0.4.9", 0.93), 4, 40_960, None, 16.46, 367_404),
    Log(
        "https://github.com/ai-dynamo/aisimulate/pull/263",
        DEEPSEEK_R1,
        "fp8",
        H200,
        sglang("0.5.9", 0.82),
        8,
        163_840,
        None,
        None,
        509_000,
    ),
    Log(
        "https://github.com/sgl-project/sglang/pull/18263",
        QWEN3_30B_A3B,
        "bf16",
        MI355X,
        sglang("0.5.16"),
        1,
        40_960,
        56.98,
        204.63,
    ),
    Log(
        "https://github.com/NVIDIA/TensorRT-LLM/issues/2268",
        QWEN1_5_7B,
        "fp16",
        A100_40GB,
        EngineChoice("tensorrt-llm", "0.13"),
        1,
        8_192,
        None,
        19.72,
        40_384,
    ),
]


def costs(config: dict[str, Any], weights: str, kv_cache: str = "auto") -> ModelCosts:
    return model_costs(read_config(config), weights, kv_cache)


def start(log: Log) -> Start:
    return predict_start(
        costs(log.config, log.weights, log.kv_cache),
        log.device,
        log.engine,
        parallelism=Parallelism(log.tensor_parallel, log.pipeline_parallel),
        max_context_tokens=log.context,
    )


@pytest.mark.parametrize("log", [log for log in LOGS if log.weights_gib is not None])
def test_weights_of_a_rank_are_within_one_percent_of_the_log(log: Log) -> None:
    assert start(log).weights_gib == pytest.approx(log.weights_gib, rel=0.01)


@pytest.mark.parametrize("log", [log for log in LOGS if log.kv_pool_gib is not None])
def test_kv_pool_is_within_a_quarter_gib_or_three_percent_of_the_log(log: Log) -> None:
    assert start(log).kv_pool_gib == pytest.approx(log.kv_pool_gib, abs=0.25, rel=0.031)


@pytest.mark.parametrize("log", [log for log in LOGS if log.kv_tokens is not None])
def test_kv_tokens_are_within_three_percent_of_the_log(log: Log) -> None:
    assert start(log).kv_tokens == pytest.approx(log.kv_tokens, rel=0.03)


@pytest.mark.parametrize("log", [log for log in LOGS if log.concurrency is not None])
def test_concurrency_is_within_three_percent_of_the_log(log: Log) -> None:
    assert start(log).max_concurrency == pytest.approx(log.concurrency, rel=0.03)


def breakdown(
    model: ModelCosts, accelerator: Accelerator, choice: EngineChoice, tensor_parallel: int = 1, context: int = 16_000
) -> MemoryBreakdown:
    device = whole_device(accelerator)
    assert device is not None
    return memory_breakdown(
        rank_footprint(model, tensor_parallel),
        device,
        resolve_settings(choice, accelerator, device.memory_bytes, ranks=tensor_parallel, context_tokens=context),
        peers=tensor_parallel > 1,
        context_tokens=context,
        live_tokens=1_024,
    )


@pytest.mark.parametrize("name", ENGINE_NAMES)
@pytest.mark.parametrize("accelerator", [H100, RTX_3090, B200])
@pytest.mark.parametrize("config", [LLAMA_3_1_8B, QWEN3_32B, QWEN3_5_27B])
def test_the_five_parts_are_the_budget_to_the_byte(name: str, accelerator: Accelerator, config: dict[str, Any]) -> None:
    memory = breakdown(costs(config, "bf16"), accelerator, EngineChoice(name))
    parts = memory.weight_bytes + memory.activation_bytes + memory.graph_bytes + memory.runtime_bytes
    assert parts + memory.kv_pool_bytes == memory.budget_bytes


def test_each_engine_means_something_else_by_its_fraction() -> None:
    model = costs(LLAMA_3_1_8B, "bf16")
    device = whole_device(H100)
    assert device is not None
    total = device.memory_bytes
    budget = breakdown(model, H100, EngineChoice(gpu_memory_utilization=0.8)).budget_bytes
    assert budget == int(0.8 * total)
    static = breakdown(model, H100, EngineChoice("sglang", mem_fraction_static=0.8))
    # weights, with their tables, and pool over what is free before the weights are loaded
    tables = static.reported_weight_bytes - static.weight_bytes
    free = total - (static.runtime_bytes - tables)
    assert static.reported_weight_bytes + static.kv_pool_bytes == pytest.approx(0.8 * free, abs=1)
    late = breakdown(model, H100, EngineChoice("tensorrt-llm", free_gpu_memory_fraction=0.8))
    rest = total - late.weight_bytes - late.activation_bytes - late.graph_bytes - late.runtime_bytes
    assert late.kv_pool_bytes == pytest.approx(0.8 * rest, abs=1)


@pytest.mark.parametrize("name", ENGINE_NAMES)
@given(context=st.integers(1, 131_072))
def test_longest_context_is_the_last_one_that_fits(name: str, context: int) -> None:
    model = costs(QWEN3_32B, "bf16")
    memory = breakdown(model, H100, EngineChoice(name), context=min(context, 40_960))
    longest = memory.longest_context_tokens
    assert 0 < longest <= 40_960
    device = whole_device(H100)
    assert device is not None
    settings = resolve_settings(EngineChoice(name), H100, device.memory_bytes)
    layout = cache_layout(rank_footprint(model, 1), settings.memory, settings.max_num_seqs)
    assert layout.request_bytes(longest) <= memory.kv_pool_bytes
    if longest < 40_960:
        assert layout.request_bytes(longest + 1) > memory.kv_pool_bytes


def test_an_eight_bit_cache_holds_twice_the_tokens_whatever_the_weights() -> None:
    # llm-d-planner issue 194: the cache's format must not be taken from the weights
    sixteen = breakdown(costs(LLAMA_3_1_8B, "fp8", "bf16"), H100, EngineChoice())
    eight = breakdown(costs(LLAMA_3_1_8B, "fp8", "fp8"), H100, EngineChoice())
    assert eight.kv_pool_bytes == sixteen.kv_pool_bytes
    assert eight.reported_kv_tokens == pytest.approx(2 * sixteen.reported_kv_tokens, abs=16)


def test_a_latent_cache_is_not_divided_by_tensor_parallelism() -> None:
    # kaito pull 2139; 61 layers * 576 values * 2 bytes = 70,272 bytes per token on every rank
    whole = rank_footprint(costs(DEEPSEEK_R1, "fp8", "bf16"), 1).caches
    split = rank_footprint(costs(DEEPSEEK_R1, "fp8", "bf16"), 8).caches
    for caches in (whole, split):
        assert sum(cache.layers * cache.bytes_per_token for cache in caches) == 70_272


def test_tables_of_the_rotary_embedding_are_whole_on_every_rank() -> None:
    # 131,072 positions of a head's 128 in 16 bit: the 0.03 GiB by which logs exceed the weights at any width
    # (llm-d-planner, accuracy report of 0.19: 14.99 and 3.77 GiB over one rank and four)
    for ranks, gib in ((1, 14.99), (2, 7.51), (4, 3.77)):
        memory = breakdown(costs(LLAMA_3_1_8B, "bf16"), H100, EngineChoice(version="0.19"), ranks)
        assert memory.reported_weight_bytes - memory.weight_bytes == 131_072 * 128 * 2
        assert memory.reported_weight_bytes / GIB == pytest.approx(gib, abs=0.006)


def test_weights_of_a_rank_are_not_divided_twice() -> None:
    # configiq pull 21
    one, two = (breakdown(costs(LLAMA_3_1_70B, "fp8"), H100, EngineChoice(), tp).weight_bytes for tp in (1, 2))
    assert two == pytest.approx(one / 2, rel=0.01)


def test_the_engine_takes_its_share_of_the_card_however_small_the_model() -> None:
    # gpustack issue 2462: 21.85 GB of a 24 GB card are in use for a 0.6B model
    memory = breakdown(costs(LLAMA_3_1_8B, "bf16"), RTX_3090, EngineChoice(version="0.9", gpu_memory_utilization=0.9))
    assert memory.budget_bytes == pytest.approx(0.9 * 23.58 * GIB, rel=0.001)


def test_eager_mode_captures_nothing() -> None:
    model = costs(QWEN3_30B_A3B, "bf16")
    footprint = rank_footprint(model, 1)
    device = whole_device(H100)
    assert device is not None
    captured, eager = (
        resolve_settings(EngineChoice(enforce_eager=eager), H100, device.memory_bytes) for eager in (False, True)
    )
    assert graph_bytes(footprint, eager) == 0 < graph_bytes(footprint, captured)


def test_a_host_that_shares_the_memory_keeps_its_part() -> None:
    # vllm recipes pull 632: 0.92 of a GB10 cannot be had, 0.85 can
    model = costs(LLAMA_3_1_8B, "bf16")
    high, low = (
        breakdown(model, GB10, EngineChoice(version="0.24", gpu_memory_utilization=share)) for share in (0.92, 0.85)
    )
    assert high.missing_bytes > 0 == low.missing_bytes


@given(tensor_parallel=st.sampled_from([1, 2, 4, 8]), stages=st.integers(1, 4))
def test_more_ranks_never_hold_more_each(tensor_parallel: int, stages: int) -> None:
    model = costs(LLAMA_3_1_70B, "bf16")
    one = rank_footprint(model, tensor_parallel)
    many = rank_footprint(model, tensor_parallel, pipeline_parallel=stages)
    assert many.weight_bytes <= one.weight_bytes
    assert many.layers == -(-80 // stages)
