"""Sizes that other planners got wrong, on shipped models: each names the report, the wrong figure and the right one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.footprint import rank_footprint
from capplan.estimation.paging import cache_layout
from capplan.estimation.replica import Parallelism
from capplan.estimation.start import Start, predict_start
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.units import GIB
from tests.hardware.devices import RTX_5090

GEMMA_27B, QWEN_27B = "google/gemma-3-27b-it", "Qwen/Qwen3.6-27B"
UNSLOTH = "https://github.com/unslothai/unsloth/pull/4757"


@pytest.fixture(scope="module")
def costs(snapshot: CatalogSnapshot) -> Callable[..., ModelCosts]:
    def of(name: str, weights: str = "bf16", kv_cache: str = "bf16") -> ModelCosts:
        return model_costs(snapshot.resolve_model(name).architecture, weights, kv_cache)

    return of


@pytest.fixture(scope="module")
def start(snapshot: CatalogSnapshot, costs: Callable[..., ModelCosts]) -> Callable[..., Start]:
    def of(name: str, weights: str, sku: str, engine: EngineChoice, context: int, tensor_parallel: int = 1) -> Start:
        return predict_start(
            costs(name, weights),
            snapshot.resolve_accelerator(sku),
            engine,
            parallelism=Parallelism(tensor_parallel),
            max_context_tokens=context,
        )

    return of


def cache_gib(model: ModelCosts, context: int) -> float:
    """The cache of one request in every layer as long as it is kept: what a planner without an engine counts."""
    kept = (
        attention.layers * attention.cache_bytes_per_token * min(context, attention.window_tokens or context)
        for attention in model.attentions
    )
    return sum(kept) / GIB


@pytest.mark.parametrize(
    ("source", "name", "weights", "context", "wrong_gib", "right_gib"),
    [
        # one formula, 2 * heads * width * layers * context, for every architecture
        (UNSLOTH, GEMMA_27B, "bf16", 131_072, 81.38, 10.41),
        (UNSLOTH, QWEN_27B, "bf16", 262_144, 53.25, 16.00),
        (UNSLOTH, "deepseek-ai/DeepSeek-V3.1", "fp8", 163_840, 2.08, 10.72),
        # all layers counted as attention: 16 GiB on 16 of 64
        ("https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1862", QWEN_27B, "bf16", 262_144, 64.0, 16.0),
    ],
)
def test_a_cache_is_what_the_layers_keep(
    source: str, name: str, weights: str, context: int, wrong_gib: float, right_gib: float, costs
) -> None:
    found = cache_gib(costs(name, weights), context)
    assert found != pytest.approx(wrong_gib, rel=0.5), source
    assert found == pytest.approx(right_gib, abs=0.005), source


def test_windows_are_neither_left_out_nor_charged_the_whole_context(costs) -> None:
    # hf-mem issue 60 leaves the windows out, gpustack issue 2101 charges them 128,000 tokens (139 GB in all)
    model, context = costs(GEMMA_27B), 128_000
    # 62 layers of 2 * 16 heads * 128 * 2 bytes: 10 keep everything, 52 the last 1,024 tokens
    layer_bytes = 2 * 16 * 128 * 2
    assert cache_gib(model, context) == pytest.approx((10 * context + 52 * 1_024) * layer_bytes / GIB)


def test_half_the_layers_of_gpt_oss_grow(costs) -> None:
    # Minnow pull 854: 12 of 24 layers grow, the others keep 128 tokens
    model = costs("openai/gpt-oss-20b", "mxfp4")
    grow = (cache_gib(model, 65_536) - cache_gib(model, 32_768)) * GIB / 32_768
    assert grow == pytest.approx(12 * 2 * 8 * 64 * 2)


def test_a_small_model_may_cache_as_much_per_layer_as_a_large_one(costs) -> None:
    # Minnow pull 854: Qwen3-0.6B has the key/value heads of Qwen3-8B
    small, large = (costs(name).attentions[0] for name in ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"))
    assert small.cache_bytes_per_token == large.cache_bytes_per_token == 2 * 8 * 128 * 2


def test_a_hybrid_caches_in_its_attention_layers_and_keeps_a_fixed_state(costs) -> None:
    # inference-sim issue 1558: tokens were charged to all 52 layers, 6 of which attend
    model = costs("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    assert sum(attention.layers for attention in model.attentions) == 6
    assert sum(state.layers for state in model.states) > 0
    assert model.layers == 52


def test_recurrent_state_is_not_made_smaller_by_an_eight_bit_cache(costs) -> None:
    # unsloth pull 9525
    sixteen, eight = (costs(QWEN_27B, kv_cache=kv_cache) for kv_cache in ("bf16", "fp8"))
    assert sum(s.bytes_per_sequence for s in sixteen.states) == sum(s.bytes_per_sequence for s in eight.states)
    assert cache_gib(eight, 32_768) == cache_gib(sixteen, 32_768) / 2


def test_a_model_that_cannot_load_has_no_throughput(start) -> None:
    # aiconfigurator pull 509: TTFT and TPOT of a 405B model on one device
    found = start("meta-llama/Llama-3.1-405B", "bf16", "h100-sxm-80gb", EngineChoice("tensorrt-llm"), 2_048)
    assert [fault.reason for fault in found.faults] == ["WEIGHTS_DO_NOT_FIT"]


def test_a_generated_context_fits_beside_the_weights(start) -> None:
    # dynamo issue 10104: workers were given 131,072 tokens and crash-looped
    refused = start("nvidia/Llama-3.1-70B-Instruct-FP8", "fp8", "h100-sxm-80gb", EngineChoice(version="0.19"), 131_072)
    assert not refused.starts
    two = start("nvidia/Llama-3.1-70B-Instruct-FP8", "fp8", "h100-sxm-80gb", EngineChoice(version="0.19"), 131_072, 2)
    assert two.memory is not None
    longest = two.memory.longest_context_tokens
    assert start(
        "nvidia/Llama-3.1-70B-Instruct-FP8", "fp8", "h100-sxm-80gb", EngineChoice(version="0.19"), longest, 2
    ).starts


def test_sixty_four_sequences_do_not_run_at_once_on_what_an_l4_has_left(start) -> None:
    # open-rl issue 230: a flat reserve of 6 GiB sized 64 sequences onto an L4, where 3 to 4 GB of cache are left
    small, large = (
        start("Qwen/Qwen3-8B", "bf16", sku, EngineChoice(version="0.28", gpu_memory_utilization=0.9), 1_024)
        for sku in ("l4-24gb", "h100-sxm-80gb")
    )
    assert small.memory is not None
    assert large.memory is not None
    assert 3e9 < small.memory.kv_pool_bytes < 4e9
    assert small.memory.full_context_requests < 64 < large.memory.full_context_requests


def test_fit_check_and_capacity_are_one_formula(start) -> None:
    # aiconfigurator issue 1208: two copies disagreed
    for context in (1_024, 16_000, 32_000, 40_960):
        engine = EngineChoice(version="0.16", gpu_memory_utilization=0.9)
        found = start("Qwen/Qwen3-32B", "bf16", "h100-sxm-80gb", engine, context)
        assert found.memory is not None
        assert found.starts == (found.memory.full_context_requests >= 1) == (found.kv_tokens >= context)


def test_a_stage_holds_its_layers_only(costs) -> None:
    # vllm issue 34076: the check charged all layers to the smaller of two stages
    model = costs("Qwen/Qwen3-Coder-30B-A3B-Instruct")
    settings = resolve_settings(EngineChoice(version="0.16"), RTX_5090, 32 << 30)
    whole, half = (
        cache_layout(rank_footprint(model, 1, pipeline_parallel=stages), settings.memory, settings.max_num_seqs)
        for stages in (1, 2)
    )
    assert half.request_bytes(262_144) == whole.request_bytes(262_144) / 2
    # 48 layers * 2 * 4 heads * 128 * 2 bytes * 262,144 tokens
    assert whole.request_bytes(262_144) == 24.0 * GIB
