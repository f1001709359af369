"""Many replicas of one model packed into arrays for the step model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.replica import Replica
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.arithmetic import arithmetic_support, sixteen_bit_arithmetic
from capplan.hardware.collectives import all_reduce_ranks_limit, all_reduce_s
from capplan.hardware.efficiency import efficiency
from capplan.modeling.costs import AttentionCost, GemmCost, ModelCosts
from capplan.modeling.linear import Component
from capplan.modeling.sharding import attention_rank_share, gemm_rank_share, state_rank_share

Array = NDArray[np.float64]

_MESSAGE_LOG2_BYTES = np.arange(10.0, 33.0)
"""Grid on which all-reduce times are tabulated: 1 KiB to 4 GiB, one point per octave."""

SHARPNESS = 4.0
"""Exponent p of the smooth roofline ``(t_mem^p + t_flop^p)^(1/p)``."""

MOST_OF_BANDWIDTH = 0.95
"""Largest share of a device's peak bandwidth that any coefficients may claim; the best published reads reach 0.93."""

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
        total = np.zeros_like(tokens)
        rows = np.arange(self.rows)[:, None]
        for group in self.collectives:
            messages = np.maximum(tokens * group.token_share * self.collective_bytes_per_token, 1.0)
            position = np.log2(messages) - _MESSAGE_LOG2_BYTES[0]
            position = np.clip(position, 0.0, len(_MESSAGE_LOG2_BYTES) - 1.000001)
            left = position.astype(np.int64)
            low, high = group.log_s[rows, left], group.log_s[rows, left + 1]
            total = total + group.count * np.exp(low + (position - left) * (high - low))
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


class _ByFacts:
    """Cache key of an accelerator, whose peak mapping cannot be hashed: the facts that all-reduce times depend on."""

    __slots__ = ("_key", "accelerator")

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._key = (
            accelerator.sku,
            accelerator.architecture,
            accelerator.interconnect,
            accelerator.link_bytes_per_s,
            accelerator.pcie_bytes_per_s,
            accelerator.link_domain_size,
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByFacts) and self._key == other._key


_NO_TIME_LOG = -1e4
"""Log of a time that is none, finite so that interpolation stays free of invalid values."""


@lru_cache(maxsize=4096)
def _collective_log_s(key: _ByFacts, ranks: int) -> Array:
    if ranks == 1:
        return np.full(len(_MESSAGE_LOG2_BYTES), _NO_TIME_LOG)
    ranks = min(ranks, all_reduce_ranks_limit(key.accelerator))
    times: Array = np.log(all_reduce_s(key.accelerator, ranks, np.exp2(_MESSAGE_LOG2_BYTES)))
    return times


def _column(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)[:, None]


def _generation(replica: Replica) -> str:
    return replica.device.accelerator.architecture


def _arithmetic(gemm: GemmCost, computed_in: str) -> str:
    return f"{gemm.arithmetic}>{computed_in}"


def _layer_arithmetic(model: ModelCosts, accelerator: Accelerator, component: Component) -> str:
    """The arithmetic of a layer's products of one kind; empty where the model has none."""
    for gemm in model.gemms:
        if gemm.component is component and gemm.active_parameters and gemm.layers:
            return _arithmetic(gemm, arithmetic_support(accelerator, gemm.storage).arithmetic)
    return ""


def _gemm_group(model: ModelCosts, gemm: GemmCost, replicas: Sequence[Replica], fitted: Coefficients) -> GemmGroup:
    experts = gemm.experts > 0
    stored, flop, tokens, memory, compute, half = [], [], [], [], [], []
    for replica in replicas:
        spread, device = replica.parallelism, replica.device
        support = arithmetic_support(device.accelerator, gemm.storage)
        achieved = efficiency(device.accelerator, support.arithmetic)
        keys = {
            "generation": _generation(replica),
            "engine": replica.settings.name,
            "runtime": replica.settings.runtime,
            # what the format asks for and what the device computes in: weight-only kernels behave differently
            "arithmetic": _arithmetic(gemm, support.arithmetic),
        }
        if experts:
            ranks, token_share = spread.stage_ranks, 1.0
            share = 1.0 / ranks
            width = gemm.output_features * spread.expert_parallel / ranks
            busiest = fitted.of("imbalance") if spread.expert_parallel > 1 else 1.0
        else:
            share = gemm_rank_share(gemm, model.vocabulary_size, spread.tensor_parallel)
            token_share = 1.0 / spread.attention_data_parallel
            width = gemm.output_features * share
            busiest = 1.0
        read = achieved.memory_fraction * fitted.of("weight_read", **keys)
        rate = achieved.compute_fraction * fitted.of("gemm_rate", **keys)
        if experts:
            read *= fitted.of("expert_read", **keys)
            rate *= fitted.of("expert_rate", **keys)
        rate *= width / (width + fitted.of("narrow_width"))
        stored.append(gemm.stored_bytes * share)
        flop.append(2.0 * gemm.active_parameters * share * busiest)
        tokens.append(token_share)
        memory.append(device.bandwidth_bytes_per_s * min(read, MOST_OF_BANDWIDTH))
        compute.append(device.accelerator.peak_flop_per_s[support.arithmetic] * device.compute_share * rate)
        half.append(achieved.half_rate_tokens * fitted.of("half_rate", **keys))
    return GemmGroup(
        name=gemm.component.value,
        bytes=_column(stored),
        flop_per_token=_column(flop),
        token_share=_column(tokens),
        memory_rate=_column(memory),
        compute_rate=_column(compute),
        half_rate_tokens=_column(half),
        touch_share=gemm.experts_per_token / gemm.experts if experts else 1.0,
        once_per_sequence=gemm.once_per_sequence,
    )


def _attention_group(attention: AttentionCost, replicas: Sequence[Replica]) -> AttentionGroup:
    ranks = [replica.parallelism.tensor_parallel for replica in replicas]
    cache = _column([attention_rank_share(attention, tp) for tp in ranks])
    heads = attention.layers / _column([float(tp) for tp in ranks])
    return AttentionGroup(
        cache_bytes_per_token=attention.layers * attention.cache_bytes_per_token * cache,
        decode_flop_per_context_token=attention.decode_flop_per_context_token * heads,
        prefill_flop_per_context_token=attention.prefill_flop_per_context_token * heads,
        indexer_flop_per_context_token=attention.indexer_flop_per_context_token * heads,
        window_tokens=float(attention.window_tokens or np.inf),
        attended_tokens_limit=float(attention.attended_tokens_limit or np.inf),
    )


def _collective_groups(
    model: ModelCosts, replicas: Sequence[Replica], fitted: Coefficients
) -> tuple[CollectiveGroup, ...]:
    """One all-reduce after attention over the ranks that share it, one after the feed-forward part over the stage.

    With attention data parallelism the second stands for gathering every group's tokens before the experts and
    scattering the results, which moves as many bytes.
    """

    def scaled(replica: Replica, ranks: int) -> Array:
        settings = replica.settings
        factor = fitted.of(
            "collective", engine=settings.name, runtime=settings.runtime, generation=_generation(replica)
        )
        log_s: Array = _collective_log_s(_ByFacts(replica.device.accelerator), ranks) + np.log(factor)
        return log_s

    spreads = [replica.parallelism for replica in replicas]
    layers = np.full((len(replicas), 1), float(model.layers))
    return (
        CollectiveGroup(
            count=layers,
            token_share=_column([1.0 / spread.attention_data_parallel for spread in spreads]),
            log_s=np.stack([scaled(r, s.tensor_parallel) for r, s in zip(replicas, spreads, strict=True)]),
        ),
        CollectiveGroup(
            count=layers,
            token_share=np.ones((len(replicas), 1)),
            log_s=np.stack([scaled(r, s.stage_ranks) for r, s in zip(replicas, spreads, strict=True)]),
        ),
    )


def build_table(model: ModelCosts, replicas: Sequence[Replica], fitted: Coefficients = UNFITTED) -> ReplicaTable:
    """Packs replicas of one model into arrays.

    Every replica must be legal (its formats supported, its widths divisible): legality is checked before.

    Args:
        model: the model in its formats.
        replicas: C ways to run it.
        fitted: coefficients of the step model.
    """
    kv_rate, decode_rate, prefill_rate, overhead, per_sequence, handling = [], [], [], [], [], []
    expert_layers = max((g.layers for g in model.gemms if g.component is Component.ROUTED_EXPERT), default=0)
    for replica in replicas:
        accelerator, engine = replica.device.accelerator, replica.settings.name
        generation = _generation(replica)
        arithmetic = sixteen_bit_arithmetic(accelerator) or "fp32"
        achieved = efficiency(accelerator, arithmetic)
        fp8 = model.kv_precision == "fp8"
        fraction = achieved.kv_fp8_memory_fraction if fp8 else achieved.kv_memory_fraction
        keys = {"engine": engine, "runtime": replica.settings.runtime, "generation": generation}
        kv_read = fitted.of("kv_read", **keys)
        kv_rate.append(replica.device.bandwidth_bytes_per_s * min(fraction * kv_read, MOST_OF_BANDWIDTH))
        peak = accelerator.peak_flop_per_s[arithmetic] * replica.device.compute_share
        decode_rate.append(peak * fitted.of("attention_decode", generation=generation))
        prefill_rate.append(peak * fitted.of("attention_prefill", generation=generation))
        attention = _layer_arithmetic(model, accelerator, Component.ATTENTION)
        expert = _layer_arithmetic(model, accelerator, Component.ROUTED_EXPERT)
        overhead.append(
            fitted.of("step_s", **keys)
            + fitted.of("layer_s", **keys, arithmetic=attention) * model.layers
            + fitted.of("expert_layer_s", **keys, arithmetic=expert) * expert_layers
        )
        per_sequence.append(fitted.of("sequence_s", **keys))
        handling.append(fitted.of("request_s", **keys))
    spreads = [replica.parallelism for replica in replicas]
    groups = _column([float(spread.attention_data_parallel) for spread in spreads])
    ranks = [spread.tensor_parallel for spread in spreads]
    return ReplicaTable(
        # embedding look-ups and parts that a text request does not run take no time
        gemms=tuple(
            _gemm_group(model, gemm, replicas, fitted) for gemm in model.gemms if gemm.active_parameters and gemm.layers
        ),
        attentions=tuple(_attention_group(attention, replicas) for attention in model.attentions),
        collectives=_collective_groups(model, replicas, fitted),
        collective_bytes_per_token=float(model.hidden_size * model.activation_element_bytes),
        sequence_share=1.0 / groups,
        kv_memory_rate=_column(kv_rate),
        attention_decode_rate=_column(decode_rate),
        attention_prefill_rate=_column(prefill_rate),
        state_bytes_per_sequence=_column(
            [sum(state.bytes_per_sequence * state_rank_share(state, tp) for state in model.states) for tp in ranks]
        ),
        state_flop_per_token=_column([sum(s.flop_per_token for s in model.states) / tp for tp in ranks]),
        overhead_s=_column(overhead),
        sequence_overhead_s=_column(per_sequence),
        request_s=_column(handling),
        token_budget=_column([float(r.settings.max_num_batched_tokens) for r in replicas]) * groups,
        stages=_column([float(spread.pipeline_parallel) for spread in spreads]),
        split_prefill=_column([float(r.settings.name in SPLIT_PREFILL_ENGINES) for r in replicas]),
        ramp_offset_tokens=fitted.of("ramp_offset_tokens"),
    )
