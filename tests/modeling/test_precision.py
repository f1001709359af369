"""Bytes of published quantised checkpoints, the recipes applied to 16-bit ones, and what is refused."""

from __future__ import annotations

import pytest

from capplan.errors import InvalidInputError, UnsupportedModelError, UnsupportedPrecisionError
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import Component, ModelCosts, Shard, model_costs
from capplan.modeling.facts import architecture_from_facts
from capplan.modeling.precision import (
    WEIGHT_PRECISIONS,
    accepted_weight_precisions,
    native_precision,
    serving_precision,
)
from capplan.modeling.storage import STORAGE_FORMATS
from tests.modeling import published
from tests.modeling.published import BLOCK_FP8, Config
from tests.modeling.report_counts import shipped_profiles


def native(config: Config, quantization: Config | None = None) -> ModelCosts:
    architecture = read_config(config, name="model", quantization=quantization)
    return model_costs(architecture, native_precision(architecture))


def scale_bytes(costs: ModelCosts) -> int:
    """Bytes beyond one a weight of everything stored in an 8-bit format."""
    return sum(g.stored_bytes - g.parameters for g in costs.gemms if STORAGE_FORMATS[g.storage].weight_bits == 8)


@pytest.mark.parametrize(
    ("config", "stored"),
    [(published.GPT_OSS_20B, 13_761_264_768), (published.GPT_OSS_120B, 65_248_815_744)],
)
def test_gpt_oss_weighs_what_its_index_says(config: Config, stored: int) -> None:
    # total_size of model.safetensors.index.json, to the byte.
    assert native(config).weight_bytes == stored


def test_deepseek_v3_scales() -> None:
    # Its file holds 41,540,496 fp32 scales, those of the drafting layer (not loaded without speculation) included.
    costs = native(published.DEEPSEEK_V3 | {"quantization_config": BLOCK_FP8})
    assert costs.kv_precision == "bf16"
    experts = 58 * 256 * 3 * 16 * 56
    shared = 58 * 3 * 16 * 56
    dense = 3 * 3 * 144 * 56
    # q_a 12 x 56, q_b 192 x 12, kv_a 576 rows in 5 blocks x 56, kv_b 256 x 4, o 56 x 128.
    attention = 61 * (12 * 56 + 192 * 12 + 5 * 56 + 256 * 4 + 56 * 128)
    main = experts + shared + dense + attention
    assert scale_bytes(costs) == 4 * main
    # One drafting layer more (experts, shared expert, attention) makes the published number.
    drafting = 256 * 3 * 16 * 56 + 3 * 16 * 56 + attention // 61
    assert main + drafting == 41_540_496


def test_qwen3_30b_a3b_fp8_scales() -> None:
    # Hub total less parameters: 30,533,947,392 - 30,532,122,624 = 1,824,768.
    config = published.QWEN3_30B_A3B | {
        "quantization_config": BLOCK_FP8 | {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate"]}
    }
    assert scale_bytes(native(config)) == 4 * 1_824_768


def test_granite_fp8_keeps_one_scale_an_output_row() -> None:
    # Granite-3.3-8B-FP8: hub total 8,172,462,080 less 8,170,864,640 parameters is 1,597,440 scales.
    config = published.decoder(
        "granite", 40, 4096, 12800, 32, 8, 49159, tie_word_embeddings=True, quantization_config=compressed("channel")
    )
    assert scale_bytes(native(config)) == 4 * 1_597_440


def compressed(strategy: str, **weights: object) -> Config:
    """A compressed-tensors block with one group."""
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": strategy} | weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


def test_static_per_tensor_scales_come_in_pairs() -> None:
    # Devstral-Small-2: hub total exceeds the parameters by 560 = 40 layers x 7 linears x (weight, activation).
    block = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}
    config = published.decoder("ministral3", 40, 5120, 32768, 32, 8, 131072, head_dim=128, quantization_config=block)
    assert scale_bytes(native(config)) == 4 * 560


def test_qwen3_32b_awq() -> None:
    # Its file holds 5,731,472,384 elements in 18.00 GiB. Eight weights or zero points share an int32.
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "modules_to_not_convert": None}
    costs = native(published.QWEN3_32B | {"quantization_config": awq, "torch_dtype": "float16"})
    packed = sum(g.parameters for g in costs.gemms if g.storage == "awq_int4_g128")
    elements = costs.total_parameters - packed + packed // 8 + packed // 128 // 8 + packed // 128
    assert elements == 5_731_472_384
    assert costs.weight_bytes / 2**30 == pytest.approx(18.00, abs=0.005)


def test_meta_405b_fp8_is_487_gb_because_only_its_feed_forwards_are_fp8() -> None:
    block = {
        "quant_method": "fbgemm_fp8",
        "modules_to_not_convert": [
            f"model.layers.{layer}.mlp.{name}_proj" for layer in (0, 125) for name in ("gate", "up", "down")
        ],
    }
    costs = native(published.LLAMA_3_1_405B | {"quantization_config": block})
    assert costs.weight_bytes / 1e9 == pytest.approx(487.2, abs=0.05)
    assert scale_bytes(costs) == 4 * 15_237_120  # its published number of scales


def test_llama_4_maverick_fp8_quantises_routed_experts_only() -> None:
    block = compressed("channel") | {"ignore": []}
    costs = native(published.LLAMA_4_MAVERICK | {"quantization_config": block})
    assert scale_bytes(costs) == 4 * 66_060_288 == 4 * 24 * 128 * (16_384 + 5_120)
    assert {g.component for g in costs.gemms if g.storage == "fp8_channel"} == {Component.ROUTED_EXPERT}


def test_modelopt_nvfp4_is_read_from_its_separate_file() -> None:
    # nvidia/Qwen3-235B-A22B-NVFP4: 132,806,618,624 elements (two weights a byte, a scale per 16).
    exclude = ["lm_head", *(f"model.layers.{n}.mlp.gate" for n in range(94))]
    separate = {
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": exclude,
        }
    }
    costs = native(published.QWEN3_235B_A22B, separate)
    packed = sum(g.parameters for g in costs.gemms if g.storage == "nvfp4")
    assert costs.total_parameters - packed + packed // 2 + packed // 16 == 132_806_618_624
    assert costs.kv_precision == "fp8"


def test_modelopt_may_leave_single_layers_out() -> None:
    exclude = ["lm_head", "model.layers.3.self_attn*", "model.layers.5.mlp.down_proj"]
    separate = {"quantization": {"quant_algo": "FP8", "exclude_modules": exclude}}
    costs = native(published.LLAMA_3_1_8B, separate)
    sixteen_bit = sum(g.parameters for g in costs.gemms if g.storage == "bf16")
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    assert sixteen_bit == 2 * 128_256 * 4096 + attention + 4096 * 14_336


def test_kimi_int4_reads_regular_expressions() -> None:
    # Kimi-K2-Thinking/K2.5: routed experts in groups of 32, all else 16 bit; 594.2 GB in all.
    block = compressed("group", num_bits=4, type="int", group_size=32) | {
        "ignore": [
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
        ]
    }
    costs = native(published.KIMI_K2 | {"quantization_config": block})
    assert {g.component for g in costs.gemms if g.storage == "w4a16_g32"} == {Component.ROUTED_EXPERT}
    assert costs.weight_bytes / 1e9 == pytest.approx(594.2, abs=0.3)


def test_the_shipped_kimi_k2_thinking_is_int4_on_its_routed_experts() -> None:
    # 594.2 GB of files (huggingface.co/moonshotai/Kimi-K2-Thinking): 384 experts in 60 layers in 4.5 bits a weight.
    facts = next(p["facts"] for p in shipped_profiles() if p["name"] == "moonshotai/Kimi-K2-Thinking")
    costs = model_costs(architecture_from_facts(facts))
    experts = 60 * 384 * 3 * 7168 * 2048
    assert costs.weight_precision == "int4"
    assert costs.weight_bytes == experts * 45 // 80 + 2 * (1_026_408_209_408 - experts) + 4 * 60 * 384
    assert round(costs.weight_bytes / 1e9, 1) == 594.2


def test_a_checkpoint_stored_in_fp32_is_served_in_16_bit_and_says_so() -> None:
    architecture = read_config(published.LLAMA_3_1_8B | {"torch_dtype": "float32"})
    served, kept = model_costs(architecture), model_costs(architecture, "fp32")
    assert serving_precision(architecture) == "bf16"
    assert native_precision(architecture) == "fp32"
    assert (served.weight_bytes, served.kv_precision) == (2 * 8_030_261_248, "bf16")
    assert (kept.weight_bytes, kept.kv_precision) == (4 * 8_030_261_248, "fp32")
    (said,) = set(served.assumptions) - set(kept.assumptions)
    assert "stored in fp32 and taken in bf16" in said
    assert model_costs(architecture, "bf16").assumptions == kept.assumptions


@pytest.mark.parametrize("config", [published.LLAMA_3_1_8B, published.GPT_OSS_20B], ids=["16 bit", "mxfp4"])
def test_any_other_checkpoint_is_served_as_it_is_stored(config: Config) -> None:
    architecture = read_config(config)
    assert serving_precision(architecture) == native_precision(architecture)
    assert model_costs(architecture) == model_costs(architecture, native_precision(architecture))


def test_a_name_that_says_a_format_no_block_states_is_said() -> None:
    named = read_config(published.LLAMA_3_1_8B, name="me/Llama-3.1-8B-NVFP4")
    assert any("named NVFP4, but no quantisation block" in sentence for sentence in named.assumptions)
    assert not any("named" in sentence for sentence in read_config(published.LLAMA_3_1_8B, name="me/Llama").assumptions)


def test_kimi_k3_weighs_what_its_index_says() -> None:
    # total_size 1,560,860,324,864: routed experts in mxfp4, all else in 16 bit but for what recurrent layers keep in
    # fp32 (three convolutions of 4 taps, time steps, 128 decay rates, output norm) and is counted at 2 bytes here.
    block = compressed("group", num_bits=4, type="float", group_size=32) | {
        "ignore": [
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
            "re:.*lm_head.*",
        ]
    }
    text = published.KIMI_K3["text_config"] | {"quantization_config": block}
    costs = native(published.KIMI_K3 | {"text_config": text})
    kept_in_fp32 = 69 * (3 * 12_288 * 4 + 12_288 + 128 + 128)
    assert costs.weight_bytes + 2 * kept_in_fp32 == 1_560_860_324_864


def test_fp8_recipe_on_a_16_bit_config() -> None:
    costs = model_costs(read_config(published.LLAMA_3_1_8B, name="llama"), "fp8")
    stored = {g.component: g.storage for g in costs.gemms}
    assert stored[Component.ATTENTION] == stored[Component.DENSE_FFN] == "fp8_channel"
    assert stored[Component.EMBEDDING] == stored[Component.LM_HEAD] == "bf16"
    linears = 8_030_261_248 - 2 * 525_336_576 - 65 * 4096
    rows = 32 * (4096 + 2 * 1024 + 4096 + 2 * 14_336 + 4096)
    assert costs.weight_bytes == linears + 4 * rows + 2 * (2 * 525_336_576 + 65 * 4096)
    assert any("fp8" in sentence for sentence in costs.assumptions)


def test_int4_recipe_matches_the_published_awq_size() -> None:
    # Llama-3.1-8B AWQ: 5.33 GiB; 70B AWQ: 37.0 GiB.
    for config, gib in ((published.LLAMA_3_1_8B, 5.33), (published.LLAMA_3_1_70B, 37.0)):
        costs = model_costs(read_config(config, name="llama"), "int4")
        assert costs.weight_bytes / 2**30 == pytest.approx(gib, abs=0.01 * gib)


def test_mxfp4_recipe_is_for_experts_only() -> None:
    costs = model_costs(read_config(published.QWEN3_30B_A3B, name="moe"), "mxfp4")
    assert {g.component for g in costs.gemms if g.storage == "mxfp4"} == {Component.ROUTED_EXPERT}
    with pytest.raises(UnsupportedPrecisionError, match=r"precision\.weights.*routed experts only"):
        model_costs(read_config(published.LLAMA_3_1_8B, name="dense"), "mxfp4")


def test_towers_stay_in_16_bit_on_every_rank() -> None:
    costs = model_costs(read_config(published.GEMMA_3_27B, name="gemma"), "int8")
    (tower,) = [g for g in costs.gemms if g.component is Component.MULTIMODAL_ENCODER]
    assert (tower.storage, tower.shard) == ("bf16", Shard.REPLICATED)


@pytest.mark.parametrize("precision", ["bf16", "nvfp4", "int4", "mxfp4"])
def test_a_native_fp8_checkpoint_may_be_converted_and_says_so(precision: str) -> None:
    config = published.DEEPSEEK_V3 | {"quantization_config": BLOCK_FP8}
    costs = model_costs(read_config(config, name="deepseek"), precision)
    assert any("the fp8 checkpoint is" in sentence for sentence in costs.assumptions)


def test_a_checkpoint_trained_in_int4_may_be_requantised_to_nvfp4_but_an_awq_file_not() -> None:
    # nvidia/Kimi-K2.5-NVFP4 is made of moonshotai/Kimi-K2.5; nobody serves an AWQ file so.
    trained = compressed("group", num_bits=4, type="int", group_size=32)
    kimi = read_config(published.KIMI_K2 | {"quantization_config": trained}, name="kimi")
    assert accepted_weight_precisions(kimi) == ("int4", "nvfp4")
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    qwen = read_config(published.QWEN3_32B | {"quantization_config": awq}, name="qwen")
    assert accepted_weight_precisions(qwen) == ("int4",)


def test_bf16_from_fp8_weighs_two_bytes_a_parameter() -> None:
    config = published.DEEPSEEK_V3 | {"quantization_config": BLOCK_FP8}
    costs = model_costs(read_config(config, name="deepseek"), "bf16")
    assert costs.weight_bytes == 2 * 671_026_404_352 + 4 * 14_848


def test_nvfp4_of_latent_attention_keeps_its_projections() -> None:
    config = published.DEEPSEEK_V3 | {"quantization_config": BLOCK_FP8}
    costs = model_costs(read_config(config, name="deepseek"), "nvfp4")
    kept = sum(g.parameters for g in costs.gemms if g.component is Component.ATTENTION and g.storage == "bf16")
    assert kept == 61 * (7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256)


@pytest.mark.parametrize("precision", sorted(set(WEIGHT_PRECISIONS) - {"mxfp4", "bf16"}))
def test_an_mxfp4_checkpoint_is_served_as_it_is_or_in_bf16(precision: str) -> None:
    with pytest.raises(UnsupportedPrecisionError, match=r"precision\.weights.*accepted: bf16, mxfp4"):
        model_costs(read_config(published.GPT_OSS_20B, name="gpt-oss"), precision)


@pytest.mark.parametrize("precision", ["", "FP8", "fp4", "q4_k_x", "float16"])
def test_unknown_precisions_are_refused_with_what_is_accepted(precision: str) -> None:
    with pytest.raises(UnsupportedPrecisionError, match=r"precision\.weights.*is not known; accepted: fp32"):
        model_costs(read_config(published.LLAMA_3_1_8B), precision)
    with pytest.raises(UnsupportedPrecisionError, match=r"precision\.kv_cache.*is not known; accepted: auto"):
        model_costs(read_config(published.LLAMA_3_1_8B), "bf16", precision)


def test_fp32_weights_take_four_bytes_and_cache_four() -> None:
    costs = model_costs(read_config(published.LLAMA_3_1_8B), "tf32")
    assert costs.weight_bytes == 4 * 8_030_261_248
    assert costs.kv_precision == "fp32"
    assert costs.cache_bytes_per_token == 2 * 131_072
    assert {g.arithmetic for g in costs.gemms} == {"tf32"}


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"quant_method": "quip"}, "quant_method"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "bits"),
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, "weight_block_size"),
        ({"quant_algo": "W2A2"}, "quant_algo"),
        (compressed("group", num_bits=5, type="int", group_size=7), "num_bits"),
        (compressed("channel") | {"kv_cache_scheme": {"num_bits": 3, "type": "int"}}, "kv_cache_scheme"),
    ],
)
def test_unknown_quantisation_is_refused_by_its_field(block: Config, field: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        read_config(published.LLAMA_3_1_8B | {"quantization_config": block})
    assert caught.value.violations[0].field.endswith(field)


def test_a_hostile_regular_expression_is_refused() -> None:
    block = compressed("channel") | {"ignore": [r"re:(.*)*(.*)*x"]}
    with pytest.raises(InvalidInputError, match="too complex"):
        read_config(published.LLAMA_3_1_8B | {"quantization_config": block})
