"""FLOP per token against figures published beside a FLOP counter's check (2 * matrix parameters; attention slope)."""

from __future__ import annotations

import pytest

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import Component, ModelCosts, model_costs
from capplan.modeling.precision import native_precision
from tests.modeling import published

# GFLOP per token in matrix products; norms (some 1e-5 of it) are in the published figure.
GEMM_GFLOP = {
    "LLAMA_3_1_8B": 15.01,
    "LLAMA_3_1_70B": 139.0,
    "LLAMA_3_1_405B": 807.5,
    "QWEN3_32B": 63.97,
    "QWEN3_30B_A3B": 6.08,
    "QWEN3_235B_A22B": 43.14,
    "DEEPSEEK_V3": 73.25,
    "KIMI_K2": 63.37,
    "GPT_OSS_20B": 7.22,
    "GPT_OSS_120B": 10.27,
    "MIXTRAL_8X7B": 25.50,
    "LLAMA_4_SCOUT": 32.32 - 2 * 4096 * 5120 / 1e9,  # the published figure keeps the vision projector
    "GEMMA_3_27B": 54.03,
}

# MFLOP per 1,000 tokens of context, one new token, layers without window.
SLOPE_MFLOP = {
    "LLAMA_3_1_8B": 524,
    "LLAMA_3_1_70B": 2_621,
    "LLAMA_3_1_405B": 8_258,
    "QWEN3_32B": 2_097,
    "QWEN3_30B_A3B": 786,
    "QWEN3_235B_A22B": 3_080,
    "DEEPSEEK_V3": 16_990,
    "KIMI_K2": 8_495,
    "GPT_OSS_20B": 197,
    "GPT_OSS_120B": 295,
    "MIXTRAL_8X7B": 524,
    "LLAMA_4_SCOUT": 246,
    "GEMMA_3_27B": 164,
}


def costs_of(name: str) -> ModelCosts:
    architecture = read_config(published.ALL[name], name=name)
    return model_costs(architecture, native_precision(architecture))


@pytest.mark.parametrize("name", GEMM_GFLOP)
def test_matrix_flop_of_one_token(name: str) -> None:
    flop = 2 * sum(gemm.active_parameters for gemm in costs_of(name).gemms)
    assert flop / 1e9 == pytest.approx(GEMM_GFLOP[name], rel=1e-3)


@pytest.mark.parametrize("name", SLOPE_MFLOP)
def test_attention_flop_grows_with_the_context(name: str) -> None:
    full = [a for a in costs_of(name).attentions if a.window_tokens is None]
    slope = sum(a.layers * a.decode_flop_per_context_token for a in full)
    assert slope * 1000 / 1e6 == pytest.approx(SLOPE_MFLOP[name], abs=0.7)


@pytest.mark.parametrize(("name", "slope_mflop"), [("DEEPSEEK_V3", 4_997), ("KIMI_K2", 2_499)])
def test_latent_attention_is_cheaper_in_prefill(name: str, slope_mflop: float) -> None:
    slope = sum(a.layers * a.prefill_flop_per_context_token for a in costs_of(name).attentions)
    assert slope * 1000 / 1e6 == pytest.approx(slope_mflop, abs=0.7)


def test_sparse_attention_is_capped_and_its_indexer_is_not() -> None:
    (attention,) = costs_of("DEEPSEEK_V3_2").attentions
    assert attention.attended_tokens_limit == 2_048
    assert attention.indexer_flop_per_context_token == 2 * 64 * 128


def test_embeddings_multiply_with_nothing_and_heads_run_once_a_sequence() -> None:
    for name in ("LLAMA_3_1_8B", "LLAMA_3_2_1B"):
        costs = costs_of(name)
        assert all(g.active_parameters == 0 for g in costs.gemms if g.component is Component.EMBEDDING)
        (head,) = [g for g in costs.gemms if g.once_per_sequence]
        assert head.active_parameters == costs.vocabulary_size * costs.hidden_size


def test_recurrence_flop_does_not_depend_on_the_context() -> None:
    # Gated delta net: 8 FLOP per state element; 36 layers of 32 heads of 128 x 128.
    (state,) = costs_of("QWEN3_NEXT_80B").states
    assert state.layers == 36
    assert state.flop_per_token == 36 * 8 * 32 * 128 * 128


def test_matrices_and_layers_are_counted() -> None:
    costs = costs_of("QWEN3_30B_A3B")
    (experts,) = [g for g in costs.gemms if g.component is Component.ROUTED_EXPERT]
    assert (experts.layers, experts.experts, experts.experts_per_token) == (48, 128, 8)
    assert experts.matrices_per_token == 48 * 8 * 3
    # Two maps of width 768 and one of width 2,048.
    assert experts.output_features == pytest.approx((768 + 768 + 2048) / 3)
