"""Parameter counts against published ones.

Unless a line says otherwise, a figure is the published safetensors total (hub), or what the transformers library 5.24
counts on the meta device.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.config_reader import read_config
from capplan.modeling.linear import Component
from capplan.modeling.parameters import (
    active_parameters,
    buffer_parameters,
    multi_token_prediction_parameters,
    parameter_groups,
    total_parameters,
)
from tests.modeling import published

TOTALS = {
    "LLAMA_3_1_8B": 8_030_261_248,
    "LLAMA_3_1_70B": 70_553_706_496,
    "LLAMA_3_1_405B": 405_853_388_800,
    "LLAMA_3_2_1B": 1_235_814_400,  # tied: the head counts once, not 1,498,482,688
    "LLAMA_2_7B": 6_738_415_616,
    "QWEN2_5_7B": 7_615_616_512,
    "QWEN2_5_72B": 72_706_203_648,
    "QWEN3_32B": 32_762_123_264,
    "QWEN3_30B_A3B": 30_532_122_624,
    "QWEN3_235B_A22B": 235_093_634_560,
    "MIXTRAL_8X7B": 46_702_792_704,
    "PHI_4": 14_659_507_200,
    "MISTRAL_7B_V0_1": 7_241_732_096,
    "DEEPSEEK_V3": 671_026_404_352,
    "DEEPSEEK_V3_2": 671_877_929_216,
    "DEEPSEEK_V2_LITE": 15_706_484_224,
    "KIMI_K2": 1_026_408_209_408,
    "GLM_4_5_AIR": 106_852_245_504,
    "GLM_4_5": 352_797_814_784,
    "GLM_5_2": 743_377_000_704,
    "GPT_OSS_20B": 20_914_757_184,
    "GPT_OSS_120B": 116_829_156_672,
    "MINIMAX_M2": 228_689_748_992,
    "DBRX": 131_596_523_520,
    "LLAMA_4_SCOUT": 108_641_793_536,
    "LLAMA_4_MAVERICK": 401_583_781_376,
    "GEMMA_3_27B": 27_432_406_640,
    "QWEN3_NEXT_80B": 79_674_391_296,
    "NEMOTRON_H_56B": 56_324_350_464,
    "MINIMAX_TEXT_01": 456_089_655_296,
    "JAMBA_1_5_MINI": 51_570_323_328,
    "JAMBA_1_5_LARGE": 398_555_145_696,
    "GRANITE_4_H_SMALL": 32_207_337_984,
    "DEEPSEEK_V4_FLASH": 284_332_230_231,
    # Index total less rotary frequencies (64 a layer) stored as tensors.
    "PHI_3_SMALL": 7_392_274_432 - 32 * 64,
    # Index total less score-correction biases of 92 routers.
    "KIMI_K3": 2_779_931_837_184 - 92 * 896,
    "WHISPER_LARGE_V3": 1_543_490_560,
    "BERT_LARGE": 335_141_888,
}

ACTIVE = {
    "QWEN3_30B_A3B": 3_353_032_704,
    "QWEN3_235B_A22B": 22_190_763_520,
    "MIXTRAL_8X7B": 12_879_925_248,
    "DEEPSEEK_V3": 37_552_282_624,
    "DEEPSEEK_V2_LITE": 2_661_150_208,
    "KIMI_K2": 32_861_477_888,
    "GLM_4_5_AIR": 13_424_123_904,
    "GPT_OSS_20B": 4_187_440_704,
    "GPT_OSS_120B": 5_711_982_912,
    "DBRX": 36_469_708_800,
    "MINIMAX_M2": 11_030_537_216,
    "LLAMA_4_SCOUT": 18_044_827_136,
    "LLAMA_4_MAVERICK": 18_056_623_616,
    "QWEN3_NEXT_80B": 3_874_929_408,
    "JAMBA_1_5_MINI": 12_110_311_296,
    "DEEPSEEK_V4_FLASH": 13_799_622_231,
}

# Hub total less parameters and buffers: DeepSeek-R1 684,489,845,504; GLM-4.5-Air 110,468,824,832; DeepSeek-V3.2
# 685,355,329,792. The drafting layer's own router buffer (one an expert) is in the hub total too.
DRAFTING = {
    "DEEPSEEK_V3": 684_489_845_504 - 671_026_404_352 - 14_848 - 256,
    "DEEPSEEK_V3_2": 685_355_329_792 - 671_877_929_216 - 14_848 - 256,
    "GLM_4_5_AIR": 110_468_824_832 - 106_852_245_504 - 45 * 128 - 128,
}


def model(name: str) -> ModelArchitecture:
    return read_config(published.ALL[name], name=name)


def test_every_retyped_config_has_an_anchor() -> None:
    assert set(TOTALS) == set(published.ALL)


@pytest.mark.parametrize("name", TOTALS)
def test_total_is_the_published_one(name: str) -> None:
    assert total_parameters(model(name)) == TOTALS[name]


@pytest.mark.parametrize("name", ACTIVE)
def test_active_is_the_total_without_experts_not_visited(name: str) -> None:
    assert active_parameters(model(name)) == ACTIVE[name]


@pytest.mark.parametrize("name", sorted(set(TOTALS) - set(ACTIVE)))
def test_groups_sum_to_the_total_and_name_every_component(name: str) -> None:
    groups = parameter_groups(model(name))
    assert set(groups) == set(Component)
    assert sum(groups.values()) == TOTALS[name]
    assert active_parameters(model(name)) <= TOTALS[name]


def test_router_score_corrections_are_buffers_not_parameters() -> None:
    assert buffer_parameters(model("DEEPSEEK_V3")) == 58 * 256  # DeepSeek-V3: 14,848
    assert buffer_parameters(model("DEEPSEEK_V2_LITE")) == 0


@pytest.mark.parametrize("name", DRAFTING)
def test_drafting_layers_are_counted_apart(name: str) -> None:
    assert multi_token_prediction_parameters(model(name)) == DRAFTING[name]


def test_a_tied_head_is_part_of_the_embedding() -> None:
    groups = parameter_groups(model("LLAMA_3_2_1B"))
    assert groups[Component.EMBEDDING] == 128_256 * 2_048
    assert groups[Component.LM_HEAD] == 0


def test_groups_of_deepseek_v3() -> None:
    groups = parameter_groups(model("DEEPSEEK_V3"))
    assert groups[Component.EMBEDDING] == groups[Component.LM_HEAD] == 926_679_040
    assert groups[Component.ROUTED_EXPERT] == 653_908_770_816 == 58 * 256 * 3 * 7_168 * 2_048
    assert groups[Component.SHARED_EXPERT] == 58 * 3 * 7_168 * 2_048
    assert groups[Component.DENSE_FFN] == 3 * 3 * 7_168 * 18_432


def test_vision_towers_are_counted() -> None:
    # Vision parameters by transformers: Llama 4 Scout 850,960,896 without its projector (4,096 x 5,120).
    assert parameter_groups(model("LLAMA_4_SCOUT"))[Component.MULTIMODAL_ENCODER] == 850_960_896 + 4_096 * 5_120


def test_pooling_and_reward_checkpoints_have_no_language_model_head() -> None:
    # intfloat/e5-mistral-7b-instruct: 7,110,660,096; Skywork reward model: 7,504,928,768 (one label).
    pooling = published.MISTRAL_7B_V0_1 | {"architectures": ["MistralModel"]}
    assert total_parameters(read_config(pooling)) == 7_110_660_096
    reward = published.LLAMA_3_1_8B | {
        "architectures": ["LlamaForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
    }
    assert total_parameters(read_config(reward)) == 7_504_928_768


def test_searched_blocks_may_lack_attention_or_differ_in_width() -> None:
    # Llama-3.3-Nemotron-Super-49B: two kinds of its blocks. Width 2/3 of the multiple, rounded up to 256.
    entry = {"attention": {"no_op": False, "n_heads_in_group": 8}, "ffn": {"no_op": False, "ffn_mult": 5.25}}
    bare = {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"no_op": False, "ffn_mult": 0.5}}
    config = {
        "model_type": "nemotron-nas",
        "num_hidden_layers": 2,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "block_configs": [entry, bare],
    }
    full = 8192 * (8192 + 2 * 1024 + 8192) + 3 * 8192 * 28_672 + 2 * 8192
    # 2 * 0.5 * 8192 / 3 = 2730.67, up to a multiple of 256: 2816.
    narrow = 3 * 8192 * 2_816 + 8192
    assert total_parameters(read_config(config)) == full + narrow + 2 * 128_256 * 8192 + 8192


@given(layers=st.integers(1, 200), heads=st.integers(1, 64), groups=st.integers(1, 8), ffn=st.integers(1, 50_000))
def test_a_llama_counts_as_written_out(layers: int, heads: int, groups: int, ffn: int) -> None:
    query_heads, head_dim, hidden, vocabulary = heads * groups, 64, 1024, 32_000
    config = published.decoder("llama", layers, hidden, ffn, query_heads, heads, vocabulary, head_dim=head_dim)
    attention = 2 * hidden * query_heads * head_dim + 2 * hidden * heads * head_dim
    layer = attention + 3 * hidden * ffn + 2 * hidden
    assert total_parameters(read_config(config)) == layers * layer + 2 * vocabulary * hidden + hidden
