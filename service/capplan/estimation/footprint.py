"""What one rank of a replica holds of a model, whatever the device and the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from capplan.modeling.cache_costs import CACHE_ELEMENT_BYTES
from capplan.modeling.costs import AttentionCost, GemmCost, ModelCosts, StateCost
from capplan.modeling.linear import Component
from capplan.modeling.parallelism import pipeline_balance
from capplan.modeling.sharding import attention_rank_share, gemm_rank_share, state_rank_share

_FFN_WIDTHS = 3
# Live feed-forward activations of one token: gate, up and their product.

_PADDED_VALUES = 2 * 192 / (192 + 128)
# Keys of 192 and values of 128 in every DeepSeek V2 and V3: without latent attention, an engine pads the values.

_Share = Callable[[GemmCost], float]
_OUTSIDE_LAYERS = frozenset({Component.EMBEDDING, Component.LM_HEAD, Component.MULTIMODAL_ENCODER})


@dataclass(frozen=True, slots=True)
class CacheTerm:
    """Attention layers that cache alike, on one rank.

    Attributes:
        layers: how many on this rank's stage.
        bytes_per_token: of one layer.
        window_tokens: tokens kept, ``None`` for all.
        latent: whether it is one latent per token.
        indexed: whether an indexer's keys are cached beside it.
        expanded_bytes_per_token: of one layer, where an engine keeps each head's keys and values instead of the latent;
            the values padded to the width of the keys. 0 for what is no plain latent.
    """

    layers: int
    bytes_per_token: float
    window_tokens: int | None
    latent: bool
    indexed: bool = False
    expanded_bytes_per_token: float = 0.0


@dataclass(frozen=True, slots=True)
class StateTerm:
    """Recurrent layers (or cross-attention caches) that keep state alike, on one rank.

    Attributes:
        layers: how many on this rank's stage.
        bytes_per_layer: state of one sequence in one layer.
    """

    layers: int
    bytes_per_layer: float


@dataclass(frozen=True, slots=True)
class RankFootprint:
    """What one rank of a replica holds of a model: worked out once per model and split.

    With pipeline stages it is the stage that holds most: the largest share of the layers, and the larger of what the
    first stage (embedding, towers) and the last one (head) hold besides.

    Attributes:
        weight_bytes: weights of the rank as stored.
        table_bytes: tables of the rotary embedding, which engines load with the weights.
        mxfp4_expert_bytes: those of them that are routed experts in mxfp4, which some kernels pad.
        mxfp4_width: width of such an expert on the rank; 0 without.
        caches: attention caches by how layers keep them.
        states: recurrent state by how layers keep it.
        hidden_size: width of the residual stream.
        vocabulary_size: rows of the output head.
        layers: decoder layers of the stage.
        expert_layers: those of them with routed experts.
        element_bytes: bytes of one activation element.
        widest_ffn_elements: live feed-forward elements of one token in the widest layer.
        multimodal: whether the model has towers.
        max_context_tokens: longest context of the model, ``None`` when it does not say.
    """

    weight_bytes: int
    table_bytes: int
    mxfp4_expert_bytes: int
    mxfp4_width: int
    caches: tuple[CacheTerm, ...]
    states: tuple[StateTerm, ...]
    hidden_size: int
    vocabulary_size: int
    layers: int
    expert_layers: int
    element_bytes: int
    widest_ffn_elements: float
    multimodal: bool
    max_context_tokens: int | None

    @property
    def compressed_attention(self) -> bool:
        """Whether layers cache a window of latents beside a compressed history (DeepSeek V4)."""
        return any(cache.latent and cache.window_tokens is not None for cache in self.caches)

    @property
    def state_bytes(self) -> float:
        """State of one sequence over all layers of the rank."""
        return sum(state.layers * state.bytes_per_layer for state in self.states)


def rank_footprint(
    model: ModelCosts, tensor_parallel: int, *, pipeline_parallel: int = 1, attention_data_parallel: int = 1
) -> RankFootprint:
    """Works out what one rank of a replica holds of a model.

    Args:
        model: the model in its formats.
        tensor_parallel: ranks that divide attention and dense layers.
        pipeline_parallel: stages that divide the layers.
        attention_data_parallel: groups of ``tensor_parallel`` ranks that attend for different sequences; the routed
            experts are divided over all of them.

    Raises:
        ValueError: more stages than layers.
    """
    expert_ranks = tensor_parallel * attention_data_parallel
    layer_share = 1.0
    if pipeline_parallel > 1:
        layer_share = pipeline_balance(model.layers, pipeline_parallel).largest_stage_share

    def share(gemm: GemmCost) -> float:
        ranks = expert_ranks if gemm.component is Component.ROUTED_EXPERT else tensor_parallel
        return gemm_rank_share(gemm, model.vocabulary_size, ranks)

    mxfp4 = [gemm for gemm in model.gemms if gemm.storage == "mxfp4" and gemm.experts]
    return RankFootprint(
        weight_bytes=int(_weight_bytes(model, share, layer_share, whole=pipeline_parallel == 1)),
        table_bytes=int(_rotary_bytes(model)),
        mxfp4_expert_bytes=int(layer_share * sum(gemm.stored_bytes * share(gemm) for gemm in mxfp4)),
        mxfp4_width=max((rule.width // expert_ranks for rule in model.splits if rule.routed_expert), default=0),
        caches=tuple(_cache_term(attention, model, tensor_parallel, layer_share) for attention in model.attentions),
        states=tuple(_state_term(state, tensor_parallel, layer_share) for state in model.states),
        hidden_size=model.hidden_size,
        vocabulary_size=model.vocabulary_size,
        layers=_part(model.layers, layer_share),
        expert_layers=_part(max((g.layers for g in model.gemms if g.experts), default=0), layer_share),
        element_bytes=model.activation_element_bytes,
        widest_ffn_elements=_widest_ffn_elements(model, tensor_parallel, expert_ranks),
        multimodal=any(gemm.component is Component.MULTIMODAL_ENCODER for gemm in model.gemms),
        max_context_tokens=model.max_context_tokens,
    )


def _part(layers: int, share: float) -> int:
    """Layers of the fullest stage; the margin keeps exact shares from being rounded up."""
    return math.ceil(layers * share - 1e-9)


def _weight_bytes(model: ModelCosts, share: _Share, layer_share: float, *, whole: bool) -> float:
    layers = model.replicated_bytes * 1.0
    first = last = 0.0
    for gemm in model.gemms:
        held = gemm.stored_bytes * share(gemm)
        if gemm.component not in _OUTSIDE_LAYERS:
            layers += held
        elif gemm.component is Component.LM_HEAD:
            last += held
        else:
            first += held
    if whole:
        return layers + first + last
    # a head that is tied to the embedding needs a copy of it on the last stage
    tied = sum(gemm.stored_bytes * share(gemm) for gemm in model.gemms if gemm.component is Component.EMBEDDING)
    return layer_share * layers + max(first, last or tied)


def _rotary_bytes(model: ModelCosts) -> float:
    """Sines and cosines of the rotary embedding: a row of a head's width for every position, whole on every rank.

    Engines' logs count them among the weights: Pixtral-12B with 1,024,000 positions takes 0.24 GiB more than its file
    (dphnAI sonar pull 1320), Llama-3.1-8B 0.03 whether over one rank or four (llm-d-planner, accuracy report of 0.19).
    Latent attention rotates 64 of a head, which is not counted.
    """
    element = CACHE_ELEMENT_BYTES[model.kv_precision]
    widths = (a.cache_bytes_per_token / (2 * a.kv_heads * element) for a in model.attentions if not a.latent)
    return (model.max_context_tokens or 0) * max(widths, default=0.0) * model.activation_element_bytes


def _cache_term(attention: AttentionCost, model: ModelCosts, tensor_parallel: int, layer_share: float) -> CacheTerm:
    expanded = 0.0
    if attention.latent and attention.window_tokens is None:
        # in prefill, a token is multiplied with the keys and values of all heads: 2 FLOP for each element
        heads = attention.prefill_flop_per_context_token / 2 / tensor_parallel
        expanded = heads * _PADDED_VALUES * model.activation_element_bytes
    return CacheTerm(
        layers=_part(attention.layers, layer_share),
        bytes_per_token=attention.cache_bytes_per_token * attention_rank_share(attention, tensor_parallel),
        window_tokens=attention.window_tokens,
        latent=attention.latent,
        indexed=attention.indexer_flop_per_context_token > 0,
        expanded_bytes_per_token=expanded,
    )


def _state_term(state: StateCost, tensor_parallel: int, layer_share: float) -> StateTerm:
    return StateTerm(
        layers=_part(state.layers, layer_share),
        bytes_per_layer=state.bytes_per_sequence * state_rank_share(state, tensor_parallel) / state.layers,
    )


def _widest_ffn_elements(model: ModelCosts, tensor_parallel: int, expert_ranks: int) -> float:
    widest = 0.0
    for gemm in model.gemms:
        if gemm.layers == 0 or gemm.component not in (Component.DENSE_FFN, Component.ROUTED_EXPERT):
            continue
        copies = max(1, gemm.experts_per_token)
        width = gemm.active_parameters / gemm.layers / copies / model.hidden_size / _FFN_WIDTHS
        inputs = model.hidden_size if gemm.experts else 0
        ranks = expert_ranks if gemm.experts else tensor_parallel
        widest = max(widest, copies * (_FFN_WIDTHS * width / ranks + inputs))
    return widest
