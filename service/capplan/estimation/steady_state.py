"""Continuous batching in steady state: from step times to throughput and latency at a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from capplan.estimation.step import StepLoad, step_s
from capplan.estimation.table import Array, ReplicaTable
from capplan.units import MS_PER_S

_Number = TypeVar("_Number", float, Array)

PREFILL_BUDGET_LIMIT = 0.95
"""Highest share of the token budget that prompts may take on average; beyond it waiting prompts pile up."""


@dataclass(frozen=True, slots=True)
class Request:
    """Mean lengths of one request, in tokens.

    Attributes:
        input_tokens: the prompt, cached or not.
        output_tokens: the answer.
        prefix_hit_share: share of the prompt whose keys and values are in the prefix cache already, at least 0 and
            below 1.
    """

    input_tokens: float
    output_tokens: float
    prefix_hit_share: float = 0.0

    @property
    def live_tokens(self) -> float:
        """Mean context of a running request: the whole prompt and half of the answer.

        Requests with a common prefix can share its memory; none is counted as shared, so that what is planned holds
        whichever requests run together.
        """
        return self.input_tokens + self.output_tokens / 2.0

    @property
    def prefill_tokens(self) -> float:
        """Prompt tokens to compute: those that miss the prefix cache, and the last one in any case.

        The last prompt token yields the first output token, so engines compute it although its keys and values may be
        cached (vLLM: ``KVCacheManager.get_computed_blocks`` looks ``num_tokens - 1`` of them up).
        """
        return max(self.input_tokens * (1.0 - self.prefix_hit_share), 1.0)


@dataclass(frozen=True, slots=True)
class SteadyState:
    """C replicas at B loads each; arrays are (C, B).

    Attributes:
        batch: decoding sequences.
        output_tokens_per_s: generated tokens per second.
        requests_per_s: finished requests per second.
        requests_in_flight: requests being served, prefill included.
        itl_ms: mean inter-token latency.
        ttft_ms: mean time to first token at this load.
        ttft_unloaded_ms: time to first token of a request that meets an idle replica.
        e2e_ms: mean end-to-end latency.
        prefill_step_share: share of the steps that carry prompt tokens.
        prefill_budget_share: share of the token budget that prompts take on average; 1 is saturation.
    """

    batch: Array
    output_tokens_per_s: Array
    requests_per_s: Array
    requests_in_flight: Array
    itl_ms: Array
    ttft_ms: Array
    ttft_unloaded_ms: Array
    e2e_ms: Array
    prefill_step_share: Array
    prefill_budget_share: Array


@dataclass(frozen=True, slots=True)
class _PrefillMix:
    """How prompt tokens spread over the steps: a share of the steps carries ``chunk`` of them."""

    chunk: Array
    step_share: Array
    budget_share: Array


def prefill_mix(table: ReplicaTable, request: Request, batch: Array) -> _PrefillMix:
    """Spreads the prompt work that sustains ``batch`` running sequences over the steps.

    Each decoded token entails prefill/output prompt tokens. While fewer than one prompt arrives per step, some steps
    carry one whole prompt (or one budget of it) and the others none; beyond that every step carries what arrives.
    """
    budget = table.token_budget
    arriving = batch / table.stages * request.prefill_tokens / request.output_tokens
    single = np.minimum(request.prefill_tokens, budget)
    chunk = np.clip(arriving, single, budget)
    return _PrefillMix(chunk=chunk, step_share=np.minimum(arriving / chunk, 1.0), budget_share=arriving / budget)


def step_load(request: Request, decode: Array, prefill: Array, computed: float | Array | None = None) -> StepLoad:
    """What a step works on when it serves such requests.

    Args:
        request: mean lengths.
        decode: (C, B) sequences that decode.
        prefill: (C, B) prompt tokens in the step.
        computed: tokens of a prompt that are computed, (C, 1) or one for all; those that miss when not given.
    """
    computed = request.prefill_tokens if computed is None else computed
    return StepLoad(decode, prefill, request.live_tokens, request.input_tokens, computed / request.input_tokens)


def rates_and_stay(
    output_tokens: float, batch: _Number, itl_s: _Number, ttft_s: _Number
) -> tuple[_Number, _Number, _Number]:
    """What latencies imply at a steady load: tokens per second, requests per second, and seconds end to end.

    ``batch`` sequences yield a token each inter-token latency, and a request takes ``output_tokens`` of them, the first
    of which comes at the TTFT.
    """
    return batch / itl_s, batch / (output_tokens * itl_s), ttft_s + (output_tokens - 1.0) * itl_s


def steady_state(table: ReplicaTable, request: Request, batch: Array) -> SteadyState:
    """Figures of every replica at every batch.

    Args:
        table: C replicas.
        request: mean lengths.
        batch: (C, B) mean number of decoding sequences, positive; below one the replica idles in between.

    Notes:
        ``TPOT = (1 - f) step(B, 0) + f step(B, chunk)`` with f the share of steps that carry prompt tokens; an engine
        that runs prompts apart takes ``step(B, 0) + step(0, chunk)`` instead of ``step(B, chunk)``. With pipeline
        stages each of as many micro-batches passes all of them. TTFT is the request's handling, the rest of the running
        step, the wait behind other prompts (mean wait of a deterministic server at the prefill utilisation,
        ``rho / (2 (1 - rho))`` of its own service time) and the request's own prefill steps. Those are whole steps of
        the token budget when the prompt takes more than one, so a prefix hit saves time there when it saves a step.
    """
    mix = prefill_mix(table, request, batch)
    decoding = np.maximum(batch / table.stages, 1.0)
    zero = np.zeros_like(decoding)

    def step(decode: Array, prefill: Array, computed: float | Array) -> Array:
        return step_s(table, step_load(request, decode, prefill, computed))

    plain = step(decoding, zero, request.prefill_tokens)

    def with_prompts(computed: float | Array) -> Array:
        mixed = step(decoding, mix.chunk, computed)
        if np.any(table.split_prefill):
            mixed = np.where(table.split_prefill > 0, plain + step(zero, mix.chunk, computed), mixed)
        return mixed

    mixed = with_prompts(request.prefill_tokens)
    itl = (1.0 - mix.step_share) * plain + mix.step_share * mixed
    single = np.minimum(request.prefill_tokens, table.token_budget)
    chunks = np.ceil(request.prefill_tokens / table.token_budget)
    # a prompt's last step is counted full, with the tokens it would have room for computed and not cached
    own_computed = np.minimum(chunks * single, request.input_tokens)
    own_mixed = mixed if np.all(own_computed == request.prefill_tokens) else with_prompts(own_computed)
    unloaded = table.request_s + chunks * step(zero, np.broadcast_to(single, batch.shape), own_computed)
    # at saturation the wait is without bound; callers stop before it, the clip keeps the arithmetic finite
    utilisation = np.minimum(mix.budget_share, 0.999)
    own = chunks * own_mixed
    ttft = table.request_s + 0.5 * itl + own * (1.0 + utilisation / (2.0 * (1.0 - utilisation)))
    output_tokens_per_s, requests_per_s, e2e = rates_and_stay(request.output_tokens, batch, itl, ttft)
    return SteadyState(
        batch=batch,
        output_tokens_per_s=output_tokens_per_s,
        requests_per_s=requests_per_s,
        requests_in_flight=requests_per_s * e2e,
        itl_ms=itl * MS_PER_S,
        ttft_ms=ttft * MS_PER_S,
        ttft_unloaded_ms=np.broadcast_to(unloaded, batch.shape) * MS_PER_S,
        e2e_ms=e2e * MS_PER_S,
        prefill_step_share=mix.step_share,
        prefill_budget_share=mix.budget_share,
    )
