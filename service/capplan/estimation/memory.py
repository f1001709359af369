"""Memory of one rank: what the engine reserves, what it loads, what is left for the KV cache.

The same figures serve the fit check, the KV capacity and the report, for every engine, see
:mod:`capplan.estimation.memory_split`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from capplan.estimation.cache_groups import CacheLayout
from capplan.estimation.demand import RankDemand, activation_bytes, rank_demand
from capplan.estimation.device import RankDevice
from capplan.estimation.engine_records import EngineSettings
from capplan.estimation.footprint import RankFootprint, rank_footprint
from capplan.estimation.memory_split import memory_fraction, pads_experts, runtime_bytes, split_memory

__all__ = [
    "MemoryBreakdown",
    "RankDemand",
    "RankFootprint",
    "activation_bytes",
    "longest_context",
    "memory_breakdown",
    "place_demand",
    "rank_demand",
    "rank_footprint",
]


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """Bytes of one rank. What a plan of hundreds of candidates does not look at is worked out when asked for.

    Attributes:
        demand: what the rank asks of the device.
        settings: engine settings it runs with.
        device_bytes: total the engine sees.
        budget_bytes: what the engine lays out: weights, activations, graphs, runtime and KV pool, to the byte.
        weight_bytes: weights of this rank.
        graph_bytes: captured graphs, where they count against the budget.
        runtime_bytes: context, libraries, collective buffers, tables of the rotary embedding.
        kv_pool_bytes: what is left for KV cache and state; negative when the weights do not fit.
        missing_bytes: what the budget and what lives beside it exceed the device by; 0 when they fit.
    """

    demand: RankDemand
    settings: EngineSettings
    device_bytes: int
    budget_bytes: int
    weight_bytes: int
    graph_bytes: int
    runtime_bytes: int
    kv_pool_bytes: int
    missing_bytes: int

    @property
    def activation_bytes(self) -> int:
        """Peak activations."""
        return self.demand.activation_bytes

    @property
    def full_context_request_bytes(self) -> int:
        """Pool bytes one request of the full asked context needs."""
        return int(self.demand.request_bytes)

    @property
    def live_request_bytes(self) -> int:
        """Pool bytes of one request at the workload's mean live length."""
        return self.demand.live_request_bytes

    @property
    def longest_context_tokens(self) -> int:
        """Longest context one request can have in this pool."""
        demand, pool = self.demand, self.kv_pool_bytes
        if pool > 0 and demand.ceiling_request_bytes <= pool:
            return demand.ceiling_tokens
        return longest_context(demand.layout, pool, demand.chunk_tokens, demand.ceiling_tokens)

    @property
    def pool_blocks(self) -> int:
        """Whole blocks of the pool; 0 when there is no pool or nothing is cached."""
        block_bytes, pool = self.demand.layout.block_bytes, self.kv_pool_bytes
        return int(pool // block_bytes) if block_bytes and pool > 0 else 0

    @property
    def state_blocks(self) -> int | None:
        """Blocks that hold recurrent state, when fewer than ``max_num_seqs`` stop the engine from starting."""
        if not self.demand.state_bounds_sequences:
            return None
        blocks = self.pool_blocks
        return blocks if blocks < self.settings.max_num_seqs else None

    @property
    def full_context_requests(self) -> float:
        """Requests of the full asked context that the pool holds."""
        full, pool = self.demand.request_bytes, self.kv_pool_bytes
        if not full:
            return math.inf
        if self.demand.paged:
            return self.pool_blocks * self.demand.layout.block_bytes / full
        return pool / full if pool > 0 else 0.0

    @property
    def reported_weight_bytes(self) -> int:
        """Weights as the engine prints them at start: with the tables that are loaded beside them."""
        return self.weight_bytes + self.demand.table_bytes

    @property
    def reported_kv_tokens(self) -> int:
        """KV tokens as the engine prints them at start for the full asked context.

        vLLM before 0.20: blocks over groups, times the smallest block; later: concurrency times the context. SGLang and
        TensorRT-LLM: tokens of the pool.
        """
        layout, rule, pool = self.demand.layout, self.settings.memory, self.kv_pool_bytes
        if pool <= 0 or not layout.block_bytes:
            return 0
        if rule.tokens_from_concurrency:
            return int(self.full_context_requests * self.demand.context_tokens)
        if self.demand.paged:
            return self.pool_blocks // layout.group_count * layout.least_block_tokens
        per_token = layout.block_bytes * layout.kv_pool_factor * layout.group_count / rule.block_tokens
        return int(pool / per_token) // rule.block_tokens * rule.block_tokens

    @property
    def max_concurrent_requests(self) -> float:
        """Requests of mean live length that the pool holds."""
        if self.kv_pool_bytes <= 0:
            return 0.0
        return self.kv_pool_bytes / self.live_request_bytes if self.live_request_bytes else math.inf

    def kv_pool_tokens(self, live_tokens: float) -> int:
        """Tokens the pool holds when every request has ``live_tokens`` of context; 0 without a cache."""
        concurrent = self.max_concurrent_requests
        return int(concurrent * live_tokens) if math.isfinite(concurrent) else 0


def longest_context(layout: CacheLayout, pool_bytes: int, chunk_tokens: int, ceiling_tokens: int) -> int:
    """Longest context, in tokens, of which one request fits the pool; at most ``ceiling_tokens``."""
    if pool_bytes <= 0:
        return 0

    def fits(tokens: int) -> bool:
        return layout.request_bytes(tokens, chunk_tokens) <= pool_bytes

    if fits(ceiling_tokens):
        return ceiling_tokens
    guess = layout.longest_unwindowed_context(pool_bytes, chunk_tokens)
    if 0 < guess < ceiling_tokens and fits(guess) and not fits(guess + 1):
        return guess
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
    demand = rank_demand(footprint, settings, context_tokens=context_tokens, live_tokens=live_tokens)
    return place_demand(demand, device, settings, peers=peers)


def place_demand(demand: RankDemand, device: RankDevice, settings: EngineSettings, *, peers: bool) -> MemoryBreakdown:
    """Splits a device's memory over what a rank asks of it.

    Args:
        demand: what the rank asks, with these very settings.
        device: device or slice of the rank.
        settings: resolved engine settings.
        peers: whether the replica has other ranks.
    """
    rule = settings.memory
    weights = demand.padded_weight_bytes if pads_experts(device) else demand.weight_bytes
    runtime = runtime_bytes(device, rule, peers=peers)
    split = split_memory(
        rule,
        memory_fraction(settings, multimodal=demand.multimodal),
        device.memory_bytes,
        device.occupied_bytes,
        weights + demand.table_bytes,
        demand.activation_bytes,
        demand.graph_bytes,
        runtime,
    )
    over = split.budget + split.beside - device.memory_bytes
    return MemoryBreakdown(
        demand=demand,
        settings=settings,
        device_bytes=device.memory_bytes,
        budget_bytes=split.budget,
        weight_bytes=weights,
        graph_bytes=split.graphs,
        runtime_bytes=runtime + demand.table_bytes + demand.reserved_bytes,
        kv_pool_bytes=split.pool - demand.reserved_bytes,
        missing_bytes=over if over > 0 else 0,
    )
