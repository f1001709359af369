"""Which block type every tensor of a GGUF file has, for the file types that llama.cpp's ``quantize`` makes.

A file type names a mixture: most tensors in its block type, some in a wider one, by part, layer and model. The rule is
that of llama.cpp, ``src/llama-quant.cpp`` (``llama_tensor_get_type_impl``, ``tensor_allows_quantization`` and
``tensor_type_fallback`` at commit 007dbbf), without an importance matrix; block sizes are those of its
``ggml-common.h``. Published bits per weight of whole files (its ``tools/quantize/README.md``, Llama-3.1-8B) check it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from capplan.modeling.architecture import LayerRange, ModelArchitecture
from capplan.modeling.attention import SoftmaxAttention
from capplan.modeling.linear import Component, LinearMap
from capplan.modeling.storage import STORAGE_FORMATS

_BLOCK_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "q2_k": "gguf_q2_k",
        "q3_k_s": "gguf_q3_k",
        "q3_k_m": "gguf_q3_k",
        "q3_k_l": "gguf_q3_k",
        "iq4_xs": "gguf_iq4_xs",
        "q4_0": "gguf_q4_0",
        "q4_k_s": "gguf_q4_k",
        "q4_k_m": "gguf_q4_k",
        "q5_0": "gguf_q5_0",
        "q5_k_s": "gguf_q5_k",
        "q5_k_m": "gguf_q5_k",
        "q6_k": "gguf_q6_k",
        "q8_0": "gguf_q8_0",
    }
)

GGUF_FILE_TYPES = tuple(_BLOCK_TYPES)
"""File types that can be sized, by llama.cpp's names in lower case."""

GGUF_FAMILIES = frozenset(
    {
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "granite",
        "llama",
        "mistral",
        "mixtral",
        "olmo2",
        "qwen2",
        "qwen3",
        "qwen3_moe",
    }
)
"""Model types whose tensors llama.cpp keeps as the config lays them out (query, key and value apart, no latent)."""

# llama.cpp tells models with eight experts apart (Mixtral), and those it calls 70B.
_EIGHT_EXPERTS = 8
_LAYERS_OF_70B = 80
_FAMILIES_WITH_70B = ("llama", "mistral", "qwen2")

# A row that is no multiple of the block falls back to a type in blocks of 32, and if that will not do to fp16.
_FALLBACKS: Mapping[str, str] = {
    "gguf_q2_k": "gguf_q4_0",
    "gguf_q3_k": "gguf_q4_0",
    "gguf_q4_k": "gguf_q5_0",
    "gguf_q5_k": "gguf_q5_1",
    "gguf_q6_k": "gguf_q8_0",
    "gguf_iq4_xs": "gguf_iq4_nl",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor stands: its layer of how many, and query heads per key/value head."""

    layer: int
    layers: int
    group: int


def _always(_place: _Place) -> bool:
    return True


def _more_bits(place: _Place) -> bool:
    """The first and last eighth of the layers, and every third between them."""
    eighth = place.layers // 8
    return place.layer < eighth or place.layer >= 7 * place.layers // 8 or (place.layer - eighth) % 3 == 2


def _first(part: int) -> Callable[[_Place], bool]:
    return lambda place: place.layer < place.layers // part


def _before(layer: int) -> Callable[[_Place], bool]:
    return lambda place: place.layer < layer


def _grouped(place: _Place) -> bool:
    return place.group >= 4


# (file type, part) -> block types with where they apply, the first that does; the file type's own where none does.
_WIDENED: Mapping[tuple[str, str], tuple[tuple[str, Callable[[_Place], bool]], ...]] = {
    ("q2_k", "v_proj"): (("gguf_q4_k", _grouped), ("gguf_q3_k", _always)),
    ("q2_k", "o_proj"): (("gguf_q3_k", _always),),
    ("q2_k", "down_proj"): (("gguf_q3_k", _always),),
    ("q3_k_m", "v_proj"): (("gguf_q5_k", _before(2)), ("gguf_q4_k", _always)),
    ("q3_k_m", "o_proj"): (("gguf_q4_k", _always),),
    ("q3_k_m", "down_proj"): (("gguf_q5_k", _first(16)), ("gguf_q4_k", _always)),
    ("q3_k_l", "v_proj"): (("gguf_q5_k", _always),),
    ("q3_k_l", "o_proj"): (("gguf_q5_k", _always),),
    ("q3_k_l", "down_proj"): (("gguf_q5_k", _always),),
    ("iq4_xs", "v_proj"): (("gguf_q5_k", _grouped),),
    ("iq4_xs", "down_proj"): (("gguf_q5_k", _first(8)),),
    ("q4_k_s", "v_proj"): (("gguf_q5_k", _before(4)),),
    ("q4_k_s", "down_proj"): (("gguf_q5_k", _first(8)),),
    ("q4_k_m", "v_proj"): (("gguf_q6_k", _more_bits),),
    ("q4_k_m", "down_proj"): (("gguf_q6_k", _more_bits),),
    ("q5_k_m", "v_proj"): (("gguf_q6_k", _more_bits),),
    ("q5_k_m", "down_proj"): (("gguf_q6_k", _more_bits),),
}

# With eight experts the output projection of these is q5_k, whatever the table above says.
_OUTPUT_OF_EIGHT_EXPERTS = frozenset({"q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_xs"})


def gguf_storage(
    architecture: ModelArchitecture, file_type: str
) -> Mapping[str, tuple[tuple[str, tuple[LayerRange, ...] | None], ...]]:
    """The storage formats of every quantised matrix of a GGUF file, the token table and head included.

    Everything else (norms, biases, routers) is fp32 in such a file, and a vision tower is a file of its own in fp16.

    Args:
        architecture: a model of :data:`GGUF_FAMILIES` in 16 bit.
        file_type: one of :data:`GGUF_FILE_TYPES`.

    Returns:
        ``name -> ((storage format, layers or None for all), ...)`` by name of linear map or table.
    """
    numbers: dict[str, dict[str, list[LayerRange]]] = {}
    for linear, layer, group in _matrices(architecture):
        storage = _layer_storage(architecture, file_type, linear, _Place(layer, architecture.layer_count, group))
        numbers.setdefault(linear.name, {}).setdefault(storage, []).append(LayerRange(layer, layer))
    found: dict[str, tuple[tuple[str, tuple[LayerRange, ...] | None], ...]] = {
        name: tuple((storage, tuple(layers)) for storage, layers in by_storage.items())
        for name, by_storage in numbers.items()
    }
    default, output = _BLOCK_TYPES[file_type], _output_storage(architecture, file_type)
    found["lm_head"] = ((output, None),)
    # A token table that serves as the head, or stands without one, is stored as a head is.
    table = output if architecture.head is None else _fitting(default, architecture.hidden_size)
    found[architecture.embeddings[0].name] = ((table, None),)
    return found


def _matrices(architecture: ModelArchitecture) -> Iterator[tuple[LinearMap, int, int]]:
    """Every quantised linear map with its layer, ascending, and the layer's query heads per key/value head."""
    first = 0
    for run in architecture.layers:
        mixers = [mixer for mixer in run.block.mixers if isinstance(mixer, SoftmaxAttention)]
        group = mixers[0].query_heads // mixers[0].kv_heads if mixers else 1
        for layer in range(first, first + run.count):
            yield from ((linear, layer, group) for linear in run.block.maps() if linear.quantizable)
        first += run.count


def _layer_storage(architecture: ModelArchitecture, file_type: str, linear: LinearMap, place: _Place) -> str:
    part = linear.name.rpartition(".")[2]
    choices = _WIDENED.get((file_type, part), ())
    storage = next((wider for wider, applies in choices if applies(place)), _BLOCK_TYPES[file_type])
    if part == "v_proj" and _is_70b(architecture, place) and storage in ("gguf_q3_k", "gguf_q4_k"):
        storage = "gguf_q5_k"
    if part in ("k_proj", "v_proj", "o_proj") and _expert_count(architecture) == _EIGHT_EXPERTS:
        output = "gguf_q5_k" if file_type in _OUTPUT_OF_EIGHT_EXPERTS else _BLOCK_TYPES[file_type]
        storage = output if part == "o_proj" else "gguf_q8_0"
    return _fitting(storage, linear.in_features)


def _output_storage(architecture: ModelArchitecture, file_type: str) -> str:
    default = _BLOCK_TYPES[file_type]
    if default == "gguf_q8_0" or architecture.hidden_size % STORAGE_FORMATS[default].input_granule:
        return _fitting("gguf_q8_0", architecture.hidden_size)
    return _fitting("gguf_q6_k", architecture.hidden_size)


def _fitting(storage: str, in_features: int) -> str:
    """The format itself where rows are whole blocks, else what llama.cpp falls back to."""
    for candidate in (storage, _FALLBACKS.get(storage, storage)):
        if in_features % STORAGE_FORMATS[candidate].input_granule == 0:
            return candidate
    return "fp16"


def _expert_count(architecture: ModelArchitecture) -> int:
    blocks = (run.block for run in architecture.layers)
    return max((m.copies for b in blocks for m in b.maps() if m.component is Component.ROUTED_EXPERT), default=0)


def _is_70b(architecture: ModelArchitecture, place: _Place) -> bool:
    """What llama.cpp calls a 70B by depth: 80 layers, for Llama with grouped queries only."""
    if architecture.family not in _FAMILIES_WITH_70B or place.layers != _LAYERS_OF_70B:
        return False
    return architecture.family == "qwen2" or place.group > 1
