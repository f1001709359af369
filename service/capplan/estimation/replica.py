"""A way to run one replica, and many of them packed into arrays for the step model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.device import RankDevice
from capplan.estimation.engine import EngineSettings
from capplan.estimation.priors import PRIORS, StepPriors
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.arithmetic import arithmetic_support, sixteen_bit_arithmetic
from capplan.hardware.collectives import all_reduce_s
from capplan.hardware.efficiency import efficiency
from capplan.modeling.costs import ModelCosts
from capplan.modeling.linear import Component
from capplan.modeling.sharding import attention_rank_share, gemm_rank_share, state_rank_share

Array = NDArray[np.float64]

_MESSAGE_LOG2_BYTES = np.arange(10.0, 33.0)
"""Grid on which all-reduce times are tabulated: 1 KiB to 4 GiB, one point per octave."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How one replica spreads. Only tensor parallelism is planned so far; the rest keeps its place."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    attention_data_parallel: int = 1

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True)
class Replica:
    """One way to run one replica: its device, its spread, its engine settings."""

    device: RankDevice
    parallelism: Parallelism
    settings: EngineSettings


@dataclass(frozen=True, slots=True)
class GemmGroup:
    """Gemms of one component and storage format over C replicas; arrays are per rank.

    Attributes:
        name: operator group, the component's name.
        bytes: (C, 1) weight bytes read when every expert is touched.
        flop_per_token: (C, 1).
        memory_rate: (C, 1) achieved bytes per second.
        compute_rate: (C, 1) achieved FLOP per second at many tokens.
        half_rate_tokens: (C, 1) tokens at which half of that rate is reached.
        touch_share: share of the experts one token touches; 1 for dense maps.
        once_per_sequence: the language-model head: prefill applies it to the last position only.
    """

    name: str
    bytes: Array
    flop_per_token: Array
    memory_rate: Array
    compute_rate: Array
    half_rate_tokens: Array
    touch_share: float
    once_per_sequence: bool


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Attention layers that cache alike, over C replicas; arrays are per rank and summed over the layers."""

    cache_bytes_per_token: Array
    decode_flop_per_context_token: Array
    prefill_flop_per_context_token: Array
    indexer_flop_per_context_token: Array
    window_tokens: float
    attended_tokens_limit: float


@dataclass(frozen=True, slots=True)
class ReplicaTable:
    """C replicas of one model, ready for the step model. All arrays have C rows.

    Attributes:
        gemms: linear maps by group.
        attentions: attention layers by how they cache.
        kv_memory_rate: (C, 1) achieved bytes per second of KV reads.
        attention_decode_rate: (C, 1) achieved FLOP per second of attention in decode.
        attention_prefill_rate: (C, 1) the same in prefill.
        state_bytes_per_sequence: (C, 1) recurrent state, read and written once a step.
        state_flop_per_token: (C, 1).
        overhead_s: (C, 1) launches and scheduling of one step.
        collective_bytes_per_token: message bytes of one all-reduce per token.
        collectives_per_step: all-reduces of one step.
        collective_log_s: (C, M) natural log of the all-reduce time on the message grid; -inf for one rank.
        token_budget: (C, 1) tokens of one step.
        priors: coefficients the table was built with.
    """

    gemms: tuple[GemmGroup, ...]
    attentions: tuple[AttentionGroup, ...]
    kv_memory_rate: Array
    attention_decode_rate: Array
    attention_prefill_rate: Array
    state_bytes_per_sequence: Array
    state_flop_per_token: Array
    overhead_s: Array
    collective_bytes_per_token: float
    collectives_per_step: int
    collective_log_s: Array
    token_budget: Array
    priors: StepPriors

    @property
    def rows(self) -> int:
        """How many replicas."""
        return int(self.token_budget.shape[0])

    def collective_s(self, tokens: Array) -> Array:
        """Seconds of all all-reduces of one step over ``tokens`` (C, B); log-log linear between the grid's points."""
        position = np.log2(np.maximum(tokens * self.collective_bytes_per_token, 1.0)) - _MESSAGE_LOG2_BYTES[0]
        position = np.clip(position, 0.0, len(_MESSAGE_LOG2_BYTES) - 1.000001)
        left = position.astype(np.int64)
        rows = np.arange(self.rows)[:, None]
        low, high = self.collective_log_s[rows, left], self.collective_log_s[rows, left + 1]
        with np.errstate(invalid="ignore"):
            time = np.exp(low + (position - left) * (high - low))
        seconds: Array = self.collectives_per_step * np.nan_to_num(time, nan=0.0)
        return seconds


@lru_cache(maxsize=4096)
def _collective_log_s(accelerator_key: _ByIdentity, ranks: int) -> Array:
    if ranks == 1:
        return np.full(len(_MESSAGE_LOG2_BYTES), -np.inf)
    times: Array = np.log(all_reduce_s(accelerator_key.accelerator, ranks, np.exp2(_MESSAGE_LOG2_BYTES)))
    return times


class _ByIdentity:
    """Cache key of an accelerator, whose peak mapping cannot be hashed: the facts that all-reduce times depend on."""

    __slots__ = ("_key", "accelerator")

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._key = (
            accelerator.sku,
            accelerator.architecture,
            accelerator.link_bytes_per_s,
            accelerator.pcie_bytes_per_s,
            accelerator.link_domain_size,
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self._key == other._key


def _column(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)[:, None]


def build_table(model: ModelCosts, replicas: Sequence[Replica], priors: StepPriors = PRIORS) -> ReplicaTable:
    """Packs replicas of one model into arrays.

    Every replica must be legal (its formats supported, its widths divisible): legality is checked before.
    """
    ranks = [replica.parallelism.tensor_parallel for replica in replicas]
    gemms = []
    for gemm in model.gemms:
        if gemm.active_parameters == 0 or gemm.layers == 0:
            continue  # embedding look-ups and parts that a text request does not run
        shares = _column([gemm_rank_share(gemm, model.vocabulary_size, tp) for tp in ranks])
        memory, compute, half = [], [], []
        for replica in replicas:
            device = replica.device
            support = arithmetic_support(device.accelerator, gemm.storage)
            achieved = efficiency(device.accelerator, support.arithmetic)
            memory.append(device.bandwidth_bytes_per_s * achieved.memory_fraction * priors.weight_read_factor)
            peak = device.accelerator.peak_flop_per_s[support.arithmetic] * device.compute_share
            compute.append(peak * achieved.compute_fraction * priors.gemm_factor)
            half.append(achieved.half_rate_tokens * priors.half_rate_factor)
        gemms.append(
            GemmGroup(
                name=gemm.component.value,
                bytes=gemm.stored_bytes * shares,
                flop_per_token=2.0 * gemm.active_parameters * shares,
                memory_rate=_column(memory),
                compute_rate=_column(compute),
                half_rate_tokens=_column(half),
                touch_share=gemm.experts_per_token / gemm.experts if gemm.experts else 1.0,
                once_per_sequence=gemm.once_per_sequence,
            )
        )
    attentions = []
    for attention in model.attentions:
        cache = _column([attention_rank_share(attention, tp) for tp in ranks])
        heads = 1.0 / _column([float(tp) for tp in ranks])
        layers = attention.layers
        attentions.append(
            AttentionGroup(
                cache_bytes_per_token=layers * attention.cache_bytes_per_token * cache,
                decode_flop_per_context_token=layers * attention.decode_flop_per_context_token * heads,
                prefill_flop_per_context_token=layers * attention.prefill_flop_per_context_token * heads,
                indexer_flop_per_context_token=layers * attention.indexer_flop_per_context_token * heads,
                window_tokens=float(attention.window_tokens or np.inf),
                attended_tokens_limit=float(attention.attended_tokens_limit or np.inf),
            )
        )
    kv_rate, decode_rate, prefill_rate = [], [], []
    for replica in replicas:
        accelerator = replica.device.accelerator
        arithmetic = sixteen_bit_arithmetic(accelerator) or "fp32"
        achieved = efficiency(accelerator, arithmetic)
        fp8 = model.kv_precision == "fp8"
        fraction = achieved.kv_fp8_memory_fraction if fp8 else achieved.kv_memory_fraction
        kv_rate.append(replica.device.bandwidth_bytes_per_s * fraction)
        peak = accelerator.peak_flop_per_s[arithmetic] * replica.device.compute_share
        decode_rate.append(peak * priors.attention_decode_fraction)
        prefill_rate.append(peak * priors.attention_prefill_fraction)
    state_shares = [
        sum(state.bytes_per_sequence * state_rank_share(state, tp) for state in model.states) for tp in ranks
    ]
    expert_layers = max((g.layers for g in model.gemms if g.component is Component.ROUTED_EXPERT), default=0)
    overhead = priors.step_s + priors.layer_s * model.layers + priors.expert_layer_s * expert_layers
    return ReplicaTable(
        gemms=tuple(gemms),
        attentions=tuple(attentions),
        kv_memory_rate=_column(kv_rate),
        attention_decode_rate=_column(decode_rate),
        attention_prefill_rate=_column(prefill_rate),
        state_bytes_per_sequence=_column(state_shares),
        state_flop_per_token=_column([sum(s.flop_per_token for s in model.states) / tp for tp in ranks]),
        overhead_s=np.full((len(replicas), 1), overhead),
        collective_bytes_per_token=float(model.hidden_size * model.activation_element_bytes),
        collectives_per_step=2 * model.layers,
        collective_log_s=np.stack(
            [_collective_log_s(_ByIdentity(r.device.accelerator), tp) for r, tp in zip(replicas, ranks, strict=True)]
        ),
        token_budget=_column([float(r.settings.max_num_batched_tokens) for r in replicas]),
        priors=priors,
    )
