"""Weights as costs: linear maps by storage, split and use; the widths that tensor parallelism must divide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.cost_records import GemmCost, SplitRule
from capplan.modeling.linear import Component, LinearMap, Shard
from capplan.modeling.parameters import buffer_parameters
from capplan.modeling.precision import WeightPlan
from capplan.modeling.storage import STORAGE_FORMATS

BUFFER_ELEMENT_BYTES = 4
"""Score-correction biases are kept in fp32."""


@dataclass(frozen=True, slots=True)
class _StoredMaps:
    """One linear map of one kind of block, in one storage format."""

    linear: LinearMap
    storage: str
    layers: int
    block: int
    once_per_sequence: bool = False


def _stored_maps(architecture: ModelArchitecture, plan: WeightPlan) -> Iterator[_StoredMaps]:
    """Every linear map a token passes, with its format."""
    blocks = architecture.block_runs()
    for index, run in enumerate(blocks):
        for linear in run.block.maps():
            for share in plan.shares(linear.name, run.ranges):
                yield _StoredMaps(linear, share.storage, share.layers, index)
    outside = len(blocks)
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


def gemm_costs(architecture: ModelArchitecture, plan: WeightPlan) -> tuple[GemmCost, ...]:
    """All linear maps, lookup tables and towers, grouped by component, storage format, split and expert counts."""
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
    layers_by_block: dict[int, int] = {}
    for member in members:
        layers_by_block[member.block] = max(layers_by_block.get(member.block, 0), member.layers)
    matrices = sum(m.linear.copies_per_token * m.layers for m in members)
    routed = linear.component is Component.ROUTED_EXPERT
    return GemmCost(
        component=linear.component,
        storage=storage.kernel_format,
        arithmetic=storage.arithmetic,
        layers=sum(layers_by_block.values()),
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
        storage = plan.outer_storage(table.name)
        stored = STORAGE_FORMATS[storage].matrix_bytes(table.width, table.rows)
        yield _lookup_cost(Component.EMBEDDING, storage, table.parameters, stored, table.width, table.shard)


def _tower_costs(architecture: ModelArchitecture, plan: WeightPlan) -> Iterator[GemmCost]:
    for tower in architecture.towers:
        stored = tower.parameters * plan.activation_element_bytes
        yield _lookup_cost(
            Component.MULTIMODAL_ENCODER,
            plan.activation_format,
            tower.parameters,
            stored,
            max((linear.out_features for linear, _ in tower.maps), default=0),
            Shard.REPLICATED,
        )


def vector_bytes(architecture: ModelArchitecture, plan: WeightPlan) -> int:
    """Bytes of everything that is no matrix: norms, short convolutions, gates, buffers."""
    vectors = sum(v.parameters * run.count for run in architecture.block_runs() for v in run.block.vectors())
    parameters = vectors + architecture.final_norm_parameters + architecture.head_extra_parameters
    return parameters * plan.element_bytes + buffer_parameters(architecture) * BUFFER_ELEMENT_BYTES


def split_rules(architecture: ModelArchitecture, plan: WeightPlan) -> tuple[SplitRule, ...]:
    """What tensor parallelism must divide, once per distinct map and format. Recurrent maps divide by their heads."""
    rules: dict[SplitRule, None] = {}
    for stored in _stored_maps(architecture, plan):
        linear, storage = stored.linear, STORAGE_FORMATS[stored.storage]
        if linear.shard not in (Shard.TENSOR, Shard.HEADS) or linear.component is Component.RECURRENT:
            continue
        routed = linear.component is Component.ROUTED_EXPERT
        granule = storage.input_granule if linear.split_inputs else storage.output_granule
        rules[
            SplitRule(
                name=linear.name,
                storage=storage.name,
                width=linear.in_features if linear.split_inputs else linear.out_features,
                granule=1 if routed and storage.pads_experts else granule,
                units=linear.units,
                copied_units=linear.shard is Shard.HEADS,
                routed_expert=routed,
            )
        ] = None
    return tuple(rules)
