"""Quantisation blocks that would be sized wrong are refused by the key that makes them so."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from capplan.errors import UnsupportedModelError
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from capplan.modeling.precision import native_precision
from tests.modeling import published
from tests.modeling.published import Config

# Of 32 layers of width 4096: q and o are 4096 x 4096, k and v 4096 x 1024, the three others 4096 x 14,336.
LLAMA_LINEAR_WEIGHTS = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)
LLAMA_PARAMETERS = 8_030_261_248

WEIGHTS: Config = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
COMPRESSED: Config = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": WEIGHTS}},
    "ignore": ["lm_head"],
}
GPTQ: Config = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "lm_head": False}
AWQ: Config = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
NVFP4: Config = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}
BNB_4BIT: Config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}
BNB_8BIT: Config = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True}

OTHER_BLOCKS: list[Config] = [
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    {"quant_method": "fp8", "activation_scheme": "static", "modules_to_not_convert": ["lm_head", "mlp.down_proj"]},
    {**COMPRESSED, "ignore": ["lm_head", "re:.*down_proj"]},
    {**NVFP4, "ignore": ["lm_head", "model.layers.0.mlp*"]},
    {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]},
]


def weight_bytes(config: Config, block: Config) -> int:
    architecture = read_config(config | {"quantization_config": block})
    return model_costs(architecture, native_precision(architecture)).weight_bytes


def grouped(weights: dict[str, Any] | None = None, **group: object) -> Config:
    """The compressed-tensors block with something else in its group."""
    block = copy.deepcopy(COMPRESSED)
    block["config_groups"]["group_0"] |= group
    block["config_groups"]["group_0"]["weights"] |= weights or {}
    return block


@pytest.mark.parametrize(
    ("block", "bytes_of_linear_weights"),
    [
        # Four bits, and an fp16 scale per 128 weights.
        (COMPRESSED, LLAMA_LINEAR_WEIGHTS * 4 // 8 + LLAMA_LINEAR_WEIGHTS // 128 * 2),
        # Four bits, and per 128 weights an fp16 scale and a zero point of four bits.
        (AWQ, LLAMA_LINEAR_WEIGHTS * 4 // 8 + LLAMA_LINEAR_WEIGHTS // 128 * 5 // 2),
        # As AWQ, and a group index of four bytes for each of a map's inputs: six maps of 4096, one of 14,336.
        (GPTQ, LLAMA_LINEAR_WEIGHTS * 4 // 8 + LLAMA_LINEAR_WEIGHTS // 128 * 5 // 2 + 32 * 4 * (6 * 4096 + 14_336)),
        # Four bits, an fp8 scale per 16 weights, two fp32 scales for each of 32 x 7 maps.
        (NVFP4, LLAMA_LINEAR_WEIGHTS * 4 // 8 + LLAMA_LINEAR_WEIGHTS // 16 + 32 * 7 * 8),
        # Four bits, and an fp32 scale per 64 weights.
        (BNB_4BIT, LLAMA_LINEAR_WEIGHTS * 4 // 8 + LLAMA_LINEAR_WEIGHTS // 64 * 4),
        # Eight bits, and an fp32 scale per output row.
        (BNB_8BIT, LLAMA_LINEAR_WEIGHTS + 32 * 4 * (2 * 4096 + 2 * 1024 + 2 * 14_336 + 4096)),
    ],
    ids=["compressed-tensors", "awq", "gptq", "nvfp4", "nf4", "int8"],
)
def test_whole_blocks_weigh_what_their_format_packs(block: Config, bytes_of_linear_weights: int) -> None:
    others = 2 * (LLAMA_PARAMETERS - LLAMA_LINEAR_WEIGHTS)
    assert weight_bytes(published.LLAMA_3_1_8B, block) == others + bytes_of_linear_weights


@pytest.mark.parametrize(
    ("block", "field"),
    [
        (grouped(targets=["re:.*mlp.*"]), "group_0.targets"),
        (grouped(targets=["Linear", "Embedding"]), "group_0.targets"),
        (grouped(targets="Linear"), "group_0.targets"),
        (grouped(targets=[]), "group_0.targets"),
        (grouped(targets=None), "group_0.targets"),
        (grouped({"strategy": None}), "weights.strategy"),
        (grouped({"type": None}), "weights.type"),
        (grouped({"symmetric": False}), "weights.symmetric"),
        (grouped({"actorder": "group"}), "weights.actorder"),
        (grouped({"num_bits": 8, "type": "float", "strategy": "block"}), "weights.block_structure"),
        (
            grouped({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [64, 64]}),
            "weights.block_structure",
        ),
        (COMPRESSED | {"format": "marlin-24"}, "quantization_config.format"),
        (COMPRESSED | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config"),
        (COMPRESSED | {"quant_method": "gptq"}, "quant_method"),
        (COMPRESSED | {"quant_method": "modelopt", "quant_algo": "FP8"}, "quant_algo"),
        (GPTQ | {"dynamic": {"-:.*down_proj.*": {}}}, "dynamic"),
        (GPTQ | {"lm_head": True}, "lm_head"),
        (AWQ | {"lm_head": True}, "lm_head"),
        (AWQ | {"zero_point": False}, "zero_point"),
        (NVFP4 | {"group_size": 32}, "group_size"),
        (NVFP4 | {"quant_algo": "W4A16_AWQ", "group_size": 128}, "quant_algo"),
        (BNB_4BIT | {"load_in_8bit": True}, "load_in_4bit"),
        (BNB_4BIT | {"load_in_4bit": False}, "load_in_4bit"),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit"),
        (BNB_8BIT | {"llm_int8_has_fp16_weight": True}, "llm_int8_has_fp16_weight"),
        ({"quant_method": "mxfp4"}, "quant_method"),
    ],
)
def test_what_would_be_sized_wrong_is_refused_by_its_key(block: Config, field: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        read_config(published.LLAMA_3_1_8B | {"quantization_config": block})
    assert caught.value.violations[0].field.endswith(field)


def test_a_separate_nvfp4_file_with_other_groups_is_refused() -> None:
    separate = {"quantization": {"quant_algo": "NVFP4", "group_size": 32, "exclude_modules": ["lm_head"]}}
    with pytest.raises(UnsupportedModelError, match=r"quantization\.group_size"):
        read_config(published.LLAMA_3_1_8B, quantization=separate)


@pytest.mark.parametrize(
    ("key", "block"),
    [
        ("quantization", {"group_size": 64, "bits": 4}),
        ("compression_config", {"format": "pack-quantized", "config_groups": {}}),
    ],
)
def test_blocks_under_the_keys_of_other_tools_are_refused_by_name(key: str, block: Config) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"model\.config_json\.{key}: quantisation is read from"):
        read_config(published.LLAMA_3_1_8B | {key: block})
    text = published.KIMI_K3["text_config"] | {key: block}
    with pytest.raises(UnsupportedModelError, match=rf"text_config\.{key}: quantisation is read from"):
        read_config(published.KIMI_K3 | {"text_config": text})


def assumptions(block: Config) -> tuple[str, ...]:
    return read_config(published.LLAMA_3_1_8B | {"quantization_config": block}).assumptions


def test_what_a_block_leaves_unsaid_is_said() -> None:
    listed_nothing = "no module is listed as left in 16 bit: all decoder linear layers are taken as quantised"
    assert listed_nothing not in assumptions(COMPRESSED)
    assert listed_nothing in assumptions({key: value for key, value in COMPRESSED.items() if key != "ignore"})
    absent = "absent from quantization_config, taken as: weight_block_size none, one scale a matrix"
    assert absent in assumptions({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": []})


def test_block_fp8_without_a_list_is_a_whole_recipe() -> None:
    assert not any("no module is listed" in sentence for sentence in assumptions(published.BLOCK_FP8))


def test_an_unknown_activation_scheme_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="activation_scheme: 'statik' is not known"):
        assumptions({"quant_method": "fp8", "activation_scheme": "statik", "weight_block_size": None})


GROUPS = [32, 64, 128, -1]


def groups_of(map_inputs: int, group: int) -> int:
    return 1 if group == -1 else map_inputs // group


# Inputs, outputs and number in a layer of a Llama-3.1-8B's maps: q and o, k and v, gate and up, down.
LLAMA_MAPS = ((4096, 4096, 2), (4096, 1024, 2), (4096, 14_336, 2), (14_336, 4096, 1))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("method", "bits"), [("awq", 4), ("gptq", 4), ("gptq", 8), ("compressed-tensors", 4)], ids=str)
def test_packed_integers_are_counted_tensor_by_tensor(method: str, bits: int, group: int) -> None:
    # AutoAWQ and AutoGPTQ: qweight, scales in fp16, qzeros packed as the weights are; GPTQ's g_idx in int32.
    # compressed-tensors: weight_packed and weight_scale.
    packed = 0
    for inputs, outputs, copies in LLAMA_MAPS:
        scales = groups_of(inputs, group) * outputs
        zeros = 0 if method == "compressed-tensors" else scales * bits // 8
        indices = 4 * inputs if method == "gptq" else 0
        packed += 32 * copies * (inputs * outputs * bits // 8 + 2 * scales + zeros + indices)
    if method == "compressed-tensors":
        strategy = {"strategy": "channel", "group_size": None} if group == -1 else {"group_size": group}
        block = grouped(strategy, input_activations=None)
    else:
        own = {"zero_point": True} if method == "awq" else {"desc_act": False}
        block = {"quant_method": method, "bits": bits, "group_size": group, **own}
    others = 2 * (LLAMA_PARAMETERS - LLAMA_LINEAR_WEIGHTS)
    assert weight_bytes(published.LLAMA_3_1_8B, block) == others + packed


@pytest.mark.parametrize(
    ("block", "field"),
    [
        (GPTQ | {"bits": 3}, "bits"),
        (GPTQ | {"group_size": 96}, "group_size"),
        (GPTQ | {"checkpoint_format": "marlin"}, "checkpoint_format"),
        (GPTQ | {"is_marlin_format": True}, "is_marlin_format"),
        (GPTQ | {"modules_in_block_to_quantize": [["self_attn.q_proj"]]}, "modules_in_block_to_quantize"),
        (AWQ | {"bits": 8}, "bits"),
        (AWQ | {"version": "gemv"}, "version"),
        (published.BLOCK_FP8 | {"fmt": "e5m2"}, "fmt"),
        (grouped({"scale_dtype": "torch.float32"}), "scale_dtype"),
        (grouped({"zp_dtype": "torch.int8"}), "zp_dtype"),
        (grouped(input_activations={"num_bits": 8, "type": "int", "dynamic": True}), "input_activations"),
        (
            grouped(
                {"num_bits": 8, "strategy": "tensor", "group_size": None},
                input_activations={"num_bits": 8, "type": "int", "dynamic": False},
            ),
            "input_activations",
        ),
        (grouped(output_activations={"num_bits": 8}), "output_activations"),
        (NVFP4 | {"quant_method": "awq"}, "quant_method"),
        (NVFP4 | {"kv_cache_quant_algo": "NVFP4"}, "kv_cache_quant_algo"),
        (COMPRESSED | {"kv_cache_scheme": {"num_bits": 4, "type": "int"}}, "kv_cache_scheme"),
        (GPTQ | {"kv_cache_scheme": {"num_bits": 4, "type": "int"}}, "kv_cache_scheme"),
        ({"quant_method": "mxfp4", "dequantize": True}, "dequantize"),
    ],
)
def test_what_changes_a_layout_is_refused_by_its_key(block: Config, field: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        read_config(published.LLAMA_3_1_8B | {"quantization_config": block})
    assert caught.value.violations[0].field.endswith(field)


@pytest.mark.parametrize("block", [COMPRESSED, GPTQ, AWQ, NVFP4, BNB_4BIT, BNB_8BIT, *OTHER_BLOCKS], ids=str)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("outlier_channels", 64),
        ("sparsity", True),
        ("modules_not_to_convert", ["x"]),
        ("mode", "y"),
        ("extra", {"a": 1}),
    ],
)
def test_an_invented_key_of_a_block_is_refused_by_name(block: Config, key: str, value: object) -> None:
    with pytest.raises(UnsupportedModelError, match=f"quantization_config.{key}: not understood"):
        read_config(published.LLAMA_3_1_8B | {"quantization_config": block | {key: value}})


def test_what_tools_write_of_calibration_and_kernels_passes() -> None:
    # As AutoGPTQ writes it through the transformers library.
    block = GPTQ | {
        "batch_size": 1,
        "cache_block_outputs": True,
        "damp_percent": 0.01,
        "exllama_config": {"version": 1},
        "sym": True,
        "true_sequential": True,
        "use_exllama": True,
    }
    assert weight_bytes(published.LLAMA_3_1_8B, block) == weight_bytes(published.LLAMA_3_1_8B, GPTQ)


@pytest.mark.parametrize(
    "hint", [{"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, {"kv_cache_quant_algo": "FP8"}]
)
@pytest.mark.parametrize("block", [COMPRESSED, GPTQ, AWQ, NVFP4, BNB_4BIT, *OTHER_BLOCKS], ids=str)
def test_a_kv_cache_hint_is_honoured_in_every_block(block: Config, hint: Config) -> None:
    architecture = read_config(published.LLAMA_3_1_8B | {"quantization_config": block | hint})
    assert model_costs(architecture, native_precision(architecture)).kv_precision == "fp8"


def test_a_block_and_a_separate_file_must_agree() -> None:
    config = published.LLAMA_3_1_8B | {"quantization_config": NVFP4}
    same = {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}
    assert read_config(config, quantization={"quantization": same}) == read_config(config)
    for other in (
        {"quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        same | {"exclude_modules": ["lm_head", "model.layers.0.mlp*"]},
    ):
        with pytest.raises(UnsupportedModelError, match=r"quantization_config: .*hf_quant_config_json.* must agree"):
            read_config(config, quantization={"quantization": other})
    with pytest.raises(UnsupportedModelError, match="invented: not understood"):
        read_config(config, quantization={"quantization": same | {"invented": 7}})


def test_two_blocks_that_differ_are_refused_naming_both() -> None:
    text = published.KIMI_K3["text_config"]
    block = grouped(input_activations=None)
    twice = published.KIMI_K3 | {"text_config": text | {"quantization_config": block}}
    assert read_config(twice | {"quantization_config": block}).quantization == read_config(twice).quantization
    with pytest.raises(
        UnsupportedModelError, match=r"text_config\.quantization_config: differs from .*quantization_con"
    ):
        read_config(twice | {"quantization_config": grouped({"group_size": 32}, input_activations=None)})


def test_nvfp4_weights_alone_store_no_scale_of_activations() -> None:
    numbers = {"num_bits": 4, "type": "float", "group_size": 16}
    group = {"targets": ["Linear"], "weights": numbers}
    both, alone, unsaid = (
        {"quant_method": "modelopt", "config_groups": {"group_0": group | more}, "ignore": ["lm_head"]}
        for more in ({"input_activations": {**numbers, "dynamic": False}}, {"input_activations": None}, {})
    )
    # One fp32 scale fewer for each of 32 x 7 maps.
    difference = weight_bytes(published.LLAMA_3_1_8B, both) - weight_bytes(published.LLAMA_3_1_8B, alone)
    assert difference == 32 * 7 * 4
    assert weight_bytes(published.LLAMA_3_1_8B, unsaid) == weight_bytes(published.LLAMA_3_1_8B, both)
    assert any("taken as: input_activations in nvfp4 too" in sentence for sentence in assumptions(unsaid))
