"""Memory of training, against the published counts and arithmetic written out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.config_reader import read_config
from capplan.modeling.training import (
    Optimizer,
    Recomputation,
    TrainingPrecision,
    activation_bytes,
    activation_refusal,
    known_optimizer,
    parameter_memory,
)
from tests.modeling import published
from tests.modeling.published import Config

LLAMA_PARAMETERS = 8_030_261_248


def architecture(config: Config, **changes: object) -> ModelArchitecture:
    return read_config(config | changes, name="model")


def standard(layers: int, hidden: int, heads: int) -> ModelArchitecture:
    """The layer of Korthikanti et al.: multi-head attention, an ungated feed-forward of four times the width."""
    return architecture(
        {
            "model_type": "gpt2",
            "n_layer": layers,
            "n_embd": hidden,
            "n_head": heads,
            "n_positions": 2048,
            "vocab_size": 51_200,
        }
    )


def per_layer(
    model: ModelArchitecture,
    one_more: ModelArchitecture,
    batch: int,
    length: int,
    what: Recomputation = Recomputation.NONE,
    precision: TrainingPrecision = TrainingPrecision.MIXED,
) -> int:
    """Bytes of one layer, from two models that differ by it."""
    less, more = (activation_bytes(each, batch, length, what, precision) for each in (model, one_more))
    return more - less


def test_mixed_precision_with_adamw_takes_16_bytes_for_each_parameter() -> None:
    memory = parameter_memory(architecture(published.LLAMA_3_1_8B))
    assert memory.weight_bytes == memory.gradient_bytes == 2 * LLAMA_PARAMETERS
    assert memory.master_bytes == 4 * LLAMA_PARAMETERS
    assert memory.optimizer_bytes == 8 * LLAMA_PARAMETERS
    assert memory.total_bytes == (2 + 2 + 4 + 4 + 4) * LLAMA_PARAMETERS == 128_484_179_968


def test_fp32_needs_no_master_copy_and_takes_16_bytes_too() -> None:
    memory = parameter_memory(architecture(published.LLAMA_3_1_8B), TrainingPrecision.FULL)
    assert memory.weight_bytes == memory.gradient_bytes == 4 * LLAMA_PARAMETERS
    assert (memory.master_bytes, memory.optimizer_bytes) == (0, 8 * LLAMA_PARAMETERS)
    assert memory.total_bytes == 16 * LLAMA_PARAMETERS


def test_an_8_bit_optimiser_keeps_two_bytes_and_a_scale_for_each_block() -> None:
    memory = parameter_memory(architecture(published.LLAMA_3_1_8B), optimizer=Optimizer.ADAMW_8BIT)
    # 8,030,261,248 values are 3,921,026 blocks of 2,048, of which none is left over.
    assert LLAMA_PARAMETERS == 3_921_026 * 2048
    assert memory.optimizer_bytes == 2 * LLAMA_PARAMETERS + 2 * 4 * 3_921_026
    assert memory.total_bytes == (2 + 2 + 4) * LLAMA_PARAMETERS + memory.optimizer_bytes


def test_a_quantised_checkpoint_is_trained_in_16_bit() -> None:
    plain, quantised = (
        parameter_memory(architecture(published.QWEN3_30B_A3B, **more))
        for more in ({}, {"quantization_config": published.BLOCK_FP8})
    )
    assert plain == quantised


def test_an_unknown_optimiser_is_refused_by_name() -> None:
    assert known_optimizer("adamw-8bit") is Optimizer.ADAMW_8BIT
    with pytest.raises(
        InvalidInputError, match=r"training\.optimizer: 'sgd' is not known; accepted: adamw, adamw-8bit"
    ):
        known_optimizer("sgd")


@pytest.mark.parametrize(("batch", "length"), [(1, 2048), (4, 2048), (3, 100)])
def test_a_standard_layer_keeps_what_was_published(batch: int, length: int) -> None:
    hidden, heads = 6144, 64  # the 22-billion model of the paper
    one, two = standard(1, hidden, heads), standard(2, hidden, heads)
    linear = 34 * length * batch * hidden
    assert per_layer(one, two, batch, length) == linear + 5 * heads * length * length * batch
    assert per_layer(one, two, batch, length, Recomputation.SELECTIVE) == linear
    assert per_layer(one, two, batch, length, Recomputation.FULL) == 2 * length * batch * hidden
    # Outside: mask of the embedding dropout, inputs of the last norm and the head, fp32 logits.
    outside = length * batch * (5 * hidden + 4 * 51_200)
    assert activation_bytes(one, batch, length, Recomputation.FULL) == outside + 2 * length * batch * hidden


@pytest.mark.parametrize(
    ("hidden", "heads", "saved"),
    # What the paper's section 5 says selective recomputation saves: 70 % for GPT-3, 65 % for MT-NLG.
    [(12_288, 96, 0.70), (20_480, 128, 0.65)],
    ids=["GPT-3", "MT-NLG"],
)
def test_selective_recomputation_saves_what_was_published(hidden: int, heads: int, saved: float) -> None:
    one, two = standard(1, hidden, heads), standard(2, hidden, heads)
    kept = per_layer(one, two, 1, 2048, Recomputation.SELECTIVE) / per_layer(one, two, 1, 2048)
    assert 1 - kept == pytest.approx(saved, abs=0.005)


def test_a_gated_layer_with_grouped_queries_keeps_its_own_widths() -> None:
    # Llama-3.1-8B over 8,192 tokens: 10 h for norms, inputs and masks; queries and outputs 4,096 wide, keys and values
    # 1,024; gate, up and product 14,336 wide.
    one, two = (architecture(published.LLAMA_3_1_8B, num_hidden_layers=layers) for layers in (1, 2))
    linear = 10 * 4096 + 2 * (2 * 4096 + 2 * 1024) + 2 * 3 * 14_336
    assert per_layer(one, two, 1, 8192, Recomputation.SELECTIVE) == 8192 * linear
    assert per_layer(one, two, 1, 8192) == 8192 * (linear + 5 * 32 * 8192)


def test_a_mixture_keeps_the_copies_of_its_tokens() -> None:
    # Mixtral: 2 of 8 experts 14,336 wide; every copy comes in and goes out 4,096 wide; 8 fp32 router scores.
    one, two = (architecture(published.MIXTRAL_8X7B, num_hidden_layers=layers) for layers in (1, 2))
    attention = 4 * 4096 + 3 * 4096 + 2 * (2 * 4096 + 2 * 1024)
    experts = 2 * 4096 + 2 * 2 * (2 * 4096 + 3 * 14_336) + 4 * 8 + 4096
    assert per_layer(one, two, 2, 1000, Recomputation.SELECTIVE) == 2 * 1000 * (attention + experts)


def test_activations_in_fp32_take_twice_the_bytes_but_for_masks_and_logits() -> None:
    one, two = standard(1, 1024, 16), standard(2, 1024, 16)
    full = per_layer(one, two, 1, 512, Recomputation.NONE, TrainingPrecision.FULL)
    # Of 34 h two are masks, of 5 a s one is.
    assert full == 512 * ((32 * 2 + 2) * 1024 + (4 * 2 + 1) * 16 * 512)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (published.DEEPSEEK_V3, "LatentAttention"),
        (published.NEMOTRON_H_56B, "mixers"),
        (published.QWEN3_NEXT_80B, "GatedDeltaNet"),
        (published.GEMMA_3_27B, "vision"),
    ],
    ids=["DeepSeek-V3", "Nemotron-H", "Qwen3-Next", "Gemma-3-27B"],
)
def test_layers_of_another_kind_are_refused(config: Config, named: str) -> None:
    model = architecture(config)
    assert named in activation_refusal(model)
    with pytest.raises(UnsupportedModelError, match=named):
        activation_bytes(model, 1, 1024)
    assert parameter_memory(model).total_bytes > 0


def test_sizes_are_at_least_1() -> None:
    for batch, length in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            activation_bytes(standard(1, 64, 1), batch, length)


@given(name=st.sampled_from(sorted(published.ALL)), batch=st.integers(1, 64), length=st.integers(1, 20_000))
def test_more_is_never_less(name: str, batch: int, length: int) -> None:
    model = architecture(published.ALL[name])
    if activation_refusal(model) is not None:
        return
    for precision in TrainingPrecision:
        kept = [activation_bytes(model, batch, length, what, precision) for what in Recomputation]
        assert kept[0] > kept[1] > kept[2] > 0
        for what, size in zip(Recomputation, kept, strict=True):
            assert activation_bytes(model, batch, length + 1, what, precision) > size
            assert activation_bytes(model, batch + 1, length, what, precision) * batch == size * (batch + 1)
    assert activation_bytes(model, batch, length) < activation_bytes(
        model, batch, length, precision=TrainingPrecision.FULL
    )
