"""A model's layers in words, as ``DescribeModel`` reports them."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.modeling.architecture import Block, FeedForward, Mixer, ModelArchitecture
from capplan.modeling.attention import LatentAttention, SoftmaxAttention
from capplan.modeling.compressed_attention import CompressedAttention
from capplan.modeling.feed_forward import MixtureOfExperts
from capplan.modeling.recurrent import GatedDeltaNet, KimiDeltaAttention, LightningAttention, ShortConvolution
from capplan.modeling.state_space import Mamba1, Mamba2


def layer_summary(architecture: ModelArchitecture) -> tuple[str, ...]:
    """The layers in words, equal ones together, in the order they first occur."""
    counts: dict[str, int] = {}
    for run in architecture.layers:
        for phrase in _phrases(run.block):
            counts[phrase] = counts.get(phrase, 0) + run.count
    return tuple(f"{count} x {phrase}" for phrase, count in counts.items())


def _phrases(block: Block) -> Iterator[str]:
    for mixer in block.mixers:
        yield _mixer_phrase(mixer)
    for feed_forward in block.feed_forwards:
        yield _feed_forward_phrase(feed_forward)


def _mixer_phrase(mixer: Mixer) -> str:
    match mixer:
        case SoftmaxAttention():
            return _softmax_phrase(mixer)
        case LatentAttention():
            sparse = f", {mixer.indexer.topk} tokens picked by an indexer" if mixer.indexer is not None else ""
            return f"latent attention, {mixer.query_heads} query heads, latent of {mixer.kv_lora_rank}{sparse}"
        case CompressedAttention():
            return _compressed_phrase(mixer)
        case Mamba1():
            return f"Mamba, {mixer.inner_size} channels, state of {mixer.state_size}"
        case Mamba2():
            return f"Mamba-2, {mixer.heads} heads of {mixer.head_dim}, state of {mixer.state_size}"
        case GatedDeltaNet():
            return f"gated delta net, {mixer.value_heads} value heads, {mixer.key_heads} key heads"
        case KimiDeltaAttention():
            return f"Kimi delta attention, {mixer.heads} heads of {mixer.head_dim}"
        case LightningAttention():
            return f"lightning attention, {mixer.heads} heads of {mixer.head_dim}"
        case ShortConvolution():
            return f"short convolution, {mixer.kernel} taps"


def _softmax_phrase(mixer: SoftmaxAttention) -> str:
    if mixer.kv_heads == mixer.query_heads:
        kind = "multi-head attention"
    elif mixer.kv_heads == 1:
        kind = "multi-query attention"
    else:
        kind = "grouped-query attention"
    phrase = f"{kind}, {mixer.query_heads} query heads, {mixer.kv_heads} key/value heads"
    if mixer.cross_tokens:
        return f"cross {phrase} over {mixer.cross_tokens} tokens"
    if mixer.window_tokens is not None:
        return f"{phrase}, window of {mixer.window_tokens} tokens"
    return phrase


def _compressed_phrase(mixer: CompressedAttention) -> str:
    phrase = f"compressed attention, {mixer.query_heads} query heads, window of {mixer.window_tokens} tokens"
    if mixer.ratio:
        phrase += f" and one entry for every {mixer.ratio} tokens before it"
    if mixer.index_heads:
        phrase += f", {mixer.index_topk} of them picked by an indexer"
    return phrase


def _feed_forward_phrase(feed_forward: FeedForward) -> str:
    if isinstance(feed_forward, MixtureOfExperts):
        shared = f" and a shared expert of {feed_forward.shared_size}" if feed_forward.shared_size else ""
        return (
            f"mixture of {feed_forward.experts} experts of {feed_forward.expert_size}, "
            f"{feed_forward.experts_per_token} for each token{shared}"
        )
    return f"{'gated ' if feed_forward.gated else ''}feed-forward of {feed_forward.intermediate_size}"
