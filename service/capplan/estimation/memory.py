"""Memory of one rank: what the engine reserves, what it loads, what is left for the KV cache. The one formula.

The same figures serve the fit check, the KV capacity and the report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from capplan.estimation.device import RankDevice
from capplan.estimation.engine import EngineSettings
from capplan.modeling.costs import ModelCosts
from capplan.modeling.linear import Component
from capplan.modeling.sharding import (
    attention_rank_share,
    gemm_rank_share,
    state_bytes_per_rank,
    weight_bytes_per_rank,
)
from capplan.units import GIB, MIB

KV_BLOCK_TOKENS = 16
"""Tokens of one KV block, vLLM's default ``--block-size``; a request holds whole blocks."""

_GRAPH_BASE_BYTES = int(0.3 * GIB)
_GRAPH_BYTES_PER_LAYER = 20 * MIB
# Captured graphs: 0.65 GiB with 34 layers (gemma-3-4b on B200), 1.03 with 36 (gpt-oss-120b on H100), 1.3 with 48
# (Llama 4 Maverick), 1.5-1.9 with 88 (Mistral-Medium class): published start-up logs; the line stays on their safe
# side.

_MXFP4_HIDDEN_MULTIPLE = 256
_MXFP4_PADDING_GENERATIONS = frozenset({"hopper", "blackwell", "blackwell-ultra"})
# From Hopper on, vLLM's mxfp4 expert kernels pad the hidden width to a multiple of 256: gpt-oss-120b (2,880 to 3,072)
# takes 64.4 GiB on H100 where its file has 60.8; on an RTX 3090 gpt-oss-20b takes its file's size (start-up logs).

_ACTIVATION_WIDTHS = 4
_FFN_WIDTHS = 3
# Live activations of one forward pass: residual, normalised input, attention output and query/key/value (about 4 hidden
# widths), then gate, up and their product (3 FFN widths, split by tensor parallelism).


def _in_blocks(tokens: float) -> int:
    return math.ceil(tokens / KV_BLOCK_TOKENS) * KV_BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """Bytes of one rank.

    Attributes:
        device_bytes: total the engine sees.
        budget_bytes: share of it the engine may use.
        weight_bytes: weights of this rank.
        activation_bytes: peak activations while profiling.
        graph_bytes: captured graphs counted against the budget.
        runtime_bytes: context, libraries, collective buffers.
        kv_pool_bytes: what is left for KV cache and state; negative when the weights do not fit.
        full_context_request_bytes: pool bytes one request of the full asked context needs.
        live_request_bytes: pool bytes of one request at the workload's mean live length.
        longest_context_tokens: longest context one request can have in this pool.
    """

    device_bytes: int
    budget_bytes: int
    weight_bytes: int
    activation_bytes: int
    graph_bytes: int
    runtime_bytes: int
    kv_pool_bytes: int
    full_context_request_bytes: int
    live_request_bytes: int
    longest_context_tokens: int

    @property
    def max_concurrent_requests(self) -> float:
        """Requests of mean live length that the pool holds."""
        if self.kv_pool_bytes <= 0:
            return 0.0
        return self.kv_pool_bytes / self.live_request_bytes if self.live_request_bytes else math.inf

    def kv_pool_tokens(self, live_tokens: float) -> int:
        """Tokens the pool holds when every request has ``live_tokens`` of context; 0 without a cache."""
        concurrent = self.max_concurrent_requests
        return int(concurrent * _in_blocks(live_tokens)) if math.isfinite(concurrent) else 0


@dataclass(frozen=True, slots=True)
class _CacheTerm:
    """Cache of attention layers that keep alike, on one rank, summed over the layers."""

    bytes_per_token: float
    window_tokens: int | None


@dataclass(frozen=True, slots=True)
class RankFootprint:
    """What one rank of a replica holds of a model, whatever the device: worked out once per model and split.

    Attributes:
        weight_bytes: weights of the rank as stored.
        mxfp4_padding_bytes: what kernels that pad mxfp4 experts add to that.
        cache_terms: cache by how layers keep it.
        state_bytes: recurrent state of one sequence.
        hidden_size: width of the residual stream.
        vocabulary_size: rows of the output head.
        layers: decoder layers.
        element_bytes: bytes of one activation element.
        widest_ffn_elements: live feed-forward elements of one token in the widest layer.
        max_context_tokens: longest context of the model, ``None`` when it does not say.
    """

    weight_bytes: int
    mxfp4_padding_bytes: int
    cache_terms: tuple[_CacheTerm, ...]
    state_bytes: float
    hidden_size: int
    vocabulary_size: int
    layers: int
    element_bytes: int
    widest_ffn_elements: float
    max_context_tokens: int | None


def _mxfp4_padding_bytes(model: ModelCosts, tensor_parallel: int) -> float:
    padded = math.ceil(model.hidden_size / _MXFP4_HIDDEN_MULTIPLE) * _MXFP4_HIDDEN_MULTIPLE / model.hidden_size
    return sum(
        (padded - 1.0) * gemm.stored_bytes * gemm_rank_share(gemm, model.vocabulary_size, tensor_parallel)
        for gemm in model.gemms
        if gemm.storage == "mxfp4" and gemm.experts
    )


def rank_footprint(model: ModelCosts, tensor_parallel: int) -> RankFootprint:
    """Works out what one of ``tensor_parallel`` ranks holds of a model."""
    widest = 0.0
    for gemm in model.gemms:
        if gemm.layers == 0 or gemm.component not in (Component.DENSE_FFN, Component.ROUTED_EXPERT):
            continue
        copies = max(1, gemm.experts_per_token)
        width = gemm.active_parameters / gemm.layers / copies / model.hidden_size / _FFN_WIDTHS
        inputs = model.hidden_size if gemm.experts else 0
        widest = max(widest, copies * (_FFN_WIDTHS * width / tensor_parallel + inputs))
    return RankFootprint(
        weight_bytes=int(weight_bytes_per_rank(model, tensor_parallel)),
        mxfp4_padding_bytes=int(_mxfp4_padding_bytes(model, tensor_parallel)),
        cache_terms=tuple(
            _CacheTerm(a.layers * a.cache_bytes_per_token * attention_rank_share(a, tensor_parallel), a.window_tokens)
            for a in model.attentions
        ),
        state_bytes=float(state_bytes_per_rank(model, tensor_parallel)),
        hidden_size=model.hidden_size,
        vocabulary_size=model.vocabulary_size,
        layers=model.layers,
        element_bytes=model.activation_element_bytes,
        widest_ffn_elements=widest,
        max_context_tokens=model.max_context_tokens,
    )


def activation_bytes(footprint: RankFootprint, settings: EngineSettings) -> int:
    """Peak activation bytes the engine sees while profiling.

    Two peaks compete: the sampler over ``max_num_seqs`` rows of full-vocabulary fp32 logits, and the widest layer of a
    forward pass over ``max_num_batched_tokens`` tokens.
    """
    tokens = settings.max_num_batched_tokens
    sequences = min(settings.max_num_seqs, tokens)
    residual = tokens * footprint.hidden_size * footprint.element_bytes
    sampler = settings.profile.sampler_logit_copies * sequences * footprint.vocabulary_size * 4 + residual
    forward = _ACTIVATION_WIDTHS * residual + tokens * footprint.element_bytes * footprint.widest_ffn_elements
    return int(max(sampler, forward))


def request_bytes(footprint: RankFootprint, context_tokens: float, *, prefill_chunk_tokens: int = 0) -> int:
    """Pool bytes of one request on one rank.

    Windowed layers keep at most their window, plus one prefill chunk while the prompt is being read (what the engine
    checks at start).
    """
    total = footprint.state_bytes
    for term in footprint.cache_terms:
        kept = _in_blocks(context_tokens)
        if term.window_tokens is not None:
            kept = min(kept, term.window_tokens + prefill_chunk_tokens + KV_BLOCK_TOKENS)
        total += term.bytes_per_token * kept
    return int(total)


def longest_context(footprint: RankFootprint, pool_bytes: int, chunk_tokens: int, ceiling_tokens: int) -> int:
    """Longest context, in tokens, of which one request fits the pool; at most ``ceiling_tokens``. Bisection."""
    if pool_bytes <= 0:
        return 0

    def fits(tokens: int) -> bool:
        return request_bytes(footprint, tokens, prefill_chunk_tokens=chunk_tokens) <= pool_bytes

    if fits(ceiling_tokens):
        return ceiling_tokens
    low, high = 0, ceiling_tokens
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def memory_breakdown(
    footprint: RankFootprint,
    device: RankDevice,
    settings: EngineSettings,
    *,
    peers: bool,
    context_tokens: int,
    live_tokens: float,
) -> MemoryBreakdown:
    """Splits one rank's memory.

    Args:
        footprint: what the rank holds of the model.
        device: device or slice of the rank.
        settings: resolved engine settings.
        peers: whether the replica has other ranks.
        context_tokens: full context one request must be able to reach.
        live_tokens: mean context of a running request.
    """
    budget = int(settings.gpu_memory_utilization * device.memory_bytes)
    activations = activation_bytes(footprint, settings)
    graphs = _GRAPH_BASE_BYTES + _GRAPH_BYTES_PER_LAYER * footprint.layers if settings.profile.graphs_in_budget else 0
    runtime = settings.profile.runtime_bytes + (settings.profile.peer_bytes if peers else 0)
    weights = footprint.weight_bytes
    if device.accelerator.architecture in _MXFP4_PADDING_GENERATIONS:
        weights += footprint.mxfp4_padding_bytes
    pool = budget - weights - activations - graphs - runtime
    chunk = settings.max_num_batched_tokens
    return MemoryBreakdown(
        device_bytes=device.memory_bytes,
        budget_bytes=budget,
        weight_bytes=weights,
        activation_bytes=activations,
        graph_bytes=graphs,
        runtime_bytes=runtime,
        kv_pool_bytes=pool,
        full_context_request_bytes=request_bytes(footprint, context_tokens, prefill_chunk_tokens=chunk),
        live_request_bytes=request_bytes(footprint, live_tokens),
        longest_context_tokens=longest_context(footprint, pool, chunk, footprint.max_context_tokens or context_tokens),
    )
