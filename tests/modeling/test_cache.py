"""KV bytes per token, windows and recurrent state against published figures (bytes at 16 bit unless said)."""

from __future__ import annotations

import pytest

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.precision import native_precision
from capplan.modeling.sharding import (
    cache_bytes_per_token_per_rank,
    state_bytes_per_rank,
)
from tests.modeling import published

SHORT_CONTEXT = {
    "LLAMA_3_1_8B": 131_072,
    "LLAMA_3_1_70B": 327_680,
    "LLAMA_3_1_405B": 516_096,
    "LLAMA_2_7B": 524_288,
    "QWEN3_32B": 262_144,
    "QWEN3_30B_A3B": 98_304,
    "QWEN3_235B_A22B": 192_512,
    "MIXTRAL_8X7B": 131_072,
    "PHI_4": 204_800,
    "DEEPSEEK_V3": 70_272,
    "DEEPSEEK_V2_LITE": 31_104,
    "KIMI_K2": 70_272,
    "GLM_4_5_AIR": 188_416,
    "GLM_4_5": 376_832,
    "GPT_OSS_20B": 49_152,
    "GPT_OSS_120B": 73_728,
    "MINIMAX_M2": 253_952,
    "DBRX": 163_840,
    "LLAMA_4_SCOUT": 196_608,
    "GEMMA_3_27B": 507_904,
    "QWEN3_NEXT_80B": 24_576,
    "NEMOTRON_H_56B": 40_960,
    "MINIMAX_TEXT_01": 40_960,
    "JAMBA_1_5_MINI": 16_384,
    "JAMBA_1_5_LARGE": 36_864,
    "GRANITE_4_H_SMALL": 16_384,
    "PHI_3_SMALL": 131_072,
    "KIMI_K3": 27_648,
    "WHISPER_LARGE_V3": 163_840,
    "BERT_LARGE": 0,
}

BEYOND_WINDOW = {
    "GPT_OSS_20B": 24_576,
    "GPT_OSS_120B": 36_864,
    "LLAMA_4_SCOUT": 49_152,
    "LLAMA_4_MAVERICK": 49_152,
    "GEMMA_3_27B": 81_920,
    "MISTRAL_7B_V0_1": 0,
    "LLAMA_3_1_8B": 131_072,
}

STATE = {
    "QWEN3_NEXT_80B": 77_266_944,
    "NEMOTRON_H_56B": 912_605_184,
    "MINIMAX_TEXT_01": 293_601_280,
    "JAMBA_1_5_MINI": 16_056_320,
    "KIMI_K3": 449_372_160,
    "GRANITE_4_H_SMALL": 152_819_712,
    "LLAMA_3_1_8B": 0,
    # Cross-attention keys and values of 1,500 frames, held for the whole request.
    "WHISPER_LARGE_V3": 245_760_000,
}


def native(name: str, kv_cache: str = "auto") -> ModelCosts:
    architecture = read_config(published.ALL[name], name=name)
    return model_costs(architecture, native_precision(architecture), kv_cache)


@pytest.mark.parametrize("name", SHORT_CONTEXT)
def test_bytes_per_token_while_every_window_is_open(name: str) -> None:
    assert native(name).cache_bytes_per_token == SHORT_CONTEXT[name]


@pytest.mark.parametrize("name", BEYOND_WINDOW)
def test_bytes_per_token_past_every_window(name: str) -> None:
    assert cache_bytes_per_token_per_rank(native(name), 1, context_tokens=1 << 30) == BEYOND_WINDOW[name]


@pytest.mark.parametrize("name", STATE)
def test_state_of_one_sequence(name: str) -> None:
    assert state_bytes_per_rank(native(name), 1) == STATE[name]


@pytest.mark.parametrize("name", ["LLAMA_3_1_8B", "GPT_OSS_20B", "DEEPSEEK_V3", "QWEN3_NEXT_80B"])
def test_fp8_halves_a_16_bit_cache(name: str) -> None:
    assert native(name, "fp8").cache_bytes_per_token == native(name, "bf16").cache_bytes_per_token / 2


def test_sparse_latent_cache_is_larger_than_plain_fp8() -> None:
    # SGLang's DeepSeek-V3.2 log: 43.67 GiB hold 975,424 tokens, 48,071 B each; by layer 656 + 132.
    assert native("DEEPSEEK_V3_2", "fp8").cache_bytes_per_token == 61 * (656 + 132)


def test_the_indexer_key_is_kept_in_fp8_beside_a_16_bit_latent() -> None:
    assert native("DEEPSEEK_V3_2", "bf16").cache_bytes_per_token == 70_272 + 61 * 132


def test_layers_that_share_an_indexer_cache_no_key_of_their_own() -> None:
    # GLM-5.2: 21 of 78 layers own an indexer.
    assert native("GLM_5_2", "bf16").cache_bytes_per_token == 89_856 + 21 * 132


def test_compressed_attention_keeps_a_window_and_a_fraction_of_the_history() -> None:
    # DeepSeek-V4-Flash at 16 bit: 43 windows of 128 tokens hold 5,636,096 bytes. Of the history, 21 layers keep an
    # entry of 512 and an indexer key of 128 every 4 tokens, 20 an entry every 128. Published: 6,880 bytes a token with
    # the key in 16 bit (256); engines keep it in fp8 with a scale (132).
    costs = native("DEEPSEEK_V4_FLASH")
    windows = [a for a in costs.attentions if a.window_tokens is not None]
    assert sum(a.layers * a.cache_bytes_per_token * (a.window_tokens or 0) for a in windows) == 5_636_096
    assert cache_bytes_per_token_per_rank(costs, 8, context_tokens=1 << 20) == 6_880 - 21 * (256 - 132) / 4


def test_a_switched_off_window_is_ignored() -> None:
    config = published.QWEN2_5_7B | {"sliding_window": 4096, "use_sliding_window": False}
    assert all(a.window_tokens is None for a in model_costs(read_config(config), "bf16").attentions)
    switched_on = config | {"use_sliding_window": True, "max_window_layers": 20}
    windows = {a.window_tokens: a.layers for a in model_costs(read_config(switched_on), "bf16").attentions}
    assert windows == {None: 20, 4096: 8}


def test_a_window_wider_than_the_context_is_ignored() -> None:
    # Phi-4-mini: window 262,144 over a context of 131,072.
    config = published.PHI_4 | {"sliding_window": 262_144, "max_position_embeddings": 131_072}
    assert all(a.window_tokens is None for a in model_costs(read_config(config), "bf16").attentions)


def test_an_absent_window_is_no_window_whatever_the_class_default() -> None:
    config = {key: value for key, value in published.MISTRAL_7B_V0_1.items() if key != "sliding_window"}
    assert all(a.window_tokens is None for a in model_costs(read_config(config), "bf16").attentions)


def test_keys_and_values_may_differ_in_size() -> None:
    # MiMo-V2-Flash: 9 global layers of 4 heads, 39 local of 8; keys 192, values 128 wide: 222,720 B, 23,040 past 128.
    config = {
        "model_type": "mimo_v2_flash",
        "num_hidden_layers": 48,
        "hidden_size": 4096,
        "intermediate_size": 16384,
        "vocab_size": 152576,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
        "hybrid_layer_pattern": [0, 1, 1, 1, 1] + [0, 1, 1, 1, 1, 1] * 7 + [0],
        "moe_layer_freq": [0] + [1] * 47,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": None,
        "num_experts_per_tok": 8,
        "attention_bias": False,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
    }
    costs = model_costs(read_config(config), "bf16")
    assert costs.total_parameters == 308_778_768_832
    assert costs.cache_bytes_per_token == 222_720
    assert cache_bytes_per_token_per_rank(costs, 1, context_tokens=4096) == 23_040


def test_state_may_be_kept_in_16_bit_where_the_config_says_so() -> None:
    half = published.NEMOTRON_H_56B | {"mamba_ssm_cache_dtype": "bfloat16"}
    costs = model_costs(read_config(half), "bf16")
    convolution = 54 * (16_384 + 2 * 8 * 256) * 3 * 2
    assert state_bytes_per_rank(costs, 1) == (912_605_184 - convolution) / 2 + convolution
