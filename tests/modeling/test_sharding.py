"""Which tensor-parallel degrees start, and what a rank holds then, against engines' reported failures and logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.precision import native_precision
from capplan.modeling.sharding import (
    ShardingFaultCode,
    cache_bytes_per_token_per_rank,
    state_bytes_per_rank,
    tensor_parallel_faults,
    weight_bytes_per_rank,
)
from tests.modeling import published
from tests.modeling.published import BLOCK_FP8, Config


def costs_of(config: Config, weights: str | None = None) -> ModelCosts:
    architecture = read_config(config, name="model")
    return model_costs(architecture, weights or native_precision(architecture))


def legal(costs: ModelCosts, candidates: range | tuple[int, ...] = range(1, 17)) -> list[int]:
    return [ranks for ranks in candidates if not tensor_parallel_faults(costs, ranks)]


def codes(costs: ModelCosts, ranks: int) -> set[ShardingFaultCode]:
    return {fault.code for fault in tensor_parallel_faults(costs, ranks)}


def test_phi_4_with_ten_key_value_heads_runs_on_1_2_5_or_10_ranks() -> None:
    # Ranks 4 and 8 are reported to fail.
    costs = costs_of(published.PHI_4)
    assert legal(costs, (1, 2, 4, 5, 8, 10)) == [1, 2, 5, 10]
    assert codes(costs, 4) == {ShardingFaultCode.KV_HEADS_NOT_DIVISIBLE}


def test_qwen2_5_7b_has_28_heads() -> None:
    # vLLM issue 11797: 28 heads run on 1, 2, 4 or 7 ranks. 7 ranks leave 4 key/value heads uneven.
    costs = costs_of(published.QWEN2_5_7B)
    assert ShardingFaultCode.HEADS_NOT_DIVISIBLE in codes(costs, 8)
    assert legal(costs, (1, 2, 4, 8)) == [1, 2, 4]


@pytest.mark.parametrize(
    ("config", "fails", "runs"),
    [
        # Experts 1,536 wide over 8 ranks are 192 (vLLM pull request 39046); 768 over 4 are 192 (issue 25292).
        (published.QWEN3_235B_A22B, 8, (1, 2, 4)),
        (published.MINIMAX_M2, 8, (1, 2, 4)),
        (published.QWEN3_30B_A3B, 4, (1, 2)),
        # 18,432 over 32 ranks are 576 (SGLang issue 3345).
        (published.DEEPSEEK_V3, 32, (1, 2, 4, 8, 16)),
    ],
)
def test_block_fp8_shares_are_multiples_of_128(config: Config, fails: int, runs: tuple[int, ...]) -> None:
    costs = costs_of(config | {"quantization_config": BLOCK_FP8})
    assert ShardingFaultCode.FP8_BLOCK_WIDTH in codes(costs, fails)
    assert legal(costs, runs) == list(runs)
    # In 16 bit the same split is fine.
    assert tensor_parallel_faults(costs_of(config, "bf16"), fails) == ()


def test_int4_groups_are_not_split() -> None:
    # Qwen2-72B: 29,568 / 128 = 231 groups, one rank only; the official int4 files pad to 29,696 = 232 groups.
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    costs = costs_of(published.QWEN2_5_72B | {"quantization_config": awq})
    assert legal(costs, (1, 2, 4, 8)) == [1]
    assert ShardingFaultCode.INT4_GROUP_WIDTH in codes(costs, 2)
    padded = costs_of(published.QWEN2_5_72B | {"intermediate_size": 29_696, "quantization_config": awq})
    assert legal(padded, (1, 2, 4, 8)) == [1, 2, 4, 8]


@pytest.mark.parametrize("config", [published.GPT_OSS_20B, published.GPT_OSS_120B])
def test_mxfp4_experts_run_on_ranks_that_do_not_divide_their_groups_of_32(config: Config) -> None:
    # 2,880 over 4 and 8 ranks are 720 and 360; vLLM's and SGLang's kernels pad them (gpt-oss is served so, TP 4 and 8).
    assert legal(costs_of(config), (1, 2, 4, 8)) == [1, 2, 4, 8]
    # A width that does not divide at all is still none: 2,880 = 2**6 * 45.
    assert ShardingFaultCode.EXPERT_WIDTH_NOT_DIVISIBLE in codes(costs_of(config), 128)


def test_mxfp4_dense_layers_keep_their_groups_whole() -> None:
    block = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}
    quantization = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": block}},
    }
    config = published.LLAMA_3_1_8B | {"intermediate_size": 32 * 450, "quantization_config": quantization}
    assert legal(costs_of(config), (1, 2, 4)) == [1, 2]
    assert codes(costs_of(config), 4) == {ShardingFaultCode.SCALE_GROUP_WIDTH}


def test_whisper_is_told_of_its_cross_attention_and_of_nothing_recurrent() -> None:
    faults = tensor_parallel_faults(costs_of(published.WHISPER_LARGE_V3), 8)
    sentences = [fault.sentence for fault in faults]
    assert "20 cross-attention heads do not divide over 8 ranks" in sentences
    assert not any("recurrent" in sentence for sentence in sentences)


def test_whisper_large_has_20_heads() -> None:
    costs = costs_of(published.WHISPER_LARGE_V3)
    assert ShardingFaultCode.HEADS_NOT_DIVISIBLE in codes(costs, 8)
    assert legal(costs, (1, 2, 4, 8)) == [1, 2, 4]


def test_falcon_7b_has_71_heads_and_runs_on_one_rank() -> None:
    # One key/value head could be copied; 71 query heads do not divide.
    config = {
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "vocab_size": 65024,
        "multi_query": True,
        "parallel_attn": True,
        "bias": False,
    }
    assert legal(costs_of(config), range(1, 65)) == [1]


def test_latents_are_copied_onto_every_rank() -> None:
    # DeepSeek-V3 on 8 ranks: 70,272 bytes a token on each of them (SGLang pull request 1970).
    costs = costs_of(published.DEEPSEEK_V3)
    assert [cache_bytes_per_token_per_rank(costs, ranks) for ranks in (1, 8, 16)] == [70_272] * 3


def test_key_value_heads_are_copied_once_they_are_fewer_than_ranks() -> None:
    # Qwen3-235B, 4 key/value heads: 8 ranks together cache twice as much.
    costs = costs_of(published.QWEN3_235B_A22B)
    assert cache_bytes_per_token_per_rank(costs, 4) == 192_512 / 4
    assert 8 * cache_bytes_per_token_per_rank(costs, 8) == 2 * 192_512


def test_a_rank_holds_its_share_of_a_dense_model() -> None:
    # Llama-3.1-70B: everything but 161 norms of 8,192 divides; 8 ranks equal 8 key/value heads.
    costs = costs_of(published.LLAMA_3_1_70B, "bf16")
    norms = 161 * 8_192
    assert weight_bytes_per_rank(costs, 8) == 2 * ((70_553_706_496 - norms) / 8 + norms)
    # On 16 ranks the key and value projections are copied.
    key_value = 80 * 2 * 8_192 * 1_024
    divided = 70_553_706_496 - norms - key_value
    assert weight_bytes_per_rank(costs, 16) == pytest.approx(2 * (divided / 16 + key_value / 8 + norms))


def test_the_vocabulary_is_padded_to_64_rows_before_the_split() -> None:
    # Granite: 49,159 rows become 49,216; 24,608 on each of two ranks.
    config = published.decoder("granite", 1, 4096, 12800, 32, 8, 49159, tie_word_embeddings=True)
    costs = costs_of(config, "bf16")
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12_800
    expected = 2 * (layer / 2 + 24_608 * 4096 + 3 * 4096)
    assert weight_bytes_per_rank(costs, 2) == expected


def test_recurrent_state_splits_by_heads() -> None:
    costs = costs_of(published.NEMOTRON_H_56B)
    assert state_bytes_per_rank(costs, 8) == 912_605_184 / 8


def test_one_rank_is_always_legal_and_zero_never() -> None:
    for config in published.ALL.values():
        assert tensor_parallel_faults(costs_of(config), 1) == ()
    with pytest.raises(ValueError, match="at least 1"):
        tensor_parallel_faults(costs_of(published.LLAMA_3_1_8B), 0)


@given(name=st.sampled_from(sorted(published.ALL)), ranks=st.integers(1, 64))
def test_ranks_together_hold_at_least_the_model(name: str, ranks: int) -> None:
    costs = costs_of(published.ALL[name])
    assert weight_bytes_per_rank(costs, 1) == costs.weight_bytes
    share = weight_bytes_per_rank(costs, ranks)
    assert costs.weight_bytes / ranks <= share * (1 + 1e-12)
    assert share <= costs.weight_bytes * (1 + 1e-12) + 64 * ranks * costs.hidden_size * 4
    assert cache_bytes_per_token_per_rank(costs, ranks) * ranks >= costs.cache_bytes_per_token * (1 - 1e-12)
    for fault in tensor_parallel_faults(costs, ranks):
        assert fault.sentence
