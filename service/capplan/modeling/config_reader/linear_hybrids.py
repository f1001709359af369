"""Reads hybrids of attention with linear attention or short convolutions."""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.architecture import Block, FeedForward
from capplan.modeling.config_reader.attention import (
    norm_parameters,
    read_head_dim,
    read_kv_heads,
    read_latent_attention,
    read_query_heads,
    read_softmax_attention,
)
from capplan.modeling.config_reader.decoder import (
    HIDDEN_KEYS,
    Decoder,
    assemble_decoder,
    read_feed_forwards,
)
from capplan.modeling.config_reader.feed_forward import (
    read_experts,
)
from capplan.modeling.config_reader.layers import (
    FULL,
    SLIDING,
    read_layer_count,
    read_layer_types,
)
from capplan.modeling.config_reader.traits import ExpertTraits, FamilyTraits, QueryKeyNorm
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward, MixtureOfExperts
from capplan.modeling.recurrent import GatedDeltaNet, KimiDeltaAttention, LightningAttention, ShortConvolution

_QWEN_NEXT = FamilyTraits(
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    query_key_norm=QueryKeyNorm.HEAD,
    output_gate=("attn_output_gate", True),
    head_dim=256,
    experts=ExpertTraits(
        shared_keys=("shared_expert_intermediate_size",), shared_gate=True, shared_module="shared_expert"
    ),
)


def read_qwen3_next(view: ConfigView) -> Decoder:
    """Qwen3-Next and Qwen3.5: gated delta nets with gated attention every few layers."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    delta = GatedDeltaNet(
        hidden_size=hidden,
        key_heads=view.integer("linear_num_key_heads", maximum=MAX_COUNT),
        value_heads=view.integer("linear_num_value_heads", maximum=MAX_COUNT),
        key_head_dim=view.integer("linear_key_head_dim", maximum=MAX_COUNT),
        value_head_dim=view.integer("linear_value_head_dim", maximum=MAX_COUNT),
        kernel=view.integer("linear_conv_kernel_dim", maximum=64),
        split_projections=view.model_type != "qwen3_next",
    )
    traits = replace(_QWEN_NEXT, experts=None) if view.model_type == "qwen3_5_text" else _QWEN_NEXT
    attention = read_softmax_attention(view, traits, hidden)
    kinds = read_layer_types(view, layers)
    if kinds is None:
        interval = view.integer("full_attention_interval", maximum=MAX_COUNT)
        kinds = [FULL if (layer + 1) % interval == 0 else "linear" for layer in range(layers)]
    networks = read_feed_forwards(view, traits, hidden, layers)
    blocks = [
        Block((attention if kind == FULL else delta,), network, 2 * hidden)
        for kind, network in zip(kinds, networks, strict=True)
    ]
    return assemble_decoder(view, hidden, blocks, tied_default=False)


_KIMI_K3_KEYS = ("attn_res_block_size", "latent_moe_use_norm", "mla_use_output_gate", "routed_expert_hidden_size")


def read_kimi_linear(view: ConfigView) -> Decoder:
    """Kimi Linear: Kimi delta attention with latent attention every few layers (numbered from 1).

    Kimi-K3 adds experts in a latent space, and attention over the outputs of earlier blocks of layers: a norm and a
    query before attention, before the feed-forward and at the end (SGLang ``models/kimi_k3.py``).
    """
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    linear = view.sub("linear_attn_config")
    _require_all_of_kimi_k3(view, linear)
    delta = KimiDeltaAttention(
        hidden_size=hidden,
        heads=linear.integer("num_heads", maximum=MAX_COUNT),
        head_dim=linear.integer("head_dim", maximum=MAX_COUNT),
        kernel=linear.integer("short_conv_kernel_size", maximum=64),
        full_rank_gate=linear.flag("use_full_rank_gate", default=False, quiet=True),
    )
    listed = linear.items("kda_layers")
    recurrent = {linear.checked_integer("kda_layers", number, maximum=layers) for number in listed}
    view.first("full_attn_layers")
    view.first("moe_renormalize", "num_expert_group", "use_grouped_topk")  # how experts are chosen
    latent = read_latent_attention(view, FamilyTraits(latent=True), hidden, layers)[0]
    latent = replace(latent, output_gate=view.flag("mla_use_output_gate", default=False, quiet=True))
    traits = FamilyTraits(
        experts=ExpertTraits(
            shared_count=True, layer_keys=("first_k_dense_replace",), router_buffer=True, module="block_sparse_moe"
        )
    )
    networks = read_feed_forwards(view, traits, hidden, layers)
    mixed = view.optional_integer("attn_res_block_size", maximum=MAX_COUNT) is not None
    networks = [tuple(_in_latent_space(view, part) for part in network) for network in networks]
    blocks = [
        Block((delta if layer + 1 in recurrent else latent,), network, (6 if mixed else 2) * hidden)
        for layer, network in enumerate(networks)
    ]
    return assemble_decoder(view, hidden, blocks, tied_default=False, final_norms=3 if mixed else 1)


def _require_all_of_kimi_k3(view: ConfigView, linear: ConfigView) -> None:
    """A config with some of the keys that tell Kimi-K3 from its predecessor must have them all."""
    if not view.names.intersection(_KIMI_K3_KEYS) and "use_full_rank_gate" not in linear.names:
        return
    for key in _KIMI_K3_KEYS:
        if key not in view.names:
            raise view.missing(key)
    if "use_full_rank_gate" not in linear.names:
        raise linear.missing("use_full_rank_gate")


def _in_latent_space(view: ConfigView, network: FeedForward) -> FeedForward:
    """The experts of a layer, acting on a narrower space where the config names one."""
    if not isinstance(network, MixtureOfExperts):
        return network
    normed = view.flag("latent_moe_use_norm", default=False, quiet=True)
    width = view.optional_integer("routed_expert_hidden_size")
    if width is None:
        return network
    return replace(network, latent_size=width, latent_quantizable=False, norm_parameters=width if normed else 0)


def read_minimax_text(view: ConfigView) -> Decoder:
    """MiniMax-Text-01: lightning attention with softmax attention every few layers, experts everywhere."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    attention = read_softmax_attention(view, FamilyTraits(), hidden)
    lightning = LightningAttention(hidden, attention.query_heads, attention.head_dim)
    if view.has("attn_type_list"):
        flags = view.items("attn_type_list", layers)
        if any(isinstance(flag, bool) or flag not in (0, 1) for flag in flags):
            raise view.inconsistent("attn_type_list", "entries must be 0 or 1")
        attends = [flag == 1 for flag in flags]
    else:
        kinds = read_layer_types(view, layers)
        if kinds is None:
            raise view.missing("attn_type_list", "layer_types")
        attends = [kind == FULL for kind in kinds]
    experts = ExpertTraits(width_keys=("intermediate_size",), module="block_sparse_moe")
    if view.integer("shared_intermediate_size", default=0, minimum=0, quiet=True):
        raise view.inconsistent("shared_intermediate_size", "only 0 (no shared expert) is known for this model type")
    networks = read_feed_forwards(view, FamilyTraits(experts=experts), hidden, layers)
    blocks = [
        Block((attention if full else lightning,), network, 2 * hidden)
        for full, network in zip(attends, networks, strict=True)
    ]
    return assemble_decoder(view, hidden, blocks, tied_default=False)


def read_lfm2(view: ConfigView) -> Decoder:
    """LFM2: gated short convolutions with attention in listed layers."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    query_heads = read_query_heads(view)
    kv_heads = read_kv_heads(view, query_heads)
    head_dim = read_head_dim(view, hidden, query_heads)
    attention = replace(
        read_softmax_attention(view, FamilyTraits(), hidden),
        norm_parameters=norm_parameters(QueryKeyNorm.HEAD, query_heads, kv_heads, head_dim),
    )
    convolution = ShortConvolution(
        hidden, view.integer("conv_L_cache", maximum=64), view.flag("conv_bias", default=False)
    )
    kinds = read_layer_types(view, layers)
    if kinds is None:
        listed = view.items("full_attn_idxs")
        attends = {view.checked_integer("full_attn_idxs", n, minimum=0, maximum=layers - 1) for n in listed}
        kinds = [FULL if layer in attends else "convolution" for layer in range(layers)]
    dense = DenseFeedForward(hidden, _lfm2_width(view), module="feed_forward")
    blocks = [Block((attention if kind in (FULL, SLIDING) else convolution,), (dense,), 2 * hidden) for kind in kinds]
    return assemble_decoder(view, hidden, blocks, tied_default=True)


def read_lfm2_moe(view: ConfigView) -> Decoder:
    """LFM2 with experts: the first layers stay dense, at the stated width."""
    dense_layers = view.integer("num_dense_layers", minimum=0, maximum=MAX_COUNT)
    decoder = read_lfm2(view.with_value("block_auto_adjust_ff_dim", False))
    hidden = decoder.hidden_size
    traits = ExpertTraits(module="feed_forward", router_buffer=("use_expert_bias", True))
    experts = read_experts(view, FamilyTraits(), traits, hidden)
    blocks = [
        block if number < dense_layers else replace(block, feed_forwards=(experts,))
        for number, block in enumerate(decoder.blocks)
    ]
    return replace(decoder, blocks=blocks)


def _lfm2_width(view: ConfigView) -> int:
    """The stated width, or two thirds of it rounded up to a multiple where the config says so."""
    width = view.integer("block_ff_dim", "intermediate_size")
    if not view.flag("block_auto_adjust_ff_dim", default=True):
        return width
    multiple = view.integer("block_multiple_of", default=256)
    factor = 1.0
    if view.has("block_ffn_dim_multiplier"):
        factor = view.number("block_ffn_dim_multiplier", minimum=0.01, maximum=100)
    adjusted = int(factor * int(2 * width / 3))
    return multiple * -(-adjusted // multiple)
