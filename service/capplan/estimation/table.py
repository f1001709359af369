"""Many replicas of one model packed into arrays for the step model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.device_rates import (
    MESSAGE_LOG2_BYTES,
    StepDemand,
    collective_log_s,
    gemm_rates,
    step_figures,
)
from capplan.estimation.identity import Same
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.replica_groups import ReplicaGroups
from capplan.modeling.costs import AttentionCost, GemmCost, ModelCosts
from capplan.modeling.sharding import attention_rank_share, gemm_rank_share, state_rank_share

Array = NDArray[np.float64]

SPLIT_PREFILL_ENGINES = frozenset({"sglang"})
"""Engines that by default run prompts in steps of their own instead of beside decoding sequences."""


@dataclass(frozen=True, slots=True)
class GemmGroup:
    """Gemms of one component and storage format over C replicas; arrays are (C, 1), per rank.

    Attributes:
        name: operator group, the component's name.
        bytes: weight bytes read when every expert is touched.
        flop_per_token: FLOP per token of the group.
        token_share: share of the replica's tokens that passes through the group on one rank.
        memory_rate: achieved bytes per second.
        compute_rate: achieved FLOP per second at many tokens.
        half_rate_tokens: tokens at which half of that rate would be reached.
        touch_share: share of the experts one token touches; 1 for dense maps.
        once_per_sequence: the language-model head: prefill applies it to the last position only.
    """

    name: str
    bytes: Array
    flop_per_token: Array
    token_share: Array
    memory_rate: Array
    compute_rate: Array
    half_rate_tokens: Array
    touch_share: float
    once_per_sequence: bool


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Attention layers that cache alike, over C replicas; arrays are (C, 1), per rank, summed over the layers."""

    cache_bytes_per_token: Array
    decode_flop_per_context_token: Array
    prefill_flop_per_context_token: Array
    indexer_flop_per_context_token: Array
    window_tokens: float
    attended_tokens_limit: float


@dataclass(frozen=True, slots=True)
class CollectiveGroup:
    """All-reduces of one kind in one step.

    Attributes:
        count: (C, 1) how many.
        token_share: (C, 1) share of the replica's tokens in one message.
        log_s: (C, M) natural log of one all-reduce's time on the message grid; -inf for one rank.
    """

    count: Array
    token_share: Array
    log_s: Array


@dataclass(frozen=True, slots=True)
class ReplicaTable:
    """C replicas of one model, ready for the step model. All arrays are (C, 1) unless said otherwise.

    Attributes:
        gemms: linear maps by group.
        attentions: attention layers by how they cache.
        collectives: all-reduces by kind.
        collective_bytes_per_token: message bytes of one all-reduce per token.
        sequence_share: share of the replica's sequences that one rank attends for.
        kv_memory_rate: achieved bytes per second of cache reads.
        attention_decode_rate: achieved FLOP per second of attention in decode.
        attention_prefill_rate: the same in prefill.
        state_bytes_per_sequence: recurrent state, read and written once a step.
        state_flop_per_token: FLOP of the recurrences.
        overhead_s: launches and scheduling of one step.
        sequence_overhead_s: host work per running sequence.
        request_s: handling of one request before its first token.
        token_budget: tokens of one step of the replica.
        stages: pipeline stages; as many micro-batches are under way.
        split_prefill: 1 where prompts run in steps of their own, 0 where beside decoding sequences.
        ramp_offset_tokens: rows of a product below which a smaller one is no less efficient.
    """

    gemms: tuple[GemmGroup, ...]
    attentions: tuple[AttentionGroup, ...]
    collectives: tuple[CollectiveGroup, ...]
    collective_bytes_per_token: float
    sequence_share: Array
    kv_memory_rate: Array
    attention_decode_rate: Array
    attention_prefill_rate: Array
    state_bytes_per_sequence: Array
    state_flop_per_token: Array
    overhead_s: Array
    sequence_overhead_s: Array
    request_s: Array
    token_budget: Array
    stages: Array
    split_prefill: Array
    ramp_offset_tokens: float

    @property
    def rows(self) -> int:
        """How many replicas."""
        return int(self.token_budget.shape[0])

    def take(self, rows: NDArray[np.int64]) -> ReplicaTable:
        """The table of the replicas at the given positions, repeated ones included."""
        return _take(self, rows)

    def collective_s(self, tokens: Array) -> Array:
        """Seconds of all all-reduces of one step over ``tokens`` (C, B); log-log linear between the grid's points."""
        total = np.zeros(np.broadcast_shapes(tokens.shape, (self.rows, 1)))
        points = len(MESSAGE_LOG2_BYTES)
        first = np.arange(self.rows)[:, None] * points
        for group in self.collectives:
            messages = np.maximum(tokens * group.token_share * self.collective_bytes_per_token, 1.0)
            position = np.log2(messages) - MESSAGE_LOG2_BYTES[0]
            position = np.clip(position, 0.0, len(MESSAGE_LOG2_BYTES) - 1.000001)
            left = position.astype(np.int64)
            position -= left
            left += first
            low, high = group.log_s.take(left), group.log_s.take(left + 1)
            # low + share * (high - low)
            high -= low
            high *= position
            high += low
            total += group.count * np.exp(high, out=high)
        return total


_T = TypeVar("_T")


def _take(value: _T, rows: NDArray[np.int64]) -> _T:
    """Indexes every array of a (nested) dataclass by rows."""
    if isinstance(value, np.ndarray):
        return cast("_T", value[rows])
    if isinstance(value, tuple):
        return cast("_T", tuple(_take(item, rows) for item in value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _take(getattr(value, f.name), rows) for f in fields(value)})
    return value


def _gemm_split(
    model: ModelCosts, gemm: GemmCost, spread: Parallelism, imbalance: float
) -> tuple[float, float, float, float]:
    """Share of the weights on a rank, load of the busiest, share of the tokens, and output width of a product."""
    if gemm.experts:
        ranks = spread.stage_ranks
        busiest = imbalance if spread.expert_parallel > 1 else 1.0
        return 1.0 / ranks, busiest, 1.0, gemm.output_features * spread.expert_parallel / ranks
    share = gemm_rank_share(gemm, model.vocabulary_size, spread.tensor_parallel)
    return share, 1.0, 1.0 / spread.attention_data_parallel, gemm.output_features * share


def _gemm_groups(
    model: ModelCosts, groups: ReplicaGroups, fitted: Same[Coefficients], bandwidth: Array, compute_share: Array
) -> Iterator[GemmGroup]:
    imbalance, narrow_width = fitted.value.of("imbalance"), fitted.value.of("narrow_width")
    rates: dict[tuple[str, str, bool], tuple[Array, ...]] = {}
    for gemm in model.gemms:
        if not gemm.active_parameters or not gemm.layers:
            continue  # embedding look-ups and parts that a text request does not run take no time
        alike = (gemm.storage, gemm.arithmetic, gemm.experts > 0)
        if alike not in rates:
            rates[alike] = groups.by_kind(partial(gemm_rates, gemm, fitted=fitted))
        read, peak, rate, half = rates[alike]
        share, busiest, tokens, width = groups.by_spread(partial(_gemm_split, model, gemm, imbalance=imbalance))
        yield GemmGroup(
            name=gemm.component.value,
            bytes=gemm.stored_bytes * share,
            flop_per_token=2.0 * gemm.active_parameters * share * busiest,
            token_share=tokens,
            memory_rate=bandwidth * read,
            compute_rate=peak * compute_share * (rate * (width / (width + narrow_width))),
            half_rate_tokens=half,
            touch_share=gemm.experts_per_token / gemm.experts if gemm.experts else 1.0,
            once_per_sequence=gemm.once_per_sequence,
        )


def _attention_group(attention: AttentionCost, groups: ReplicaGroups) -> AttentionGroup:
    cache, ranks = groups.by_spread(
        lambda s: (attention_rank_share(attention, s.tensor_parallel), float(s.tensor_parallel))
    )
    heads = attention.layers / ranks
    return AttentionGroup(
        cache_bytes_per_token=attention.layers * attention.cache_bytes_per_token * cache,
        decode_flop_per_context_token=attention.decode_flop_per_context_token * heads,
        prefill_flop_per_context_token=attention.prefill_flop_per_context_token * heads,
        indexer_flop_per_context_token=attention.indexer_flop_per_context_token * heads,
        window_tokens=float(attention.window_tokens or np.inf),
        attended_tokens_limit=float(attention.attended_tokens_limit or np.inf),
    )


def _collective_groups(model: ModelCosts, groups: ReplicaGroups, factor: Array) -> tuple[CollectiveGroup, ...]:
    """One all-reduce after attention over the ranks that share it, one after the feed-forward part over the stage.

    With attention data parallelism the second stands for gathering every group's tokens before the experts and
    scattering the results, which moves as many bytes; without it both are alike and stand together.
    """
    log_factor = np.log(factor)

    def over(ranks: Sequence[int]) -> Array:
        accelerators = [kind.accelerator for kind in groups.kinds]
        pairs = zip(groups.kind.tolist(), groups.spread.tolist(), strict=True)
        return np.stack([collective_log_s(accelerators[kind], ranks[spread]) for kind, spread in pairs]) + log_factor

    (token_share,) = groups.by_spread(lambda s: (1.0 / s.attention_data_parallel,))
    layers = np.full_like(token_share, float(model.layers))
    attending, staged = [s.tensor_parallel for s in groups.spreads], [s.stage_ranks for s in groups.spreads]
    if attending == staged:
        return (CollectiveGroup(2.0 * layers, token_share, over(staged)),)
    return (
        CollectiveGroup(layers, token_share, over(attending)),
        CollectiveGroup(layers, np.ones_like(token_share), over(staged)),
    )


def build_table(
    model: ModelCosts, replicas: Sequence[Replica] | ReplicaGroups, fitted: Coefficients = UNFITTED
) -> ReplicaTable:
    """Packs replicas of one model into arrays.

    Every replica must be legal (its formats supported, its widths divisible): legality is checked before.

    Args:
        model: the model in its formats.
        replicas: C ways to run it, or their groups where those are known.
        fitted: coefficients of the step model.
    """
    groups = replicas if isinstance(replicas, ReplicaGroups) else ReplicaGroups.of(replicas)
    same, bandwidth, compute_share = Same(fitted), groups.bandwidth_bytes_per_s, groups.compute_share
    read, peak, decode, prefill, collective, overhead, per_sequence, request = groups.by_kind(
        partial(step_figures, StepDemand.of(model), fitted=same)
    )
    sharing, stages, state_bytes, state_flop = groups.by_spread(
        lambda s: (
            float(s.attention_data_parallel),
            float(s.pipeline_parallel),
            sum(state.bytes_per_sequence * state_rank_share(state, s.tensor_parallel) for state in model.states),
            sum(state.flop_per_token for state in model.states) / s.tensor_parallel,
        )
    )
    (split_prefill,) = groups.by_kind(lambda kind: (float(kind.engine in SPLIT_PREFILL_ENGINES),))
    return ReplicaTable(
        gemms=tuple(_gemm_groups(model, groups, same, bandwidth, compute_share)),
        attentions=tuple(_attention_group(attention, groups) for attention in model.attentions),
        collectives=_collective_groups(model, groups, collective),
        collective_bytes_per_token=float(model.hidden_size * model.activation_element_bytes),
        sequence_share=1.0 / sharing,
        kv_memory_rate=bandwidth * read,
        attention_decode_rate=peak * compute_share * decode,
        attention_prefill_rate=peak * compute_share * prefill,
        state_bytes_per_sequence=state_bytes,
        state_flop_per_token=state_flop,
        overhead_s=overhead,
        sequence_overhead_s=per_sequence,
        request_s=request,
        token_budget=groups.rank_token_budget * sharing,
        stages=stages,
        split_prefill=split_prefill,
        ramp_offset_tokens=fitted.of("ramp_offset_tokens"),
    )
