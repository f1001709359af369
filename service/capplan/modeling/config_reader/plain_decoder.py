"""Reads a decoder of an unknown model type by its keys alone, where they leave nothing open.

No key says whether queries and keys are normed, how many norms a layer has, or which projections a bias is on: nothing
in a Qwen3 file tells it from a Llama's. So a config is accepted only if it says everything a Llama file says, including
that attention and feed-forward have no biases, and holds no key that is not known to change no size. Of the model types
this package knows, that leaves those with Llama's layers: every other one lacks a key, has one more, or names an
activation that is not always gated. It was tried with every published config under another name, and is tested with
every retyped one. A type that copies Llama's keys and adds weights no key mentions would still be misread, which is why
the answer comes with a sentence on what it assumes.
"""

from __future__ import annotations

from capplan.errors import UnsupportedModelError
from capplan.modeling.config_reader.decoder import Decoder, read_decoder
from capplan.modeling.config_reader.heads import architecture_name
from capplan.modeling.config_reader.traits import FamilyTraits
from capplan.modeling.config_reader.view import ConfigView

_REQUIRED = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
    "attention_bias",
    "mlp_bias",
    "tie_word_embeddings",
)

_GATED_ACTIVATIONS = ("silu", "swish")
"""Activations that every known decoder gates; relu, gelu and others come with and without a gate."""

# Read where present, or known to change no size whatever the model.
_OTHERS = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "attention_multiplier",
        "auto_map",
        "bos_token_id",
        "dtype",
        "embedding_multiplier",
        "eos_token_id",
        "head_dim",
        "initializer_range",
        "logits_scaling",
        "model_type",
        "pad_token_id",
        "pretraining_tp",
        "quantization_config",
        "residual_multiplier",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "torch_dtype",
        "transformers_version",
        "unk_token_id",
        "use_cache",
    }
)


def read_plain_decoder(view: ConfigView) -> tuple[Decoder, tuple[str, ...]]:
    """The decoder of a model type that is not known, and what is assumed of it.

    Raises:
        UnsupportedModelError: a key is missing, not understood, or leaves a size open; all of them are named.
        InvalidInputError: a value of the wrong type, out of range or in contradiction to another.
    """
    missing = [key for key in _REQUIRED if not view.has(key)]
    unknown = sorted(view.names - {*_REQUIRED, *_OTHERS})
    open_ends = [] if missing else _open_ends(view)
    if missing or unknown or open_ends:
        raise UnsupportedModelError.single(
            view.field("model_type"),
            f"model type {view.model_type!r} is not known, and its keys do not determine its size"
            + _listed("; missing", missing)
            + _listed("; not understood", unknown)
            + _listed("; left open by", open_ends),
        )
    sentence = (
        f"model type {view.model_type!r} is not known and is read by its keys as a plain decoder: gated feed-forward, "
        "two RMS norms a layer, none on queries and keys, full attention in every layer"
    )
    return read_decoder(view, FamilyTraits()), (sentence,)


def _open_ends(view: ConfigView) -> list[str]:
    """Keys whose value leaves a size open."""
    found = [key for key in ("attention_bias", "mlp_bias") if view.flag(key)]
    if view.text("hidden_act") not in _GATED_ACTIVATIONS:
        found.append("hidden_act")
    if not architecture_name(view).endswith("ForCausalLM") and view.has("architectures"):
        found.append("architectures")
    return found


def _listed(introduction: str, keys: list[str]) -> str:
    shown = [key if len(key) <= 40 else f"{key[:37]}..." for key in keys[:12]]
    more = f" and {len(keys) - 12} more" if len(keys) > 12 else ""
    return f"{introduction}: {', '.join(shown)}{more}" if keys else ""
