"""The entry: picks how to read a config by its model type and keys, and assembles the architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.architecture import ModelArchitecture, Tower, run_length
from capplan.modeling.config_reader.decoder import Decoder, read_decoder
from capplan.modeling.config_reader.encoders import BERT_FAMILIES
from capplan.modeling.config_reader.families import CLASS_FAMILIES, FAMILIES
from capplan.modeling.config_reader.heads import (
    DECODER_CLASSES,
    ENCODER_CLASSES,
    GENERATOR_CLASSES,
    IMAGE_CLASSES,
    architecture_name,
    refuse_other_classes,
    with_own_head,
)
from capplan.modeling.config_reader.irregular import read_mllama_text
from capplan.modeling.config_reader.known_types import CLASS_DEFAULTS, ENCODER_DECODERS, READERS, TEXT_KEYS
from capplan.modeling.config_reader.plain_decoder import read_plain_decoder
from capplan.modeling.config_reader.prediction import with_prediction
from capplan.modeling.config_reader.quantization import read_quantization
from capplan.modeling.config_reader.towers import TEXT_TYPES, TOWERS, mllama_patch_tokens, mllama_tiles
from capplan.modeling.config_reader.unexplained import refuse_unexplained
from capplan.modeling.config_reader.view import CONFIG_FIELD, ConfigView, shown

_MAX_TYPE_CHARACTERS = 128

_QUANTISED_NAME = re.compile(
    r"(?<![a-z0-9])(fp8|nvfp4|mxfp4|awq|gptq|int4|int8|w4a16|w8a8|bnb-4bit)(?![a-z0-9])", re.IGNORECASE
)

_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def read_config(
    config: Mapping[str, object],
    *,
    name: str | None = None,
    quantization: Mapping[str, object] | None = None,
) -> ModelArchitecture:
    """The architecture a parsed config describes.

    Args:
        config: parsed ``config.json``.
        name: display name; the config's own ``_name_or_path`` or model type when absent.
        quantization: parsed ``hf_quant_config.json``, for checkpoints that declare their format only there.

    Raises:
        UnsupportedModelError: a model type that is not known, or keys that do not determine its size.
        InvalidInputError: a value of the wrong type, out of range, or in contradiction to another.
    """
    if not isinstance(config, Mapping):
        raise InvalidInputError.single(CONFIG_FIELD, "must be an object")
    root = ConfigView(config)
    root.model_type = _model_type(root)
    endings = _class_endings(root.model_type)
    if endings is not None:
        refuse_other_classes(root, endings)
    if root.model_type in TOWERS:
        return _read_multimodal(root, name, quantization)
    if root.model_type in ENCODER_DECODERS:
        decoder, towers = ENCODER_DECODERS[root.model_type](root)
        return _assemble(root, root, _Parts(decoder, towers, (), name, quantization))
    decoder, assumptions = _read_text(root)
    return _assemble(root, root, _Parts(decoder, (), assumptions, name, quantization))


def _class_endings(model_type: str) -> tuple[str, ...] | None:
    """What classes of a known model type end in, ``None`` for a type that is not known."""
    if model_type in BERT_FAMILIES:
        return ENCODER_CLASSES
    if model_type == "vit":
        return IMAGE_CLASSES
    if model_type == "chatglm":
        return (*DECODER_CLASSES, *GENERATOR_CLASSES)
    if model_type in TOWERS or model_type in ENCODER_DECODERS:
        return GENERATOR_CLASSES
    return DECODER_CLASSES if model_type in READERS or model_type in FAMILIES else None


@dataclass(frozen=True, slots=True)
class _Parts:
    """What was read, beside the views it was read from."""

    decoder: Decoder
    towers: tuple[Tower, ...]
    assumptions: tuple[str, ...]
    name: str | None
    quantization: Mapping[str, object] | None


def _read_text(view: ConfigView) -> tuple[Decoder, tuple[str, ...]]:
    """The decoder of a view whose model type is set, and what had to be assumed about the type."""
    if view.has("per_layer_config") and view.raw("per_layer_config") and view.model_type != "gemma4_text":
        raise view.inconsistent("per_layer_config", f"is not known how to read for model type {view.model_type!r}")
    if view.model_type in READERS:
        return READERS[view.model_type](view), ()
    if view.model_type in FAMILIES:
        return read_decoder(view, FAMILIES[view.model_type]), ()
    return _read_unknown(view)


def _read_multimodal(
    root: ConfigView, name: str | None, quantization: Mapping[str, object] | None
) -> ModelArchitecture:
    nested = root.first(*TEXT_KEYS)
    text = root if nested is None else root.sub(nested)
    stated = text.text("model_type", default=root.model_type)
    text_type = TEXT_TYPES.get(stated, stated)
    if nested is None:
        text = root.retyped(text_type)
    else:
        text = ConfigView(_text_values(root, text), text.path, text_type, CLASS_DEFAULTS.get(text_type), root.ledger)
    if text.model_type == "mllama_text":
        decoder = read_mllama_text(text, mllama_tiles(root) * mllama_patch_tokens(root))
        assumptions: tuple[str, ...] = (
            f"a request is taken to keep the keys and values of one image of {mllama_tiles(root)} tiles",
        )
    elif text.model_type in READERS or text.model_type in FAMILIES:
        decoder, assumptions = _read_text(text)
    else:
        raise UnsupportedModelError.single(
            text.field("model_type"), f"text part {stated!r} of model type {root.model_type!r} is not known"
        )
    towers = TOWERS[root.model_type](root, decoder.hidden_size)
    return _assemble(root, text, _Parts(decoder, towers, assumptions, name, quantization))


def _text_values(root: ConfigView, text: ConfigView) -> dict[str, object]:
    """Values of the text part; whether the head is tied is the outer model's to say where it does."""
    values = {key: text.peek(key) for key in text.names}
    if root.has("tie_word_embeddings"):
        values["tie_word_embeddings"] = root.raw("tie_word_embeddings")
    return values


def _model_type(root: ConfigView) -> str:
    value = root.raw("model_type")
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TYPE_CHARACTERS:
        raise UnsupportedModelError.single(
            root.field("model_type"), "is needed to size the model and must be a model type of the transformers library"
        )
    return value


def _read_unknown(view: ConfigView) -> tuple[Decoder, tuple[str, ...]]:
    """A model type that is not known: read as its modelling class where that is known, else by its keys alone."""
    name = architecture_name(view)
    family = CLASS_FAMILIES.get(name)
    if family is None:
        return read_plain_decoder(view)
    decoder = read_decoder(view, FAMILIES[family])
    return decoder, (f"model type {view.model_type!r} is not known and is read by its class {name} as {family}",)


def _assemble(root: ConfigView, text: ConfigView, parts: _Parts) -> ModelArchitecture:
    decoder, head_notes = with_own_head(root, parts.decoder, parts.name)
    decoder = with_prediction(text, decoder)
    layers = run_length(decoder.blocks)
    scheme, scheme_notes = read_quantization(root, text, parts.quantization, layers, decoder.head)
    notes = [*parts.assumptions, *head_notes, *dict.fromkeys(text.remarks)]
    dtype = _dtype(root, text)
    if dtype is None:
        notes.append("no number format of the weights is stated: bf16 is taken")
    if not architecture_name(root):
        notes.append("no class is stated under architectures: the plain model of the type is taken")
    if decoder.max_context_tokens is None:
        notes.append("no key states the longest context")
    if scheme is None and (named := _QUANTISED_NAME.search(parts.name or "")):
        notes.append(f"named {named[1]}, but no quantisation block says what of it is: taken as stored in 16 bit")
    notes += _absent_keys(root, text)
    notes += scheme_notes
    state_element_bytes = _state_element_bytes(text)
    refuse_unexplained(root, text)
    return ModelArchitecture(
        name=parts.name or root.model_type,
        family=root.model_type,
        hidden_size=decoder.hidden_size,
        vocabulary_size=decoder.vocabulary_size,
        max_context_tokens=decoder.max_context_tokens,
        layers=layers,
        embeddings=decoder.embeddings,
        head=decoder.head,
        tied_head=decoder.tied_head,
        final_norm_parameters=decoder.final_norm_parameters,
        head_extra_parameters=decoder.head_extra_parameters,
        outer_maps=decoder.outer_maps,
        towers=parts.towers,
        prediction=decoder.prediction,
        dtype=dtype or "bf16",
        state_element_bytes=state_element_bytes,
        quantization=scheme,
        assumptions=tuple(notes),
    )


def _absent_keys(root: ConfigView, text: ConfigView) -> Iterator[str]:
    """Sentences on the keys that were absent and taken from the class, part by part of the config."""
    own = dict.fromkeys(text.defaults + ([] if root is text else root.defaults))
    if own:
        yield f"absent from the config, taken from the {text.model_type} class: {', '.join(own)}"
    for path, taken in root.ledger.defaults.items():
        part = path.removeprefix(f"{root.path}.")
        if taken and path not in (root.path, text.path) and "quantization_config" not in path:
            yield f"absent from {part}, taken from its class: {', '.join(dict.fromkeys(taken))}"


def _state_element_bytes(text: ConfigView) -> int:
    """Recurrent state is kept in fp32 unless the config names a 16-bit type.

    Raises:
        UnsupportedModelError: a type that is not known, or two keys that differ.
    """
    stated = {}
    for key in ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"):
        value = text.raw(key)
        if value is None:
            continue
        if not isinstance(value, str) or value not in _STATE_BYTES:
            raise UnsupportedModelError.single(
                text.field(key), f"must be one of {', '.join(_STATE_BYTES)}, not {shown(value)}"
            )
        stated[key] = _STATE_BYTES[value]
    if len(set(stated.values())) > 1:
        raise UnsupportedModelError.single(
            text.field("mamba_ssm_dtype"), "contradicts mamba_ssm_cache_dtype; they must agree"
        )
    return next(iter(stated.values()), 4)


def _dtype(root: ConfigView, text: ConfigView) -> str | None:
    """The number format of the weights, ``None`` where no key states one.

    Raises:
        UnsupportedModelError: one that is stated but not known.
    """
    found = []
    for view in (text, root):
        for key in ("torch_dtype", "dtype"):
            value = view.raw(key)
            if value is None:
                continue
            known = _DTYPES.get(value.removeprefix("torch.")) if isinstance(value, str) else None
            if known is None:
                raise UnsupportedModelError.single(
                    view.field(key), f"must be one of {', '.join(_DTYPES)}, not {shown(value)}"
                )
            found.append(known)
    return found[0] if found else None
