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
from capplan.modeling.sharding import attention_rank_share, state_bytes_per_rank, weight_bytes_per_rank
from capplan.units import GIB, MIB

KV_BLOCK_TOKENS = 16
"""Tokens of one KV block, vLLM's default ``--block-size``; a request holds whole blocks."""

_GRAPH_BASE_BYTES = int(0.2 * GIB)
_GRAPH_BYTES_PER_LAYER = 14 * MIB
# Captured graphs: 0.65 GiB with 34 layers (gemma-3-4b on B200), about 1.3 GiB with 48 to 80 layers (vLLM pull request
# 21489; gpustack/runner pull request 251).

_ACTIVATION_WIDTHS = 4
_FFN_WIDTHS = 3
# Live activations of one forward pass: residual, normalised input, attention output and query/key/value (about 4 hidden
# widths), then gate, up and their product (3 FFN widths, split by tensor parallelism).


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
        """Tokens the pool holds when every request has ``live_tokens`` of context."""
        concurrent = self.max_concurrent_requests
        return int(concurrent * live_tokens) if math.isfinite(concurrent) else 0


def activation_bytes(model: ModelCosts, settings: EngineSettings, tensor_parallel: int) -> int:
    """Peak activation bytes the engine sees while profiling.

    Two peaks compete: the sampler over ``max_num_seqs`` rows of full-vocabulary fp32 logits, and the widest layer of a
    forward pass over ``max_num_batched_tokens`` tokens.
    """
    element = model.activation_element_bytes
    tokens = settings.max_num_batched_tokens
    sequences = min(settings.max_num_seqs, tokens)
    sampler = settings.profile.sampler_logit_copies * sequences * model.vocabulary_size * 4
    sampler += tokens * model.hidden_size * element
    widest = 0.0
    for gemm in model.gemms:
        if gemm.layers == 0 or gemm.component not in (Component.DENSE_FFN, Component.ROUTED_EXPERT):
            continue
        copies = max(1, gemm.experts_per_token)
        width = gemm.active_parameters / gemm.layers / copies / model.hidden_size / _FFN_WIDTHS
        inputs = model.hidden_size if gemm.experts else 0
        widest = max(widest, copies * (_FFN_WIDTHS * width / tensor_parallel + inputs))
    forward = tokens * element * (_ACTIVATION_WIDTHS * model.hidden_size + widest)
    return int(max(sampler, forward))


def request_bytes(
    model: ModelCosts, tensor_parallel: int, context_tokens: float, *, prefill_chunk_tokens: int = 0
) -> int:
    """Pool bytes of one request on one rank.

    Windowed layers keep at most their window, plus one prefill chunk while the prompt is being read (what the engine
    checks at start).
    """
    blocks = math.ceil(context_tokens / KV_BLOCK_TOKENS) * KV_BLOCK_TOKENS
    total = float(state_bytes_per_rank(model, tensor_parallel))
    for attention in model.attentions:
        kept = float(blocks)
        if attention.window_tokens is not None:
            kept = min(kept, attention.window_tokens + prefill_chunk_tokens + KV_BLOCK_TOKENS)
        share = attention_rank_share(attention, tensor_parallel)
        total += attention.layers * attention.cache_bytes_per_token * share * kept
    return int(total)


def longest_context(
    model: ModelCosts, tensor_parallel: int, pool_bytes: int, chunk_tokens: int, ceiling_tokens: int
) -> int:
    """Longest context, in tokens, of which one request fits the pool; at most ``ceiling_tokens``. Bisection."""
    if pool_bytes <= 0:
        return 0

    def fits(tokens: int) -> bool:
        return request_bytes(model, tensor_parallel, tokens, prefill_chunk_tokens=chunk_tokens) <= pool_bytes

    if fits(ceiling_tokens):
        return ceiling_tokens
    low, high = 0, ceiling_tokens
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def memory_breakdown(
    model: ModelCosts,
    device: RankDevice,
    settings: EngineSettings,
    tensor_parallel: int,
    *,
    context_tokens: int,
    live_tokens: float,
) -> MemoryBreakdown:
    """Splits one rank's memory.

    Args:
        model: model in its formats.
        device: device or slice of the rank.
        settings: resolved engine settings.
        tensor_parallel: ranks of the replica.
        context_tokens: full context one request must be able to reach.
        live_tokens: mean context of a running request.
    """
    budget = int(settings.gpu_memory_utilization * device.memory_bytes)
    weights = int(weight_bytes_per_rank(model, tensor_parallel))
    activations = activation_bytes(model, settings, tensor_parallel)
    graphs = _GRAPH_BASE_BYTES + _GRAPH_BYTES_PER_LAYER * model.layers if settings.profile.graphs_in_budget else 0
    runtime = settings.profile.runtime_bytes + (settings.profile.peer_bytes if tensor_parallel > 1 else 0)
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
        full_context_request_bytes=request_bytes(model, tensor_parallel, context_tokens, prefill_chunk_tokens=chunk),
        live_request_bytes=request_bytes(model, tensor_parallel, live_tokens),
        longest_context_tokens=longest_context(
            model, tensor_parallel, pool, chunk, model.max_context_tokens or context_tokens
        ),
    )
