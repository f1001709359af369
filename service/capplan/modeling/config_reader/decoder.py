"""Reads a decoder of a regular family into blocks, embeddings and head."""

from __future__ import annotations

from dataclasses import dataclass, replace

from capplan.modeling.architecture import AttentionMixer, Block, Embedding, FeedForward, MultiTokenPrediction
from capplan.modeling.config_reader.attention import (
    read_latent_attention,
    read_softmax_attention,
    resolve_flag,
)
from capplan.modeling.config_reader.feed_forward import expert_layers, has_experts, read_dense, read_experts
from capplan.modeling.config_reader.layers import CONTEXT_KEYS, read_layer_count, read_max_context, windows_by_layer
from capplan.modeling.config_reader.traits import FamilyTraits
from capplan.modeling.config_reader.view import ConfigView
from capplan.modeling.linear import Component, LinearMap, Shard

HIDDEN_KEYS = ("hidden_size", "d_model", "n_embd", "dim", "model_dim")
VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size")


@dataclass(frozen=True, slots=True)
class Decoder:
    """What a config says of the decoder itself."""

    hidden_size: int
    vocabulary_size: int
    max_context_tokens: int | None
    blocks: list[Block]
    embeddings: tuple[Embedding, ...]
    head: LinearMap | None
    tied_head: bool
    final_norm_parameters: int
    outer_maps: tuple[LinearMap, ...] = ()
    head_extra_parameters: int = 0
    prediction: MultiTokenPrediction | None = None


def output_head(hidden_size: int, vocabulary_size: int, *, bias: bool = False) -> LinearMap:
    """The projection onto the vocabulary."""
    return LinearMap("lm_head", Component.LM_HEAD, hidden_size, vocabulary_size, bias=bias, shard=Shard.VOCABULARY)


def read_tied(view: ConfigView, default: bool) -> bool:
    """Whether the token table serves as the head."""
    return view.flag("tie_word_embeddings", default=default)


def read_embeddings(view: ConfigView, traits: FamilyTraits, hidden_size: int, vocabulary: int) -> tuple[Embedding, ...]:
    """Token table, and position table where the family learns one."""
    tables = [Embedding("embed_tokens", vocabulary, hidden_size)]
    if traits.position_rows is not None:
        rows = view.integer(*CONTEXT_KEYS)
        tables.append(Embedding("embed_positions", rows + traits.position_rows, hidden_size, Shard.REPLICATED))
    return tuple(tables)


def read_attention_mixers(
    view: ConfigView, traits: FamilyTraits, hidden_size: int, layers: int
) -> list[AttentionMixer]:
    """The attention of each layer."""
    if traits.latent and view.flag("use_mla", default=True, quiet=True):
        return list(read_latent_attention(view, traits, hidden_size, layers))
    attention = read_softmax_attention(view, traits, hidden_size)
    windows = windows_by_layer(view, traits, layers)
    return [replace(attention, window_tokens=window) for window in windows]


def read_feed_forwards(
    view: ConfigView, traits: FamilyTraits, hidden_size: int, layers: int
) -> list[tuple[FeedForward, ...]]:
    """The feed-forward networks of each layer."""
    if traits.experts is None:
        if has_experts(view):
            raise view.inconsistent(
                "num_experts", f"model type {view.model_type!r} is dense here; experts are not known"
            )
        return [(read_dense(view, traits, hidden_size),)] * layers
    experts = read_experts(view, traits, traits.experts, hidden_size)
    routed = expert_layers(view, layers, traits.experts.layer_keys, sparse_steps=traits.experts.sparse_steps)
    if all(routed):
        return [(experts,)] * layers
    dense = read_dense(view, traits, hidden_size)
    return [(experts,) if has else (dense,) for has in routed]


def read_decoder(view: ConfigView, traits: FamilyTraits) -> Decoder:
    """A decoder whose layers are one attention and one feed-forward each.

    Raises:
        UnsupportedModelError: a key that determines a size is missing.
        InvalidInputError: a value of the wrong type, out of range or in contradiction to another.
    """
    hidden_size = view.integer(*HIDDEN_KEYS)
    vocabulary = view.integer(*VOCABULARY_KEYS)
    layers = read_layer_count(view)
    mixers = read_attention_mixers(view, traits, hidden_size, layers)
    networks = read_feed_forwards(view, traits, hidden_size, layers)
    norm = traits.norm * hidden_size
    parallel = traits.parallel_key is not None and view.flag(traits.parallel_key, default=False)
    norms = 1 if parallel else traits.norms_per_layer
    blocks = [
        Block((mixer,), feed_forwards, norms * norm + traits.activation_parameters)
        for mixer, feed_forwards in zip(mixers, networks, strict=True)
    ]
    tied = read_tied(view, traits.tied)
    head = None if tied else output_head(hidden_size, vocabulary, bias=resolve_flag(view, traits.head_bias))
    return Decoder(
        hidden_size=hidden_size,
        vocabulary_size=vocabulary,
        max_context_tokens=read_max_context(view),
        blocks=blocks,
        embeddings=read_embeddings(view, traits, hidden_size, vocabulary),
        head=head,
        tied_head=tied,
        final_norm_parameters=norm * (2 if traits.embedding_norm else 1),
    )


def assemble_decoder(
    view: ConfigView, hidden_size: int, blocks: list[Block], *, tied_default: bool, final_norms: int = 1
) -> Decoder:
    """A decoder around blocks: token table, head, final norm."""
    vocabulary = view.integer(*VOCABULARY_KEYS)
    tied = read_tied(view, tied_default)
    return Decoder(
        hidden_size=hidden_size,
        vocabulary_size=vocabulary,
        max_context_tokens=read_max_context(view),
        blocks=blocks,
        embeddings=(Embedding("embed_tokens", vocabulary, hidden_size),),
        head=None if tied else output_head(hidden_size, vocabulary),
        tied_head=tied,
        final_norm_parameters=final_norms * hidden_size,
    )
