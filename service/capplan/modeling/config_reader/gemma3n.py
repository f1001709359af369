"""Reads Gemma 3n: per-layer embeddings, several residual streams, low-rank residuals, layers that reuse a cache."""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.architecture import Block, Embedding, Tower
from capplan.modeling.config_reader.attention import read_softmax_attention
from capplan.modeling.config_reader.decoder import HIDDEN_KEYS, Decoder, assemble_decoder
from capplan.modeling.config_reader.layers import SLIDING, read_layer_count, read_layer_types, read_window
from capplan.modeling.config_reader.traits import FamilyTraits, QueryKeyNorm
from capplan.modeling.config_reader.view import MAX_COUNT, MAX_WIDTH, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward
from capplan.modeling.linear import Component, LinearMap, Shard

_TRAITS = FamilyTraits(
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    query_key_norm=QueryKeyNorm.HEAD,
    head_dim=256,
)

PUBLISHED_TOWER_PARAMETERS = 1_014_742_624
"""Vision and audio tower of the published checkpoints: index total of gemma-3n-E4B-it, 7,849,978,192, less its text
part, 6,835,235,568. Their configs name a tower, they do not describe it."""

_PUBLISHED_VISION = "mobilenetv5_300m_enc"


def _small(name: str, inputs: int, outputs: int, copies: int = 1) -> LinearMap:
    return LinearMap(
        name,
        Component.DENSE_FFN,
        inputs,
        outputs,
        copies=copies,
        copies_per_token=copies,
        shard=Shard.REPLICATED,
        quantizable=False,
    )


def read_gemma3n_text(view: ConfigView) -> Decoder:
    """The text part of Gemma 3n."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    streams = view.integer("altup_num_inputs", minimum=2, maximum=64)
    rank = view.integer("laurel_rank")
    gate = view.integer("hidden_size_per_layer_input")
    shared = view.integer("num_kv_shared_layers", minimum=0, maximum=layers)
    kinds = read_layer_types(view, layers)
    if kinds is None:
        raise view.missing("layer_types")
    full = read_softmax_attention(view, _TRAITS, hidden)
    local = replace(full, window_tokens=read_window(view))
    extra = (
        _small("laurel.linear_left", hidden, rank),
        _small("laurel.linear_right", rank, hidden),
        _small("per_layer_input_gate", hidden, gate),
        _small("per_layer_projection", gate, hidden),
        _small("altup.modality_router", hidden, streams),
    )
    # Four norms around attention and feed-forward, and those of router, low-rank residual, per-layer input and scale.
    vectors = 8 * hidden + streams * streams + streams * streams * streams
    blocks = []
    for number, (kind, width) in enumerate(zip(kinds, _widths(view, layers), strict=True)):
        attention = local if kind == SLIDING else full
        if number >= layers - shared:
            # Reuses keys and values of an earlier layer: no projections, no key norm, no cache.
            attention = replace(
                attention, projects_key_value=False, owns_cache=False, norm_parameters=attention.head_dim
            )
        blocks.append(Block((attention,), (DenseFeedForward(hidden, width),), vectors, extra))
    decoder = assemble_decoder(view, hidden, blocks, tied_default=True)
    table = Embedding("embed_tokens_per_layer", view.integer("vocab_size_per_layer_input"), layers * gate)
    return replace(
        decoder,
        embeddings=(*decoder.embeddings, table),
        final_norm_parameters=decoder.final_norm_parameters + gate,
        outer_maps=(
            _small("per_layer_model_projection", hidden, layers * gate),
            _small("altup_projections", hidden, hidden, copies=2 * (streams - 1)),
        ),
    )


def _widths(view: ConfigView, layers: int) -> list[int]:
    """Feed-forward width of each layer: one number for all, or a list."""
    if isinstance(view.raw("intermediate_size"), list):
        widths = view.items("intermediate_size", layers)
        return [view.checked_integer("intermediate_size", width, maximum=MAX_WIDTH) for width in widths]
    return [view.integer("intermediate_size")] * layers


def gemma3n_towers(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    """The published vision and audio towers, which configs name only.

    Raises:
        InvalidInputError: another tower, or another text width than the published one.
    """
    vision = root.sub("vision_config")
    if vision.text("architecture", default=_PUBLISHED_VISION) != _PUBLISHED_VISION:
        raise vision.inconsistent("architecture", f"only {_PUBLISHED_VISION} is known")
    audio = root.sub("audio_config")
    if audio.integer("conf_num_hidden_layers", default=12, maximum=MAX_COUNT) != 12 or hidden_size != 2048:
        raise audio.inconsistent("conf_num_hidden_layers", "only the published audio tower of 12 layers is known")
    return (Tower("vision_and_audio_towers", (), PUBLISHED_TOWER_PARAMETERS),)
