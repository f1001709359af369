"""The planner's answers as messages."""

from __future__ import annotations

from capplan.modeling.costs import ModelCosts
from capplan.planning.deployment import DeploymentEstimate, DeploymentQuery
from capplan.planning.mig_layout import GpuLayout, MigPlan
from capplan.planning.placement import Placement, Plan, Rejection, Relaxation
from capplan.planning.query import DevicePrice, PlacementQuery
from capplan.server.conversion.estimates import (
    to_engine_settings,
    to_estimate,
    to_fault,
    to_memory_breakdown,
    to_parallelism,
    to_replica_performance,
    to_second_opinion,
)
from capplan.server.conversion.integers import int64
from capplan.server.resource_names import accelerator_name
from capplan.v1 import placement_pb2, planner_service_pb2

WHOLE_DEVICE_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
"""Kubernetes resources of whole devices under the vendors' device plugins."""


def to_plan_response(plan: Plan, query: PlacementQuery, revision: int) -> planner_service_pb2.PlanPlacementResponse:
    """The whole answer to a placement question."""
    live_tokens = query.workload.request.live_tokens
    return planner_service_pb2.PlanPlacementResponse(
        placements=[
            _to_placement(rank, placement, query.model, live_tokens)
            for rank, placement in enumerate(plan.placements, start=1)
        ],
        rejections=[_to_rejection(rejection) for rejection in plan.rejections],
        relaxations=[_to_relaxation(relaxation) for relaxation in plan.relaxations],
        assumptions=plan.assumptions,
        model=query.model.model,
        weights=query.model.weight_precision,
        kv_cache=query.model.kv_precision,
        catalog_revision=revision,
        evaluated_candidate_count=plan.evaluated_candidates,
    )


def to_deployment_response(
    estimate: DeploymentEstimate, query: DeploymentQuery, revision: int
) -> planner_service_pb2.EstimateDeploymentResponse:
    """The figures of one layout."""
    response = planner_service_pb2.EstimateDeploymentResponse(
        starts=estimate.starts,
        faults=[to_fault(fault) for fault in estimate.faults],
        assumptions=estimate.assumptions,
        model=query.model.model,
        weights=query.model.weight_precision,
        catalog_revision=revision,
        accelerator=accelerator_name(query.item.accelerator.sku),
        second_opinions=[to_second_opinion(opinion) for opinion in estimate.second_opinions],
    )
    if estimate.memory is not None:
        response.memory.CopyFrom(to_memory_breakdown(estimate.memory, query.workload.request.live_tokens))
    if estimate.performance is not None:
        response.performance.CopyFrom(to_replica_performance(estimate.performance))
    if estimate.total_output_tokens_per_s is not None:
        response.total_output_tokens_per_s.CopyFrom(to_estimate(estimate.total_output_tokens_per_s))
    if estimate.settings is not None:
        response.engine.CopyFrom(
            to_engine_settings(estimate.settings, estimate.context_tokens, query.model.kv_precision)
        )
    return response


def _to_placement(rank: int, placement: Placement, model: ModelCosts, live_tokens: float) -> placement_pb2.Placement:
    return placement_pb2.Placement(
        rank=rank,
        accelerator=accelerator_name(placement.accelerator.sku),
        product_name=placement.accelerator.product_name,
        device_count=int64(placement.device_count, "devices"),
        replica_count=int64(placement.replica_count, "replicas"),
        parallelism=to_parallelism(placement.parallelism),
        mig_layout=None if placement.mig_plan is None else _to_mig_layout(placement.mig_plan),
        engine=to_engine_settings(placement.settings, placement.context_tokens, model.kv_precision),
        memory=to_memory_breakdown(placement.memory, live_tokens),
        capacity=to_replica_performance(placement.capacity),
        operating_point=to_replica_performance(placement.operating_point),
        utilization=placement.utilization,
        binding_constraint=placement.binding_constraint,
        cost_usd_per_h=placement.cost_usd_per_h,
        cost_usd_per_million_output_tokens=placement.cost_usd_per_million_output_tokens,
        price_source="" if placement.price is None else _price_source(placement.price),
        power_w=placement.power_w,
        resource_request=_resource_request(placement),
        objective_value=placement.objective_value,
        explanation=placement.explanation,
    )


def _price_source(price: DevicePrice) -> str:
    return f"{price.source}, {price.as_of}"


def _resource_request(placement: Placement) -> str:
    if placement.mig_plan is not None:
        return f"{placement.mig_plan.slices[0].resource_name_mixed}: 1"
    resource = WHOLE_DEVICE_RESOURCES.get(placement.accelerator.vendor)
    return "" if resource is None else f"{resource}: {placement.parallelism.devices}"


def _to_mig_layout(plan: MigPlan) -> placement_pb2.MigLayout:
    # The planner gives every replica the same profile.
    (group,) = plan.slices
    return placement_pb2.MigLayout(
        board=plan.board.board,
        profile=group.profile.name,
        profile_id=group.profile.profile_id,
        usable_bytes=group.usable_bytes or 0,
        gpus=[_to_gpu_layout(layout, group.profile.profile_id) for layout in plan.layouts],
        resource_name_mixed=group.resource_name_mixed,
        resource_name_single=plan.resource_name_single or "",
        needs_reset=plan.needs_reset,
        confidence=plan.confidence,
    )


def _to_gpu_layout(layout: GpuLayout, used_profile_id: int) -> placement_pb2.GpuLayout:
    return placement_pb2.GpuLayout(
        gpu_count=layout.gpu_count,
        instances=[
            placement_pb2.MigInstance(
                profile=instance.profile.name,
                profile_id=instance.profile.profile_id,
                start=instance.start,
                size=instance.profile.memory_slices,
                used=instance.profile.profile_id == used_profile_id,
            )
            for instance in layout.instances
        ],
        leftover=[str(leftover) for leftover in layout.leftover],
    )


def _to_rejection(rejection: Rejection) -> placement_pb2.Rejection:
    return placement_pb2.Rejection(
        accelerator=accelerator_name(rejection.accelerator.sku),
        configuration=rejection.configuration,
        reason=rejection.fault.reason,
        description=rejection.fault.description,
        shortfall=rejection.fault.shortfall,
        shortfall_unit=rejection.fault.unit,
    )


def _to_relaxation(relaxation: Relaxation) -> placement_pb2.Relaxation:
    return placement_pb2.Relaxation(field=relaxation.field, description=relaxation.description, value=relaxation.value)
