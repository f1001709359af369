"""What one model, stored and cached in given formats, costs to hold and to run: the estimator's view of a model.

Everything here is a total over the whole model on one device (tensor parallel 1). How a quantity divides over the ranks
of a replica is said by its :class:`Shard`; :mod:`capplan.estimation` does the division.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from capplan.modeling.architecture import AttentionMixer, ModelArchitecture, RecurrentMixer
from capplan.modeling.attention import LatentAttention, SoftmaxAttention
from capplan.modeling.linear import Component, LinearMap, Shard
from capplan.modeling.parameters import active_parameters, buffer_parameters, total_parameters
from capplan.modeling.precision import WeightPlan, resolve_kv_cache, resolve_weights
from capplan.modeling.storage import STORAGE_FORMATS


@dataclass(frozen=True, slots=True)
class GemmCost:
    """All linear maps of one component that are stored alike, summed over the layers.

    Attributes:
        component: the part of the model.
        storage: name of the storage format, a key of the storage-format table (e.g. ``bf16``, ``fp8_block``).
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
    """All recurrent layers that keep state alike (Mamba, gated delta net, short convolution ...).

    Attributes:
        layers: how many.
        bytes_per_sequence: state of one sequence over these layers, unsharded.
        shard_units: heads or channels groups the state splits by.
        flop_per_token: recurrence FLOP per token over these layers (projections are in the GEMMs).
    """

    layers: int
    bytes_per_sequence: int
    shard_units: int
    flop_per_token: float


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
    def cache_bytes_per_token(self) -> float:
        """KV bytes per token over all layers while the context is shorter than every window, unsharded."""
        return sum(a.layers * a.cache_bytes_per_token for a in self.attentions)


def model_costs(architecture: ModelArchitecture, weights: str, kv_cache: str = "auto") -> ModelCosts:
    """What a model costs, stored and cached in the given formats.

    Args:
        architecture: the model.
        weights: weight precision, one of :data:`capplan.modeling.precision.WEIGHT_PRECISIONS`.
        kv_cache: KV-cache format, one of :data:`capplan.modeling.precision.KV_CACHE_PRECISIONS`.

    Raises:
        UnsupportedPrecisionError: a precision that is unknown or that this checkpoint is not served in.
    """
    plan = resolve_weights(architecture, weights)
    kv_precision = resolve_kv_cache(architecture, kv_cache, plan)
    return ModelCosts(
        model=architecture.name,
        weight_precision=weights,
        kv_precision=kv_precision,
        assumptions=(*architecture.assumptions, *plan.assumptions),
        gemms=_gemm_costs(architecture, plan),
        attentions=_attention_costs(architecture, kv_precision),
        states=_state_costs(architecture, kv_precision),
        replicated_bytes=_vector_bytes(architecture, plan),
        layers=architecture.layer_count,
        hidden_size=architecture.hidden_size,
        vocabulary_size=architecture.vocabulary_size,
        max_context_tokens=architecture.max_context_tokens,
        total_parameters=total_parameters(architecture),
        active_parameters=active_parameters(architecture),
        activation_element_bytes=plan.element_bytes,
        splits=_split_rules(architecture, plan),
    )


@dataclass(frozen=True, slots=True)
class _StoredMaps:
    """One linear map of one run, in one storage format."""

    linear: LinearMap
    storage: str
    layers: int
    run: int
    once_per_sequence: bool = False


def _stored_maps(architecture: ModelArchitecture, plan: WeightPlan) -> Iterator[_StoredMaps]:
    """Every linear map a token passes, with its format."""
    for index, (first, run) in enumerate(architecture.runs()):
        for linear in run.block.maps():
            for share in plan.shares(linear.name, first, run.count):
                yield _StoredMaps(linear, share.storage, share.layers, index)
    outside = len(architecture.layers)
    for linear in architecture.outer_maps:
        yield _StoredMaps(linear, plan.base, 1, outside)
    head = architecture.head
    if head is None and architecture.tied_head:
        head = LinearMap(
            "lm_head",
            Component.LM_HEAD,
            architecture.embeddings[0].width,
            architecture.embeddings[0].rows,
            shard=Shard.VOCABULARY,
        )
    if head is not None:
        yield _StoredMaps(head, plan.outer_storage(head.name), 1, outside, once_per_sequence=True)


def _gemm_costs(architecture: ModelArchitecture, plan: WeightPlan) -> tuple[GemmCost, ...]:
    groups: dict[tuple[object, ...], list[_StoredMaps]] = {}
    for stored in _stored_maps(architecture, plan):
        linear = stored.linear
        routed = linear.component is Component.ROUTED_EXPERT
        key = (
            linear.component,
            stored.storage,
            linear.shard,
            linear.units,
            linear.copies if routed else 0,
            linear.copies_per_token if routed else 0,
        )
        groups.setdefault(key, []).append(stored)
    gemms = [_gemm_cost(members, plan.element_bytes) for members in groups.values()]
    return (*gemms, *_table_costs(architecture, plan), *_tower_costs(architecture, plan))


def _gemm_cost(members: list[_StoredMaps], bias_bytes: int) -> GemmCost:
    """One group; all members share component, storage, shard and expert counts."""
    linear, storage = members[0].linear, STORAGE_FORMATS[members[0].storage]
    layers_by_run: dict[int, int] = {}
    for member in members:
        layers_by_run[member.run] = max(layers_by_run.get(member.run, 0), member.layers)
    matrices = sum(m.linear.copies_per_token * m.layers for m in members)
    routed = linear.component is Component.ROUTED_EXPERT
    return GemmCost(
        component=linear.component,
        storage=storage.name,
        arithmetic=storage.arithmetic,
        layers=sum(layers_by_run.values()),
        matrices_per_token=float(matrices),
        parameters=sum(m.linear.parameters * m.layers for m in members),
        stored_bytes=sum(
            m.layers
            * (
                m.linear.copies * storage.matrix_bytes(m.linear.in_features, m.linear.out_features)
                + m.linear.biases * bias_bytes
            )
            for m in members
        ),
        active_parameters=sum(m.linear.active_weights * m.layers for m in members),
        output_features=sum(m.linear.out_features * m.linear.copies_per_token * m.layers for m in members) / matrices,
        shard=linear.shard,
        shard_units=linear.units,
        experts=linear.copies if routed else 0,
        experts_per_token=linear.copies_per_token if routed else 0,
        once_per_sequence=members[0].once_per_sequence,
    )


def _lookup_cost(
    component: Component, storage: str, parameters: int, stored_bytes: int, width: int, shard: Shard
) -> GemmCost:
    """Parameters that are stored but multiplied with no text token: lookup tables, towers."""
    return GemmCost(
        component=component,
        storage=storage,
        arithmetic=STORAGE_FORMATS[storage].arithmetic,
        layers=1,
        matrices_per_token=0.0,
        parameters=parameters,
        stored_bytes=stored_bytes,
        active_parameters=0,
        output_features=float(width),
        shard=shard,
    )


def _table_costs(architecture: ModelArchitecture, plan: WeightPlan) -> Iterator[GemmCost]:
    for index, table in enumerate(architecture.embeddings):
        if index == 0 and architecture.tied_head:
            continue  # counted once, as the head
        stored = table.parameters * plan.element_bytes
        yield _lookup_cost(Component.EMBEDDING, plan.base, table.parameters, stored, table.width, table.shard)


def _tower_costs(architecture: ModelArchitecture, plan: WeightPlan) -> Iterator[GemmCost]:
    for tower in architecture.towers:
        stored = tower.parameters * plan.element_bytes
        yield _lookup_cost(
            Component.MULTIMODAL_ENCODER,
            plan.base,
            tower.parameters,
            stored,
            max((linear.out_features for linear, _ in tower.maps), default=0),
            Shard.REPLICATED,
        )


BUFFER_ELEMENT_BYTES = 4
"""Score-correction biases are kept in fp32."""


def _vector_bytes(architecture: ModelArchitecture, plan: WeightPlan) -> int:
    vectors = sum(v.parameters * run.count for run in architecture.layers for v in run.block.vectors())
    parameters = vectors + architecture.final_norm_parameters + architecture.head_extra_parameters
    return parameters * plan.element_bytes + buffer_parameters(architecture) * BUFFER_ELEMENT_BYTES


CACHE_ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of one cached element by KV-cache format."""

INDEXER_SCALE_BYTES = 4
"""The indexer caches its key in fp8 with one fp32 scale, whatever the KV-cache format."""


def _latent_cache_bytes(mixer: LatentAttention, kv_precision: str) -> float:
    own: float = mixer.cache_elements_per_token * CACHE_ELEMENT_BYTES[kv_precision]
    if mixer.indexer is None:
        return own
    if kv_precision == "fp8":
        # vLLM's fp8_ds_mla entry, 656 bytes for rank 512: fp8 latent, an fp32 scale per 128 of it, rotary part in bf16.
        own = mixer.kv_lora_rank + mixer.kv_lora_rank / 128 * 4 + mixer.rope_head_dim * 2
    return own + (mixer.indexer.head_dim + INDEXER_SCALE_BYTES if mixer.indexer.owns_weights else 0)


def _attention_cost(mixer: AttentionMixer, layers: int, kv_precision: str) -> AttentionCost:
    if isinstance(mixer, SoftmaxAttention):
        return AttentionCost(
            layers=layers,
            query_heads=mixer.query_heads,
            kv_heads=mixer.kv_heads,
            cache_bytes_per_token=float(mixer.cache_elements_per_token * CACHE_ELEMENT_BYTES[kv_precision]),
            window_tokens=mixer.window_tokens,
            latent=False,
            decode_flop_per_context_token=mixer.flop_per_context_token,
            prefill_flop_per_context_token=mixer.flop_per_context_token,
        )
    indexer = mixer.indexer
    return AttentionCost(
        layers=layers,
        query_heads=mixer.query_heads,
        kv_heads=1,
        cache_bytes_per_token=_latent_cache_bytes(mixer, kv_precision),
        window_tokens=None,
        latent=True,
        decode_flop_per_context_token=mixer.decode_flop_per_context_token,
        prefill_flop_per_context_token=mixer.prefill_flop_per_context_token,
        attended_tokens_limit=indexer.topk if indexer else None,
        indexer_flop_per_context_token=2.0 * indexer.heads * indexer.head_dim if indexer and indexer.owns_weights else 0.0,
    )


def _attention_costs(architecture: ModelArchitecture, kv_precision: str) -> tuple[AttentionCost, ...]:
    layers: dict[AttentionCost, int] = {}
    for run in architecture.layers:
        for mixer in run.block.mixers:
            if isinstance(mixer, AttentionMixer) and not (isinstance(mixer, SoftmaxAttention) and mixer.cross_tokens):
                unit = _attention_cost(mixer, 1, kv_precision)
                layers[unit] = layers.get(unit, 0) + run.count
    return tuple(replace(unit, layers=count) for unit, count in layers.items())


def _state_costs(architecture: ModelArchitecture, kv_precision: str) -> tuple[StateCost, ...]:
    found: dict[object, StateCost] = {}
    for run in architecture.layers:
        for mixer in run.block.mixers:
            if isinstance(mixer, RecurrentMixer):
                convolution = mixer.convolution_state_elements * CONVOLUTION_STATE_ELEMENT_BYTES
                recurrence = mixer.recurrent_state_elements * architecture.state_element_bytes
                unit = StateCost(1, convolution + recurrence, mixer.state_units, mixer.flop_per_token)
            elif isinstance(mixer, SoftmaxAttention) and mixer.cross_tokens:
                elements = mixer.cross_tokens * mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
                flop = mixer.cross_tokens * mixer.flop_per_context_token
                unit = StateCost(1, elements * CACHE_ELEMENT_BYTES[kv_precision], mixer.kv_heads, flop)
            else:
                continue
            known = found.get(unit, StateCost(0, 0, unit.shard_units, 0.0))
            found[unit] = StateCost(
                known.layers + run.count,
                known.bytes_per_sequence + unit.bytes_per_sequence * run.count,
                unit.shard_units,
                known.flop_per_token + unit.flop_per_token * run.count,
            )
    return tuple(found.values())


CONVOLUTION_STATE_ELEMENT_BYTES = 2
"""Convolution columns are kept in the model's 16-bit format."""


def _split_rules(architecture: ModelArchitecture, plan: WeightPlan) -> tuple[SplitRule, ...]:
    """What tensor parallelism must divide, once per distinct map and format. Recurrent maps divide by their heads."""
    rules: dict[SplitRule, None] = {}
    for stored in _stored_maps(architecture, plan):
        linear, storage = stored.linear, STORAGE_FORMATS[stored.storage]
        if linear.shard not in (Shard.TENSOR, Shard.HEADS) or linear.component is Component.RECURRENT:
            continue
        rules[
            SplitRule(
                name=linear.name,
                storage=storage.name,
                width=linear.in_features if linear.split_inputs else linear.out_features,
                granule=storage.input_granule if linear.split_inputs else storage.output_granule,
                units=linear.units,
                copied_units=linear.shard is Shard.HEADS,
                routed_expert=linear.component is Component.ROUTED_EXPERT,
            )
        ] = None
    return tuple(rules)
