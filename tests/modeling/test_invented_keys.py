"""A key nobody has seen is refused by name wherever it stands; keys known to change no size pass."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError, UnsupportedModelError
from capplan.modeling.config_reader import read_config
from capplan.modeling.config_reader.family_keys import EXPECTED_VALUES
from capplan.modeling.config_reader.harmless_keys import HARMLESS_KEYS, is_harmless
from capplan.modeling.parameters import total_parameters
from tests.modeling import published
from tests.modeling.published import Config
from tests.modeling.test_config_mutations import FAMILIES, figures

# What stands below these is looked at as a whole, or not at all.
WHOLE = {"rope_scaling", "rope_parameters", "id2label", "label2id", "compress_rates", "per_layer_config", "dynamic"}

INVENTED = (
    *("cross_layer_kv_share", "n_kv_share", "adapter_width", "moe_every", "mem_slots", "residual_streams"),
    *("num_memory_tokens", "cache_slots", "layer_scale", "token_mixer_dim", "loss_head_size", "dropout_experts"),
    *("init_blocks", "rotary_mlp", "prefix_len", "hash_vocab", "beams_dim", "x"),
)

values: st.SearchStrategy[Any] = st.one_of(
    st.integers(1, 1 << 20),
    st.integers(max_value=-1),
    st.floats(0.001, 1e6),
    st.just(True),
    st.text(min_size=1, max_size=8),
    st.lists(st.integers(), min_size=1, max_size=3),
    st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 9), min_size=1, max_size=2),
)
words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=7)
names = st.sampled_from(INVENTED) | st.lists(words, min_size=2, max_size=3).map("_".join).filter(
    lambda name: not is_harmless(name)
)


def places(config: Config, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the objects whose keys are accounted for one by one."""
    if above[-1:] != ("config_groups",):
        yield above
    for key, value in config.items():
        if isinstance(value, dict) and key not in WHOLE:
            yield from places(value, (*above, key))


def with_key(config: Config, place: tuple[str, ...], key: str, value: Any) -> Config:
    copied = copy.deepcopy(config)
    inner = copied
    for step in place:
        inner = inner[step]
    inner[key] = value
    return copied


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=400, deadline=None)
@given(family=st.sampled_from(FAMILIES), key=names, value=values, data=st.data())
def test_an_invented_key_is_refused_by_name_wherever_it_stands(
    family: tuple[str, Config], key: str, value: Any, data: st.DataObject
) -> None:
    _, config = family
    place = data.draw(st.sampled_from(list(places(config))))
    with pytest.raises(CapplanError, match=key):
        read_config(with_key(config, place, key, value))


@pytest.mark.parametrize("key", INVENTED)
def test_no_family_takes_an_invented_key_for_its_own(key: str) -> None:
    for _, config in FAMILIES:
        for place in places(config):
            with pytest.raises(CapplanError, match=key):
                read_config(with_key(config, place, key, 64))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200, deadline=None)
@given(family=st.sampled_from(FAMILIES), key=st.sampled_from(sorted(HARMLESS_KEYS)), value=values)
def test_a_harmless_key_changes_nothing_or_is_checked_by_its_reader(
    family: tuple[str, Config], key: str, value: Any
) -> None:
    _, config = family
    whole = read_config(config)
    try:
        found = read_config(config | {key: value})
    except CapplanError:
        return
    # Those few that are read say what kind of head or number format there is, and which layers have their windows.
    if key not in ("architectures", "id2label", "num_labels", "torch_dtype", "dtype", "max_window_layers"):
        assert figures(found) == figures(whole)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}], ids=str)
def test_a_key_that_asks_for_nothing_passes(value: object) -> None:
    config = published.LLAMA_3_1_8B | {"use_memory_layers": value}
    assert total_parameters(read_config(config)) == 8_030_261_248


@pytest.mark.parametrize("key", ["gated_mlp", "use_glu", "tie_heads", "embedding_sharing", "elementwise_affine"])
def test_a_key_that_asks_for_something_by_being_false_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedModelError, match=key):
        read_config(published.LLAMA_3_1_8B | {key: False})


def test_what_llama_files_carry_beside_their_sizes_passes() -> None:
    carried = {
        "_name_or_path": "x",
        "attention_dropout": 0.1,
        "bos_token_id": 128_000,
        "eos_token_id": [128_001, 128_008],
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-5,
        "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
        "rope_theta": 500_000.0,
        "transformers_version": "4.43.0",
        "unsloth_fixed": True,
        "use_cache": True,
    }
    assert total_parameters(read_config(published.LLAMA_3_1_8B | carried)) == 8_030_261_248


def test_many_unknown_keys_are_refused_in_a_short_sentence() -> None:
    unknown = {f"key_{number}_{'x' * 200}": 7 for number in range(1000)}
    with pytest.raises(UnsupportedModelError) as caught:
        read_config(published.LLAMA_3_1_8B | unknown)
    assert "992 more keys" in str(caught.value)
    assert len(caught.value.violations) == 9
    assert len(str(caught.value)) < 2500


@pytest.mark.parametrize(
    ("config", "key", "wrong"),
    [
        (published.QWEN2_5_7B, "attention_bias", False),
        (published.QWEN3_30B_A3B, "use_qk_norm", False),
    ],
)
def test_a_key_with_one_known_value_is_refused_with_another(config: Config, key: str, wrong: object) -> None:
    (right,) = EXPECTED_VALUES[config["model_type"]][key]
    assert figures(read_config(config | {key: right})) == figures(read_config(config))
    with pytest.raises(UnsupportedModelError, match=key):
        read_config(config | {key: wrong})


@pytest.mark.parametrize(
    ("config", "alias"),
    [
        (published.LLAMA_3_1_8B, {"n_embd": 5120}),
        (published.LLAMA_3_1_8B, {"n_layer": 33}),
        (published.LLAMA_3_1_8B, {"num_kv_heads": 16}),
        (published.QWEN3_30B_A3B, {"num_local_experts": 64}),
        (published.QWEN3_30B_A3B, {"moe_layer_freq": 2}),
    ],
)
def test_two_words_for_one_thing_must_agree(config: Config, alias: Config) -> None:
    (key,) = alias
    with pytest.raises(CapplanError, match=rf"\b{key}\b.*must agree"):
        read_config(config | alias)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("LLAMA_3_1_8B", "LlamaForCausalLMEagle3"),
        ("LLAMA_3_1_8B", "LlamaForTokenClassification"),
        ("QWEN2_5_7B", "Qwen2ForRewardModel"),
        ("QWEN2_5_7B", "LlamaForCausalLM"),
        ("WHISPER_LARGE_V3", "WhisperForCausalLM"),
    ],
)
def test_a_class_with_another_head_or_body_is_refused(model: str, name: str) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"architectures: class '{name}' is not known"):
        read_config(published.ALL[model] | {"architectures": [name]})


@pytest.mark.parametrize("key", ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"])
def test_an_unknown_number_format_of_states_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedModelError, match=key):
        read_config(published.NEMOTRON_H_56B | {key: "float8_e4m3fn"})
