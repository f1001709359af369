"""Memory of a rank against published vLLM start-up logs (llm-d-planner, empirical vLLM memory results, on H100)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint, request_bytes
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.units import GIB
from tests.estimation.configs import GPT_OSS_120B, LLAMA_3_1_8B, LLAMA_3_1_70B, QWEN3_14B, QWEN3_32B
from tests.hardware.devices import H100


class Log(NamedTuple):
    """One published start-up log; sizes in GiB per GPU, ``None`` where the log does not say."""

    config: dict[str, Any]
    weights: str
    version: str
    tensor_parallel: int
    utilization: float
    weights_gib: float
    kv_pool_gib: float | None
    kv_tokens: int | None = None
    kv_cache: str = "auto"


LOGS = [
    Log(GPT_OSS_120B, "mxfp4", "0.16", 1, 0.95, 64.38, 3.33),
    Log(LLAMA_3_1_70B, "fp8", "0.16", 2, 0.90, 33.88, 32.0),
    Log(LLAMA_3_1_8B, "bf16", "0.16", 1, 0.90, 14.99, 51.38),
    Log(QWEN3_32B, "bf16", "0.16", 1, 0.90, 61.03, 4.45),
    Log(QWEN3_32B, "bf16", "0.16", 2, 0.90, 30.59, 34.49),
    Log(LLAMA_3_1_8B, "bf16", "0.19", 1, 0.95, 14.99, 58.11, 476_016),
    Log(LLAMA_3_1_8B, "bf16", "0.19", 1, 0.95, 14.99, 58.11, 952_032, "fp8"),
    Log(QWEN3_14B, "bf16", "0.16", 1, 0.95, 27.52, 41.94),
    Log(QWEN3_14B, "bf16", "0.17", 1, 0.95, 27.52, 45.34),
]


def costs(log: Log) -> ModelCosts:
    return model_costs(read_config(log.config), log.weights, log.kv_cache)


def breakdown(log: Log) -> MemoryBreakdown:
    accelerator = H100
    device = whole_device(accelerator)
    assert device is not None
    choice = EngineChoice(version=log.version, gpu_memory_utilization=log.utilization)
    return memory_breakdown(
        rank_footprint(costs(log), log.tensor_parallel),
        device,
        resolve_settings(choice, accelerator, device.memory_bytes),
        peers=log.tensor_parallel > 1,
        context_tokens=16_000,
        live_tokens=1_024,
    )


@pytest.mark.parametrize("log", LOGS)
def test_weights_of_a_rank_are_within_one_percent_of_the_log(log: Log) -> None:
    assert breakdown(log).weight_bytes / GIB == pytest.approx(log.weights_gib, rel=0.01)


@pytest.mark.parametrize("log", [log for log in LOGS if log.kv_pool_gib is not None])
def test_kv_pool_is_within_a_quarter_gib_of_the_log(log: Log) -> None:
    assert breakdown(log).kv_pool_bytes / GIB == pytest.approx(log.kv_pool_gib, abs=0.25)


@pytest.mark.parametrize("log", [log for log in LOGS if log.kv_tokens is not None])
def test_kv_tokens_are_within_one_percent_of_the_log(log: Log) -> None:
    assert breakdown(log).kv_pool_tokens(1_024) == pytest.approx(log.kv_tokens, rel=0.01)


def test_budget_is_spent_exactly() -> None:
    memory = breakdown(LOGS[3])
    parts = memory.weight_bytes + memory.activation_bytes + memory.graph_bytes + memory.runtime_bytes
    assert parts + memory.kv_pool_bytes == memory.budget_bytes


def test_windowed_layers_stop_growing_at_their_window() -> None:
    # gpt-oss-120b caches 2 * 8 heads * 64 * 2 B = 2,048 B per token and layer; 18 layers keep everything, 18 keep 128
    footprint = rank_footprint(costs(LOGS[0]), 1)
    step = request_bytes(footprint, 65_536) - request_bytes(footprint, 32_768)
    assert step == 32_768 * 18 * 2_048


def test_longest_context_is_the_last_one_that_fits() -> None:
    log = LOGS[3]
    memory, footprint = breakdown(log), rank_footprint(costs(log), 1)
    longest = memory.longest_context_tokens
    assert longest < 40_960
    assert request_bytes(footprint, longest) <= memory.kv_pool_bytes < request_bytes(footprint, longest + 16)
