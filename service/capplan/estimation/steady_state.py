"""Continuous batching in steady state: from step times to throughput and latency at a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from capplan.estimation.engine_records import MemoryRule
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

    def admitted_tokens(self, rule: MemoryRule) -> float:
        """Mean context that an engine keeps room for while a request runs.

        Where it lets none in that it might have to put off that is the whole of it, else what is live.
        """
        return self.input_tokens + self.output_tokens if rule.reserves_answers else self.live_tokens

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
class PrefillMix:
    """How prompt tokens spread over the steps; arrays are (C, B).

    Attributes:
        chunk: prompt tokens in a step that carries some.
        chunks_per_step: such chunks that arrive per step; beyond 1 prompts pile up.
        step_share: share of the steps that carry a chunk.
        budget_share: share of the token budget that prompts take on average; 1 is saturation.
    """

    chunk: Array
    chunks_per_step: Array
    step_share: Array
    budget_share: Array


class Stepping(Protocol):
    """What of replicas decides how prompts spread over their steps."""

    @property
    def stages(self) -> Array:
        """Pipeline stages, (C, 1); as many micro-batches are under way."""

    @property
    def token_budget(self) -> Array:
        """Tokens of one step, (C, 1)."""


def _arriving(replicas: Stepping, request: Request, batch: Array) -> Array:
    """Prompt tokens that arrive for each step, (C, B)."""
    return batch / replicas.stages * request.prefill_tokens / request.output_tokens


def prefill_budget_share(replicas: Stepping, request: Request, batch: Array) -> Array:
    """Share of the token budget that prompts take on average, (C, B): that of :func:`prefill_mix` alone."""
    return _arriving(replicas, request, batch) / replicas.token_budget


def prefill_mix(replicas: Stepping, request: Request, batch: Array) -> PrefillMix:
    """Spreads the prompt work that sustains ``batch`` running sequences over the steps.

    Each decoded token entails prefill/output prompt tokens. While fewer than one prompt arrives per step, some steps
    carry one whole prompt (or one budget of it) and the others none; beyond that every step carries what arrives.
    """
    arriving = _arriving(replicas, request, batch)
    single = np.minimum(request.prefill_tokens, replicas.token_budget)
    chunk = np.clip(arriving, single, replicas.token_budget)
    chunks = arriving / chunk
    return PrefillMix(chunk, chunks, np.minimum(chunks, 1.0), arriving / replicas.token_budget)


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


def rates(output_tokens: float, batch: _Number, itl_s: _Number) -> tuple[_Number, _Number]:
    """Tokens and requests per second: ``batch`` sequences yield a token each inter-token latency."""
    return batch / itl_s, batch / (output_tokens * itl_s)


def rates_and_stay(
    output_tokens: float, batch: _Number, itl_s: _Number, ttft_s: _Number
) -> tuple[_Number, _Number, _Number]:
    """What latencies imply at a steady load: tokens per second, requests per second, and seconds end to end.

    Rates are those of :func:`rates`, and a request takes ``output_tokens``, the first of which comes at the TTFT.
    """
    output_tokens_per_s, requests_per_s = rates(output_tokens, batch, itl_s)
    return output_tokens_per_s, requests_per_s, stay_s(output_tokens, itl_s, ttft_s)


def stay_s(output_tokens: float, itl_s: _Number, ttft_s: _Number) -> _Number:
    """Seconds from a request's arrival to its last token: the first comes at the TTFT."""
    return ttft_s + (output_tokens - 1.0) * itl_s


class Latencies(NamedTuple):
    """Mean latencies at some loads, (C, B) milliseconds: the same of a :class:`SteadyState`."""

    itl_ms: Array
    ttft_ms: Array
    e2e_ms: Array


@dataclass(frozen=True, slots=True)
class ServingTimes:
    """What of a steady state the step model has to be asked for, seconds.

    Attributes:
        itl_s: (C, B) mean inter-token latency.
        own_prefill_s: (C, B) the steps that a request's own prompt takes beside the others.
    """

    itl_s: Array
    own_prefill_s: Array


def _own_chunks(table: ReplicaTable, request: Request) -> tuple[Array, Array, Array]:
    """Prompt tokens of one of a request's own steps, how many steps, and how many tokens they compute; (C, 1)."""
    single = np.minimum(request.prefill_tokens, table.token_budget)
    chunks = np.ceil(request.prefill_tokens / table.token_budget)
    # a prompt's last step is counted full, with the tokens it would have room for computed and not cached
    return single, chunks, np.minimum(chunks * single, request.input_tokens)


def unloaded_ttft_s(table: ReplicaTable, request: Request) -> Array:
    """Seconds to the first token of a request that meets an idle replica, (C, 1)."""
    single, chunks, computed = _own_chunks(table, request)
    alone: Array = table.request_s + chunks * step_s(table, step_load(request, np.zeros_like(single), single, computed))
    return alone


def serving_times(
    table: ReplicaTable, request: Request, batch: Array, mix: PrefillMix, chunks_per_step: Array
) -> ServingTimes:
    """Asks the step model for what a steady state consists of.

    Args:
        table: C replicas.
        request: mean lengths.
        batch: (C, B) mean number of decoding sequences.
        mix: how the prompts of that load spread.
        chunks_per_step: (C, B) how many of those chunks a step carries: the mix's share of steps, or what arrives.

    Notes:
        ``ITL = (1 - f) step(B, 0) + f step(B, chunk)`` with f the chunks per step; an engine that runs prompts apart
        takes ``step(B, 0) + step(0, chunk)`` instead of ``step(B, chunk)``. With pipeline stages each of as many
        micro-batches passes all of them.
    """
    decoding = np.maximum(batch / table.stages, 1.0)
    zero = np.zeros((1, 1))
    plain = step_s(table, step_load(request, decoding, zero))

    def with_prompts(computed: float | Array) -> Array:
        mixed = step_s(table, step_load(request, decoding, mix.chunk, computed))
        if np.any(table.split_prefill):
            apart = plain + step_s(table, step_load(request, zero, mix.chunk, computed))
            mixed = np.where(table.split_prefill > 0, apart, mixed)
        return mixed

    mixed = with_prompts(request.prefill_tokens)
    _, chunks, computed = _own_chunks(table, request)
    own = mixed if np.all(computed == request.prefill_tokens) else with_prompts(computed)
    return ServingTimes((1.0 - chunks_per_step) * plain + chunks_per_step * mixed, chunks * own)


def loaded_ttft_s(request_s: Array, itl_s: Array, own_prefill_s: Array, budget_share: Array) -> Array:
    """Mean seconds to the first token at a load, (C, B).

    The request's handling, the rest of the running step, the wait behind other prompts (mean wait of a deterministic
    server at the prefill utilisation, ``rho / (2 (1 - rho))`` of its own service time) and the request's own prefill
    steps. Those are whole steps of the token budget when the prompt takes more than one, so a prefix hit saves time
    there when it saves a step.

    Args:
        request_s: (C, 1) handling of one request.
        itl_s: (C, B) mean inter-token latency.
        own_prefill_s: (C, B) the steps that the request's own prompt takes.
        budget_share: (C, B) share of the token budget that prompts take.
    """
    # at saturation the wait is without bound; callers stop before it, the clip keeps the arithmetic finite
    utilisation = np.minimum(budget_share, 0.999)
    return request_s + 0.5 * itl_s + own_prefill_s * (1.0 + utilisation / (2.0 * (1.0 - utilisation)))


def state_of(
    request: Request, batch: Array, mix: PrefillMix, itl_s: Array, ttft_s: Array, ttft_unloaded_s: Array
) -> SteadyState:
    """The steady state that latencies imply at a load.

    Args:
        request: mean lengths.
        batch: (C, B) mean number of decoding sequences.
        mix: how the prompts of that load spread.
        itl_s: (C, B) mean inter-token latency.
        ttft_s: (C, B) mean time to first token.
        ttft_unloaded_s: (C, 1) the same on an idle replica.
    """
    output_tokens_per_s, requests_per_s, e2e = rates_and_stay(request.output_tokens, batch, itl_s, ttft_s)
    return SteadyState(
        batch=batch,
        output_tokens_per_s=output_tokens_per_s,
        requests_per_s=requests_per_s,
        requests_in_flight=requests_per_s * e2e,
        itl_ms=itl_s * MS_PER_S,
        ttft_ms=ttft_s * MS_PER_S,
        ttft_unloaded_ms=np.broadcast_to(ttft_unloaded_s * MS_PER_S, batch.shape),
        e2e_ms=e2e * MS_PER_S,
        prefill_step_share=mix.step_share,
        prefill_budget_share=mix.budget_share,
    )


def steady_state(table: ReplicaTable, request: Request, batch: Array) -> SteadyState:
    """Figures of every replica at every batch, as the step model has them: exact, and without measured corrections.

    Args:
        table: C replicas.
        request: mean lengths.
        batch: (C, B) mean number of decoding sequences, positive; below one the replica idles in between.
    """
    mix = prefill_mix(table, request, batch)
    times = serving_times(table, request, batch, mix, mix.step_share)
    ttft = loaded_ttft_s(table.request_s, times.itl_s, times.own_prefill_s, mix.budget_share)
    return state_of(request, batch, mix, times.itl_s, ttft, unloaded_ttft_s(table, request))
