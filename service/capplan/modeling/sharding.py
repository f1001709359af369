"""Tensor parallelism: which degrees are legal, and what one rank then holds.

Works on :class:`~capplan.modeling.costs.ModelCosts` alone, so that a planner needs nothing else of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from capplan.modeling.costs import AttentionCost, GemmCost, ModelCosts, SplitRule, StateCost
from capplan.modeling.linear import Shard

VOCABULARY_PADDING_ROWS = 64
"""vLLM pads the vocabulary to a multiple of this before it splits it."""


class ShardingFaultCode(StrEnum):
    """Why a tensor-parallel degree cannot start."""

    HEADS_NOT_DIVISIBLE = "HEADS_NOT_DIVISIBLE"
    KV_HEADS_NOT_DIVISIBLE = "KV_HEADS_NOT_DIVISIBLE"
    STATE_HEADS_NOT_DIVISIBLE = "STATE_HEADS_NOT_DIVISIBLE"
    FFN_WIDTH_NOT_DIVISIBLE = "FFN_WIDTH_NOT_DIVISIBLE"
    EXPERT_WIDTH_NOT_DIVISIBLE = "EXPERT_WIDTH_NOT_DIVISIBLE"
    FP8_BLOCK_WIDTH = "FP8_BLOCK_WIDTH"
    INT4_GROUP_WIDTH = "INT4_GROUP_WIDTH"
    SCALE_GROUP_WIDTH = "SCALE_GROUP_WIDTH"


@dataclass(frozen=True, slots=True)
class ShardingFault:
    """One reason a layout would not start.

    Attributes:
        code: stable reason code.
        sentence: what does not divide, with the numbers.
    """

    code: ShardingFaultCode
    sentence: str


def tensor_parallel_faults(costs: ModelCosts, tensor_parallel: int) -> tuple[ShardingFault, ...]:
    """Every reason this tensor-parallel degree would not start; empty when it would.

    Args:
        costs: the model in its formats.
        tensor_parallel: ranks of one replica, at least 1.

    Raises:
        ValueError: ``tensor_parallel`` below 1.
    """
    if tensor_parallel < 1:
        raise ValueError(f"tensor_parallel must be at least 1, not {tensor_parallel}")
    if tensor_parallel == 1:
        return ()
    faults: dict[tuple[ShardingFaultCode, str], ShardingFault] = {}
    for fault in (*_head_faults(costs, tensor_parallel), *_width_faults(costs, tensor_parallel)):
        faults.setdefault((fault.code, fault.sentence), fault)
    return tuple(faults.values())


def _head_faults(costs: ModelCosts, ranks: int) -> list[ShardingFault]:
    faults = []
    for attention in costs.attentions:
        if attention.query_heads % ranks:
            sentence = f"{attention.query_heads} attention heads do not divide over {ranks} ranks"
            faults.append(ShardingFault(ShardingFaultCode.HEADS_NOT_DIVISIBLE, sentence))
        heads = attention.kv_heads
        if not attention.latent and heads % ranks and ranks % heads:
            sentence = f"{heads} key/value heads neither divide over nor are copied evenly onto {ranks} ranks"
            faults.append(ShardingFault(ShardingFaultCode.KV_HEADS_NOT_DIVISIBLE, sentence))
    for state in costs.states:
        if state.shard_units % ranks and ranks % state.shard_units:
            kind = "cross-attention" if state.cross_attention else "recurrent"
            sentence = f"{state.shard_units} {kind} heads do not divide over {ranks} ranks"
            faults.append(ShardingFault(ShardingFaultCode.STATE_HEADS_NOT_DIVISIBLE, sentence))
    return faults


def _width_faults(costs: ModelCosts, ranks: int) -> list[ShardingFault]:
    faults = []
    for rule in costs.splits:
        # Whole units per rank; fewer units than ranks are copied. Uneven heads are reported above.
        if rule.units and rule.units % ranks and ranks % rule.units:
            continue
        if rule.units and rule.units < ranks and rule.copied_units:
            share = rule.width // rule.units
        elif rule.width % ranks:
            code = (
                ShardingFaultCode.EXPERT_WIDTH_NOT_DIVISIBLE
                if rule.routed_expert
                else ShardingFaultCode.FFN_WIDTH_NOT_DIVISIBLE
            )
            faults.append(ShardingFault(code, f"{rule.name}: width {rule.width} does not divide over {ranks} ranks"))
            continue
        else:
            share = rule.width // ranks
        if share % rule.granule:
            faults.append(_granule_fault(rule, share, ranks))
    return faults


def _granule_fault(rule: SplitRule, share: int, ranks: int) -> ShardingFault:
    if rule.storage == "fp8_block":
        code, what = ShardingFaultCode.FP8_BLOCK_WIDTH, "fp8 scale block"
    elif "int4" in rule.storage or rule.storage.startswith("w4a16"):
        code, what = ShardingFaultCode.INT4_GROUP_WIDTH, "int4 group"
    else:
        code, what = ShardingFaultCode.SCALE_GROUP_WIDTH, f"{rule.storage} scale group"
    return ShardingFault(
        code,
        f"{rule.name}: width {rule.width} over {ranks} ranks is {share} each, not a multiple of the {what} of "
        f"{rule.granule}",
    )


def gemm_rank_share(gemm: GemmCost, vocabulary_size: int, tensor_parallel: int) -> float:
    """Share of a group of linear maps, in bytes and in FLOP, that one rank of the replica holds and computes."""
    match gemm.shard:
        case Shard.REPLICATED:
            return 1.0
        case Shard.TENSOR:
            return 1.0 / tensor_parallel
        case Shard.HEADS:
            return _rank_share(gemm.shard_units, tensor_parallel)
        case Shard.VOCABULARY:
            if tensor_parallel == 1:
                return 1.0
            padded = ceil(vocabulary_size / VOCABULARY_PADDING_ROWS) * VOCABULARY_PADDING_ROWS
            return ceil(padded / tensor_parallel) / vocabulary_size


def attention_rank_share(attention: AttentionCost, tensor_parallel: int) -> float:
    """Share of the cache of a group of attention layers that one rank holds; a latent is copied onto every rank."""
    return 1.0 if attention.latent else _rank_share(attention.kv_heads, tensor_parallel)


def state_rank_share(state: StateCost, tensor_parallel: int) -> float:
    """Share of the recurrent state that one rank holds."""
    return _rank_share(state.shard_units, tensor_parallel)


def weight_bytes_per_rank(costs: ModelCosts, tensor_parallel: int) -> float:
    """Bytes of weights one rank of a tensor-parallel replica holds."""
    sharded = sum(
        gemm.stored_bytes * gemm_rank_share(gemm, costs.vocabulary_size, tensor_parallel) for gemm in costs.gemms
    )
    return sharded + costs.replicated_bytes


def _rank_share(units: int, ranks: int) -> float:
    """Share of a quantity of ``units`` heads that one rank holds; heads are copied once there are too few."""
    return 1.0 / min(ranks, max(units, 1))


def cache_bytes_per_token_per_rank(costs: ModelCosts, tensor_parallel: int, context_tokens: int | None = None) -> float:
    """KV bytes one more token of context costs on one rank.

    Args:
        costs: the model in its formats.
        tensor_parallel: ranks of one replica.
        context_tokens: context already held: layers whose window it fills cost nothing more. ``None`` charges every
            layer, as an engine without a hybrid cache allocator does.
    """
    return sum(
        attention.layers * attention.cache_bytes_per_token * attention_rank_share(attention, tensor_parallel)
        for attention in costs.attentions
        if context_tokens is None or attention.window_tokens is None or context_tokens < attention.window_tokens
    )


def state_bytes_per_rank(costs: ModelCosts, tensor_parallel: int) -> float:
    """Bytes of recurrent state (and fixed cross-attention caches) one sequence holds on one rank."""
    return sum(state.bytes_per_sequence * state_rank_share(state, tensor_parallel) for state in costs.states)
