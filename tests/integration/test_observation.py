"""What operators see of calls: one line each, series that count them, and nothing of what was asked."""

from __future__ import annotations

import io
import json
import urllib.request
from collections.abc import Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2

from capplan.server.logs import configure_logs
from tests.server.requests import plan_request
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer, eventually

Entries = Callable[[], list[dict[str, object]]]


@pytest.fixture
def entries() -> Entries:
    """Reads the log since the test began."""
    log = io.StringIO()
    configure_logs("json", "info", log)
    return lambda: [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_call_is_one_line_without_anything_that_was_asked(server: RunningServer, entries: Entries) -> None:
    request = plan_request()
    request.model.config_json = '{"model_type": "a-private-name"}'
    with pytest.raises(grpc.RpcError):
        server.planner.PlanPlacement(request, timeout=CALL_TIMEOUT_S, metadata=(("x-request-id", "abc-1"),))
    eventually(lambda: bool(entries()))
    (entry,) = entries()
    assert entry["method"] == "/capplan.v1.PlannerService/PlanPlacement"
    assert entry["code"] == "INVALID_ARGUMENT"
    assert entry["request_id"] == "abc-1"
    assert isinstance(entry["duration_ms"], float)
    assert "a-private-name" not in json.dumps(entry)


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "inject\tion"])
def test_a_request_id_that_is_no_plain_word_is_replaced(server: RunningServer, entries: Entries, given: str) -> None:
    metadata = (("x-request-id", given),) if given.isprintable() else ()
    server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S, metadata=metadata)
    (entry,) = entries()
    request_id = entry["request_id"]
    assert isinstance(request_id, str)
    assert request_id != given
    assert len(request_id) == 32


def test_a_probe_that_succeeds_leaves_no_line(server: RunningServer, entries: Entries) -> None:
    server.health.Check(health_pb2.HealthCheckRequest(), timeout=CALL_TIMEOUT_S)
    assert entries() == []


def test_calls_are_counted_by_method_and_code(server: RunningServer) -> None:
    labels = {"grpc_type": "unary", "grpc_service": "capplan.v1.PlannerService", "grpc_method": "PlanPlacement"}

    def counts() -> tuple[float, float, float, float]:
        samples = server.metrics()

        def at(name: str, **more: str) -> float:
            return samples[name, frozenset({**labels, **more}.items())]

        return (
            at("grpc_server_started_total"),
            at("grpc_server_handled_total", grpc_code="OK"),
            at("grpc_server_handled_total", grpc_code="INVALID_ARGUMENT"),
            at("grpc_server_handling_seconds_count"),
        )

    before = counts()
    server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S)
    with pytest.raises(grpc.RpcError):
        server.call_bytes("/capplan.v1.PlannerService/PlanPlacement", b"\xff")
    eventually(lambda: tuple(now - then for now, then in zip(counts(), before, strict=True)) == (2, 1, 1, 2))


def test_no_label_comes_from_a_request(server: RunningServer) -> None:
    names_before = set(server.metrics())
    for method in ("/capplan.v1.PlannerService/Nothing", "/nobody/knows", "/capplan.v1.CatalogService/GetPrice"):
        with pytest.raises(grpc.RpcError):
            server.call_bytes(method, b"\x0a\x05wrong", metadata=(("x-request-id", "label-me"),))
    assert set(server.metrics()) == names_before


def test_metrics_are_served_as_prometheus_reads_them(server: RunningServer) -> None:
    with urllib.request.urlopen(f"http://{server.addresses.metrics}/metrics", timeout=CALL_TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert server.sample("capplan_catalog_revision") == server.application.revision
