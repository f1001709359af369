"""The entry: picks how to read a config by its model type and keys, and assembles the architecture."""

from __future__ import annotations

from collections.abc import Mapping

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.architecture import LayerRun, ModelArchitecture, NativeQuantization, Tower, run_length
from capplan.modeling.config_reader.decoder import Decoder, read_decoder
from capplan.modeling.config_reader.families import FAMILIES, GENERIC
from capplan.modeling.config_reader.quantization import read_quantization
from capplan.modeling.config_reader.view import CONFIG_FIELD, ConfigView

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
    model_type = _model_type(root)
    text, towers = root, ()
    root.model_type = model_type
    if model_type in FAMILIES:
        decoder = read_decoder(root, FAMILIES[model_type])
        assumptions: tuple[str, ...] = ()
    else:
        decoder = _read_unknown(root)
        assumptions = (f"model type {model_type!r} is not known and is read by its keys as a Llama-like decoder",)
    return _assemble(root, text, decoder, towers, name, model_type, assumptions, quantization)


def _model_type(root: ConfigView) -> str:
    value = root.raw("model_type")
    if not isinstance(value, str) or not value:
        raise UnsupportedModelError.single(
            root.field("model_type"), "is needed to size the model and must be a model type of the transformers library"
        )
    return value


def _read_unknown(view: ConfigView) -> Decoder:
    for key in ("tie_word_embeddings", "num_key_value_heads"):
        if not view.has(key):
            raise view.missing(key)
    decoder = read_decoder(view, GENERIC)
    unread = view.unread_size_keys()
    if unread:
        raise UnsupportedModelError.single(
            view.field(unread[0]),
            f"model type {view.model_type!r} is not known, nor is what these keys mean: {', '.join(unread)}",
        )
    return decoder


def _assemble(
    root: ConfigView,
    text: ConfigView,
    decoder: Decoder,
    towers: tuple[Tower, ...],
    name: str | None,
    model_type: str,
    assumptions: tuple[str, ...],
    quantization: Mapping[str, object] | None,
) -> ModelArchitecture:
    notes = list(assumptions)
    if text.defaults:
        notes.append(f"absent from the config, taken from the {text.model_type} class: {', '.join(text.defaults)}")
    layers = run_length(decoder.blocks)
    return ModelArchitecture(
        name=name or model_type,
        family=model_type,
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
        towers=towers,
        dtype=_dtype(root, text),
        quantization=_quantization(root, text, quantization, layers, decoder),
        assumptions=tuple(notes),
    )


def _dtype(root: ConfigView, text: ConfigView) -> str:
    for view in (text, root):
        for key in ("torch_dtype", "dtype"):
            value = view.raw(key)
            if isinstance(value, str):
                return _DTYPES.get(value.removeprefix("torch."), "bf16")
    return "bf16"


def _quantization(
    root: ConfigView,
    text: ConfigView,
    separate: Mapping[str, object] | None,
    layers: tuple[LayerRun, ...],
    decoder: Decoder,
) -> NativeQuantization | None:
    block = None
    for view in (root, text):
        if block is None and view.has("quantization_config"):
            block = view.sub("quantization_config")
    return read_quantization(block, separate, layers, decoder.head)
