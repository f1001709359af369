"""An unknown model type is read by its keys where they leave nothing open; under whatever name, never wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.errors import CapplanError, UnsupportedModelError
from capplan.modeling.config_reader import read_config
from capplan.modeling.parameters import total_parameters
from tests.modeling import published
from tests.modeling.published import Config
from tests.modeling.small_models import COMMON, SMALL_MODELS

# What every config file of a decoder says beside its sizes.
SAID_BY_FILES: Config = {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16", "use_cache": True}
PLAIN = {**published.LLAMA_3_1_8B, **SAID_BY_FILES, "hidden_act": "silu", "model_type": "hal9000"}

# Published files of these name an activation other than silu.
ACTIVATIONS = {
    "apertus": "xielu",
    "arcee": "relu2",
    "bloom": "gelu",
    "cohere": "silu",
    "falcon": "gelu",
    "gemma": "gelu_pytorch_tanh",
    "gemma2": "gelu_pytorch_tanh",
    "gpt_neox": "gelu",
    "nemotron": "relu2",
    "opt": "relu",
    "phi": "gelu_new",
    "starcoder2": "gelu_pytorch_tanh",
}

RETYPED: list[tuple[str, Config]] = [
    *published.ALL.items(),
    *((name, published.ALL[name]["text_config"]) for name in published.ALL if "text_config" in published.ALL[name]),
    *(
        (f"{model_type} {number}", {"model_type": model_type} | COMMON | changes)
        for number, (model_type, changes, _) in enumerate(SMALL_MODELS)
    ),
]


def renamed(config: Config, **more: Any) -> Config:
    said = SAID_BY_FILES | {"hidden_act": ACTIVATIONS.get(config["model_type"], "silu")}
    whole = said | config | {"model_type": "hal9000"} | more
    return {key: value for key, value in whole.items() if value is not None or key == "q_lora_rank"}


@pytest.mark.parametrize(("name", "config"), RETYPED, ids=[name for name, _ in RETYPED])
@pytest.mark.parametrize("more", [{}, {"tie_word_embeddings": False}, {"architectures": ["HalForCausalLM"]}], ids=str)
def test_under_another_name_a_config_counts_the_same_or_is_refused(name: str, config: Config, more: Config) -> None:
    try:
        found = read_config(renamed(config, **more))
    except CapplanError:
        return
    known = {key: value for key, value in (config | more).items() if value is not None and key != "architectures"}
    assert total_parameters(found) == total_parameters(read_config(known)), name


def test_a_plain_decoder_is_read_by_its_keys_and_says_so() -> None:
    architecture = read_config(PLAIN)
    assert total_parameters(architecture) == 8_030_261_248  # Llama-3.1-8B
    assert any("'hal9000' is not known and is read by its keys" in sentence for sentence in architecture.assumptions)


def test_quantisation_is_read_as_of_any_other() -> None:
    architecture = read_config(PLAIN | {"quantization_config": published.BLOCK_FP8})
    assert architecture.quantization is not None
    assert architecture.quantization.precision == "fp8"


@pytest.mark.parametrize(
    "key",
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "tie_word_embeddings",
        "hidden_act",
        "rms_norm_eps",
        "attention_bias",
        "mlp_bias",
    ],
)
def test_without_a_key_it_is_refused_by_that_key(key: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"missing: {key}$"):
        read_config({name: value for name, value in PLAIN.items() if name != key})


@pytest.mark.parametrize(
    "key",
    ["use_qk_norm", "attention_out_bias", "sliding_window", "num_experts", "use_post_norm", "no_rope_layers", "x"],
)
def test_with_a_key_nobody_understands_it_is_refused_whatever_its_value(key: str) -> None:
    values: list[Any] = [None, False, 0, 1, "off", []]
    for value in values:
        with pytest.raises(UnsupportedModelError, match=f"not understood: {key}$"):
            read_config(PLAIN | {key: value})


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"hidden_act": "relu2"}, "hidden_act"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"architectures": ["HalForSequenceClassification"]}, "architectures"),
        ({"architectures": ["HalModel"]}, "architectures"),
    ],
)
def test_a_value_that_leaves_a_size_open_is_refused(change: Config, key: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"left open by: {key}$"):
        read_config(PLAIN | change)


def test_a_refusal_names_everything_and_stays_short() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        read_config({"model_type": "hal9000"} | {f"key_{number}_{'x' * 100}": number for number in range(1000)})
    assert "and 988 more" in str(caught.value)
    assert len(str(caught.value)) < 1200
