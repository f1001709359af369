"""How a request takes up the KV pool: blocks, groups, windows and states, against arithmetic written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.cache_groups import CacheGroup, CacheLayout
from capplan.estimation.compressed_paging import compressed_layout
from capplan.estimation.device import whole_device
from capplan.estimation.engine import ENGINE_NAMES, EngineChoice, resolve_settings
from capplan.estimation.footprint import CacheTerm, rank_footprint
from capplan.estimation.memory import longest_context
from capplan.estimation.paging import cache_layout
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from tests.estimation.configs import (
    DEEPSEEK_R1,
    GEMMA_3_27B,
    GPT_OSS_120B,
    LLAMA_3_1_8B,
    MISTRAL_7B,
    QWEN3_5_27B,
    QWEN3_5_35B_A3B,
)
from tests.hardware.devices import H100


def layout(
    config: dict[str, Any],
    version: str = "0.19",
    *,
    name: str = "vllm",
    weights: str = "bf16",
    kv_cache: str = "auto",
    tensor_parallel: int = 1,
) -> CacheLayout:
    device = whole_device(H100)
    assert device is not None
    settings = resolve_settings(EngineChoice(name, version), H100, device.memory_bytes, context_tokens=32_768)
    model = model_costs(read_config(config), weights, kv_cache)
    return cache_layout(rank_footprint(model, tensor_parallel), settings.memory, settings.max_num_seqs)


def test_a_request_holds_whole_blocks() -> None:
    # Llama-3.1-8B: 32 layers * 2 * 8 heads * 128 * 2 bytes = 131,072 bytes per token, 16 tokens a block
    pages = layout(LLAMA_3_1_8B)
    assert pages.block_bytes == 16 * 131_072
    assert pages.request_bytes(1) == pages.request_bytes(16) == 16 * 131_072
    assert pages.request_bytes(17) == 32 * 131_072


def test_two_kinds_of_equal_number_share_blocks_of_one_size() -> None:
    # gpt-oss-120b: 18 full and 18 windowed layers of 2 * 8 heads * 64 * 2 bytes = 2,048 bytes per token
    pages = layout(GPT_OSS_120B, weights="mxfp4")
    assert (pages.group_count, pages.block_bytes) == (2, 18 * 2_048 * 16)
    # 65,536 tokens in full blocks; the window of 128 touches 127 / 16 blocks, rounded up, and one more
    assert pages.request_bytes(65_536) == (4_096 + 8 + 1) * pages.block_bytes
    # one prefill chunk of 8,192 tokens beside the window: 8,319 / 16 = 519.9
    assert pages.request_bytes(65_536, 8_192) == (4_096 + 520 + 1) * pages.block_bytes


def test_uneven_kinds_are_cut_into_groups_of_the_rarer_kinds_layers() -> None:
    # Gemma 3 27B: 62 layers in a 5:1 pattern, 10 full and 52 windowed; groups of 10: one and six (two layers padded)
    pages = layout(GEMMA_3_27B)
    assert pages.group_count == 1 + 6
    assert pages.block_bytes == 10 * 16 * (2 * 16 * 128 * 2)
    assert pages.request_bytes(100_000) == (6_250 + 6 * (64 + 1)) * pages.block_bytes


def test_a_window_saves_nothing_where_the_engine_has_no_allocator_for_it() -> None:
    # 62 layers * 2 * 16 heads * 128 * 2 bytes for every token: vLLM 0.9, SGLang, TensorRT-LLM
    per_token = 62 * 2 * 16 * 128 * 2
    assert layout(GEMMA_3_27B, "0.9").request_bytes(32_768) == 32_768 * per_token
    assert layout(GEMMA_3_27B, "0.5.9", name="sglang").request_bytes(32_768) == 32_768 * per_token
    assert layout(GEMMA_3_27B, "1.1", name="tensorrt-llm").request_bytes(32_768) == 32_768 * per_token


def test_a_model_windowed_throughout_keeps_its_window_since_the_v1_engine() -> None:
    # Mistral-7B v0.1: 4,095 tokens before the newest, in blocks of 16, and one block for a window that starts inside
    per_token = 32 * 2 * 8 * 128 * 2
    assert layout(MISTRAL_7B, "0.7").request_bytes(32_768) == 32_768 * per_token
    assert layout(MISTRAL_7B, "0.9").request_bytes(32_768) == (256 + 1) * 16 * per_token


def test_the_attention_block_grows_to_the_size_of_a_state() -> None:
    # Qwen3.6-35B-A3B with an fp8 cache: 2 * 2 heads * 256 = 1,024 bytes per token and attention layer. One recurrent
    # layer keeps 32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2 = 2,146,304 bytes: 2,096 tokens a block.
    pages = layout(QWEN3_5_35B_A3B, "0.24", kv_cache="fp8")
    assert pages.least_block_tokens == 2_096
    assert (pages.group_count, pages.block_bytes) == (1 + 3, 10 * 2_146_304)


def test_concurrency_of_a_hybrid_is_the_logs() -> None:
    # club-3090 issue 612, vLLM 0.24: 5.98 GiB hold 4.33 requests of 131,072 tokens (567,978 tokens as printed)
    pages = layout(QWEN3_5_35B_A3B, "0.24", kv_cache="fp8")
    requests = int(5.98 * 2**30 / pages.block_bytes) / (pages.request_bytes(131_072) / pages.block_bytes)
    assert requests == pytest.approx(4.33, rel=0.005)
    assert requests * 131_072 == pytest.approx(567_978, rel=0.005)


def test_every_short_request_of_a_hybrid_pins_whole_blocks() -> None:
    # Qwen3.5-27B at 0.19: 48 recurrent layers in three groups of 16, a block each, and one block for any few tokens
    pages = layout(QWEN3_5_27B)
    assert pages.request_bytes(12) == pages.request_bytes(1) == 4 * pages.block_bytes
    state = 48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2
    assert pages.block_bytes >= 16 * state


def test_sglang_keeps_states_in_a_pool_of_their_own() -> None:
    # nine parts of nineteen of the pool for states, three slots per request; the rest caches 16 layers * 4,096 bytes
    pages = layout(QWEN3_5_27B, "0.5.9", name="sglang")
    state = 48 * (48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2)
    assert pages.request_bytes(1) == pytest.approx(3 * state * 19 / 9)
    assert pages.request_bytes(200_000) == pytest.approx(200_000 * 16 * 4_096 * 19 / 10)


def test_tensorrt_llm_reserves_a_state_for_every_sequence_of_a_step() -> None:
    pages = layout(QWEN3_5_27B, "1.1", name="tensorrt-llm")
    state = 48 * (48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2)
    assert pages.reserved_bytes == 2_048 * state


@pytest.mark.parametrize("name", ENGINE_NAMES)
@pytest.mark.parametrize("config", [LLAMA_3_1_8B, GEMMA_3_27B, MISTRAL_7B, QWEN3_5_27B])
@given(tokens=st.integers(1, 262_144), more=st.integers(0, 4_096))
def test_a_longer_context_never_takes_less(name: str, config: dict[str, Any], tokens: int, more: int) -> None:
    device = whole_device(H100)
    assert device is not None
    settings = resolve_settings(EngineChoice(name), H100, device.memory_bytes)
    footprint = rank_footprint(model_costs(read_config(config), "bf16"), 1)
    pages = cache_layout(footprint, settings.memory, settings.max_num_seqs)
    assert pages.request_bytes(tokens) <= pages.request_bytes(tokens + more)
    assert pages.request_bytes(tokens) <= pages.request_bytes(tokens, 2_048)


def test_latents_page_like_any_cache() -> None:
    # 61 layers * 576 * 2 bytes = 70,272 bytes per token
    assert layout(DEEPSEEK_R1, weights="fp8", kv_cache="bf16", tensor_parallel=8).request_bytes(16) == 16 * 70_272


@pytest.mark.parametrize(
    ("config", "weights", "context", "gib"),
    [
        # what other planners got wrong, with the right value (unslothai/unsloth pull 4757)
        (GEMMA_3_27B, "bf16", 131_072, 10.41),  # 52 of 62 layers keep 1,024 tokens
        (DEEPSEEK_R1, "fp8", 163_840, 10.72),  # one latent for all heads
    ],
)
def test_the_full_contexts_cache_is_the_right_one(
    config: dict[str, Any], weights: str, context: int, gib: float
) -> None:
    pages = layout(config, weights=weights, kv_cache="bf16")
    assert pages.request_bytes(context) / 2**30 == pytest.approx(gib, rel=0.01)


def test_layers_without_attention_cache_nothing_that_grows() -> None:
    # the same pull: 16.00 GiB for Qwen3.5-27B at 262,144 tokens, 16 of 64 layers; blocks of 784 tokens more or less
    pages = layout(QWEN3_5_27B)
    grown = pages.request_bytes(262_144) - pages.request_bytes(1)
    assert grown / 2**30 == pytest.approx(16.00, rel=0.005)


def test_latents_are_cached_from_vllm_0_7_1_on() -> None:
    # DeepSeek-R1: 61 layers; a latent of 512 + 64, or 128 heads with keys of 192 and values padded to 192 (vLLM issue
    # 12890: at most 6,500 tokens on eight H20)
    def token_bytes(version: str, tensor_parallel: int) -> float:
        pages = layout(DEEPSEEK_R1, version, weights="fp8", tensor_parallel=tensor_parallel)
        return pages.request_bytes(16) / 16

    assert token_bytes("0.7.1", 1) == token_bytes("0.7.1", 8) == 61 * 576 * 2
    assert token_bytes("0.7.0", 1) == pytest.approx(61 * 128 * 384 * 2)
    assert token_bytes("0.6", 8) == pytest.approx(61 * 16 * 384 * 2)


# DeepSeek-V4-Flash: 43 windows of 128 tokens; 21 layers make one entry of 4 tokens and index them, 20 one of 128.
# fp8: 512 + 64 bytes for an entry as the model counts it; (576 + 132) / 4 and 576 / 128 for each token.
V4_FLASH = (
    CacheTerm(43, 576.0, 128, latent=True),
    CacheTerm(21, 177.0, None, latent=True, indexed=True),
    CacheTerm(20, 4.5, None, latent=True),
)


def test_compressed_attention_has_the_groups_vllm_prints() -> None:
    # vLLM issue 54703: pages of 1,002,240 bytes for 256 tokens of history; two groups of windows, 64 tokens a block;
    # compressor state in blocks of 4 and of 8 tokens.
    pages = compressed_layout(V4_FLASH)
    assert pages.block_bytes == 1_002_240
    assert pages.groups == (
        CacheGroup(1, 256, None),
        CacheGroup(2, 64, 128),
        CacheGroup(1, 4, 8),
        CacheGroup(1, 8, 128),
    )


@pytest.mark.parametrize(
    ("tokens", "chunk", "gib"),
    [
        (30_000, 16_384, 6.66),  # vLLM issue 44376, the offline class: chunks of 16,384
        (13_528, 16_384, 5.44),
        (912_128, 8_192, 7.01 / 1.11),  # vLLM issue 51041: 1.11 requests in 7.01 GiB
    ],
)
def test_a_short_request_of_compressed_attention_takes_gigabytes(tokens: int, chunk: int, gib: float) -> None:
    assert compressed_layout(V4_FLASH).request_bytes(tokens, chunk) / 2**30 == pytest.approx(gib, rel=0.06)


def test_compressed_attention_is_the_same_whatever_cache_format_is_asked_for() -> None:
    # (1,024 + 132) / 4 and 1,024 / 128 bytes for each token in 16 bit: the kernels store fp8 all the same
    in_16_bit = (
        CacheTerm(43, 1_024.0, 128, latent=True),
        CacheTerm(21, 289.0, None, latent=True, indexed=True),
        CacheTerm(20, 8.0, None, latent=True),
    )
    assert compressed_layout(in_16_bit) == compressed_layout(V4_FLASH)


GROUPS = st.builds(
    CacheGroup,
    count=st.integers(1, 6),
    block_tokens=st.sampled_from([0, 4, 16, 64, 784]),
    window_tokens=st.sampled_from([None, None, 128, 1_024, 4_096]),
    state_blocks=st.integers(1, 2),
)
LAYOUTS = st.builds(
    CacheLayout,
    block_bytes=st.integers(1, 10_000_000),
    groups=st.lists(GROUPS, min_size=1, max_size=4).map(tuple),
    state_pool_bytes=st.sampled_from([0.0, 1e6, 1e9]),
    kv_pool_factor=st.sampled_from([1.0, 1.9]),
)


@given(
    layout=LAYOUTS,
    pool=st.integers(0, 200_000_000_000),
    chunk=st.sampled_from([512, 2_048, 8_192]),
    ceiling=st.integers(1, 2_000_000),
)
def test_the_longest_context_is_the_last_that_fits(layout: CacheLayout, pool: int, chunk: int, ceiling: int) -> None:
    longest = longest_context(layout, pool, chunk, ceiling)
    assert 0 <= longest <= ceiling
    if longest:
        assert layout.request_bytes(longest, chunk) <= pool
    if longest < ceiling and pool:
        assert layout.request_bytes(longest + 1, chunk) > pool


def test_no_engine_charges_compressed_attention_its_windows_for_the_whole_context() -> None:
    # sglang fork, pull 83: a generic layout clamped DeepSeek-V4-Flash to 143,000 tokens where 1,048,576 fit.
    # 21 layers of 177 and 20 of 4.5 bytes grow with each token; 43 windows of 576 do not
    rule = resolve_settings(EngineChoice("sglang"), H100, 80 << 30).memory
    some = rank_footprint(model_costs(read_config(LLAMA_3_1_8B), "bf16", "auto"), 1)
    pages = cache_layout(replace(some, caches=V4_FLASH), rule, 64)
    grown = pages.request_bytes(1_048_576) - pages.request_bytes(524_288)
    assert grown / 524_288 == pytest.approx(21 * 177 + 20 * 4.5, rel=0.01)
