"""The planner's methods over a socket: answers, and that they are the application's own."""

from __future__ import annotations

import grpc
import pytest

from capplan.server.methods import methods_of
from capplan.v1 import placement_pb2
from tests.server.catalogue import MODEL, MODEL_PARAMETERS
from tests.server.requests import describe_request, estimate_request, plan_request
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer


def test_a_plan_is_answered(server: RunningServer) -> None:
    response = server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S)
    assert response.model == MODEL
    assert len(response.placements) == 5
    assert response.catalog_revision == server.application.revision
    costs = [placement.cost_usd_per_h for placement in response.placements]
    assert costs == sorted(costs), "the objective left out means cost"


def test_an_infeasible_question_is_an_answer(server: RunningServer) -> None:
    request = plan_request()
    request.constraints.max_usd_per_h = 0.01
    response = server.planner.PlanPlacement(request, timeout=CALL_TIMEOUT_S)
    assert not response.placements
    assert response.rejections
    assert "constraints.max_usd_per_h" in {relaxation.field for relaxation in response.relaxations}


def test_a_layout_is_estimated(server: RunningServer) -> None:
    response = server.planner.EstimateDeployment(estimate_request(), timeout=CALL_TIMEOUT_S)
    assert response.starts
    assert response.performance.provenance == placement_pb2.PROVENANCE_CALIBRATED


def test_a_model_is_described(server: RunningServer) -> None:
    response = server.planner.DescribeModel(describe_request(), timeout=CALL_TIMEOUT_S)
    assert response.model.total_parameters == MODEL_PARAMETERS


@pytest.mark.parametrize("max_context_tokens", [8192, 0])
def test_asked_again_the_bytes_are_the_same_and_those_of_the_application(
    server: RunningServer, max_context_tokens: int
) -> None:
    request = plan_request()
    request.workload.max_context_tokens = max_context_tokens
    method = next(m for m in methods_of(server.application) if m.name == "PlanPlacement")
    encoded = request.SerializeToString()
    first, second = (server.call_bytes(method.full_name, encoded) for _ in range(2))
    assert first == second == method.answer_bytes(encoded)


def test_a_cached_answer_is_no_new_plan(server: RunningServer) -> None:
    request = plan_request()
    request.target.output_tokens_per_s = 1234.5
    for _ in range(3):
        server.planner.PlanPlacement(request, timeout=CALL_TIMEOUT_S)
    before = server.sample("capplan_plans_total", outcome="feasible")
    hits = server.sample("capplan_answer_cache_lookups_total", result="hit")
    server.planner.PlanPlacement(request, timeout=CALL_TIMEOUT_S)
    assert server.sample("capplan_plans_total", outcome="feasible") == before
    assert server.sample("capplan_answer_cache_lookups_total", result="hit") == hits + 1


def test_a_method_the_service_has_not_is_unimplemented(server: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        server.call_bytes("/capplan.v1.PlannerService/PlanEverything", b"")
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
