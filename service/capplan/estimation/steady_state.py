"""Continuous batching in steady state: from step times to throughput and latency at a load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capplan.estimation.step import StepLoad, step_s
from capplan.estimation.table import Array, ReplicaTable
from capplan.units import MS_PER_S

PREFILL_BUDGET_LIMIT = 0.95
"""Highest share of the token budget that prompts may take on average; beyond it waiting prompts pile up."""


@dataclass(frozen=True, slots=True)
class Request:
    """Mean lengths of one request, in tokens."""

    input_tokens: float
    output_tokens: float

    @property
    def live_tokens(self) -> float:
        """Mean context of a running request: the prompt and half of the answer."""
        return self.input_tokens + self.output_tokens / 2.0


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

    Each decoded token entails input/output prompt tokens. While fewer than one prompt arrives per step, some steps
    carry one whole prompt (or one budget of it) and the others none; beyond that every step carries what arrives.
    """
    budget = table.token_budget
    arriving = batch / table.stages * request.input_tokens / request.output_tokens
    single = np.minimum(request.input_tokens, budget)
    chunk = np.clip(arriving, single, budget)
    return _PrefillMix(chunk=chunk, step_share=np.minimum(arriving / chunk, 1.0), budget_share=arriving / budget)


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
        ``rho / (2 (1 - rho))`` of its own service time) and the request's own prefill steps.
    """
    mix = prefill_mix(table, request, batch)
    decoding = np.maximum(batch / table.stages, 1.0)
    zero = np.zeros_like(decoding)

    def step(decode: Array, prefill: Array) -> Array:
        return step_s(table, StepLoad(decode, prefill, request.live_tokens, request.input_tokens))

    plain, mixed = step(decoding, zero), step(decoding, mix.chunk)
    if np.any(table.split_prefill):
        mixed = np.where(table.split_prefill > 0, plain + step(zero, mix.chunk), mixed)
    itl = (1.0 - mix.step_share) * plain + mix.step_share * mixed
    single = np.broadcast_to(np.minimum(request.input_tokens, table.token_budget), batch.shape)
    chunks = np.ceil(request.input_tokens / table.token_budget)
    unloaded = table.request_s + chunks * step(zero, single)
    # at saturation the wait is without bound; callers stop before it, the clip keeps the arithmetic finite
    utilisation = np.minimum(mix.budget_share, 0.999)
    own = chunks * mixed
    ttft = table.request_s + 0.5 * itl + own * (1.0 + utilisation / (2.0 * (1.0 - utilisation)))
    e2e = ttft + (request.output_tokens - 1.0) * itl
    requests_per_s = batch / (request.output_tokens * itl)
    return SteadyState(
        batch=batch,
        output_tokens_per_s=batch / itl,
        requests_per_s=requests_per_s,
        requests_in_flight=requests_per_s * e2e,
        itl_ms=itl * MS_PER_S,
        ttft_ms=ttft * MS_PER_S,
        ttft_unloaded_ms=np.broadcast_to(unloaded, batch.shape) * MS_PER_S,
        e2e_ms=e2e * MS_PER_S,
        prefill_step_share=mix.step_share,
        prefill_budget_share=mix.budget_share,
    )
