"""Which splits start: tensor, pipeline and expert parallelism, against reported failures and brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.parallelism import ParallelismFaultCode, parallelism_faults, pipeline_balance
from capplan.modeling.precision import native_precision
from capplan.modeling.sharding import (
    ShardingFaultCode,
    cache_bytes_per_token_per_rank,
    tensor_parallel_faults,
    weight_bytes_per_rank,
)
from tests.modeling import published
from tests.modeling.published import BLOCK_FP8, Config

AWQ: Config = {"quant_method": "awq", "bits": 4, "group_size": 128}
SMOLLM2_135M = published.decoder("llama", 30, 576, 1536, 9, 3, 49152, tie_word_embeddings=True)
QWEN2_5_0_5B = published.decoder("qwen2", 24, 896, 4864, 14, 2, 151936, tie_word_embeddings=True)


def costs_of(config: Config, weights: str | None = None) -> ModelCosts:
    architecture = read_config(config, name="model")
    return model_costs(architecture, weights or native_precision(architecture))


def codes(costs: ModelCosts, *sizes: int, **more: int) -> set[str]:
    return {fault.code.value for fault in parallelism_faults(costs, *sizes, **more)}


def legal(costs: ModelCosts, sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 8, 9, 10, 16)) -> list[int]:
    return [size for size in sizes if not parallelism_faults(costs, size)]


def test_case_1_a_latent_is_copied_onto_every_rank_and_forbids_no_degree() -> None:
    # DeepSeek-V3 on 8 ranks: 70,272 bytes a token on every GPU (SGLang pull request 1970).
    costs = costs_of(published.DEEPSEEK_V3)
    assert legal(costs) == [1, 2, 4, 8, 16]
    assert cache_bytes_per_token_per_rank(costs, 8) == 70_272


def test_case_2_more_ranks_than_key_value_heads_copy_them() -> None:
    # Qwen3-235B has 4: on 8 ranks each holds one, the double of the whole.
    costs = costs_of(published.QWEN3_235B_A22B)
    assert parallelism_faults(costs, 8) == ()
    assert 8 * cache_bytes_per_token_per_rank(costs, 8) == 2 * 192_512


def test_case_3_ten_key_value_heads_run_on_1_2_5_and_10_ranks() -> None:
    costs = costs_of(published.PHI_4)
    assert legal(costs) == [1, 2, 5, 10]
    assert codes(costs, 4) == codes(costs, 8) == {ShardingFaultCode.KV_HEADS_NOT_DIVISIBLE}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # 28 heads over 4 key/value heads: 7 ranks divide the heads, but vLLM asserts that one of 4 and 7 divides the
        # other (QKVParallelLinear), so 7 is out.
        (published.QWEN2_5_7B, [1, 2, 4]),
        (QWEN2_5_0_5B, [1, 2]),  # 14 heads, 2 key/value heads: 7 do not fit either
        (SMOLLM2_135M, [1, 3]),  # 9 heads, 3 key/value heads; 9 ranks do not divide a width of 1,536
        (published.WHISPER_LARGE_V3, [1, 2, 4, 5, 10]),  # 20 heads
    ],
    ids=["Qwen2.5-7B", "Qwen2.5-0.5B", "SmolLM2-135M", "Whisper-large-v3"],
)
def test_case_4_ranks_divide_the_heads(config: Config, expected: list[int]) -> None:
    assert legal(costs_of(config)) == expected


@pytest.mark.parametrize(
    ("config", "ranks"),
    [
        (published.QWEN3_235B_A22B, 8),  # 1,536 / 8 = 192 (vLLM pull request 39046)
        (published.MINIMAX_M2, 8),
        (published.QWEN3_30B_A3B, 4),  # 768 / 4 = 192
    ],
    ids=["Qwen3-235B", "MiniMax-M2", "Qwen3-30B"],
)
def test_case_5_expert_parallelism_lifts_the_block_rule_of_experts(config: Config, ranks: int) -> None:
    costs = costs_of(config | {"quantization_config": BLOCK_FP8})
    assert codes(costs, ranks) == {ShardingFaultCode.FP8_BLOCK_WIDTH}
    assert parallelism_faults(costs, ranks, expert_parallel=ranks) == ()
    # Half of it divides each expert over two ranks only: 768 and 384 are multiples of 128.
    assert parallelism_faults(costs, ranks, expert_parallel=ranks // 2) == ()


def test_case_5_but_not_that_of_dense_layers() -> None:
    # 18,432 over 32 ranks are 576 (SGLang issue 3345), with or without expert parallelism.
    costs = costs_of(published.DEEPSEEK_V3 | {"quantization_config": BLOCK_FP8})
    for expert_parallel in (1, 32):
        found = parallelism_faults(costs, 32, expert_parallel=expert_parallel)
        assert ShardingFaultCode.FP8_BLOCK_WIDTH in {fault.code for fault in found}
    # Nor of the shared expert, 2,048 over 32 ranks; the routed ones are whole again.
    named = {fault.sentence.partition(":")[0] for fault in parallelism_faults(costs, 32, expert_parallel=32)}
    assert "mlp.down_proj" in named
    assert "mlp.shared_experts.down_proj" in named
    assert not any(name.startswith("mlp.experts.") for name in named)


def test_case_6_int4_groups_are_not_split() -> None:
    # 29,568 / 128 = 231 groups: one rank. Padded to 29,696 they are 232.
    costs = costs_of(published.QWEN2_5_72B | {"quantization_config": AWQ})
    assert legal(costs, (1, 2, 4, 8)) == [1]
    assert ShardingFaultCode.INT4_GROUP_WIDTH in codes(costs, 2)
    padded = costs_of(published.QWEN2_5_72B | {"intermediate_size": 29_696, "quantization_config": AWQ})
    assert legal(padded, (1, 2, 4, 8)) == [1, 2, 4, 8]


def test_case_7_an_odd_vocabulary_is_padded_and_forbids_no_degree() -> None:
    # Granite: 49,159 rows are padded to 49,216 = 64 * 769, an odd number of 64s, and still split over 2, 4 and 8 ranks.
    config = published.decoder("granite", 1, 4096, 12800, 32, 8, 49159, tie_word_embeddings=True)
    costs = costs_of(config, "bf16")
    assert legal(costs, (1, 2, 4, 8)) == [1, 2, 4, 8]
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12_800
    assert weight_bytes_per_rank(costs, 8) == 2 * (layer / 8 + 49_216 // 8 * 4096 + 3 * 4096)


def test_a_pipeline_has_no_more_stages_than_layers() -> None:
    costs = costs_of(published.LLAMA_3_1_8B)
    assert parallelism_faults(costs, 1, 32) == ()
    (fault,) = parallelism_faults(costs, 1, 33)
    assert fault.code is ParallelismFaultCode.MORE_STAGES_THAN_LAYERS
    assert fault.sentence == "32 layers cannot fill 33 pipeline stages"


def test_the_last_stage_gets_no_layer_of_the_remainder() -> None:
    # 61 = 4 * 15 + 1: vLLM gives the one left over to the stage before the last.
    balance = pipeline_balance(61, 4)
    assert balance.stage_layers == (15, 15, 16, 15)
    assert balance.largest_stage_share == 16 / 61
    assert pipeline_balance(80, 8).largest_stage_share == 1 / 8
    for layers, stages in ((4, 5), (4, 0), (0, 1)):
        with pytest.raises(ValueError, match="cannot fill"):
            pipeline_balance(layers, stages)


@given(layers=st.integers(1, 200), data=st.data())
def test_stages_are_those_of_the_engines_own_loop(layers: int, data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, layers))
    expected = [layers // stages] * stages
    for number in range(2, layers % stages + 2):
        expected[-number] += 1
    balance = pipeline_balance(layers, stages)
    assert list(balance.stage_layers) == expected
    assert sum(balance.stage_layers) == layers
    assert balance.largest_stage_share == max(expected) / layers


def test_expert_parallelism_needs_experts() -> None:
    (fault,) = parallelism_faults(costs_of(published.LLAMA_3_1_8B), 4, expert_parallel=4)
    assert fault.code is ParallelismFaultCode.NO_ROUTED_EXPERTS


def test_experts_are_dealt_out_evenly() -> None:
    # Mixtral has 8.
    costs = costs_of(published.MIXTRAL_8X7B)
    assert parallelism_faults(costs, 8, expert_parallel=8) == ()
    assert codes(costs, 16, expert_parallel=16) >= {ParallelismFaultCode.EXPERTS_NOT_DIVISIBLE}


def test_the_expert_parallel_size_divides_the_ranks_that_hold_experts() -> None:
    costs = costs_of(published.MIXTRAL_8X7B)
    assert codes(costs, 2, expert_parallel=4) == {ParallelismFaultCode.EXPERT_PARALLEL_SIZE}
    # Attention in two copies doubles those ranks: EP = TP x DP, as vLLM sets it.
    assert parallelism_faults(costs, 2, expert_parallel=4, data_parallel=2) == ()
    assert parallelism_faults(costs, 1, expert_parallel=8, data_parallel=8) == ()


def test_without_expert_parallelism_copies_of_attention_share_the_experts_width() -> None:
    # 768 wide experts in fp8 blocks of 128: 6 blocks over 1 x 4 ranks do not divide, as over 4 x 1.
    costs = costs_of(published.QWEN3_30B_A3B | {"quantization_config": BLOCK_FP8})
    assert codes(costs, 1, data_parallel=4) == {ShardingFaultCode.FP8_BLOCK_WIDTH}
    assert parallelism_faults(costs, 1, data_parallel=2) == ()


@pytest.mark.parametrize("name", ["tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel"])
def test_sizes_are_at_least_1(name: str) -> None:
    sizes = {"tensor_parallel": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        parallelism_faults(costs_of(published.LLAMA_3_1_8B), **sizes)


@given(name=st.sampled_from(sorted(published.ALL)), ranks=st.integers(1, 64))
def test_tensor_parallelism_alone_is_judged_as_ever(name: str, ranks: int) -> None:
    costs = costs_of(published.ALL[name])
    expected = {(fault.code, fault.sentence) for fault in tensor_parallel_faults(costs, ranks)}
    assert {(fault.code, fault.sentence) for fault in parallelism_faults(costs, ranks)} == expected


@given(
    heads=st.integers(1, 32),
    group=st.integers(1, 8),
    width=st.integers(1, 400),
    ranks=st.integers(1, 16),
)
def test_dense_legality_is_divisibility(heads: int, group: int, width: int, ranks: int) -> None:
    config = published.decoder("llama", 2, 256, width, heads * group, heads, 1000, head_dim=32)
    divides = heads * group % ranks == 0 and (heads % ranks == 0 or ranks % heads == 0) and width % ranks == 0
    assert (parallelism_faults(costs_of(config, "bf16"), ranks) == ()) is divides


@given(
    experts=st.integers(2, 24),
    width=st.integers(1, 24),
    tensor=st.sampled_from([1, 2, 4]),
    data=st.integers(1, 4),
    groups=st.integers(1, 16),
)
def test_expert_legality_is_divisibility(experts: int, width: int, tensor: int, data: int, groups: int) -> None:
    config = published.decoder(
        "mixtral", 2, 256, width * 4, 8, 4, 1000, num_local_experts=experts, num_experts_per_tok=1
    )
    ranks = tensor * data
    if groups == 1:
        divides = width * 4 % ranks == 0
    else:
        divides = experts % groups == 0 and ranks % groups == 0 and width * 4 % (ranks // groups) == 0
    found = parallelism_faults(costs_of(config, "bf16"), tensor, expert_parallel=groups, data_parallel=data)
    assert (found == ()) is divides
