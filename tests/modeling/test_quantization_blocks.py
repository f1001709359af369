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
