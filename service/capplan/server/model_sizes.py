"""What a model is and what one token costs, as the figures ``DescribeModel`` reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.modeling.architecture import Block, FeedForward, Mixer, ModelArchitecture
from capplan.modeling.attention import LatentAttention, SoftmaxAttention
from capplan.modeling.costs import ModelCosts
from capplan.modeling.feed_forward import MixtureOfExperts
from capplan.modeling.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    ShortConvolution,
)


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """What one more token costs, on one device.

    Attributes:
        cache_bytes: KV bytes while the context is shorter than every window.
        cache_bytes_beyond_window: KV bytes once every window is full.
        state_bytes_per_sequence: recurrent state of one sequence, which does not grow.
        flop: FLOP without attention over the context.
        attention_flop_per_context_token: FLOP in decode, for each token of context.
        decode_intensity_flop_per_byte: FLOP for each weight byte read when one sequence decodes.
    """

    cache_bytes: float
    cache_bytes_beyond_window: float
    state_bytes_per_sequence: int
    flop: float
    attention_flop_per_context_token: float
    decode_intensity_flop_per_byte: float


def token_costs(costs: ModelCosts) -> TokenCosts:
    """The costs of one token. A weight that is multiplied with counts two FLOP, a multiplication and an addition."""
    flop = sum(2.0 * gemm.active_parameters for gemm in costs.gemms) + sum(s.flop_per_token for s in costs.states)
    # One sequence reads the experts its token visits, not those it does not, and one row of a lookup table.
    read_bytes = costs.replicated_bytes + sum(
        gemm.stored_bytes * (gemm.experts_per_token / gemm.experts if gemm.experts else 1.0)
        for gemm in costs.gemms
        if gemm.active_parameters
    )
    return TokenCosts(
        cache_bytes=costs.cache_bytes_per_token,
        cache_bytes_beyond_window=sum(
            (a.layers * a.cache_bytes_per_token for a in costs.attentions if a.window_tokens is None), 0.0
        ),
        state_bytes_per_sequence=sum(state.bytes_per_sequence for state in costs.states),
        flop=flop,
        attention_flop_per_context_token=sum(
            (a.layers * (a.decode_flop_per_context_token + a.indexer_flop_per_context_token) for a in costs.attentions),
            0.0,
        ),
        decode_intensity_flop_per_byte=flop / read_bytes if read_bytes else 0.0,
    )


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


def _feed_forward_phrase(feed_forward: FeedForward) -> str:
    if isinstance(feed_forward, MixtureOfExperts):
        shared = f" and a shared expert of {feed_forward.shared_size}" if feed_forward.shared_size else ""
        return (
            f"mixture of {feed_forward.experts} experts of {feed_forward.expert_size}, "
            f"{feed_forward.experts_per_token} for each token{shared}"
        )
    return f"{'gated ' if feed_forward.gated else ''}feed-forward of {feed_forward.intermediate_size}"
