"""What tokens, sequences and decode steps cost, against counted FLOP and arithmetic written out."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.parameters import active_parameters, buffer_parameters, parameter_groups
from capplan.modeling.precision import native_precision
from capplan.modeling.token_costs import (
    active_parameter_groups,
    decode_flop,
    decode_intensity,
    is_causal,
    prefill_flop,
    sequence_cache_bytes,
    state_bytes_per_sequence,
    token_costs,
    weight_bytes_read,
)
from tests.modeling import published
from tests.modeling.published import Config

NAMES = st.sampled_from(sorted(published.ALL))


def costs_of(config: Config) -> ModelCosts:
    architecture = read_config(config, name="model")
    return model_costs(architecture, native_precision(architecture))


@pytest.mark.parametrize(
    ("name", "gflop_per_token", "mflop_per_1000_tokens"),
    # Twice the multiplied parameters of the published shapes, and the slope of attention; Llama's were verified with a
    # FLOP counter. DeepSeek's slope is that of absorbed latents.
    [
        ("LLAMA_3_1_8B", 15.01, 524),
        ("LLAMA_3_1_70B", 139.0, 2_621),
        ("LLAMA_3_1_405B", 807.5, 8_258),
        ("QWEN3_32B", 63.97, 2_097),
        ("QWEN3_30B_A3B", 6.08, 786),
        ("QWEN3_235B_A22B", 43.14, 3_080),
        ("DEEPSEEK_V3", 73.25, 16_990),
        ("KIMI_K2", 63.37, 8_495),
        ("MIXTRAL_8X7B", 25.50, 524),
    ],
)
def test_flop_of_published_models(name: str, gflop_per_token: float, mflop_per_1000_tokens: float) -> None:
    costs = costs_of(published.ALL[name])
    assert decode_flop(costs, 0) / 1e9 == pytest.approx(gflop_per_token, abs=0.06)
    slope = (decode_flop(costs, 3_000) - decode_flop(costs, 2_000)) / 1e6
    assert slope == pytest.approx(mflop_per_1000_tokens, abs=0.6)


def test_a_prompt_applies_the_head_once_and_sees_half_of_itself() -> None:
    # Llama-3.1-8B: 32 layers of 32 heads of 128.
    costs = costs_of(published.LLAMA_3_1_8B)
    head = 128_256 * 4096
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)
    for prompt in (1, 1024, 8192):
        whole = 2 * prompt * layers + 2 * head + 32 * 4 * 32 * 128 * prompt * prompt / 2
        assert prefill_flop(costs, prompt) * prompt == pytest.approx(whole, rel=1e-12)


def test_latent_attention_expands_keys_and_values_in_prefill() -> None:
    # DeepSeek-V3: 61 layers, 128 heads of 192 (key) and 128 (value): 4,997 MFLOP for 1,000 tokens of context.
    costs = costs_of(published.DEEPSEEK_V3)
    slope = prefill_flop(costs, 3_000) - prefill_flop(costs, 2_000)
    head = 2 * 129_280 * 7_168 * (1 / 3_000 - 1 / 2_000)
    assert 2 * (slope - head) == pytest.approx(61 * 2 * 128 * (192 + 128) * 1_000)


def test_bert_sees_its_whole_input() -> None:
    # 246.4 GFLOP were counted for BERT-large over 384 tokens, without the transform before its prediction head.
    architecture = read_config(published.BERT_LARGE)
    assert not is_causal(architecture)
    costs = model_costs(architecture, native_precision(architecture))
    assert prefill_flop(costs, 384, causal=False) * 384 / 1e9 == pytest.approx(246.4 + 384 * 2 * 1024**2 / 1e9, abs=0.1)


@given(prompt=st.integers(1, 4000), window=st.integers(1, 3000))
def test_a_window_holds_the_mean_of_what_its_positions_see(prompt: int, window: int) -> None:
    config = published.decoder("mistral", 1, 256, 512, 4, 2, 1000, head_dim=64, sliding_window=window)
    costs = costs_of(config)
    # Position x between 0 and the prompt's end sees min(x, window) tokens: midpoints of whole steps are exact there.
    seen = sum(min(position + 0.5, window) for position in range(prompt)) / prompt
    head = 2 * 1000 * 256
    rest = token_costs(costs).flop - head + head / prompt
    assert prefill_flop(costs, prompt) == pytest.approx(rest + 4 * 4 * 64 * seen, rel=1e-9)


def test_windowed_layers_keep_their_window() -> None:
    # Gemma-3-27B: 10 of 62 layers keep everything, 8,192 bytes a token; 52 keep 1,024 tokens.
    costs = costs_of(published.GEMMA_3_27B)
    per_layer = 2 * 16 * 128 * 2
    assert per_layer * 62 == 507_904
    for tokens in (1, 1024, 8192, 131_072):
        assert sequence_cache_bytes(costs, tokens) == per_layer * (10 * tokens + 52 * min(tokens, 1024))


def test_state_does_not_grow_and_the_rest_does() -> None:
    costs = costs_of(published.QWEN3_NEXT_80B)
    assert state_bytes_per_sequence(costs) == 77_266_944
    assert sequence_cache_bytes(costs, 8192) == 24_576 * 8192


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("MIXTRAL_8X7B", 46_702_792_704, 12_879_925_248),
        ("QWEN3_30B_A3B", 30_532_122_624, 3_353_032_704),
        ("DEEPSEEK_V3", 671_026_404_352, 37_552_282_624),
        ("LLAMA_3_1_8B", 8_030_261_248, 8_030_261_248),
    ],
)
def test_active_parameters_by_part_add_up(name: str, total: int, active: int) -> None:
    architecture = read_config(published.ALL[name])
    assert sum(parameter_groups(architecture).values()) == total
    groups = active_parameter_groups(architecture)
    assert sum(groups.values()) == active
    assert all(0 <= groups[part] <= count for part, count in parameter_groups(architecture).items())


def test_a_batch_reads_the_experts_it_touches() -> None:
    # Qwen3-30B-A3B, 128 experts, 8 for each token: one sequence reads about 3.0e9 parameters, 64 nearly all.
    costs = costs_of(published.QWEN3_30B_A3B)
    experts = 48 * 128 * 3 * 2048 * 768
    rest = 30_532_122_624 - experts - 151_936 * 2048  # the input embedding is looked up
    assert weight_bytes_read(costs, 1) == pytest.approx(2 * (rest + experts * 8 / 128))
    assert weight_bytes_read(costs, 1) / 2 == pytest.approx(3.0e9, rel=0.02)
    assert weight_bytes_read(costs, 64) == pytest.approx(2 * (rest + experts * (1 - (120 / 128) ** 64)))
    assert weight_bytes_read(costs, 64) / 2 > 0.97 * (rest + experts)


def test_intensity_of_a_step_counts_the_cache_it_reads() -> None:
    # Llama-3.1-8B in bf16: a step of 32 sequences at 8,192 tokens reads the weights once and 32 caches.
    costs = costs_of(published.LLAMA_3_1_8B)
    multiplied = 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    read = 2 * (multiplied + 65 * 4096)
    assert decode_intensity(costs, 32) == pytest.approx(32 * 2 * multiplied / read)
    flop = 32 * (2 * multiplied + 32 * 4 * 32 * 128 * 8192)
    assert decode_intensity(costs, 32, 8192) == pytest.approx(flop / (read + 32 * 131_072 * 8192))


@given(name=NAMES, batch=st.integers(1, 500), more=st.integers(1, 500))
def test_larger_batches_never_do_less_for_a_weight_byte(name: str, batch: int, more: int) -> None:
    costs = costs_of(published.ALL[name])
    assert decode_intensity(costs, batch) <= decode_intensity(costs, batch + more) * (1 + 1e-12)
    assert weight_bytes_read(costs, batch) <= weight_bytes_read(costs, batch + more) * (1 + 1e-12)


@given(name=NAMES, tokens=st.integers(1, 200_000), more=st.integers(1, 100_000))
def test_longer_sequences_never_cost_less(name: str, tokens: int, more: int) -> None:
    costs = costs_of(published.ALL[name])
    assert sequence_cache_bytes(costs, tokens) <= sequence_cache_bytes(costs, tokens + more)
    assert decode_flop(costs, tokens) <= decode_flop(costs, tokens + more)
    whole = [prefill_flop(costs, length) * length for length in (tokens, tokens + more)]
    assert whole[0] <= whole[1] * (1 + 1e-12)
    assert all(math.isfinite(value) and value >= 0 for value in whole)


@given(name=NAMES)
def test_one_sequence_reads_no_more_than_it_has_active(name: str) -> None:
    architecture = read_config(published.ALL[name])
    assume(architecture.quantization is None)
    costs = model_costs(architecture, "bf16")
    # Routers' score corrections are read too, 4 bytes for each expert, and are no parameters.
    buffers = 4 * buffer_parameters(architecture)
    assert weight_bytes_read(costs, 1) <= 2 * active_parameters(architecture) + buffers
