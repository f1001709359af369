"""The records of :mod:`capplan.modeling.costs`: one model in given formats, as groups that cost alike.

Everything here is a total over the whole model on one device (tensor parallel 1). How a quantity divides over the ranks
of a replica is said by its :class:`~capplan.modeling.linear.Shard`; :mod:`capplan.modeling.sharding` does the division.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.linear import Component, Shard


@dataclass(frozen=True, slots=True)
class GemmCost:
    """All linear maps of one component that are stored alike, summed over the layers.

    Attributes:
        component: the part of the model.
        storage: storage format by the name devices know its kernels by (e.g. ``bf16``, ``fp8_block``).
        arithmetic: number format the format asks the tensor cores for (``bf16``, ``fp8`` ...); whether a device can
            is :mod:`capplan.hardware`'s to say.
        layers: in how many layers these maps occur (each costs a kernel launch).
        matrices_per_token: how many matrix products one token makes in all of them together.
        parameters: stored parameters, all experts included.
        stored_bytes: bytes of those parameters with scales, zero points and group indices.
        active_parameters: parameters one token is multiplied with; ``2 *`` this is FLOP per token.
        output_features: mean output width of one matrix, unsharded (for tile quantisation).
        shard: how tensor parallelism divides them.
        shard_units: indivisible units of the split (heads, key/value heads; 0 when any even split will do).
        experts: routed experts in one layer; 0 when these are not routed experts.
        experts_per_token: experts one token visits in one layer.
        once_per_sequence: true for the language-model head, which prefill applies to the last position only.
    """

    component: Component
    storage: str
    arithmetic: str
    layers: int
    matrices_per_token: float
    parameters: int
    stored_bytes: int
    active_parameters: int
    output_features: float
    shard: Shard
    shard_units: int = 0
    experts: int = 0
    experts_per_token: int = 0
    once_per_sequence: bool = False


@dataclass(frozen=True, slots=True)
class AttentionCost:
    """All attention layers that cache alike.

    Attributes:
        layers: how many.
        query_heads: query heads of one layer.
        kv_heads: cached heads of one layer; 1 for latent (MLA) attention.
        cache_bytes_per_token: bytes one layer caches for one token, unsharded, in the chosen KV format (indexer keys
            included).
        window_tokens: tokens after which an old entry is dropped (sliding or chunked); ``None`` for full attention.
        latent: true when the cache is one latent copied onto every tensor-parallel rank (MLA).
        decode_flop_per_context_token: FLOP one new token spends per cached token, one layer, all heads.
        prefill_flop_per_context_token: the same in prefill (differs for MLA), before halving for causality.
        attended_tokens_limit: most cached tokens one query attends to (sparse top-k indexers); ``None`` without.
        indexer_flop_per_context_token: FLOP of the sparse indexer, which does see every cached token.
    """

    layers: int
    query_heads: int
    kv_heads: int
    cache_bytes_per_token: float
    window_tokens: int | None
    latent: bool
    decode_flop_per_context_token: float
    prefill_flop_per_context_token: float
    attended_tokens_limit: int | None = None
    indexer_flop_per_context_token: float = 0.0


@dataclass(frozen=True, slots=True)
class StateCost:
    """All recurrent layers that keep state alike (Mamba, gated delta net ...), or cross-attention layers of one shape.

    Attributes:
        layers: how many.
        bytes_per_sequence: state of one sequence over these layers, unsharded.
        shard_units: heads or channels groups the state splits by.
        flop_per_token: recurrence FLOP per token over these layers (projections are in the GEMMs).
        cross_attention: the state is the keys and values of another input, which a request holds whole.
    """

    layers: int
    bytes_per_sequence: int
    shard_units: int
    flop_per_token: float
    cross_attention: bool = False


@dataclass(frozen=True, slots=True)
class SplitRule:
    """One width that tensor parallelism must divide.

    Attributes:
        name: the linear map.
        storage: its storage format.
        width: the divided width.
        granule: a rank's share must be a multiple of this (scale blocks and groups are not split).
        units: whole units of the width (heads); 0 when any even split will do.
        copied_units: true when ranks beyond the units hold copies (key/value heads).
        routed_expert: true for routed experts; expert parallelism lifts the rule for them.
    """

    name: str
    storage: str
    width: int
    granule: int
    units: int
    copied_units: bool
    routed_expert: bool


@dataclass(frozen=True, slots=True)
class ModelCosts:
    """One model in one weight and one KV-cache format.

    Attributes:
        model: display name.
        weight_precision: the precision asked for, e.g. ``fp8``.
        kv_precision: resolved KV-cache format, e.g. ``bf16`` or ``fp8``.
        assumptions: sentences that name every assumption made on the way (a recipe applied to a bf16 config ...).
        gemms: linear maps; embedding lookups are listed too, with ``active_parameters`` 0.
        attentions: attention layers by how they cache.
        states: recurrent layers.
        replicated_bytes: bytes of everything copied onto each rank and multiplied with nothing (norms, biases ...).
        layers: decoder layers.
        hidden_size: width of the residual stream.
        vocabulary_size: rows of the output head.
        max_context_tokens: longest context the model supports, ``None`` when its config does not say.
        total_parameters: exact total (tied tensors once, multi-token prediction excluded).
        active_parameters: parameters one token touches (embedding and head included).
        activation_element_bytes: bytes of one activation element (2 for bf16 and fp16).
        splits: widths that tensor parallelism must divide, read by :mod:`capplan.modeling.sharding`.
    """

    model: str
    weight_precision: str
    kv_precision: str
    assumptions: tuple[str, ...]
    gemms: tuple[GemmCost, ...]
    attentions: tuple[AttentionCost, ...]
    states: tuple[StateCost, ...]
    replicated_bytes: int
    layers: int
    hidden_size: int
    vocabulary_size: int
    max_context_tokens: int | None
    total_parameters: int
    active_parameters: int
    activation_element_bytes: int = 2
    splits: tuple[SplitRule, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights on one device."""
        return sum(gemm.stored_bytes for gemm in self.gemms) + self.replicated_bytes

    @property
    def generates_tokens(self) -> bool:
        """Whether the model has a language-model head and keeps a cache or state to go on from."""
        head = any(gemm.once_per_sequence and gemm.active_parameters for gemm in self.gemms)
        return head and (self.cache_bytes_per_token > 0 or bool(self.states))

    @property
    def cache_bytes_per_token(self) -> float:
        """KV bytes per token over all layers while the context is shorter than every window, unsharded."""
        return sum(a.layers * a.cache_bytes_per_token for a in self.attentions)
