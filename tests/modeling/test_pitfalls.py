"""Where sizing models usually goes wrong, one claim each, with the published value.

Legal splits and cached heads are in test_parallelism, quantised files in test_precision, state in test_cache, paging in
the estimator's tests. Figures are published safetensors totals ("hub"), or counts by the transformers library 5.24 on
the meta device, unless a line says otherwise.
"""

from __future__ import annotations

import pytest

from capplan.errors import InvalidInputError
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.attention import SoftmaxAttention
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.facts import architecture_from_facts
from capplan.modeling.feed_forward import DenseFeedForward, MixtureOfExperts
from capplan.modeling.linear import Component
from capplan.modeling.parameters import (
    active_parameters,
    buffer_parameters,
    multi_token_prediction_parameters,
    parameter_groups,
    total_parameters,
)
from capplan.modeling.precision import native_precision
from capplan.modeling.recurrent import KimiDeltaAttention
from capplan.modeling.sharding import cache_bytes_per_token_per_rank, state_bytes_per_rank
from capplan.modeling.state_space import Mamba2
from tests.modeling import published
from tests.modeling.published import Config, decoder
from tests.modeling.report_counts import shipped_profiles

PROFILES = {profile["name"]: profile for profile in shipped_profiles()}


def shipped(name: str) -> ModelArchitecture:
    return architecture_from_facts(PROFILES[name]["facts"])


def costs_of(architecture: ModelArchitecture) -> ModelCosts:
    return model_costs(architecture, native_precision(architecture))


def counts(architecture: ModelArchitecture) -> tuple[int, float]:
    return total_parameters(architecture), costs_of(architecture).cache_bytes_per_token


QWEN3_0_6B = decoder("qwen3", 28, 1024, 3072, 16, 8, 151936, head_dim=128, tie_word_embeddings=True)
QWEN3_1_7B = QWEN3_0_6B | {"hidden_size": 2048, "intermediate_size": 6144}
GEMMA_7B = decoder("gemma", 28, 3072, 24576, 16, 16, 256000, head_dim=256, tie_word_embeddings=True)
MISTRAL_NEMO = decoder("mistral", 40, 5120, 14336, 32, 8, 131072, head_dim=128, sliding_window=None)
MIXTRAL_8X22B = decoder("mixtral", 56, 6144, 16384, 48, 8, 32000, num_local_experts=8, num_experts_per_tok=2)
COMMAND_R = decoder("cohere", 40, 8192, 22528, 64, 64, 256000, tie_word_embeddings=True, use_qk_norm=False)


@pytest.mark.parametrize(
    ("config", "parameters", "cache"),
    [
        (published.QWEN3_32B, 32_762_123_264, 262_144),  # 128 wide, not 5,120 / 64 = 80
        (GEMMA_7B, 8_537_680_896, 458_752),  # 256, not 192
        (MISTRAL_NEMO, 12_247_782_400, 163_840),  # 128, not 160
        (published.GPT_OSS_20B, 20_914_757_184, 49_152),  # 64, not 45
    ],
)
def test_a_stated_head_width_goes_before_hidden_size_over_heads(config: Config, parameters: int, cache: int) -> None:
    assert counts(read_config(config)) == (parameters, cache)


def test_a_tied_head_counts_once_and_a_file_that_stores_both_counts_both() -> None:
    assert total_parameters(read_config(published.LLAMA_3_2_1B)) == 1_235_814_400
    both = read_config(published.LLAMA_3_2_1B | {"tie_word_embeddings": False})
    assert total_parameters(both) == 1_498_482_688  # an fp8 copy on the hub


@pytest.mark.parametrize(
    ("config", "parameters", "hub"),
    [(QWEN3_0_6B, 596_049_920, 751_632_384), (QWEN3_1_7B, 1_720_574_976, 2_031_739_904)],
)
def test_files_may_store_a_tied_head_as_well(config: Config, parameters: int, hub: int) -> None:
    found = total_parameters(read_config(config))
    assert found == parameters == hub - config["vocab_size"] * config["hidden_size"]


def test_buffers_stored_as_tensors_are_no_parameters() -> None:
    # bge-large-en holds 512 position ids, bge-reranker-large 514, Llama-2-7B 32 layers of 64 rotary frequencies.
    assert total_parameters(read_config(published.BERT_LARGE)) == 335_142_400 - 512
    assert total_parameters(shipped("BAAI/bge-reranker-large")) == 559_891_971 - 514
    assert total_parameters(read_config(published.LLAMA_2_7B)) == 6_738_417_664 - 32 * 64


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseek-ai/DeepSeek-V3", 13.46),
        ("zai-org/GLM-4.5", 5.54),
        ("zai-org/GLM-5", 9.95),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 2.94),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 11.2),
        ("Qwen/Qwen3.5-397B-A17B", 6.60),
    ],
)
def test_drafting_layers_in_the_file_are_no_part_of_the_total(name: str, billions: float) -> None:
    architecture = shipped(name)
    assert total_parameters(architecture) == PROFILES[name]["total_parameters"]
    digits = len(str(billions).partition(".")[2])
    assert round(multi_token_prediction_parameters(architecture) / 1e9, digits) == billions


def test_a_drafting_layer_no_key_tells_of_is_not_made_up() -> None:
    # Qwen3-Next ships one (1,650,471,424), and its config has no key for it.
    architecture = read_config(published.QWEN3_NEXT_80B)
    assert multi_token_prediction_parameters(architecture) == 0
    assert total_parameters(architecture) == 79_674_391_296


def test_a_sibling_with_the_same_config_has_the_same_total() -> None:
    # GLM-4.6's file lacks the drafting layer's copies of table and head; the model itself is 4.5's.
    assert total_parameters(shipped("zai-org/GLM-4.6")) == total_parameters(shipped("zai-org/GLM-4.5"))


@pytest.mark.parametrize(
    ("config", "dense", "width"),
    [
        (published.DEEPSEEK_V3, 3, 18_432),
        (published.DEEPSEEK_V2_LITE, 1, 10_944),
        (published.KIMI_K2, 1, 18_432),
        (published.GLM_4_5_AIR, 1, 10_944),
    ],
)
def test_the_first_layers_are_dense_and_wider_than_an_expert(config: Config, dense: int, width: int) -> None:
    blocks = [run.block for run in read_config(config).layers for _ in range(run.count)]
    networks = [part for block in blocks for part in block.feed_forwards]
    assert [part.intermediate_size for part in networks if isinstance(part, DenseFeedForward)] == [width] * dense


def test_a_shared_expert_is_always_active_where_there_is_one() -> None:
    assert parameter_groups(read_config(published.QWEN3_30B_A3B))[Component.SHARED_EXPERT] == 0
    # Qwen3-Next: one of width 512 in each of 48 layers.
    assert parameter_groups(read_config(published.QWEN3_NEXT_80B))[Component.SHARED_EXPERT] == 48 * 3 * 2048 * 512
    assert active_parameters(read_config(published.QWEN3_NEXT_80B)) == 3_874_929_408


def test_router_corrections_are_buffers() -> None:
    assert buffer_parameters(read_config(published.DEEPSEEK_V3)) == 14_848
    assert buffer_parameters(read_config(published.KIMI_K3)) == 92 * 896


def test_a_larger_vocabulary_costs_a_row_in_table_and_head() -> None:
    base = total_parameters(read_config(MIXTRAL_8X22B))
    instruct = total_parameters(read_config(MIXTRAL_8X22B | {"vocab_size": 32768}))
    assert (base, instruct - base) == (140_620_634_112, 9_437_184)


def test_a_copy_with_twice_the_key_value_heads_is_another_model() -> None:
    # Third-party AWQ and GPTQ files of Llama-3.1-405B are made of the first release, with 16 heads.
    eight, sixteen = (read_config(published.LLAMA_3_1_405B | {"num_key_value_heads": heads}) for heads in (8, 16))
    assert total_parameters(sixteen) == 410_081_247_232
    assert counts(sixteen)[1] == 2 * counts(eight)[1]


def test_searched_blocks_are_summed_not_multiplied() -> None:
    architecture = shipped("nvidia/Llama-3_3-Nemotron-Super-49B-v1")
    attending = sum(run.count for run in architecture.layers if run.block.mixers)
    assert (architecture.layer_count, attending) == (80, 49)
    assert counts(architecture) == (49_867_145_216, 200_704)


def test_nemotron_h_counts_blocks_and_its_experts_may_act_on_a_narrower_space() -> None:
    hybrid = read_config(published.NEMOTRON_H_56B)
    attending = sum(
        run.count for run in hybrid.layers if any(isinstance(m, SoftmaxAttention) for m in run.block.mixers)
    )
    assert (hybrid.layer_count, attending) == (118, 10)
    latent = shipped("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8")
    parts = [part for run in latent.layers for part in run.block.feed_forwards if isinstance(part, MixtureOfExperts)]
    assert {(part.hidden_size, part.latent_size) for part in parts} == {(4096, 1024)}
    assert total_parameters(latent) == 120_668_687_360


def test_experts_follow_every_mixer_in_granite_and_every_second_in_jamba() -> None:
    granite = read_config(published.GRANITE_4_H_SMALL)
    with_experts = sum(run.count for run in granite.layers if run.block.feed_forwards)
    assert (with_experts, total_parameters(granite)) == (40, 32_207_337_984)  # naive patterns give some 4e9
    jamba = read_config(published.JAMBA_1_5_MINI)
    routed = sum(
        run.count for run in jamba.layers if any(isinstance(p, MixtureOfExperts) for p in run.block.feed_forwards)
    )
    assert (routed, jamba.layer_count) == (16, 32)


def test_attention_and_mamba_may_share_a_layer() -> None:
    # Falcon-H1-34B: 72 layers, both in each.
    config = {
        "model_type": "falcon_h1",
        "num_hidden_layers": 72,
        "hidden_size": 5120,
        "intermediate_size": 21504,
        "num_attention_heads": 20,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 261120,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
        "mamba_d_ssm": 4096,
        "mamba_n_heads": 32,
        "mamba_d_head": 128,
        "mamba_n_groups": 2,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_rms_norm": False,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "projectors_bias": False,
    }
    architecture = read_config(config)
    both = [
        run.count
        for run in architecture.layers
        if {type(mixer) for mixer in run.block.mixers} == {SoftmaxAttention, Mamba2}
    ]
    assert sum(both) == 72
    costs = costs_of(architecture)
    assert costs.cache_bytes_per_token == 72 * 2 * 4 * 128 * 2
    # Convolution (4,096 + 2 x 2 x 256) x 3 at 2 bytes, recurrence 32 x 128 x 256 at 4.
    assert state_bytes_per_rank(costs, 1) == 72 * ((4096 + 2 * 2 * 256) * 3 * 2 + 32 * 128 * 256 * 4)


def pattern(architecture: ModelArchitecture) -> dict[int | None, int]:
    """Layers by window."""
    found: dict[int | None, int] = {}
    for run in architecture.layers:
        for mixer in run.block.mixers:
            if isinstance(mixer, SoftmaxAttention):
                found[mixer.window_tokens] = found.get(mixer.window_tokens, 0) + run.count
    return found


GEMMA_2 = decoder("gemma2", 42, 3584, 14336, 16, 8, 256000, head_dim=256, sliding_window=4096)
GEMMA_3_1B = decoder("gemma3_text", 26, 1152, 6912, 4, 1, 262144, head_dim=256, sliding_window=512)
COMMAND_R7B = decoder("cohere2", 32, 4096, 14336, 32, 8, 256000, sliding_window=4096)
COMMAND_A = decoder("cohere2", 64, 12288, 36864, 96, 8, 256000, sliding_window=4096, layer_switch=4)
OLMO_3 = decoder("olmo3", 64, 5120, 27648, 40, 8, 100278, sliding_window=4096)
EXAONE_4 = decoder("exaone4", 64, 5120, 27392, 40, 8, 102400, sliding_window=4096)


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        (GEMMA_2, {4096: 21, None: 21}),
        (GEMMA_3_1B, {512: 22, None: 4}),
        (published.GEMMA_3_27B["text_config"] | {"vocab_size": 262208}, {1024: 52, None: 10}),
        (COMMAND_R7B, {4096: 24, None: 8}),
        (COMMAND_A, {4096: 48, None: 16}),
        ({key: value for key, value in published.GPT_OSS_20B.items() if key != "layer_types"}, {128: 12, None: 12}),
        (OLMO_3, {4096: 48, None: 16}),
        (EXAONE_4, {4096: 48, None: 16}),
        (EXAONE_4 | {"sliding_window_pattern": "LLLG"}, {4096: 48, None: 16}),
    ],
)
def test_window_patterns_are_known_where_no_key_lists_them(config: Config, windows: dict[int | None, int]) -> None:
    assert pattern(read_config(config)) == windows


def test_global_layers_of_gemma_4_have_heads_of_their_own() -> None:
    # 25 local layers of 8 heads of 256, 5 global ones of 2 heads of 512, which share a projection and cache both.
    architecture = shipped("google/gemma-4-26B-A4B")
    costs = costs_of(architecture)
    assert counts(architecture) == (25_805_933_872, 225_280)
    assert cache_bytes_per_token_per_rank(costs, 1, context_tokens=4096) == 20_480
    mixers = [m for run in architecture.layers for m in run.block.mixers if isinstance(m, SoftmaxAttention)]
    assert {(m.kv_heads, m.head_dim, m.shared_key_value) for m in mixers} == {(8, 256, False), (2, 512, True)}


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        (published.MISTRAL_7B_V0_1, {4096: 32}),
        (published.MISTRAL_7B_V0_1 | {"sliding_window": None}, {None: 32}),  # v0.2, v0.3
        (published.QWEN2_5_7B, {None: 28}),  # a window, switched off
        (published.PHI_4 | {"sliding_window": 262_144}, {None: 40}),  # wider than the context of 131,072
    ],
)
def test_a_window_applies_where_it_is_on_and_narrower_than_the_context(
    config: Config, windows: dict[int | None, int]
) -> None:
    assert pattern(read_config(config)) == windows


def test_windowed_layers_are_charged_both_ways() -> None:
    # Llama 4: 36 of 48 layers attend in chunks of 8,192. An engine without an allocator for them keeps everything.
    costs = costs_of(read_config(published.LLAMA_4_SCOUT))
    assert cache_bytes_per_token_per_rank(costs, 1) == 196_608
    assert cache_bytes_per_token_per_rank(costs, 1, context_tokens=8192) == 49_152


def test_scout_has_experts_in_every_layer_and_maverick_in_every_second_one_routed_and_one_shared() -> None:
    for config, layers in ((published.LLAMA_4_SCOUT, 48), (published.LLAMA_4_MAVERICK, 24)):
        blocks = [run.block for run in read_config(config).layers for _ in range(run.count)]
        parts = [part for block in blocks for part in block.feed_forwards if isinstance(part, MixtureOfExperts)]
        assert [(part.experts_per_token, part.expert_size, part.shared_size) for part in parts] == [
            (1, 8192, 8192)
        ] * layers


def test_per_layer_embeddings_and_reused_caches_of_gemma_3n() -> None:
    architecture = shipped("google/gemma-3n-E4B-it")
    costs = costs_of(architecture)
    assert counts(architecture) == (7_849_978_192, 40_960)
    assert cache_bytes_per_token_per_rank(costs, 1, context_tokens=512) == 8_192
    assert sum(table.parameters for table in architecture.embeddings[1:]) == 262_144 * 35 * 256  # 2.35e9
    caching = [run.count for run in architecture.layers for m in run.block.mixers if getattr(m, "owns_cache", False)]
    assert sum(caching) == 20


def test_longer_ropes_change_no_weight_and_no_cache() -> None:
    plain = counts(read_config(published.LLAMA_3_1_8B))
    for scaling in ({"rope_type": "yarn", "factor": 4.0}, {"rope_type": "longrope", "long_factor": [1.0] * 64}):
        longer = published.LLAMA_3_1_8B | {"rope_scaling": scaling, "max_position_embeddings": 524_288}
        assert counts(read_config(longer)) == plain
        assert read_config(longer).max_context_tokens == 524_288


@pytest.mark.parametrize(("layers", "megabytes"), [(32, 245.760), (4, 30.720)])
def test_whisper_keeps_30_seconds_of_sound_for_every_request(layers: int, megabytes: float) -> None:
    # large-v3, and turbo with 4 decoder layers: 1,500 frames whatever the transcript.
    costs = costs_of(read_config(published.WHISPER_LARGE_V3 | {"decoder_layers": layers}))
    assert state_bytes_per_rank(costs, 1) == megabytes * 1e6


FLAN_T5_XL: Config = {
    "model_type": "t5",
    "d_model": 2048,
    "d_kv": 64,
    "d_ff": 5120,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 32,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
    "relative_attention_num_buckets": 32,
    "n_positions": 512,
}


@pytest.mark.parametrize(("tied", "parameters"), [(False, 2_849_757_184), (True, 2_783_959_040)])
def test_the_head_of_t5_v1_1_is_in_its_file(tied: bool, parameters: int) -> None:
    assert total_parameters(read_config(FLAN_T5_XL | {"tie_word_embeddings": tied})) == parameters


QWEN3_EMBEDDING_8B = decoder("qwen3", 36, 4096, 12288, 32, 8, 151665, head_dim=128, architectures=["Qwen3ForCausalLM"])


def test_embedding_checkpoints_drop_the_head_whatever_their_class_says() -> None:
    embedding = read_config(QWEN3_EMBEDDING_8B, name="Qwen/Qwen3-Embedding-8B")
    assert total_parameters(embedding) == 7_567_295_488
    assert any("left out" in sentence for sentence in embedding.assumptions)
    unnamed = read_config(QWEN3_EMBEDDING_8B)
    assert total_parameters(unnamed) == 7_567_295_488 + 151_665 * 4096
    # A tied head is the token table, which stays.
    small = QWEN3_0_6B | {"vocab_size": 151_669, "architectures": ["Qwen3ForCausalLM"]}
    assert total_parameters(read_config(small, name="Qwen3-Embedding-0.6B")) == 595_776_512


QWEN2_5_VL_7B = decoder(
    "qwen2_5_vl",
    28,
    3584,
    18944,
    28,
    4,
    152064,
    use_sliding_window=False,
    vision_config={
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_chans": 3,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
)


def test_the_text_part_may_stand_at_the_top_or_apart() -> None:
    outer = ("model_type", "vision_config", "tie_word_embeddings")
    text = {key: value for key, value in QWEN2_5_VL_7B.items() if key not in outer}
    apart = {key: QWEN2_5_VL_7B[key] for key in outer} | {"text_config": text | {"model_type": "qwen2_5_vl_text"}}
    for config in (QWEN2_5_VL_7B, apart):
        architecture = read_config(config)
        assert total_parameters(architecture) == 8_292_166_656
        assert sum(tower.parameters for tower in architecture.towers) == 676_550_144


@pytest.mark.parametrize(
    ("name", "layers", "crossing", "cache", "image"),
    [
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 40, 8, 131_072, 209_846_272),
        ("meta-llama/Llama-3.2-90B-Vision-Instruct", 100, 20, 327_680, 524_615_680),
    ],
)
def test_cross_attention_layers_hold_an_image_and_no_text(
    name: str, layers: int, crossing: int, cache: int, image: int
) -> None:
    architecture = shipped(name)
    costs = costs_of(architecture)
    cross = sum(run.count for run in architecture.layers for m in run.block.mixers if getattr(m, "cross_tokens", 0))
    assert (architecture.layer_count, cross) == (layers, crossing)
    assert costs.cache_bytes_per_token == cache
    assert state_bytes_per_rank(costs, 1) == image


def test_maverick_in_fp8_keeps_all_but_routed_experts_in_16_bit() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": {"targets": ["Linear"], "weights": weights}},
        "ignore": [],
    }
    costs = costs_of(read_config(published.LLAMA_4_MAVERICK | {"quantization_config": block}))
    # 416.6 GB before 66,060,288 scales of 4 bytes.
    assert (costs.weight_bytes - 4 * 66_060_288) / 1e9 == pytest.approx(416.6, abs=0.05)


def test_command_r_got_grouped_queries_with_its_second_release() -> None:
    assert counts(read_config(COMMAND_R)) == (34_980_831_232, 1_310_720)
    second = COMMAND_R | {"num_key_value_heads": 8, "intermediate_size": 24576}
    assert counts(read_config(second)) == (PROFILES["CohereForAI/c4ai-command-r-08-2024"]["total_parameters"], 163_840)


def test_falcon_mamba_has_its_inner_width_stated_and_its_expansion_unused() -> None:
    config = {
        "model_type": "falcon_mamba",
        "num_hidden_layers": 64,
        "hidden_size": 4096,
        "intermediate_size": 8192,
        "expand": 16,
        "state_size": 16,
        "conv_kernel": 4,
        "time_step_rank": 256,
        "use_bias": False,
        "use_conv_bias": True,
        "vocab_size": 65024,
        "tie_word_embeddings": False,
    }
    architecture = read_config(config)
    assert total_parameters(architecture) == 7_272_665_088
    assert state_bytes_per_rank(costs_of(architecture), 1) == 36_700_160


def test_kimi_numbers_its_layers_from_one() -> None:
    runs = read_config(published.KIMI_K3).layers
    kinds = [isinstance(run.block.mixers[0], KimiDeltaAttention) for run in runs for _ in range(run.count)]
    assert kinds[:4] == [True, True, True, False]
    assert kinds[-2:] == [False, False]  # layers 92 and 93 of 93
    text = published.KIMI_K3["text_config"]
    beyond = text["linear_attn_config"] | {"kda_layers": [*text["linear_attn_config"]["kda_layers"], 94]}
    with pytest.raises(InvalidInputError, match="kda_layers"):
        read_config(published.KIMI_K3 | {"text_config": text | {"linear_attn_config": beyond}})


@pytest.mark.parametrize("head_dim", [None, 56, 64, 192])
def test_a_latent_cache_has_nothing_to_do_with_the_head_width(head_dim: int | None) -> None:
    # 7,168 / 128 = 56 would make it 61 * 2 * 128 * 56 * 2 = 1.75 MB a token.
    config = {key: value for key, value in published.DEEPSEEK_V3.items() if key != "head_dim"}
    config |= {} if head_dim is None else {"head_dim": head_dim}
    assert counts(read_config(config)) == (671_026_404_352, 70_272)


def test_nemotron_h_projections_follow_use_bias() -> None:
    # NemotronHMamba2Mixer gives in_proj and out_proj bias=config.use_bias and reads mamba_proj_bias nowhere.
    config = published.NEMOTRON_H_56B
    plain = total_parameters(read_config(config))
    assert total_parameters(read_config(config | {"mamba_proj_bias": True})) == plain
    # 54 mixers: in_proj gives 2 x 16,384 + 2 x 8 x 256 + 256 = 37,120 values, out_proj 8,192.
    assert config["hybrid_override_pattern"].count("M") == 54
    assert total_parameters(read_config(config | {"use_bias": True})) == plain + 54 * (37_120 + 8_192)
