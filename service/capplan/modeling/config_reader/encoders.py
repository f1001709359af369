"""Reads encoders (BERT and its relatives, CLIP) and encoder-decoders (Whisper, T5).

Encoders keep no cache between requests. The encoder of an encoder-decoder is counted as a tower: it runs once per
request, while the decoder runs once per token and keeps the encoder's keys and values for the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from capplan.modeling.architecture import Block, Embedding, Tower
from capplan.modeling.attention import SoftmaxAttention
from capplan.modeling.config_reader.attention import read_head_dim, read_query_heads
from capplan.modeling.config_reader.decoder import Decoder, output_head, read_tied
from capplan.modeling.config_reader.heads import architecture_name, label_count
from capplan.modeling.config_reader.layers import read_layer_count, read_max_context
from capplan.modeling.config_reader.tower_parts import Stack, assemble, tower_map
from capplan.modeling.config_reader.towers import clip_vision
from capplan.modeling.config_reader.view import MAX_COUNT, MAX_TOKENS, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward
from capplan.modeling.linear import Component, LinearMap, Shard


def encoder_attention(hidden: int, heads: int, head_dim: int, **changes: bool) -> SoftmaxAttention:
    """Multi-head attention with biases that caches nothing."""
    plain = SoftmaxAttention(
        hidden_size=hidden,
        query_heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        value_head_dim=head_dim,
        input_size=hidden,
        qkv_bias=True,
        output_bias=True,
        owns_cache=False,
        causal=False,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # callers name fields that are flags


@dataclass(frozen=True, slots=True)
class _BertTraits:
    """Habits of a BERT relative.

    Attributes:
        segments: it has a segment table.
        pooler: its bare model ends in a pooler.
        offset: positions its table reserves below the first token.
        relative_buckets: it adds a relative position table (MPNet).
    """

    segments: bool = True
    pooler: bool = True
    offset: int = 0
    relative_buckets: bool = False


BERT_FAMILIES: Mapping[str, _BertTraits] = MappingProxyType(
    {
        "bert": _BertTraits(),
        "roberta": _BertTraits(offset=2),
        "xlm-roberta": _BertTraits(offset=2),
        "camembert": _BertTraits(offset=2),
        "mpnet": _BertTraits(segments=False, offset=2, relative_buckets=True),
        "distilbert": _BertTraits(segments=False, pooler=False),
    }
)
"""BERT relatives by model type."""


def read_bert(view: ConfigView) -> Decoder:
    """BERT and its relatives: layer norms with bias, biases everywhere, learned positions."""
    traits = BERT_FAMILIES[view.model_type]
    view.first("type_vocab_size")  # carried by relatives without segments too
    view.first("tie_word_embeddings")  # the bare model and its classifiers have no head to tie
    hidden = view.integer("hidden_size", "dim")
    heads = read_query_heads(view)
    head_dim = read_head_dim(view, hidden, heads)
    vocabulary = view.integer("vocab_size")
    positions = view.integer("max_position_embeddings", maximum=MAX_TOKENS)
    dense = DenseFeedForward(hidden, view.integer("intermediate_size", "hidden_dim"), gated=False, bias=True)
    blocks = [Block((encoder_attention(hidden, heads, head_dim),), (dense,), 4 * hidden)] * read_layer_count(view)
    tables = [
        Embedding("word_embeddings", vocabulary, hidden),
        Embedding("position_embeddings", positions, hidden, Shard.REPLICATED),
    ]
    if traits.segments:
        rows = view.integer("type_vocab_size", default=2, maximum=MAX_COUNT)
        tables.append(Embedding("token_type_embeddings", rows, hidden, Shard.REPLICATED))
    relative = view.integer("relative_attention_num_buckets", default=32) * heads if traits.relative_buckets else 0
    outer, extra = _bert_head(view, traits, hidden, vocabulary)
    return Decoder(
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_tokens=positions - traits.offset,
        blocks=blocks,
        embeddings=tuple(tables),
        head=None,
        tied_head=False,
        final_norm_parameters=2 * hidden + relative,
        outer_maps=outer,
        head_extra_parameters=extra,
    )


def _bert_head(
    view: ConfigView, traits: _BertTraits, hidden: int, vocabulary: int
) -> tuple[tuple[LinearMap, ...], int]:
    """The maps after the last layer, by the class the config names, and parameters that are no map."""
    name = architecture_name(view)
    dense = LinearMap("head.dense", Component.LM_HEAD, hidden, hidden, bias=True, shard=Shard.REPLICATED)
    if name.endswith("ForMaskedLM"):
        # Dense, norm, and one bias a word; the projection itself is the token table.
        return (dense,), 2 * hidden + vocabulary
    if name.endswith("ForSequenceClassification"):
        labels = label_count(view)
        score = LinearMap("head.classifier", Component.LM_HEAD, hidden, labels, bias=True, shard=Shard.REPLICATED)
        return (dense, score), 0
    return ((dense,), 0) if traits.pooler else ((), 0)


def read_clip(view: ConfigView) -> tuple[Decoder, tuple[Tower, ...]]:
    """CLIP: a text transformer beside a vision tower, each with a projection."""
    text = view.sub("text_config")
    vision = view.sub("vision_config")
    hidden = text.integer("hidden_size")
    heads = read_query_heads(text)
    vocabulary = text.integer("vocab_size")
    positions = text.integer("max_position_embeddings", maximum=MAX_TOKENS)
    dense = DenseFeedForward(hidden, text.integer("intermediate_size"), gated=False, bias=True)
    attention = encoder_attention(hidden, heads, read_head_dim(text, hidden, heads), causal=True)
    shared = view.integer("projection_dim")
    projection = LinearMap("text_projection", Component.LM_HEAD, hidden, shared, shard=Shard.REPLICATED)
    decoder = Decoder(
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_tokens=positions,
        blocks=[Block((attention,), (dense,), 4 * hidden)] * read_layer_count(text),
        embeddings=(
            Embedding("token_embedding", vocabulary, hidden),
            Embedding("position_embedding", positions, hidden, Shard.REPLICATED),
        ),
        head=None,
        tied_head=False,
        final_norm_parameters=2 * hidden,
        outer_maps=(projection,),
        head_extra_parameters=1,  # the logit scale
    )
    width = vision.integer("hidden_size")
    projector = assemble("visual_projection", (), (tower_map("visual_projection", width, shared, bias=False),), 0)
    return decoder, (clip_vision(vision, "vision_model"), projector)


def read_whisper(view: ConfigView) -> tuple[Decoder, tuple[Tower, ...]]:
    """Whisper: a convolutional audio encoder, and a decoder that keeps its keys and values for the whole request."""
    hidden = view.integer("d_model")
    heads = view.integer("decoder_attention_heads", maximum=MAX_COUNT)
    if hidden % heads:
        raise view.inconsistent("decoder_attention_heads", f"{heads} heads do not divide the width {hidden}")
    vocabulary = view.integer("vocab_size")
    frames = view.integer("max_source_positions", maximum=MAX_TOKENS)
    positions = view.integer("max_target_positions", maximum=MAX_TOKENS)
    plain = encoder_attention(hidden, heads, hidden // heads, key_bias=False)
    own = replace(plain, causal=True, owns_cache=True)
    cross = replace(plain, cross_tokens=frames, module="encoder_attn")
    dense = DenseFeedForward(hidden, view.integer("decoder_ffn_dim"), gated=False, bias=True)
    view.first("encoder_attention_heads")  # changes no size: heads are as wide as the width over their number
    layers = view.integer("decoder_layers", maximum=MAX_COUNT)
    tied = read_tied(view, default=True)
    decoder = Decoder(
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_tokens=positions,
        blocks=[Block((own, cross), (dense,), 6 * hidden)] * layers,
        embeddings=(
            Embedding("embed_tokens", vocabulary, hidden),
            Embedding("embed_positions", positions, hidden, Shard.REPLICATED),
        ),
        head=None if tied else output_head(hidden, vocabulary),
        tied_head=tied,
        final_norm_parameters=2 * hidden,
    )
    stack = Stack(
        view.integer("encoder_layers", maximum=MAX_COUNT),
        hidden,
        view.integer("encoder_ffn_dim"),
        key_bias=False,
        norm=4 * hidden,
    )
    outer = (
        tower_map("encoder.conv1", 3 * view.integer("num_mel_bins", maximum=MAX_COUNT), hidden, bias=True),
        tower_map("encoder.conv2", 3 * hidden, hidden, bias=True),
    )
    return decoder, (assemble("encoder", (stack,), outer, frames * hidden + 2 * hidden),)


def _t5_gated(view: ConfigView) -> bool:
    """Whether the activation is that of a gated feed-forward."""
    if not view.has("feed_forward_proj"):
        view.note_default("feed_forward_proj", "relu")
    gate, _, activation = view.text("feed_forward_proj", default="relu").rpartition("-")
    if gate not in ("", "gated") or activation not in ("relu", "gelu", "silu"):
        raise view.inconsistent("feed_forward_proj", "must be relu, gelu or silu, or gated- and one of these")
    return gate == "gated"


def read_t5(view: ConfigView) -> tuple[Decoder, tuple[Tower, ...]]:
    """T5: no biases, RMS norms, one relative position table each for encoder and decoder."""
    hidden = view.integer("d_model")
    heads = view.integer("num_heads", maximum=MAX_COUNT)
    head_dim = view.integer("d_kv", maximum=MAX_COUNT)
    inner = view.integer("d_ff")
    vocabulary = view.integer("vocab_size")
    gated = _t5_gated(view)
    buckets = view.integer("relative_attention_num_buckets", default=32) * heads
    sources = read_max_context(view) or 512
    layers = view.integer("num_layers", maximum=MAX_COUNT)
    plain = replace(encoder_attention(hidden, heads, head_dim), qkv_bias=False, output_bias=False)
    own = replace(plain, causal=True, owns_cache=True)
    cross = replace(plain, cross_tokens=sources, module="encoder_attn")
    dense = DenseFeedForward(hidden, inner, gated=gated)
    tied = read_tied(view, default=True)
    decoder = Decoder(
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_tokens=read_max_context(view),
        blocks=[Block((own, cross), (dense,), 3 * hidden)]
        * view.integer("num_decoder_layers", default=layers, maximum=MAX_COUNT),
        embeddings=(Embedding("shared", vocabulary, hidden),),
        head=None if tied else output_head(hidden, vocabulary),
        tied_head=tied,
        final_norm_parameters=hidden + buckets,
    )
    stack = Stack(
        layers,
        hidden,
        inner,
        gated=gated,
        attention_bias=False,
        mlp_bias=False,
        norm=2 * hidden,
        attention_width=heads * head_dim,
    )
    return decoder, (assemble("encoder", (stack,), (), hidden + buckets),)
