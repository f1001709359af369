"""GGUF files by type: against published bits per weight, published file sizes, and the rule written out."""

from __future__ import annotations

import pytest

from capplan.errors import UnsupportedPrecisionError
from capplan.hardware.arithmetic import ArithmeticMode, arithmetic_support
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import Component, ModelCosts, model_costs
from capplan.modeling.gguf import GGUF_FILE_TYPES
from capplan.modeling.precision import sizable_weight_precisions
from tests.hardware.devices import H100, TPU_V6E
from tests.modeling import published
from tests.modeling.published import BLOCK_FP8, Config


def stored(config: Config, file_type: str) -> ModelCosts:
    return model_costs(read_config(config, name="model"), file_type)


def bits_per_weight(costs: ModelCosts) -> float:
    return 8 * costs.weight_bytes / costs.total_parameters


# llama.cpp tools/quantize/README.md: bits per weight of whole files.
LLAMA_3_1_8B_BITS = {
    "q2_k": 3.159,
    "iq4_xs": 4.460,
    "q4_k_s": 4.667,
    "q4_k_m": 4.894,
    "q5_k_s": 5.570,
    "q5_k_m": 5.704,
    "q6_k": 6.563,
    "q8_0": 8.501,
}
LLAMA_2_7B_BITS = {
    "q3_k_s": 3.50,
    "q3_k_m": 3.91,
    "q3_k_l": 4.27,
    "q4_k_s": 4.58,
    "q4_k_m": 4.84,
    "q5_k_s": 5.52,
    "q5_k_m": 5.68,
    "q6_k": 6.56,
}


@pytest.mark.parametrize("file_type", LLAMA_3_1_8B_BITS)
def test_llama_3_1_8b_takes_the_published_bits_per_weight(file_type: str) -> None:
    assert round(bits_per_weight(stored(published.LLAMA_3_1_8B, file_type)), 3) == LLAMA_3_1_8B_BITS[file_type]


@pytest.mark.parametrize("file_type", LLAMA_2_7B_BITS)
def test_llama_2_7b_takes_the_published_bits_per_weight(file_type: str) -> None:
    assert round(bits_per_weight(stored(published.LLAMA_2_7B, file_type)), 2) == LLAMA_2_7B_BITS[file_type]


def test_qwen3_30b_a3b_is_its_published_file_without_the_tokeniser() -> None:
    # Qwen/Qwen3-30B-A3B-GGUF, Q4_K_M: 18,556,685,824 bytes, of which 151,936 tokens with their merges are some 6 MB.
    beside_tensors = 18_556_685_824 - stored(published.QWEN3_30B_A3B, "q4_k_m").weight_bytes
    assert 5_000_000 < beside_tensors < 7_000_000


def test_a_deep_model_with_grouped_queries_keeps_its_values_in_five_bits() -> None:
    # Llama-3.1-70B in q4_k_m by hand: of 80 layers, 0-9 and 70-79 and every third between (12, 15 ... 69) have six
    # bits in the down projection and the values; all other values have five, everything else four and a half.
    six_bits = 10 + 10 + 20
    value, down = 8192 * 1024, 28_672 * 8192
    layer = 2 * 8192 * 8192 + value + 2 * 8192 * 28_672  # query, output, key, gate and up
    table = 128_256 * 8192
    sixes = six_bits * (value + down) + table
    fives = (80 - six_bits) * value
    fours = 80 * layer + (80 - six_bits) * down + table
    norms = 161 * 8192
    expected = (sixes * 210 + fives * 176 + fours * 144) // 256 + 4 * norms
    assert stored(published.LLAMA_3_1_70B, "q4_k_m").weight_bytes == expected


def test_eight_experts_have_wide_keys_and_values() -> None:
    costs = stored(published.MIXTRAL_8X7B, "q4_k_s")
    wide = sum(g.parameters for g in costs.gemms if g.storage == "gguf_q8_0")
    assert wide == 32 * 2 * 4096 * 1024
    outputs_and_first_downs = sum(g.parameters for g in costs.gemms if g.storage == "gguf_q5_k")
    assert outputs_and_first_downs == 32 * 4096 * 4096 + 4 * 8 * 14_336 * 4096
    (router,) = [g for g in costs.gemms if g.component is Component.ROUTER]
    assert (router.storage, router.stored_bytes) == ("fp32", 32 * 4 * 8 * 4096)


def test_a_tied_table_is_stored_once_as_a_head() -> None:
    costs = stored(published.LLAMA_3_2_1B, "q4_0")
    assert not [g for g in costs.gemms if g.component is Component.EMBEDDING]
    (head,) = [g for g in costs.gemms if g.component is Component.LM_HEAD]
    assert (head.storage, head.stored_bytes) == ("gguf_q6_k", 128_256 * 2048 // 256 * 210)


def test_rows_that_are_no_whole_blocks_fall_back() -> None:
    # 896 = 3.5 blocks of 256 (Qwen2.5-0.5B): q4_k falls back to q5_0, q6_k to q8_0; a head to q8_0. 4,864 is 19 blocks.
    config = published.decoder("qwen2", 24, 896, 4864, 14, 2, 151936, tie_word_embeddings=True)
    by_storage = {g.storage: 0 for g in stored(config, "q4_k_m").gemms}
    assert set(by_storage) == {"gguf_q5_0", "gguf_q8_0", "gguf_q6_k", "gguf_q4_k"}
    # 1,000 is no multiple of 32 either: 16 bit.
    ragged = published.decoder("llama", 2, 1000, 2048, 8, 8, 32000, head_dim=128)
    (head,) = [g for g in stored(ragged, "q8_0").gemms if g.component is Component.LM_HEAD]
    assert head.storage == "fp16"


def test_activations_and_cache_stay_in_16_bit_and_the_file_is_named() -> None:
    costs = stored(published.LLAMA_3_1_8B, "q4_k_m")
    assert (costs.kv_precision, costs.activation_element_bytes) == ("bf16", 2)
    assert any("q4_k_m" in sentence and "llama.cpp" in sentence for sentence in costs.assumptions)


def test_a_vision_tower_is_a_file_of_its_own_in_16_bit() -> None:
    (tower,) = [g for g in stored(published.GEMMA_3_27B, "q4_0").gemms if g.component is Component.MULTIMODAL_ENCODER]
    assert tower.stored_bytes == 2 * tower.parameters


@pytest.mark.parametrize("file_type", GGUF_FILE_TYPES)
def test_every_type_shrinks_a_model_and_says_so_in_what_it_accepts(file_type: str) -> None:
    architecture = read_config(published.LLAMA_3_1_8B)
    assert file_type in sizable_weight_precisions(architecture)
    assert 0.15 < model_costs(architecture, file_type).weight_bytes / (2 * 8_030_261_248) < 0.54


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (published.DEEPSEEK_V3, "known for the model types .*llama.* not deepseek_v3"),
        (published.PHI_4, "not phi3"),
        (published.QWEN3_32B | {"quantization_config": BLOCK_FP8}, "is not a format the fp8 checkpoint"),
    ],
)
def test_models_whose_file_is_not_known_are_refused(config: Config, why: str) -> None:
    with pytest.raises(UnsupportedPrecisionError, match=rf"precision\.weights.*q4_k_m.*{why}"):
        stored(config, "q4_k_m")


def test_blocks_are_widened_to_16_bit_in_the_kernel_or_not_served() -> None:
    storages = {g.storage for t in GGUF_FILE_TYPES for g in stored(published.LLAMA_3_1_8B, t).gemms}
    assert len(storages) >= 9
    for storage in storages:
        assert arithmetic_support(H100, storage).mode is ArithmeticMode.WEIGHT_ONLY
        assert not arithmetic_support(TPU_V6E, storage).supported
