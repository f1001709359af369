"""What ``DescribeModel`` says of a model, against arithmetic written out from its config."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from capplan.server.conversion.models import to_model_description
from capplan.server.layer_summary import layer_summary
from capplan.v1 import model_pb2
from tests.server.catalogue import CONFIG, KV_BYTES_PER_TOKEN, MODEL_PARAMETERS


def described(config: dict[str, Any], kv_cache: str = "auto") -> model_pb2.ModelDescription:
    """The description of a config in bf16."""
    architecture = read_config(config)
    return to_model_description(architecture, model_costs(architecture, "bf16", kv_cache), ("bf16",))


def test_a_dense_model_costs_two_flop_and_two_bytes_for_each_weight_it_multiplies() -> None:
    token = described(CONFIG)
    norms = 32 * 2 * 4096 + 4096
    multiplied = MODEL_PARAMETERS - norms - 128256 * 4096  # the input embedding is looked up
    assert token.flop_per_token == 2 * multiplied
    assert token.kv_cache_bytes_per_token == token.kv_cache_bytes_per_token_beyond_window == KV_BYTES_PER_TOKEN
    assert token.state_bytes_per_sequence == 0
    # scores and weighted values, two FLOP each, for 32 heads of 128 in 32 layers
    assert token.attention_flop_per_context_token == 32 * 2 * 2 * 32 * 128
    assert token.decode_intensity_flop_per_byte == pytest.approx(2 * multiplied / (2 * (multiplied + norms)))


def test_a_mixture_reads_only_the_experts_its_token_visits() -> None:
    experts, visited, layers, hidden, width = 8, 2, 32, 4096, 14336
    config = {
        "model_type": "mixtral",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": layers,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
        "num_local_experts": experts,
        "num_experts_per_tok": visited,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    token = described(config)
    attention = 2 * hidden * hidden + 2 * hidden * 1024
    multiplied = layers * (attention + visited * 3 * hidden * width + hidden * experts) + 32000 * hidden
    norms = layers * 2 * hidden + hidden
    assert token.flop_per_token == 2 * multiplied
    assert token.decode_intensity_flop_per_byte == pytest.approx(2 * multiplied / (2 * (multiplied + norms)))


def test_windowed_layers_stop_to_grow() -> None:
    config = {
        **CONFIG,
        "model_type": "mistral",
        "sliding_window": 4096,
    }
    token = described(config)
    assert token.kv_cache_bytes_per_token == KV_BYTES_PER_TOKEN
    assert token.kv_cache_bytes_per_token_beyond_window == 0


def test_an_fp8_cache_holds_a_token_in_half_the_bytes() -> None:
    token = described(CONFIG, "fp8")
    assert token.kv_cache_bytes_per_token == KV_BYTES_PER_TOKEN / 2


def test_layers_are_summed_up_in_words() -> None:
    assert layer_summary(read_config(CONFIG)) == (
        "32 x grouped-query attention, 32 query heads, 8 key/value heads",
        "32 x gated feed-forward of 14336",
    )
    assert layer_summary(read_config({**CONFIG, "num_key_value_heads": 32}))[0].startswith("32 x multi-head attention")
    assert layer_summary(read_config({**CONFIG, "num_key_value_heads": 1}))[0].startswith("32 x multi-query attention")
