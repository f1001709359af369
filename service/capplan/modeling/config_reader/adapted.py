"""Reads regular decoders whose configs have keys or meanings of their own: adapts the view, then reads it as usual."""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.config_reader.attention import read_query_heads
from capplan.modeling.config_reader.decoder import Decoder, read_decoder
from capplan.modeling.config_reader.families import FAMILIES
from capplan.modeling.config_reader.traits import FamilyTraits
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView


def read_qwen1(view: ConfigView) -> Decoder:
    """The first Qwen: its ``intermediate_size`` is twice the width of the gated feed-forward."""
    width = view.integer("intermediate_size")
    if width % 2:
        raise view.inconsistent("intermediate_size", f"must be even, not {width}")
    if not view.flag("no_bias", default=True, quiet=True):
        raise view.inconsistent("no_bias", "only true is known")
    traits = FamilyTraits(qkv_bias=True)
    return read_decoder(view.with_value("intermediate_size", width // 2), traits)


def read_dbrx(view: ConfigView) -> Decoder:
    """DBRX keeps head and expert counts in nested objects."""
    return read_decoder(view.flattened("attn_config", "ffn_config"), FAMILIES["dbrx"])


def read_chatglm(view: ConfigView) -> Decoder:
    """ChatGLM: grouped heads only where ``multi_query_attention`` says so."""
    heads = read_query_heads(view)
    if not view.flag("multi_query_attention", default=False):
        view = view.with_value("num_key_value_heads", heads)
    return read_decoder(view, FAMILIES["chatglm"])


def read_falcon(view: ConfigView) -> Decoder:
    """Falcon: one key/value head (7B), grouped (40B, 180B) or as many as query heads, and one or two norms a layer."""
    heads = read_query_heads(view)
    grouped = view.flag("new_decoder_architecture", default=False)
    multi_query = view.flag("multi_query", default=True)
    parallel = view.flag("parallel_attn", default=True)
    if grouped:
        kv_heads = view.integer("num_kv_heads", default=heads, maximum=MAX_COUNT)
    else:
        kv_heads = 1 if multi_query else heads
    norms = (view.integer("num_ln_in_parallel_attn", default=2, maximum=2) if grouped else 1) if parallel else 2
    bias = view.flag("bias", default=False)
    traits = replace(FAMILIES["falcon"], norms_per_layer=norms, qkv_bias=bias, output_bias=bias, mlp_bias=bias)
    view = view.with_value("num_key_value_heads", kv_heads).with_value("num_kv_heads", kv_heads)
    return read_decoder(view, traits)


def read_gpt_bigcode(view: ConfigView) -> Decoder:
    """StarCoder: one key/value head unless ``multi_query`` is false."""
    heads = read_query_heads(view)
    kv_heads = 1 if view.flag("multi_query", default=True) else heads
    return read_decoder(view.with_value("num_key_value_heads", kv_heads), FAMILIES["gpt_bigcode"])


def read_opt(view: ConfigView) -> Decoder:
    """OPT: all sizes but the 350M norm before each layer and embed at full width."""
    hidden = view.integer("hidden_size")
    if view.integer("word_embed_proj_dim", default=hidden, quiet=True) != hidden:
        raise view.inconsistent("word_embed_proj_dim", f"only the hidden size {hidden} is known")
    if not view.flag("do_layer_norm_before", default=True, quiet=True):
        raise view.inconsistent("do_layer_norm_before", "only true is known")
    return read_decoder(view, FAMILIES["opt"])


def read_mpt(view: ConfigView) -> Decoder:
    """MPT: heads of its own for every query, no biases, no norms on queries and keys."""
    if view.has("attn_config"):
        attention = view.sub("attn_config")
        if attention.text("attn_type", default="multihead_attention") != "multihead_attention":
            raise attention.inconsistent("attn_type", "only multihead_attention is known")
        if attention.flag("qk_ln", default=False, quiet=True):
            raise attention.inconsistent("qk_ln", "only false is known")
    if not view.flag("no_bias", default=True, quiet=True):
        raise view.inconsistent("no_bias", "only true is known")
    return read_decoder(view, FAMILIES["mpt"])


def read_phi3small(view: ConfigView) -> Decoder:
    """Phi-3-small: layer norms, biases everywhere (its modelling code, no key), the feed-forward width stated."""
    if view.has("ff_dim_multiplier"):
        raise view.inconsistent("ff_dim_multiplier", "only null is known: the width is ff_intermediate_size")
    # Half of its layers attend in blocks only, but keep the keys and values of every token.
    view.first("blocksparse_block_size", "blocksparse_num_local_blocks", "blocksparse_vert_stride")
    view.first("blocksparse_triton_kernel_block_size", "dense_attention_every_n_layers", "attention_bias")
    traits = FamilyTraits(
        norm=2, qkv_bias=True, output_bias=True, mlp_bias=True, tied=True, dense_width_keys=("ff_intermediate_size",)
    )
    return read_decoder(view, traits)
