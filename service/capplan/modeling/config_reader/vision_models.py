"""Reads vision transformers: ViT, and SigLIP with its text tower."""

from __future__ import annotations

from capplan.modeling.architecture import Block, Embedding, Tower
from capplan.modeling.config_reader.attention import read_head_dim, read_query_heads
from capplan.modeling.config_reader.decoder import Decoder
from capplan.modeling.config_reader.encoders import encoder_attention
from capplan.modeling.config_reader.heads import architecture_name, label_count
from capplan.modeling.config_reader.layers import read_layer_count
from capplan.modeling.config_reader.tower_parts import assemble, patch_count, patch_inputs, tower_map, vit_stack
from capplan.modeling.config_reader.view import MAX_TOKENS, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward
from capplan.modeling.linear import Component, LinearMap, Shard


def _encoder_blocks(view: ConfigView, hidden: int, *, qkv_bias: bool = True) -> list[Block]:
    """Plain encoder layers: two layer norms, biases everywhere, nothing cached."""
    heads = read_query_heads(view)
    head_dim = read_head_dim(view, hidden, heads)
    attention = encoder_attention(hidden, heads, head_dim, qkv_bias=qkv_bias)
    dense = DenseFeedForward(hidden, view.integer("intermediate_size"), gated=False, bias=True)
    return [Block((attention,), (dense,), 4 * hidden)] * read_layer_count(view)


def _map(name: str, inputs: int, outputs: int) -> LinearMap:
    return LinearMap(name, Component.LM_HEAD, inputs, outputs, bias=True, shard=Shard.REPLICATED)


def read_vit(view: ConfigView) -> Decoder:
    """ViT: the "vocabulary" is the classes, the context the patches of one image and the class token."""
    hidden = view.integer("hidden_size")
    tokens = patch_count(view) + 1
    blocks = _encoder_blocks(view, hidden, qkv_bias=view.flag("qkv_bias", default=True))
    patches = LinearMap(
        "patch_embeddings",
        Component.EMBEDDING,
        patch_inputs(view),
        hidden,
        bias=True,
        shard=Shard.REPLICATED,
        quantizable=False,
    )
    labels = label_count(view)
    if architecture_name(view).endswith("ForImageClassification"):
        head = _map("classifier", hidden, labels)
    else:
        head = _map("pooler", hidden, hidden)
    return Decoder(
        hidden_size=hidden,
        vocabulary_size=labels,
        max_context_tokens=tokens,
        blocks=blocks,
        embeddings=(Embedding("position_embeddings", tokens + 1, hidden, Shard.REPLICATED),),
        head=None,
        tied_head=False,
        final_norm_parameters=2 * hidden,
        outer_maps=(patches, head),
    )


def read_siglip(view: ConfigView) -> tuple[Decoder, tuple[Tower, ...]]:
    """SigLIP: a text transformer beside a vision tower that pools by attention."""
    text, vision = view.sub("text_config"), view.sub("vision_config")
    hidden = text.integer("hidden_size")
    vocabulary = text.integer("vocab_size")
    positions = text.integer("max_position_embeddings", maximum=MAX_TOKENS)
    decoder = Decoder(
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_tokens=positions,
        blocks=_encoder_blocks(text, hidden),
        embeddings=(
            Embedding("token_embedding", vocabulary, hidden),
            Embedding("position_embedding", positions, hidden, Shard.REPLICATED),
        ),
        head=None,
        tied_head=False,
        final_norm_parameters=2 * hidden,
        outer_maps=(_map("text_model.head", hidden, text.integer("projection_size", default=hidden)),),
        head_extra_parameters=2,  # logit scale and bias
    )
    stack = vit_stack(vision)
    width, inner = stack.width, stack.inner
    outer = [tower_map("vision_model.patch_embedding", patch_inputs(vision), width, bias=True)]
    vectors = patch_count(vision) * width + 2 * width
    if vision.flag("vision_use_head", default=True, quiet=True):
        outer += [
            tower_map("vision_model.head.in_proj", width, 3 * width, bias=True),
            tower_map("vision_model.head.out_proj", width, width, bias=True),
            tower_map("vision_model.head.fc1", width, inner, bias=True),
            tower_map("vision_model.head.fc2", inner, width, bias=True),
        ]
        vectors += width + 2 * width
    return decoder, (assemble("vision_model", (stack,), tuple(outer), vectors),)
