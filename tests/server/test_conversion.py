"""What the core says arrives in the messages unchanged, and what a request says arrives in the core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError, NotFoundError
from capplan.estimation.engine import EngineChoice
from capplan.estimation.estimate import Figure, Provenance, ReplicaEstimate
from capplan.estimation.estimator import ANALYTIC, Refusal, from_latencies
from capplan.estimation.opinion import Opinion
from capplan.estimation.steady_state import Request
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.planning.deployment import estimate_deployment
from capplan.planning.planner import plan
from capplan.planning.query import LatencyLimit, LatencyMetric, MigPolicy, Objective, Target, TargetKind, Workload
from capplan.server.application import Application
from capplan.server.conversion.estimates import to_replica_performance, to_second_opinion
from capplan.server.conversion.integers import MAX_INT64, int64
from capplan.server.conversion.plans import to_deployment_response, to_plan_response
from capplan.server.conversion.questions import to_deployment_query, to_placement_query
from capplan.v1 import placement_pb2
from tests.server.catalogue import CONFIG
from tests.server.requests import estimate_request, plan_request


@pytest.fixture(scope="module")
def snapshot(application: Application) -> CatalogSnapshot:
    return application.snapshot


@pytest.fixture(scope="module")
def model() -> ModelCosts:
    return model_costs(read_config(CONFIG, name="example"), "bf16")


def test_what_is_left_out_of_a_question_takes_the_documented_meaning(
    snapshot: CatalogSnapshot, model: ModelCosts
) -> None:
    request = plan_request()
    request.workload.max_context_tokens = 0
    query = to_placement_query(request, model, snapshot)
    assert query.workload == Workload(1000, 200, None)
    assert query.target == Target(TargetKind.OUTPUT_TOKENS_PER_S, 1000)
    assert query.limits == ()
    assert query.objective is Objective.COST
    assert query.max_placements == 5
    assert query.constraints.mig is MigPolicy.ALLOWED
    assert query.constraints.max_devices is None
    assert query.constraints.max_usd_per_h is None
    assert query.constraints.engine == EngineChoice()
    assert {item.accelerator.sku for item in query.supply} == set(snapshot.accelerators)
    assert {item.price.term for item in query.supply if item.price is not None} == {"on_demand"}


def test_everything_a_question_says_reaches_the_core(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    request = plan_request()
    request.workload.prefix_cache_hit_share = 0.5
    request.target.concurrent_users = 40
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_ITL, limit_ms=40)
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_TTFT, limit_ms=900)
    request.objective = placement_pb2.OBJECTIVE_ENERGY
    request.max_placements = 7
    constraints = request.constraints
    constraints.allowed_accelerators.extend(["accelerators/h100-sxm-80gb", "H100-SXM-80GB", "a100-sxm-80gb"])
    constraints.denied_accelerators.append("l4-24gb")
    constraints.mig_policy = placement_pb2.MIG_POLICY_REQUIRED
    constraints.mig_profiles.append("3g.40gb")
    constraints.tensor_parallel_sizes.extend([4, 1, 4])
    constraints.max_devices = 9
    constraints.max_usd_per_h = 12.5
    constraints.headroom_share = 0.25
    constraints.price_term = "spot"
    constraints.engine.version = "0.20"
    constraints.engine.max_num_seqs = 64
    query = to_placement_query(request, model, snapshot)
    assert query.workload == Workload(1000, 200, 8192, 0.5)
    assert query.target == Target(TargetKind.CONCURRENT_USERS, 40)
    assert query.limits == (LatencyLimit(LatencyMetric.ITL, 40), LatencyLimit(LatencyMetric.TTFT, 900))
    assert query.objective is Objective.ENERGY
    assert query.max_placements == 7
    found = query.constraints
    assert found.allowed_skus == ("h100-sxm-80gb", "a100-sxm4-80gb")
    assert found.denied_skus == ("l4-24gb",)
    assert found.mig is MigPolicy.REQUIRED
    assert found.mig_profiles == ("3g.40gb",)
    assert found.tensor_parallel_sizes == (1, 4)
    assert (found.max_devices, found.max_usd_per_h, found.headroom_share) == (9, 12.5, 0.25)
    assert found.engine == EngineChoice(version="0.20", max_num_seqs=64)
    assert {item.price.term for item in query.supply if item.price is not None} == {"spot"}


def test_everything_about_a_layout_reaches_the_core(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    request = estimate_request()
    request.workload.prefix_cache_hit_share = 0.5
    request.deployment.tensor_parallel = 2
    request.deployment.replica_count = 3
    request.concurrency = 12.0
    query = to_deployment_query(request, model, snapshot, {"analytic": ANALYTIC})
    assert query.workload == Workload(1000, 200, 8192, 0.5)
    assert (query.tensor_parallel, query.replica_count, query.concurrency) == (2, 3, 12.0)
    assert dict(query.second_opinions) == {"analytic": ANALYTIC}
    assert not to_deployment_query(request, model, snapshot).second_opinions


def test_every_choice_of_an_enumeration_is_known_to_the_core(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    for value in placement_pb2.Objective.values():
        for policy in placement_pb2.MigPolicy.values():
            request = plan_request()
            request.objective = value
            request.constraints.mig_policy = policy
            query = to_placement_query(request, model, snapshot)
            objective = placement_pb2.Objective.Name(value).removeprefix("OBJECTIVE_").lower()
            assert query.objective.value == ("cost" if objective == "unspecified" else objective)
            mig = placement_pb2.MigPolicy.Name(policy).removeprefix("MIG_POLICY_").lower()
            assert query.constraints.mig.value == ("allowed" if mig == "unspecified" else mig)


def test_a_plan_arrives_whole(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    query = to_placement_query(plan_request(), model, snapshot)
    answer = plan(query)
    response = to_plan_response(answer, query, 42)
    assert response.catalog_revision == 42
    assert (response.model, response.weights, response.kv_cache) == ("example", "bf16", "bf16")
    assert response.evaluated_candidate_count == answer.evaluated_candidates
    assert len(response.placements) == len(answer.placements) == 5
    assert [placement.rank for placement in response.placements] == [1, 2, 3, 4, 5]
    for message, placement in zip(response.placements, answer.placements, strict=True):
        assert message.accelerator == f"accelerators/{placement.accelerator.sku}"
        assert message.device_count == placement.device_count
        assert message.replica_count == placement.replica_count
        assert message.cost_usd_per_h == placement.cost_usd_per_h
        assert message.HasField("mig_layout") == (placement.mig_plan is not None)
        assert message.memory.weight_bytes == placement.memory.weight_bytes
        assert message.memory.kv_pool_bytes == placement.memory.kv_pool_bytes
        assert message.capacity.itl_ms.value == placement.capacity.itl_ms.value
        assert (message.capacity.itl_ms.lower, message.capacity.itl_ms.upper) == (
            placement.capacity.itl_ms.lower,
            placement.capacity.itl_ms.upper,
        )
        assert message.capacity.itl_ms.lower < message.capacity.itl_ms.value < message.capacity.itl_ms.upper
        assert message.engine.max_model_len_tokens == 8192
        assert list(message.explanation) == list(placement.explanation)
    assert len(response.rejections) == len(answer.rejections)


FIGURES = ("output_tokens_per_s", "requests_per_s", "itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms")


def estimated(provenance: Provenance) -> ReplicaEstimate:
    return from_latencies(
        Request(1000, 200), 8.0, itl_ms=20.0, ttft_ms=100.0, ttft_unloaded_ms=50.0, provenance=provenance
    )


def test_every_figure_arrives_with_its_interval() -> None:
    # each figure has ends of its own, so that none can stand in for another
    intervals: dict[str, Any] = {
        name: Figure(100.0 + place, 90.0 + place, 120.0 + place) for place, name in enumerate(FIGURES)
    }
    message = to_replica_performance(replace(estimated(Provenance.MEASURED), **intervals))
    for name, figure in intervals.items():
        estimate = getattr(message, name)
        assert (estimate.value, estimate.lower, estimate.upper) == (figure.value, figure.lower, figure.upper)


@pytest.mark.parametrize("provenance", Provenance)
def test_where_an_estimate_comes_from_arrives_in_every_answer(provenance: Provenance) -> None:
    estimate = replace(estimated(provenance), distance=0.4, engine_versions="vllm 0.8.5 to 0.11.0")
    opinion = to_second_opinion(Opinion("theirs", estimate))
    assert opinion.estimator == "theirs"
    for message in (to_replica_performance(estimate), opinion.performance):
        assert placement_pb2.Provenance.Name(message.provenance) == f"PROVENANCE_{provenance.name}"
        assert (message.distance, message.engine_versions) == (0.4, "vllm 0.8.5 to 0.11.0")


def test_no_distance_is_not_a_distance_of_zero() -> None:
    unknown = to_replica_performance(estimated(Provenance.ANALYTIC))
    assert (unknown.HasField("distance"), unknown.engine_versions) == (False, "")
    assert not any(getattr(unknown, name).HasField("lower") for name in FIGURES)
    there = to_replica_performance(replace(estimated(Provenance.MEASURED), distance=0.0))
    assert there.HasField("distance")
    assert there.distance == 0.0


def test_a_refused_opinion_arrives_with_its_reason_alone() -> None:
    message = to_second_opinion(Opinion("theirs", Refusal("never measured")))
    assert (message.estimator, message.reason) == ("theirs", "never measured")
    assert not message.HasField("performance")


def test_slices_arrive_with_their_starts(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    request = plan_request()
    request.constraints.allowed_accelerators.append("a100-sxm-80gb")
    request.constraints.mig_policy = placement_pb2.MIG_POLICY_REQUIRED
    query = to_placement_query(request, model, snapshot)
    answer = plan(query)
    (placement, *_), message = answer.placements, to_plan_response(answer, query, 1).placements[0]
    assert placement.mig_plan is not None
    layout = message.mig_layout
    (group,) = placement.mig_plan.slices
    assert (layout.board, layout.profile, layout.profile_id) == (
        placement.mig_plan.board.board,
        group.profile.name,
        group.profile.profile_id,
    )
    assert message.resource_request == f"nvidia.com/mig-{group.profile.name}: 1"
    assert sum(gpu.gpu_count for gpu in layout.gpus) == message.device_count
    used = sum(gpu.gpu_count * sum(instance.used for instance in gpu.instances) for gpu in layout.gpus)
    assert used == message.replica_count
    for gpu in layout.gpus:
        taken = [unit for i in gpu.instances for unit in range(i.start, i.start + i.size)]
        assert len(taken) == len(set(taken)), "two instances share a memory unit"


def test_a_layout_that_would_not_start_arrives_with_its_reasons(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    request = estimate_request()
    request.deployment.accelerator = "t4-16gb"
    query = to_deployment_query(request, model, snapshot)
    estimate = estimate_deployment(query)
    response = to_deployment_response(estimate, query, 3)
    assert not response.starts
    assert [fault.reason for fault in response.faults] == [fault.reason for fault in estimate.faults] != []
    assert not response.HasField("performance")
    assert not response.HasField("total_output_tokens_per_s")
    assert response.memory.device_bytes > 0


@pytest.mark.parametrize(("text", "profile_id"), [("1g.10gb", 19), ("id:19", 19), ("3g.40gb", 9), ("id:0", 0)])
def test_a_profile_is_found_by_name_and_by_id(
    snapshot: CatalogSnapshot, model: ModelCosts, text: str, profile_id: int
) -> None:
    request = estimate_request()
    request.deployment.mig_profile = text
    profile = to_deployment_query(request, model, snapshot).mig_profile
    assert profile is not None
    assert profile.profile_id == profile_id


@pytest.mark.parametrize("text", ["1g.11gb", "id:77"])
def test_a_profile_the_board_lacks_is_not_found_and_the_others_are_named(
    snapshot: CatalogSnapshot, model: ModelCosts, text: str
) -> None:
    request = estimate_request()
    request.deployment.mig_profile = text
    with pytest.raises(NotFoundError) as refusal:
        to_deployment_query(request, model, snapshot)
    assert any("1g.10gb" in name for name in refusal.value.near)


@pytest.mark.parametrize("text", ["id:", "id:x", "id:-1", "id:" + "9" * 5000])
def test_a_profile_id_that_is_no_number_is_refused(snapshot: CatalogSnapshot, model: ModelCosts, text: str) -> None:
    request = estimate_request()
    request.deployment.mig_profile = text
    with pytest.raises(InvalidInputError, match="expected id:N"):
        to_deployment_query(request, model, snapshot)


def test_a_profile_of_a_device_without_slices_is_refused(snapshot: CatalogSnapshot, model: ModelCosts) -> None:
    request = estimate_request()
    request.deployment.accelerator = "l4-24gb"
    request.deployment.mig_profile = "1g.10gb"
    with pytest.raises(InvalidInputError, match=r"deployment\.mig_profile"):
        to_deployment_query(request, model, snapshot)


def test_what_64_bits_do_not_hold_is_refused() -> None:
    assert int64(MAX_INT64, "bytes") == MAX_INT64
    for value in (MAX_INT64 + 1, -MAX_INT64 - 1, 10**30):
        with pytest.raises(InvalidInputError, match="bytes come to more"):
            int64(value, "bytes")
