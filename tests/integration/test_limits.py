"""Bounds on size, time and number of calls hold, and a server at its bounds says so and recovers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2

from capplan.server.application import Application
from capplan.server.errors import AddressInUseError
from capplan.v1 import catalog_service_pb2, planner_service_pb2
from tests.server.requests import describe_request, plan_request
from tests.server.running_server import CALL_TIMEOUT_S, LIMIT_S, RunningServer, details_of, eventually, running


class SlowPlanner(Application):
    """An application that plans only when told to go on."""

    def __init__(self, application: Application) -> None:
        super().__init__(application.snapshot, application._paginator)
        self.go_on = threading.Event()
        self.began = threading.Semaphore(0)

    def plan_placement(
        self, request: planner_service_pb2.PlanPlacementRequest
    ) -> planner_service_pb2.PlanPlacementResponse:
        self.began.release()
        assert self.go_on.wait(LIMIT_S)
        return super().plan_placement(request)


@pytest.fixture
def slow(application: Application) -> Iterator[SlowPlanner]:
    slow = SlowPlanner(application)
    yield slow
    slow.go_on.set()


def different(number: int) -> planner_service_pb2.PlanPlacementRequest:
    """A question that no other call asked, so that no cache answers it."""
    request = plan_request()
    request.target.output_tokens_per_s = 100.0 + number
    return request


def test_a_request_that_is_too_large_is_refused(application: Application) -> None:
    with running(application, max_receive_message_bytes=2_000) as server:
        request = plan_request()
        request.model.config_json = " " * 3_000
        with pytest.raises(grpc.RpcError) as refusal:
            server.planner.PlanPlacement(request, timeout=CALL_TIMEOUT_S)
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S).placements


def test_a_deadline_too_near_is_refused_without_work(application: Application) -> None:
    with running(application, deadline_reserve_ms=5_000.0) as server:
        with pytest.raises(grpc.RpcError) as refusal:
            server.planner.PlanPlacement(plan_request(), timeout=2.0)
        error = refusal.value
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert details_of(error)[error_details_pb2.ErrorInfo].reason == "DEADLINE_TOO_NEAR"
        assert server.sample("capplan_plans_total", outcome="feasible") == 0
        assert server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S).placements


def test_a_deadline_that_passes_ends_the_call_and_is_counted(slow: SlowPlanner) -> None:
    with running(slow, deadline_reserve_ms=0.0) as server:
        with pytest.raises(grpc.RpcError) as refusal:
            server.planner.PlanPlacement(different(1), timeout=0.3)
        assert refusal.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        labels = {"grpc_type": "unary", "grpc_service": "capplan.v1.PlannerService", "grpc_method": "PlanPlacement"}
        eventually(lambda: server.sample("grpc_server_handled_total", grpc_code="DEADLINE_EXCEEDED", **labels) == 1)
        slow.go_on.set()


def test_a_call_that_is_cancelled_is_counted_as_such(slow: SlowPlanner) -> None:
    with running(slow) as server:
        call = server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)
        assert slow.began.acquire(timeout=LIMIT_S)
        call.cancel()
        labels = {"grpc_type": "unary", "grpc_service": "capplan.v1.PlannerService", "grpc_method": "PlanPlacement"}
        eventually(lambda: server.sample("grpc_server_handled_total", grpc_code="CANCELLED", **labels) == 1)
        slow.go_on.set()


def test_beyond_its_places_the_planner_refuses_at_once_and_says_when_to_return(slow: SlowPlanner) -> None:
    with running(slow, planning_workers=1, planning_queue=1) as server:
        waiting = [server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)]
        assert slow.began.acquire(timeout=LIMIT_S)
        waiting.append(server.planner.PlanPlacement.future(different(2), timeout=CALL_TIMEOUT_S))
        started = {"grpc_type": "unary", "grpc_service": "capplan.v1.PlannerService", "grpc_method": "PlanPlacement"}
        eventually(lambda: server.sample("grpc_server_started_total", **started) == 2)
        with pytest.raises(grpc.RpcError) as refusal:
            server.planner.PlanPlacement(different(3), timeout=CALL_TIMEOUT_S)
        error = refusal.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = details_of(error)
        assert details[error_details_pb2.ErrorInfo].reason == "OVERLOADED"
        assert details[error_details_pb2.RetryInfo].retry_delay.ToMilliseconds() > 0
        slow.go_on.set()
        assert all(call.result(timeout=LIMIT_S).placements for call in waiting)
        assert server.planner.PlanPlacement(different(4), timeout=CALL_TIMEOUT_S).placements


def test_planning_does_not_keep_the_catalogue_from_being_read(slow: SlowPlanner) -> None:
    with running(slow, planning_workers=1, planning_queue=4) as server:
        waiting = [server.planner.PlanPlacement.future(different(n), timeout=CALL_TIMEOUT_S) for n in range(5)]
        assert slow.began.acquire(timeout=LIMIT_S)
        request = catalog_service_pb2.ListAcceleratorsRequest()
        assert server.catalog.ListAccelerators(request, timeout=CALL_TIMEOUT_S).accelerators
        slow.go_on.set()
        assert all(call.result(timeout=LIMIT_S).placements for call in waiting)


def test_beyond_the_bound_on_all_calls_the_rest_is_shed(slow: SlowPlanner) -> None:
    with running(slow, max_concurrent_rpcs=1) as server:
        first = server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)
        assert slow.began.acquire(timeout=LIMIT_S)
        with pytest.raises(grpc.RpcError) as refusal:
            server.planner.DescribeModel(describe_request(), timeout=CALL_TIMEOUT_S)
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        slow.go_on.set()
        assert first.result(timeout=LIMIT_S).placements


@pytest.mark.parametrize("which", ["port", "metrics_port"])
def test_an_address_that_is_taken_is_an_error_with_a_name(application: Application, which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUseError, match=f"127.0.0.1:{port}"), running(application, **{which: port}):
            pass


def test_two_servers_do_not_share_a_port(server: RunningServer) -> None:
    port = int(server.addresses.grpc.rpartition(":")[2])
    with pytest.raises(AddressInUseError), running(server.application, port=port):
        pass


def test_many_clients_at_once_get_the_answers_one_would(server: RunningServer) -> None:
    questions = [different(number % 7) for number in range(60)]
    calls = [server.planner.PlanPlacement.future(question, timeout=CALL_TIMEOUT_S) for question in questions]
    answers = [call.result(timeout=CALL_TIMEOUT_S) for call in calls]
    for question, answer in zip(questions, answers, strict=True):
        assert answer == server.application.plan_placement(question)
