"""What one more token, one whole sequence and one decode step cost: the figures that follow from a model alone.

FLOP: a weight that is multiplied with counts two, a multiplication and an addition. Checked against a FLOP counter on
Llama-like models (prefill and decode) and on latent attention (prefill).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.attention import SoftmaxAttention
from capplan.modeling.costs import AttentionCost, ModelCosts
from capplan.modeling.linear import Component
from capplan.modeling.parameters import parameter_groups


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """What one more token costs, on one device.

    Attributes:
        cache_bytes: KV bytes while the context is shorter than every window.
        cache_bytes_beyond_window: KV bytes once every window is full.
        state_bytes_per_sequence: recurrent state of one sequence, which does not grow.
        flop: FLOP without attention over the context.
        attention_flop_per_context_token: FLOP in decode, for each token of context.
    """

    cache_bytes: float
    cache_bytes_beyond_window: float
    state_bytes_per_sequence: int
    flop: float
    attention_flop_per_context_token: float


def token_costs(costs: ModelCosts) -> TokenCosts:
    """The costs of one token."""
    return TokenCosts(
        cache_bytes=costs.cache_bytes_per_token,
        cache_bytes_beyond_window=sum(
            (a.layers * a.cache_bytes_per_token for a in costs.attentions if a.window_tokens is None), 0.0
        ),
        state_bytes_per_sequence=state_bytes_per_sequence(costs),
        flop=_context_free_flop(costs),
        attention_flop_per_context_token=sum(
            (a.layers * (a.decode_flop_per_context_token + a.indexer_flop_per_context_token) for a in costs.attentions),
            0.0,
        ),
    )


def active_parameter_groups(architecture: ModelArchitecture) -> Mapping[Component, int]:
    """Parameters one token touches by component; the values sum to the model's active parameters."""
    groups = dict(parameter_groups(architecture))
    for run in architecture.layers:
        for linear in run.block.maps():
            groups[linear.component] -= linear.idle_parameters * run.count
    return groups


def is_causal(architecture: ModelArchitecture) -> bool:
    """Whether the model reads its input left to right; an encoder, which does not, decodes nothing."""
    return all(
        mixer.causal for run in architecture.layers for mixer in run.block.mixers if isinstance(mixer, SoftmaxAttention)
    )


def state_bytes_per_sequence(costs: ModelCosts) -> int:
    """Recurrent state (and fixed cross-attention caches) of one sequence, whatever its length."""
    return sum(state.bytes_per_sequence for state in costs.states)


def sequence_cache_bytes(costs: ModelCosts, context_tokens: int) -> float:
    """KV bytes of one sequence: each layer keeps the context, or its window where that is shorter.

    An engine takes a little more: whole blocks, and a prefill chunk beyond the window; :mod:`capplan.estimation.memory`
    has that.
    """
    return sum(
        (a.layers * a.cache_bytes_per_token * _kept(a, context_tokens) for a in costs.attentions),
        0.0,
    )


def decode_flop(costs: ModelCosts, context_tokens: int) -> float:
    """FLOP of one decoded token over ``context_tokens`` of context.

    Windows and sparse indexers limit what a layer attends to; an indexer itself scores the whole context.
    """
    return _context_free_flop(costs) + sum(
        a.layers
        * (
            a.decode_flop_per_context_token * _attended(a, context_tokens)
            + a.indexer_flop_per_context_token * _kept(a, context_tokens)
        )
        for a in costs.attentions
    )


def prefill_flop(costs: ModelCosts, prompt_tokens: int, *, causal: bool = True) -> float:
    """Mean FLOP of one prompt token in a prompt of ``prompt_tokens``.

    The head is applied to the last position alone. A causal token sees half the prompt on average, and of a window
    ``W`` shorter than the prompt ``S`` the mean of ``min(position, W)``, which is ``W - W^2 / 2S``. Chunked attention
    is taken as a window of its chunk, which it stays below.

    Args:
        costs: the model in its formats.
        prompt_tokens: length of the prompt, at least 1.
        causal: false for encoders, whose tokens see the whole input.
    """
    head = sum(2.0 * gemm.active_parameters for gemm in costs.gemms if gemm.once_per_sequence)
    total = _context_free_flop(costs) - head + head / prompt_tokens
    for a in costs.attentions:
        if causal:
            attended = _causal_mean(prompt_tokens, _attended(a, prompt_tokens))
            scored = _causal_mean(prompt_tokens, _kept(a, prompt_tokens))
        else:
            attended, scored = float(_attended(a, prompt_tokens)), float(_kept(a, prompt_tokens))
        total += a.layers * (a.prefill_flop_per_context_token * attended + a.indexer_flop_per_context_token * scored)
    return total


def weight_bytes_read(costs: ModelCosts, batch_size: int) -> float:
    """Weight bytes one decode step of ``batch_size`` sequences reads, each expert's once if any token visits it.

    With routing taken as uniform, a batch of B touches ``1 - (1 - k/E)^B`` of E experts at k for each token. Lookup
    tables are read by the row and do not count.
    """
    read = float(costs.replicated_bytes)
    for gemm in costs.gemms:
        if gemm.active_parameters:
            touched = 1.0 - (1.0 - gemm.experts_per_token / gemm.experts) ** batch_size if gemm.experts else 1.0
            read += gemm.stored_bytes * touched
    return read


def decode_intensity(costs: ModelCosts, batch_size: int, context_tokens: int = 0) -> float:
    """FLOP for each byte that one decode step moves.

    Args:
        costs: the model in its formats.
        batch_size: sequences that decode a token each.
        context_tokens: context of each sequence. What its attention reads of the cache, and the state that is read
            and written, are then moved beside the weights; 0 for the weights alone, what matrix products wait for.
    """
    moved = weight_bytes_read(costs, batch_size)
    if context_tokens:
        cache = sum(a.layers * a.cache_bytes_per_token * _attended(a, context_tokens) for a in costs.attentions)
        moved += batch_size * (cache + 2.0 * state_bytes_per_sequence(costs))
    flop = batch_size * decode_flop(costs, context_tokens)
    return flop / moved if moved else 0.0


def _context_free_flop(costs: ModelCosts) -> float:
    products = sum(2.0 * gemm.active_parameters for gemm in costs.gemms)
    return products + sum(state.flop_per_token for state in costs.states)


def _kept(attention: AttentionCost, context_tokens: int) -> int:
    """Tokens of the context a layer keeps."""
    return context_tokens if attention.window_tokens is None else min(context_tokens, attention.window_tokens)


def _attended(attention: AttentionCost, context_tokens: int) -> int:
    """Tokens of the context one query attends to."""
    kept = _kept(attention, context_tokens)
    return kept if attention.attended_tokens_limit is None else min(kept, attention.attended_tokens_limit)


def _causal_mean(prompt_tokens: int, limit: int) -> float:
    """Mean over the positions of a prompt of what each sees, at most ``limit`` (itself at most the prompt)."""
    return limit - limit * limit / (2.0 * prompt_tokens)
