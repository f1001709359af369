"""Random messages of the contract, drawn from its descriptors: every field may hold anything its type can."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from tests.server.catalogue import CONFIG, MODEL, MODEL_ALIAS

# What a field of any message may mean something by; a random text never would.
_WORDS = (
    *("", " ", "(", "null", "\x00", "{}", "[]", "NaN", "vllm", "0.33", "0.8", "99999.1", "0.x", "on_demand", "spot"),
    *(MODEL, MODEL_ALIAS, "llama", "models/", "h100-sxm-80gb", "H100", "accelerators/a100-sxm-80gb", "a30-24gb"),
    *("bf16", "fp8", "int4", "mxfp4", "nvfp4", "auto", "1g.10gb", "id:19", "id:", "prices/", "migBoards/-"),
    *("migBoards/a100-40gb", "migBoards/a100-40gb/profiles/19", "vendor = nvidia", 'aliases:"A100"'),
    *("sglang", "tensorrt_llm", "llama.cpp", "latest"),
    *("peak_flop_per_s.bf16 >= 1e15", "source.edited = true"),
)
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e8, 1e9, 1.7e308, float("inf"), float("-inf"), float("nan"))


_FAMILIES = (
    *("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gemma3_text", "mixtral", "deepseek_v3", "mamba2"),
    "unheard_of",
)
_OTHER_KEYS = (
    *("num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "kv_lora_rank"),
    *("sliding_window", "layer_types", "rope_scaling", "quantization_config", "text_config", "architectures"),
)
_HOSTILE_TEXTS = (
    *("[" * 5000, '{"a":' * 40 + "1" + "}" * 40, '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e999}', '{"a":"\\ud800"}'),
    '{"a":' + "9" * 5000 + "}",
)


def integers(bits: int) -> st.SearchStrategy[int]:
    """Any integer of so many bits, small and extreme ones often."""
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.one_of(st.integers(-2, 130), st.sampled_from((least, most, 10**6, 8192)), st.integers(least, most))


def configs() -> st.SearchStrategy[str]:
    """Texts of configs: the test model's with some keys changed, dropped or added, and other JSON."""
    scalars = st.one_of(
        st.none(), st.booleans(), integers(64), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
    )
    values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=8), scalars, max_size=3)
    known = st.sampled_from(sorted(CONFIG))
    keys = known | st.sampled_from(_OTHER_KEYS) | st.text(max_size=12)

    def changed(model_type: str, changes: dict[str, Any], dropped: set[str]) -> str:
        config = {**CONFIG, "model_type": model_type, **changes}
        return json.dumps({key: value for key, value in config.items() if key not in dropped})

    near_the_model = st.builds(
        changed,
        st.sampled_from(_FAMILIES),
        st.dictionaries(keys, values, max_size=4),
        st.sets(known, max_size=2),
    )
    any_json = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ).map(json.dumps)
    return near_the_model | any_json | st.sampled_from(_HOSTILE_TEXTS) | st.text(max_size=20)


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Any message of a type."""
    return _values(kind.DESCRIPTOR)


def _values(descriptor: Any) -> st.SearchStrategy[Message]:
    kind = message_factory.GetMessageClass(descriptor)
    fields = {field.name: _field(field) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: kind(**values))


def _field(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    single = _single(field)
    return st.lists(single, max_size=4) if field.is_repeated else single


def _single(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return _values(field.message_type)
    if field.enum_type is not None:
        return _enumeration(field.enum_type)
    if field.name.endswith("config_json"):
        return configs()
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return st.one_of(st.floats(0.1, 10_000), st.sampled_from(_NUMBERS), st.floats())
        case FieldDescriptor.CPPTYPE_INT32:
            return integers(32)
        case FieldDescriptor.CPPTYPE_INT64:
            return integers(64)
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_STRING:
            # Halves of surrogate pairs are no text, and no client can send them as such.
            return st.sampled_from(_WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    raise AssertionError(f"the contract has a field of a new type: {field.full_name}")


def _enumeration(enum: Any) -> st.SearchStrategy[int]:
    return st.sampled_from([value.number for value in enum.values]) | integers(32)
