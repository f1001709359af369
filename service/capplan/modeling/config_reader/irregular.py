"""Reads decoders whose layers differ in ways of their own: per-layer head shapes, searched blocks, cross-attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.modeling.architecture import Block, Embedding, FeedForward, Mixer
from capplan.modeling.attention import SoftmaxAttention
from capplan.modeling.compressed_attention import CompressedAttention
from capplan.modeling.config_reader.attention import read_query_heads, read_softmax_attention
from capplan.modeling.config_reader.decoder import (
    HIDDEN_KEYS,
    VOCABULARY_KEYS,
    Decoder,
    assemble_decoder,
    output_head,
)
from capplan.modeling.config_reader.feed_forward import expert_layers, has_experts, read_dense, read_experts
from capplan.modeling.config_reader.layers import SLIDING, read_layer_count, read_layer_types, read_window
from capplan.modeling.config_reader.traits import ExpertTraits, FamilyTraits, QueryKeyNorm, WindowRule
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward


def read_nemotron_nas(view: ConfigView) -> Decoder:
    """Nemotron NAS: every block may lack attention or feed-forward, and has a feed-forward width of its own."""
    hidden = view.integer(*HIDDEN_KEYS)
    query_heads = read_query_heads(view)
    if hidden % query_heads:
        raise view.inconsistent("num_attention_heads", f"{query_heads} heads do not divide the hidden size {hidden}")
    entries = view.items("block_configs", read_layer_count(view))
    blocks = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise view.inconsistent("block_configs", "entries must be objects of attention and ffn")
        block = view.below(f"block_configs[{number}]", entry)
        mixers = _nas_attention(block.sub("attention"), hidden, query_heads, view.flag("attention_bias", default=False))
        networks = _nas_feed_forward(block.sub("ffn"), hidden, view.flag("mlp_bias", default=False))
        blocks.append(Block(mixers, networks, hidden * (len(mixers) + len(networks))))
    view.first("num_key_value_heads", "intermediate_size")  # both null: blocks say it
    return assemble_decoder(view, hidden, blocks, tied_default=False)


def _nas_part_exists(part: ConfigView) -> bool:
    if part.flag("replace_with_linear", default=False, quiet=True):
        raise part.inconsistent("replace_with_linear", "blocks replaced by one linear layer are not known")
    return not part.flag("no_op", default=False, quiet=True)


def _nas_attention(part: ConfigView, hidden: int, query_heads: int, bias: bool) -> tuple[Mixer, ...]:
    if not _nas_part_exists(part):
        return ()
    group = part.integer("n_heads_in_group", maximum=query_heads)
    if query_heads % group:
        raise part.inconsistent("n_heads_in_group", f"{group} does not divide {query_heads} query heads")
    head_dim = hidden // query_heads
    return (
        SoftmaxAttention(
            hidden_size=hidden,
            query_heads=query_heads,
            kv_heads=query_heads // group,
            head_dim=head_dim,
            value_head_dim=head_dim,
            input_size=hidden,
            qkv_bias=bias,
            output_bias=bias,
            window_tokens=part.optional_integer("window_length"),
        ),
    )


def _nas_feed_forward(part: ConfigView, hidden: int, bias: bool) -> tuple[FeedForward, ...]:
    if not _nas_part_exists(part):
        return ()
    multiple = part.number("ffn_mult", minimum=0.001, maximum=64)
    # The published modelling code takes two thirds of the multiple and rounds up to 256.
    width = -(-int(2 * multiple * hidden / 3) // 256) * 256
    return (DenseFeedForward(hidden, width, bias=bias),)


def read_mimo_v2(view: ConfigView) -> Decoder:
    """MiMo-V2: windowed layers have head counts and sinks of their own; keys are wider than values."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    bias = view.flag("attention_bias", default=False)

    def attention(prefix: str, window: int | None, sinks: bool) -> SoftmaxAttention:
        query_heads = view.integer(f"{prefix}num_attention_heads", maximum=MAX_COUNT)
        kv_heads = view.integer(f"{prefix}num_key_value_heads", maximum=MAX_COUNT)
        if query_heads % kv_heads:
            raise view.inconsistent(f"{prefix}num_key_value_heads", f"does not divide {query_heads} query heads")
        return SoftmaxAttention(
            hidden_size=hidden,
            query_heads=query_heads,
            kv_heads=kv_heads,
            head_dim=view.integer(f"{prefix}head_dim", maximum=MAX_COUNT),
            value_head_dim=view.integer(f"{prefix}v_head_dim", maximum=MAX_COUNT),
            input_size=hidden,
            qkv_bias=bias,
            sinks=sinks,
            window_tokens=window,
        )

    flags = view.items("hybrid_layer_pattern", layers)
    if any(isinstance(flag, bool) or flag not in (0, 1) for flag in flags):
        raise view.inconsistent("hybrid_layer_pattern", "entries must be 0 or 1")
    full = attention("", None, view.flag("add_full_attention_sink_bias", default=False))
    local = attention("swa_", read_window(view), view.flag("add_swa_attention_sink_bias", default=False))
    traits = FamilyTraits(experts=ExpertTraits(shared_count=True, router_buffer=True))
    assert traits.experts is not None  # set one line above
    experts = read_experts(view, traits, traits.experts, hidden)
    dense = read_dense(view, traits, hidden)
    routed = expert_layers(view, layers, ("moe_layer_freq",))
    blocks = [
        Block((local if flag else full,), (experts if has else dense,), 2 * hidden)
        for flag, has in zip(flags, routed, strict=True)
    ]
    return assemble_decoder(view, hidden, blocks, tied_default=False)


_GEMMA4 = FamilyTraits(
    norms_per_layer=4,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    query_key_norm=QueryKeyNorm.HEAD,
    window=WindowRule.PATTERN,
    experts=ExpertTraits(norm_hidden=1, norm_experts=1, module="experts_block"),
)


def read_gemma4(view: ConfigView) -> Decoder:
    """Gemma 4: global layers have a head shape of their own and may share one projection for keys and values."""
    for key in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if view.integer(key, default=0, minimum=0, quiet=True):
            raise view.inconsistent(key, "only 0 is known for this model type")
    if view.flag("use_double_wide_mlp", default=False, quiet=True):
        raise view.inconsistent("use_double_wide_mlp", "only false is known for this model type")
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    local = replace(read_softmax_attention(view, _GEMMA4, hidden), window_tokens=read_window(view))
    shared = view.flag("attention_k_eq_v", default=False)
    dense = read_dense(view, _GEMMA4, hidden)
    networks: tuple[FeedForward, ...] = (dense,)
    norms = 4
    if view.flag("enable_moe_block", default=False) and has_experts(view):
        assert _GEMMA4.experts is not None  # declared above
        networks = (dense, read_experts(view, _GEMMA4, _GEMMA4.experts, hidden))
        norms = 7
    kinds = read_layer_types(view, layers)
    if kinds is None:
        raise view.missing("layer_types")
    if SLIDING in kinds and not view.has("sliding_window"):
        raise view.missing("sliding_window")
    shapes = _gemma4_shapes(view, local, kinds)
    blocks = []
    for kind, (head_dim, kv_heads) in zip(kinds, shapes, strict=True):
        attention = replace(
            local, head_dim=head_dim, value_head_dim=head_dim, kv_heads=kv_heads, norm_parameters=2 * head_dim
        )
        if kind != SLIDING:
            attention = replace(attention, window_tokens=None, shared_key_value=shared)
        blocks.append(Block((attention,), networks, norms * hidden))
    return assemble_decoder(view, hidden, blocks, tied_default=True)


def _gemma4_shapes(view: ConfigView, local: SoftmaxAttention, kinds: list[str]) -> list[tuple[int, int]]:
    """Head width and key/value heads of each layer: two global keys, or what newer files list layer by layer."""
    own = (local.head_dim, local.kv_heads)
    if all(kind == SLIDING for kind in kinds):
        return [own] * len(kinds)
    if view.has("per_layer_config"):
        listed = _per_layer_shapes(view.sub("per_layer_config"), own, len(kinds))
        return [listed.get(number, own) for number in range(len(kinds))]
    kv_heads = view.integer("num_global_key_value_heads", default=local.kv_heads, maximum=MAX_COUNT)
    if local.query_heads % kv_heads:
        raise view.inconsistent("num_global_key_value_heads", f"does not divide {local.query_heads} query heads")
    whole = (view.integer("global_head_dim", maximum=MAX_COUNT), kv_heads)
    return [own if kind == SLIDING else whole for kind in kinds]


def _per_layer_shapes(view: ConfigView, own: tuple[int, int], layers: int) -> dict[int, tuple[int, int]]:
    found = {}
    for key in sorted(view.names):
        layer = view.checked_integer(key, int(key) if key.isdecimal() else key, minimum=0, maximum=layers - 1)
        shape = view.sub(key)
        unknown = sorted(shape.names - {"head_dim", "num_key_value_heads"})
        if unknown:
            raise shape.inconsistent(unknown[0], "only head_dim and num_key_value_heads are known layer by layer")
        found[layer] = (
            shape.integer("head_dim", default=own[0], maximum=MAX_COUNT),
            shape.integer("num_key_value_heads", default=own[1], maximum=MAX_COUNT),
        )
    return found


MLLAMA_RESERVED_ROWS = 8
"""Rows of Llama 3.2 Vision's token table beyond the vocabulary (image and reserved tokens)."""


def read_mllama_text(view: ConfigView, vision_tokens: int) -> Decoder:
    """Llama 3.2 Vision: some layers attend to the image instead of the text.

    Args:
        view: the text part.
        vision_tokens: image tokens whose keys and values a request keeps.
    """
    hidden = view.integer(*HIDDEN_KEYS)
    vocabulary = view.integer(*VOCABULARY_KEYS)
    layers = read_layer_count(view)
    attention = read_softmax_attention(view, FamilyTraits(), hidden)
    cross = replace(
        attention,
        norm_parameters=2 * attention.head_dim,
        owns_cache=False,
        causal=False,
        cross_tokens=vision_tokens,
        module="cross_attn",
    )
    listed = view.items("cross_attention_layers")
    crossing = {view.checked_integer("cross_attention_layers", n, minimum=0, maximum=layers - 1) for n in listed}
    dense = read_dense(view, FamilyTraits(), hidden)
    blocks = [
        # A gate each for attention and feed-forward comes with cross-attention.
        Block((cross,), (dense,), 2 * hidden + 2) if n in crossing else Block((attention,), (dense,), 2 * hidden)
        for n in range(layers)
    ]
    decoder = assemble_decoder(view, hidden, blocks, tied_default=False)
    table = Embedding("embed_tokens", vocabulary + MLLAMA_RESERVED_ROWS, hidden)
    return replace(decoder, embeddings=(table,), head=output_head(hidden, vocabulary), tied_head=False)


def read_deepseek_v4(view: ConfigView) -> Decoder:
    """DeepSeek V4: compressed attention by layer, and hyper-connections that mix several residual streams."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    if view.integer("num_key_value_heads", maximum=MAX_COUNT) != 1:
        raise view.inconsistent("num_key_value_heads", "must be 1: keys and values are one shared vector")
    plain = CompressedAttention(
        hidden_size=hidden,
        query_heads=read_query_heads(view),
        head_dim=view.integer("head_dim", maximum=MAX_COUNT),
        rope_head_dim=view.integer("qk_rope_head_dim", maximum=MAX_COUNT),
        q_lora_rank=view.integer("q_lora_rank"),
        output_groups=view.integer("o_groups", maximum=MAX_COUNT),
        output_rank=view.integer("o_lora_rank"),
        window_tokens=view.integer("sliding_window"),
    )
    if plain.query_heads * plain.head_dim % plain.output_groups:
        raise view.inconsistent("o_groups", f"{plain.output_groups} groups do not divide the heads' width")
    folded = replace(plain, ratio=128)
    indexed = replace(
        plain,
        ratio=4,
        index_heads=view.integer("index_n_heads", maximum=MAX_COUNT),
        index_head_dim=view.integer("index_head_dim", maximum=MAX_COUNT),
        index_topk=view.integer("index_topk"),
    )
    by_ratio = {0: plain, 4: indexed, 128: folded}
    ratios = _compression_ratios(view, layers)
    for ratio in ratios:
        if ratio not in by_ratio:
            raise view.inconsistent("compress_ratios", f"entries must be 0, 4 or 128, not {ratio!r}")
    traits = ExpertTraits(shared_count=True, router_buffer=True)
    experts = read_experts(view, FamilyTraits(), traits, hidden)
    view.first("num_hash_layers", "expert_dtype", "hc_sinkhorn_iters")
    streams = view.integer("hc_mult", maximum=64)
    # One mixing matrix, bias and three scales before attention and before the experts.
    rows = (2 + streams) * streams
    mixing = 2 * (rows * streams * hidden + rows + 3)
    blocks = [Block((by_ratio[ratio],), (experts,), 2 * hidden + mixing) for ratio in ratios]
    decoder = assemble_decoder(view, hidden, blocks, tied_default=False)
    return replace(
        decoder, final_norm_parameters=decoder.final_norm_parameters + streams * streams * hidden + streams + 1
    )


_V4_RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def _compression_ratios(view: ConfigView, layers: int) -> list[int]:
    """Tokens a layer folds into one entry: a list of ratios, or of layer kinds as newer files have it."""
    if not view.has("compress_ratios") and view.has("layer_types"):
        kinds = view.items("layer_types", layers)
        if not all(isinstance(kind, str) and kind in _V4_RATIOS for kind in kinds):
            raise view.inconsistent("layer_types", f"entries must be one of {', '.join(_V4_RATIOS)}")
        rates = view.sub("compress_rates")
        for kind in ("compressed_sparse_attention", "heavily_compressed_attention"):
            if rates.integer(kind) != _V4_RATIOS[kind]:
                raise rates.inconsistent(kind, f"only {_V4_RATIOS[kind]} is known")
        return [_V4_RATIOS[str(kind)] for kind in kinds]
    ratios = view.items("compress_ratios")
    drafting = view.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=64, quiet=True)
    if len(ratios) not in (layers, layers + drafting):
        raise view.inconsistent("compress_ratios", f"must have {layers} entries, one a layer, not {len(ratios)}")
    return [view.checked_integer("compress_ratios", ratio, minimum=0) for ratio in ratios[:layers]]
