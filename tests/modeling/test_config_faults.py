"""A config is sized exactly, with every default named, or refused by its field: never silently otherwise."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError, InvalidInputError, UnsupportedModelError
from capplan.modeling.config_reader import read_config
from capplan.modeling.parameters import total_parameters
from tests.modeling import published
from tests.modeling.damage import changed, paths
from tests.modeling.published import Config

ABSURD = [True, "4096", -1, 0, 1.5, math.nan, math.inf, 1e30, 10**30, [], {}, "NaN"]


SIZES = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "head_dim",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "kv_lora_rank",
    "q_lora_rank",
    "first_k_dense_replace",
)
SIZE_CASES = [
    (name, key)
    for name in ("LLAMA_3_1_8B", "QWEN3_30B_A3B", "DEEPSEEK_V3", "GPT_OSS_20B", "NEMOTRON_H_56B", "QWEN3_NEXT_80B")
    for key in SIZES
    if key in published.ALL[name]
]


# Keys these models carry but do not use: heads of an expanded latent, the width of dense layers they have none of.
UNUSED = {
    ("DEEPSEEK_V3", "num_key_value_heads"),
    ("QWEN3_30B_A3B", "intermediate_size"),
    ("QWEN3_NEXT_80B", "intermediate_size"),
}


@pytest.mark.parametrize(("name", "key"), SIZE_CASES)
def test_absurd_sizes_are_refused_by_field(name: str, key: str) -> None:
    right = total_parameters(read_config(published.ALL[name]))
    for value in ABSURD:
        if key == "first_k_dense_replace" and value == 0 and value is not False:
            continue  # a number of dense layers may be 0
        config = published.ALL[name] | {key: value}
        if (name, key) in UNUSED:
            assert total_parameters(read_config(config)) == right
            continue
        with pytest.raises(InvalidInputError) as caught:
            read_config(config)
        assert caught.value.violations[0].field.startswith("model.config_json."), f"{key}={value!r}"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (published.LLAMA_3_1_8B | {"num_attention_heads": 31}, "num_key_value_heads"),
        (published.LLAMA_2_7B | {"num_attention_heads": 31, "num_key_value_heads": 31}, "num_attention_heads"),
        (published.LLAMA_3_1_8B | {"num_key_value_heads": 7}, "num_key_value_heads"),
        (published.MIXTRAL_8X7B | {"num_experts_per_tok": 9}, "num_experts_per_tok"),
        (published.DEEPSEEK_V3 | {"first_k_dense_replace": 62}, "first_k_dense_replace"),
        (published.GPT_OSS_20B | {"layer_types": ["full_attention"]}, "layer_types"),
        (published.GPT_OSS_20B | {"layer_types": ["telepathy"] * 24}, "layer_types"),
        (published.NEMOTRON_H_56B | {"num_hidden_layers": 52}, "num_hidden_layers"),
        (published.NEMOTRON_H_56B | {"hybrid_override_pattern": "MX*"}, "hybrid_override_pattern"),
        (published.QWEN3_30B_A3B | {"mlp_only_layers": [48]}, "mlp_only_layers"),
        (published.LLAMA_3_1_8B | {"tie_word_embeddings": "no"}, "tie_word_embeddings"),
        (published.LLAMA_3_1_8B | {"num_experts": 8}, "num_experts"),
        (published.LLAMA_3_1_8B | {"per_layer_config": {"05": {"head_dim": 512}}}, "per_layer_config"),
    ],
)
def test_contradictions_are_refused_by_field(config: Config, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_config(config)
    assert caught.value.violations[0].field == f"model.config_json.{field}"


def test_an_unknown_model_type_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedModelError, match=r"model\.config_json\.model_type: model type 'hal9000' is not known"
    ):
        read_config(published.LLAMA_3_1_8B | {"model_type": "hal9000"})


@pytest.mark.parametrize("model_type", [None, "", 7, ["llama"]])
def test_a_model_type_is_needed(model_type: object) -> None:
    with pytest.raises(UnsupportedModelError, match=r"model\.config_json\.model_type"):
        read_config(published.LLAMA_3_1_8B | {"model_type": model_type})


def test_an_unknown_type_of_a_known_class_is_read_as_that_class_and_says_so() -> None:
    config = published.LLAMA_3_1_8B | {"model_type": "hal9000", "architectures": ["LlamaForCausalLM"]}
    architecture = read_config(config)
    assert total_parameters(architecture) == 8_030_261_248
    assert any("'hal9000' is not known" in sentence for sentence in architecture.assumptions)


@pytest.mark.parametrize("key", ["num_shared_experts", "sparse_window_size", "kv_lora_rank", "extra_hidden_dim"])
def test_an_unknown_type_with_a_key_nobody_understands_is_refused(key: str) -> None:
    config = published.LLAMA_3_1_8B | {"model_type": "hal9000", "architectures": ["LlamaForCausalLM"], key: 512}
    with pytest.raises(UnsupportedModelError, match=key):
        read_config(config)


MONSTERS: dict[str, object] = {
    "huge": 10**6000,
    "hugely negative": -(10**6000),
    "huge layers": [10**6000] * 61,
    "objects": [{}] * 61,
    "lists": [[[]]] * 61,
    "long": "x" * 100_000,
}
MONSTROUS_KEYS = ("hidden_size", "mlp_layer_types", "layer_types", "num_key_value_heads", "tie_word_embeddings")


@pytest.mark.parametrize("monster", MONSTERS)
@pytest.mark.parametrize("key", MONSTROUS_KEYS)
def test_monstrous_values_are_refused_in_a_short_sentence(monster: str, key: str) -> None:
    for config in (published.LLAMA_3_1_8B, published.DEEPSEEK_V3, published.GPT_OSS_20B):
        if key == "mlp_layer_types" and config is not published.DEEPSEEK_V3:
            continue  # read where first layers may be dense
        if key in ("layer_types", "num_key_value_heads") and config is published.DEEPSEEK_V3:
            continue  # a latent has no windows and no key/value heads
        with pytest.raises(CapplanError) as caught:
            read_config(config | {key: MONSTERS[monster]})
        assert len(str(caught.value)) < 400


def test_a_monstrous_model_type_is_refused_in_a_short_sentence() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        read_config({"model_type": "x" * 100_000})
    assert len(str(caught.value)) < 400


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["llama", "t5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)


@given(config=st.dictionaries(st.text(max_size=12) | st.sampled_from(["model_type", *SIZES]), json_values, max_size=8))
def test_arbitrary_json_raises_nothing_but_our_own_errors(config: Config) -> None:
    with pytest.raises(CapplanError):
        read_config(config)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(name=st.sampled_from(sorted(published.ALL)), data=st.data())
def test_a_damaged_config_raises_nothing_but_our_own_errors(name: str, data: st.DataObject) -> None:
    config = published.ALL[name]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths(config)))
        config = changed(config, path, value=data.draw(json_values))
    quantization = data.draw(st.none() | st.dictionaries(st.sampled_from(["quantization", "x"]), json_values))
    try:
        architecture = read_config(config, quantization=quantization)
    except CapplanError:
        return
    assert total_parameters(architecture) > 0


@pytest.mark.parametrize("config", [None, 7, "llama", [], [("model_type", "llama")]])
def test_a_config_must_be_an_object(config: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"model\.config_json: must be an object"):
        read_config(config)


@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
@pytest.mark.parametrize("value", ["float8_e4m3fn", "float64", "auto", "", 7, {"a": 1}])
def test_a_number_format_that_is_stated_but_not_known_is_refused(key: str, value: object) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"model\.config_json\.{key}: must be one of bfloat16"):
        read_config(published.LLAMA_3_1_8B | {key: value})


@pytest.mark.parametrize(("value", "dtype"), [("float16", "fp16"), ("torch.float32", "fp32"), ("bfloat16", "bf16")])
def test_a_known_number_format_is_taken(value: str, dtype: str) -> None:
    assert read_config(published.LLAMA_3_1_8B | {"torch_dtype": value}).dtype == dtype
