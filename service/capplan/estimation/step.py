"""Time of one engine step: a smooth roofline per operator group, plus collectives and overheads.

All functions are vectorised: arrays have shape (C, B), C replicas by B load points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capplan.estimation.table import Array, AttentionGroup, GemmGroup, ReplicaTable


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one step of a replica works on.

    Attributes:
        decode: (C, B) sequences that decode one token each; as prompt tokens (1, 1) where all have the same, or none.
        prefill: (C, B) prompt tokens in the step.
        context_tokens: mean context of a decoding sequence, one for all or (C, 1).
        prompt_tokens: mean prompt length, one for all or (C, 1).
        miss_share: share of a prompt that is computed, at its end, the rest being in the prefix cache; one for all or
            (C, 1).
    """

    decode: Array
    prefill: Array
    context_tokens: float | Array
    prompt_tokens: float | Array
    miss_share: float | Array = 1.0


@dataclass(frozen=True, slots=True)
class GroupTime:
    """One operator group's time: its memory side, its compute side, and the smooth maximum.

    Seconds, (C, B), or what broadcasts to it where the load's arrays do.
    """

    name: str
    memory_s: Array
    compute_s: Array
    total_s: Array


def _smooth(memory: Array, compute: Array) -> Array:
    larger = np.maximum(memory, compute)
    # max * (1 + (min/max)^4)^(1/4): the 4-norm without overflow, by squares and roots: powers take far longer.
    # In place, as much of a plan's time goes by here.
    result: Array = np.minimum(memory, compute)
    result /= np.maximum(larger, _LEAST_S)
    result *= result
    result *= result
    result += 1.0
    np.sqrt(result, out=result)
    np.sqrt(result, out=result)
    result *= larger
    return result


_LEAST_S = float(np.finfo(np.float64).tiny)
"""Stands for no time where it is divided by."""


def _gemm(group: GemmGroup, table: ReplicaTable, load: StepLoad) -> GroupTime:
    prefill = load.prefill / (load.prompt_tokens * load.miss_share) if group.once_per_sequence else load.prefill
    tokens = (load.decode + prefill) * group.token_share
    share = group.touch_share
    touched = -np.expm1(tokens * np.log1p(-share)) if share < 1.0 else np.minimum(tokens, 1.0)
    # tokens that meet in one expert's matrix product decide how well it runs
    rows = tokens * share
    rows /= np.maximum(touched, 1e-12)
    memory = group.bytes * touched
    memory /= group.memory_rate
    # few rows per product leave tiles part empty; the loss levels off where reading the weights takes over
    rows += table.ramp_offset_tokens
    wasted = group.half_rate_tokens / rows
    compute = group.flop_per_token * tokens
    wasted += 1.0
    compute *= wasted
    compute /= group.compute_rate
    return GroupTime(group.name, memory, compute, _smooth(memory, compute))


def _decode_attention(group: AttentionGroup, table: ReplicaTable, load: StepLoad) -> tuple[Array, Array]:
    context = np.minimum(load.context_tokens, group.window_tokens)
    attended = np.minimum(context, group.attended_tokens_limit)
    sequences = load.decode * table.sequence_share
    memory = sequences * group.cache_bytes_per_token * attended / table.kv_memory_rate
    flop = group.decode_flop_per_context_token * attended + group.indexer_flop_per_context_token * context
    return memory, sequences * flop / table.attention_decode_rate


def _prefill_attention(group: AttentionGroup, table: ReplicaTable, load: StepLoad) -> tuple[Array, Array]:
    # a token attends to all that is cached and on average to half of what is computed
    context = np.minimum(load.prompt_tokens * (1.0 - load.miss_share / 2.0), group.window_tokens)
    attended = np.minimum(context, group.attended_tokens_limit)
    flop = group.prefill_flop_per_context_token * attended + group.indexer_flop_per_context_token * context
    tokens = load.prefill * table.sequence_share
    # keys and values are read once for each prompt, cached ones as far as a window reaches back too
    computed = load.prompt_tokens * load.miss_share
    read = np.minimum(load.prompt_tokens, computed + group.window_tokens) / computed
    memory = tokens * read * group.cache_bytes_per_token / table.kv_memory_rate
    return memory, tokens * flop / table.attention_prefill_rate


def group_times(table: ReplicaTable, load: StepLoad) -> Iterator[GroupTime]:
    """Yields the time of every operator group of one step; their sum is the step."""
    for gemm in table.gemms:
        yield _gemm(gemm, table, load)
    for name, attend in (("decode_attention", _decode_attention), ("prefill_attention", _prefill_attention)):
        memory = compute = total = _NONE
        for attention in table.attentions:
            group_memory, group_compute = attend(attention, table, load)
            memory, compute = memory + group_memory, compute + group_compute
            total = total + _smooth(group_memory, group_compute)
        yield GroupTime(name, memory, compute, total)
    tokens = load.decode + load.prefill
    if np.any(table.state_bytes_per_sequence):
        memory = 2.0 * load.decode * table.sequence_share * table.state_bytes_per_sequence / table.kv_memory_rate
        compute = tokens * table.sequence_share * table.state_flop_per_token / table.attention_decode_rate
        yield GroupTime("recurrent_state", memory, compute, _smooth(memory, compute))
    yield GroupTime("all_reduce", _NONE, _NONE, table.collective_s(tokens))
    host = table.overhead_s + table.sequence_overhead_s * load.decode * table.sequence_share
    yield GroupTime("overhead", _NONE, _NONE, host)


_NONE = np.zeros((1, 1))
"""No time, whatever the replica and the load."""


def step_s(table: ReplicaTable, load: StepLoad) -> Array:
    """Seconds of one step, (C, B)."""
    total = np.zeros(np.broadcast_shapes(load.decode.shape, load.prefill.shape, (table.rows, 1)))
    for group in group_times(table, load):
        total += group.total_s
    return total
