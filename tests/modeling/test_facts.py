"""Architecture facts: an exact round trip, and strict reading."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError, InvalidInputError
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from capplan.modeling.facts import architecture_from_facts, architecture_to_facts
from capplan.modeling.precision import native_precision
from capplan.modeling.sharding import tensor_parallel_faults, weight_bytes_per_rank
from tests.modeling import published
from tests.modeling.published import BLOCK_FP8


def facts_of(name: str, **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(json.dumps(architecture_to_facts(read_config(published.ALL[name] | more))))
    return facts


@pytest.mark.parametrize("name", sorted(published.ALL))
def test_facts_restore_the_architecture_exactly(name: str) -> None:
    architecture = read_config(published.ALL[name], name=name)
    through_json = json.loads(json.dumps(architecture_to_facts(architecture)))
    assert architecture_from_facts(through_json) == architecture
    assert architecture_to_facts(architecture_from_facts(through_json)) == through_json


def test_native_quantisation_is_part_of_the_facts() -> None:
    architecture = read_config(published.DEEPSEEK_V3 | {"quantization_config": BLOCK_FP8}, name="deepseek")
    restored = architecture_from_facts(json.loads(json.dumps(architecture_to_facts(architecture))))
    assert restored.quantization == architecture.quantization
    assert restored.quantization is not None


def test_equal_layers_are_written_once() -> None:
    assert len(facts_of("DEEPSEEK_V3")["layers"]["blocks"]) == 2
    assert len(json.dumps(facts_of("GPT_OSS_120B"))) < 3_000


@given(
    layers=st.integers(1, 30),
    hidden=st.integers(1, 64),
    ffn=st.integers(1, 4096),
    kv_heads=st.integers(1, 8),
    group=st.integers(1, 8),
    tied=st.booleans(),
    bias=st.booleans(),
    window=st.none() | st.integers(1, 100),
)
def test_any_decoder_survives_the_round_trip(
    layers: int, hidden: int, ffn: int, kv_heads: int, group: int, tied: bool, bias: bool, window: int | None
) -> None:
    config = published.decoder(
        "llama",
        layers,
        64 * hidden,
        ffn,
        kv_heads * group,
        kv_heads,
        1000,
        head_dim=64,
        tie_word_embeddings=tied,
        attention_bias=bias,
        sliding_window=window,
    )
    architecture = read_config(config)
    assert architecture_from_facts(json.loads(json.dumps(architecture_to_facts(architecture)))) == architecture


@pytest.mark.parametrize("schema", [None, 0, 2, "1", True])
def test_another_schema_is_refused(schema: object) -> None:
    with pytest.raises(InvalidInputError, match=r"model\.facts\.schema"):
        architecture_from_facts(facts_of("LLAMA_3_1_8B") | {"schema": schema})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hidden_size": "4096"}, "model.facts.hidden_size"),
        ({"hidden_size": True}, "model.facts.hidden_size"),
        ({"hidden_size": -1}, "model.facts.hidden_size"),
        ({"hidden_size": 0}, "model.facts.hidden_size"),
        ({"dtype": "fp7"}, "model.facts.dtype"),
        ({"tied_head": 1}, "model.facts.tied_head"),
        ({"layer": []}, "model.facts.layer"),
        ({"layers": [1]}, "model.facts.layers"),
        ({"layers": {"blocks": [], "runs": [[0, 1]]}}, "model.facts.layers.runs[0]"),
        ({"embeddings": {}}, "model.facts.embeddings"),
    ],
)
def test_faults_name_their_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        architecture_from_facts(facts_of("LLAMA_3_1_8B") | change)
    assert caught.value.violations[0].field == field


def test_a_missing_field_is_named() -> None:
    facts = facts_of("LLAMA_3_1_8B")
    del facts["vocabulary_size"]
    with pytest.raises(InvalidInputError, match=r"model\.facts\.vocabulary_size: is missing"):
        architecture_from_facts(facts)


def test_an_unknown_mixer_is_refused() -> None:
    facts = facts_of("LLAMA_3_1_8B")
    facts["layers"]["blocks"][0]["mixers"][0]["kind"] = "Telepathy"
    with pytest.raises(InvalidInputError, match="must be one of SoftmaxAttention"):
        architecture_from_facts(facts)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(name=st.sampled_from(["LLAMA_3_1_8B", "DEEPSEEK_V3", "QWEN3_NEXT_80B", "GPT_OSS_20B"]), data=st.data())
def test_damaged_facts_are_refused_or_can_be_costed(name: str, data: st.DataObject) -> None:
    facts = facts_of(name)
    place: Any = facts
    for _ in range(data.draw(st.integers(1, 8))):
        if not isinstance(place, dict | list) or not place:
            break
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
        else:
            place[key] = data.draw(json_values | st.integers(0, 3))
            break
    with contextlib.suppress(CapplanError):
        architecture = architecture_from_facts(facts)
        costs = model_costs(architecture, native_precision(architecture))
        assert costs.weight_bytes > 0
        tensor_parallel_faults(costs, 3)
        weight_bytes_per_rank(costs, 3)
