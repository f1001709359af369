"""Reads how a checkpoint is quantised: from which block, in what scheme, and which linear maps stay in 16 bit.

The block sits in ``quantization_config`` (at the top or in the text part), or only in a separate
``hf_quant_config.json`` as NVIDIA's ModelOpt writes it. Where there are two, they must say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.architecture import LayerRun, NativeQuantization, QuantizedMap, has_routed_experts
from capplan.modeling.config_reader.quantization_methods import read_model_optimizer, read_scheme
from capplan.modeling.config_reader.quantized_maps import Scheme, quantized_maps
from capplan.modeling.config_reader.unexplained import refuse_unexplained
from capplan.modeling.config_reader.view import ConfigView
from capplan.modeling.linear import LinearMap

HF_QUANT_FIELD = "model.hf_quant_config_json"

NO_EXCLUSIONS = "no module is listed as left in 16 bit: all decoder linear layers are taken as quantised"

_KEY = "quantization_config"
_EXCLUSION_KEYS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules")

# DeepSeek's recipe, taken over by others, quantises every linear layer and has no list: its absence says nothing.
_BLOCK_FP8_KEYS = frozenset(("quant_method", "fmt", "activation_scheme", "weight_block_size", "scale_fmt"))


def read_quantization(
    root: ConfigView,
    text: ConfigView,
    separate: Mapping[str, object] | None,
    layers: tuple[LayerRun, ...],
    head: LinearMap | None,
) -> tuple[NativeQuantization | None, tuple[str, ...]]:
    """How the checkpoint is quantised, ``None`` for a 16-bit one, and what its block left to be assumed.

    Args:
        root: the whole config.
        text: its text part, the same view where there is none.
        separate: parsed ``hf_quant_config.json``, ``None`` without.
        layers: the model's layers.
        head: its output head, when it is a matrix of its own.

    Raises:
        UnsupportedModelError: a method or format that is not known, or two blocks that differ, named by field.
    """
    block = _block(root, text)
    stated = read_scheme(block) if block is not None else None
    hint = _read_separate(separate) if separate is not None else None
    scheme = stated or hint
    if scheme is None:
        return None, ()
    notes = [NO_EXCLUSIONS] if hint is not None and not hint.ignored else []
    if root.model_type == "llama4" and scheme.method == "compressed-tensors" and not scheme.ignored:
        # Meta's Maverick checkpoint names no module left in 16 bit, yet only its routed experts are in fp8.
        scheme = replace(scheme, experts_only=True)
    if block is not None and scheme.method == "mxfp4" and not has_routed_experts(layers):
        raise UnsupportedModelError.single(
            block.field("quant_method"), "mxfp4 is known for routed experts only, of which there are none"
        )
    maps = quantized_maps(scheme, layers, head)
    if block is not None and hint is not None:
        _refuse_contradiction(block, scheme, hint, maps, quantized_maps(hint, layers, head))
    if text.model_type == "deepseek_v4" and _experts_are_fp4(text):
        maps = tuple(replace(m, storage="mxfp4") if ".experts." in m.name else m for m in maps)
    kv_cache = scheme.kv_cache or (hint.kv_cache if hint else None)
    if block is not None:
        notes += _unsaid(block, scheme)
    return NativeQuantization(scheme.precision, scheme.method, maps, kv_cache), tuple(dict.fromkeys(notes))


def _experts_are_fp4(text: ConfigView) -> bool:
    """DeepSeek V4's routed experts are in mxfp4, whatever the method says of the rest, where this key says so."""
    if text.text("expert_dtype", default="fp4") != "fp4":
        raise UnsupportedModelError.single(text.field("expert_dtype"), "only fp4 is known")
    if "expert_dtype" not in text.names:
        text.note_default("expert_dtype", "as the rest of quantization_config")
    return text.has("expert_dtype")


def _block(root: ConfigView, text: ConfigView) -> ConfigView | None:
    """The quantisation block, wherever it is.

    Raises:
        UnsupportedModelError: a block under another key, or two that differ.
    """
    found = []
    for view in (root,) if text.path == root.path else (root, text):
        for key in ("quantization", "compression_config"):
            if view.has(key):
                raise UnsupportedModelError.single(
                    view.field(key), f"quantisation is read from {_KEY} alone, not from this key"
                )
        for key in sorted(view.names - {_KEY}):
            value = view.peek(key)
            if isinstance(value, Mapping) and not value.keys().isdisjoint(("quant_method", "quant_algo")):
                raise UnsupportedModelError.single(
                    view.field(key), f"looks like a quantisation block, which is read from {_KEY}"
                )
        if view.has(_KEY):
            found.append(view)
    if len(found) == 2 and found[0].raw(_KEY) != found[1].raw(_KEY):
        raise UnsupportedModelError.single(
            found[1].field(_KEY), f"differs from {found[0].field(_KEY)}; accepted are one block, or two equal ones"
        )
    return found[0].sub(_KEY) if found else None


def _read_separate(separate: Mapping[str, object]) -> Scheme:
    if not isinstance(separate, Mapping):
        raise InvalidInputError.single(HF_QUANT_FIELD, "must be an object")
    root = ConfigView(separate, HF_QUANT_FIELD, "modelopt")
    scheme = read_model_optimizer(root.sub("quantization"))
    refuse_unexplained(root, root)
    return scheme


def _refuse_contradiction(
    block: ConfigView,
    scheme: Scheme,
    hint: Scheme,
    maps: tuple[QuantizedMap, ...],
    hinted_maps: tuple[QuantizedMap, ...],
) -> None:
    """Refuse a config and a ``hf_quant_config.json`` that store something differently."""
    for what, one, other in (
        ("weights", scheme.storage, hint.storage),
        ("KV cache", scheme.kv_cache or hint.kv_cache, hint.kv_cache or scheme.kv_cache),
    ):
        if one != other:
            raise UnsupportedModelError.single(
                block.path, f"says {what} in {one}, but {HF_QUANT_FIELD} says {other}; they must agree"
            )
    if scheme.ignored and hint.ignored and maps != hinted_maps:
        differing = sorted({m.name for m in {*maps} ^ {*hinted_maps}})[:4]
        raise UnsupportedModelError.single(
            block.path,
            f"and {HF_QUANT_FIELD} leave other modules in 16 bit; they must agree on {', '.join(differing)}",
        )


def _unsaid(block: ConfigView, scheme: Scheme) -> list[str]:
    """What a block leaves to be assumed."""
    notes = []
    if (
        not scheme.experts_only
        and block.names.isdisjoint(_EXCLUSION_KEYS)
        and not (scheme.storage == "fp8_block" and block.names <= _BLOCK_FP8_KEYS)
    ):
        notes.append(NO_EXCLUSIONS)
    absent = ", ".join(dict.fromkeys(block.defaults))
    return notes + ([f"absent from {_KEY}, taken as: {absent}"] if absent else [])
