"""Requests of the planner as the core's questions. Requests are validated before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from capplan.catalog.records import PriceTerm
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.estimation.engine import EngineChoice
from capplan.estimation.estimator import Estimator
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.modeling.costs import ModelCosts
from capplan.planning.deployment import DeploymentQuery
from capplan.planning.query import (
    Constraints,
    LatencyLimit,
    LatencyMetric,
    MigPolicy,
    Objective,
    PlacementQuery,
    SupplyItem,
    Target,
    TargetKind,
    Workload,
)
from capplan.server.mig_profiles import find_mig_profile
from capplan.server.resource_names import parse_accelerator
from capplan.v1 import placement_pb2, planner_service_pb2

DEFAULT_MAX_PLACEMENTS: Final = 5
_NO_OTHERS: Final[Mapping[str, Estimator]] = MappingProxyType({})

_OBJECTIVES: Final[Mapping[int, Objective]] = {
    placement_pb2.OBJECTIVE_UNSPECIFIED: Objective.COST,
    placement_pb2.OBJECTIVE_COST: Objective.COST,
    placement_pb2.OBJECTIVE_DEVICES: Objective.DEVICES,
    placement_pb2.OBJECTIVE_ENERGY: Objective.ENERGY,
    placement_pb2.OBJECTIVE_LATENCY: Objective.LATENCY,
}
_MIG_POLICIES: Final[Mapping[int, MigPolicy]] = {
    placement_pb2.MIG_POLICY_UNSPECIFIED: MigPolicy.ALLOWED,
    placement_pb2.MIG_POLICY_ALLOWED: MigPolicy.ALLOWED,
    placement_pb2.MIG_POLICY_REQUIRED: MigPolicy.REQUIRED,
    placement_pb2.MIG_POLICY_FORBIDDEN: MigPolicy.FORBIDDEN,
}
_METRICS: Final[Mapping[int, LatencyMetric]] = {
    placement_pb2.LATENCY_METRIC_TTFT: LatencyMetric.TTFT,
    placement_pb2.LATENCY_METRIC_ITL: LatencyMetric.ITL,
    placement_pb2.LATENCY_METRIC_E2E: LatencyMetric.E2E,
}


def to_placement_query(
    request: planner_service_pb2.PlanPlacementRequest, model: ModelCosts, snapshot: CatalogSnapshot
) -> PlacementQuery:
    """The planner's question, with everything the catalogue can supply.

    Raises:
        NotFoundError: a named accelerator is not in the catalogue.
    """
    load = request.target.WhichOneof("load")
    assert load is not None  # validation refuses a target without a load
    return PlacementQuery(
        model=model,
        target=Target(TargetKind(load), getattr(request.target, load)),
        workload=to_workload(request.workload),
        limits=tuple(LatencyLimit(_METRICS[limit.metric], limit.limit_ms) for limit in request.latency_limits),
        constraints=_to_constraints(request.constraints, snapshot),
        objective=_OBJECTIVES[request.objective],
        supply=snapshot.supply(request.constraints.price_term or PriceTerm.ON_DEMAND),
        max_placements=request.max_placements or DEFAULT_MAX_PLACEMENTS,
        coefficients=snapshot.coefficients,
    )


def to_deployment_query(
    request: planner_service_pb2.EstimateDeploymentRequest,
    model: ModelCosts,
    snapshot: CatalogSnapshot,
    second_opinions: Mapping[str, Estimator] = _NO_OTHERS,
) -> DeploymentQuery:
    """The question about one layout, with the estimators that the request names.

    Raises:
        NotFoundError: the accelerator is not in the catalogue, or its board has no such profile.
        InvalidInputError: a MIG profile is asked of a device without MIG tables, or its name is ambiguous.
    """
    deployment = request.deployment
    accelerator = _resolve(deployment.accelerator, "deployment.accelerator", snapshot)
    board = snapshot.mig_board_of(accelerator)
    return DeploymentQuery(
        model=model,
        item=SupplyItem(accelerator, board, snapshot.price(accelerator.sku, PriceTerm.ON_DEMAND)),
        mig_profile=_to_mig_profile(deployment.mig_profile, accelerator, board),
        tensor_parallel=deployment.tensor_parallel or 1,
        replica_count=deployment.replica_count or 1,
        workload=to_workload(request.workload),
        engine=to_engine_choice(deployment.engine),
        concurrency=request.concurrency or None,
        coefficients=snapshot.coefficients,
        second_opinions=second_opinions,
    )


def to_workload(workload: placement_pb2.Workload) -> Workload:
    """The shape of one request."""
    return Workload(
        input_tokens=workload.input_tokens,
        output_tokens=workload.output_tokens,
        max_context_tokens=workload.max_context_tokens or None,
        prefix_cache_hit_share=workload.prefix_cache_hit_share,
    )


def to_engine_choice(engine: placement_pb2.EngineSelection) -> EngineChoice:
    """The engine and the settings that are pinned."""
    return EngineChoice(
        name=engine.name or EngineChoice().name,
        version=engine.version or None,
        gpu_memory_utilization=engine.gpu_memory_utilization or None,
        max_num_seqs=engine.max_num_seqs or None,
        max_num_batched_tokens=engine.max_num_batched_tokens or None,
        mem_fraction_static=engine.mem_fraction_static or None,
        free_gpu_memory_fraction=engine.free_gpu_memory_fraction or None,
        enforce_eager=engine.enforce_eager,
    )


def _to_constraints(constraints: placement_pb2.Constraints, snapshot: CatalogSnapshot) -> Constraints:
    return Constraints(
        allowed_skus=_skus(constraints.allowed_accelerators, "constraints.allowed_accelerators", snapshot),
        denied_skus=_skus(constraints.denied_accelerators, "constraints.denied_accelerators", snapshot),
        mig=_MIG_POLICIES[constraints.mig_policy],
        mig_profiles=tuple(dict.fromkeys(constraints.mig_profiles)),
        tensor_parallel_sizes=tuple(sorted(set(constraints.tensor_parallel_sizes))),
        max_devices=constraints.max_devices or None,
        max_usd_per_h=constraints.max_usd_per_h or None,
        headroom_share=constraints.headroom_share,
        engine=to_engine_choice(constraints.engine),
    )


def _skus(names: Iterable[str], field: str, snapshot: CatalogSnapshot) -> tuple[str, ...]:
    resolved = (_resolve(name, f"{field}[{index}]", snapshot).sku for index, name in enumerate(names))
    return tuple(dict.fromkeys(resolved))


def _resolve(name: str, field: str, snapshot: CatalogSnapshot) -> Accelerator:
    return snapshot.resolve_accelerator(parse_accelerator(name, field))


def _to_mig_profile(text: str, accelerator: Accelerator, board: MigBoard | None) -> MigProfile | None:
    return find_mig_profile(text, accelerator, board, "deployment.mig_profile") if text else None
