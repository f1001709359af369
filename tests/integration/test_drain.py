"""A server that is told to stop says so, lets calls in progress end, and takes no more."""

from __future__ import annotations

import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2

from capplan.server.application import Application
from tests.integration.test_limits import SlowPlanner, different
from tests.server.running_server import CALL_TIMEOUT_S, LIMIT_S, RunningServer, eventually, running

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def is_not_serving(server: RunningServer, service: str = "") -> bool:
    response = server.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_TIMEOUT_S)
    return bool(response.status == NOT_SERVING)


def test_while_it_drains_health_says_so_and_calls_are_still_answered(application: Application) -> None:
    with running(application, drain_delay_s=LIMIT_S) as server:
        drained = server.start_drain()
        for service in ("", "capplan.v1.PlannerService", "capplan.v1.CatalogService"):
            eventually(lambda service=service: is_not_serving(server, service))  # type: ignore[misc]
        assert server.planner.PlanPlacement(different(1), timeout=CALL_TIMEOUT_S).placements
        server.set_hurry()
        drained.result(timeout=LIMIT_S)


def test_a_call_in_progress_ends_with_its_answer_and_a_later_one_is_refused(application: Application) -> None:
    slow = SlowPlanner(application)
    with running(slow, drain_delay_s=0.0, stop_grace_s=LIMIT_S) as server:
        in_progress = server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)
        assert slow.began.acquire(timeout=LIMIT_S)
        drained = server.start_drain()

        def refused() -> bool:
            try:
                server.health.Check(health_pb2.HealthCheckRequest(), timeout=CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                return bool(error.code() is grpc.StatusCode.UNAVAILABLE)
            return False

        eventually(refused)
        assert not drained.done()
        slow.go_on.set()
        assert in_progress.result(timeout=LIMIT_S).placements
        drained.result(timeout=LIMIT_S)


def test_calls_that_outlast_the_grace_are_cut_off(application: Application) -> None:
    slow = SlowPlanner(application)
    with running(slow, drain_delay_s=0.0, stop_grace_s=0.2) as server:
        in_progress = server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)
        assert slow.began.acquire(timeout=LIMIT_S)
        server.start_drain().result(timeout=LIMIT_S)
        with pytest.raises(grpc.RpcError):
            in_progress.result(timeout=LIMIT_S)
        slow.go_on.set()


def test_a_second_signal_ends_the_waiting(application: Application) -> None:
    slow = SlowPlanner(application)
    with running(slow, drain_delay_s=600.0, stop_grace_s=600.0) as server:
        in_progress = server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)
        assert slow.began.acquire(timeout=LIMIT_S)
        drained = server.start_drain()
        eventually(lambda: is_not_serving(server))
        begin = time.monotonic()
        server.set_hurry()
        drained.result(timeout=LIMIT_S)
        assert time.monotonic() - begin < LIMIT_S
        with pytest.raises(grpc.RpcError):
            in_progress.result(timeout=LIMIT_S)
        slow.go_on.set()


def test_a_hurry_during_the_grace_cuts_it_short(application: Application) -> None:
    slow = SlowPlanner(application)
    with running(slow, drain_delay_s=0.0, stop_grace_s=600.0) as server:
        in_progress = server.planner.PlanPlacement.future(different(1), timeout=CALL_TIMEOUT_S)
        assert slow.began.acquire(timeout=LIMIT_S)
        drained = server.start_drain()
        settle = threading.Event()
        in_progress.add_done_callback(lambda _: settle.set())
        assert not settle.wait(0.3), "the grace lets the call go on"
        server.set_hurry()
        drained.result(timeout=LIMIT_S)
        assert settle.wait(LIMIT_S)
        slow.go_on.set()
