"""Every series is there before anything happened, and no label can come from a request."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from capplan.errors import InvalidInputError
from capplan.server.application import Application
from capplan.server.metrics import CODES, Metrics
from capplan.v1 import planner_service_pb2
from tests.server.requests import plan_request

METHODS = {
    "capplan.v1.PlannerService": ("PlanPlacement", "EstimateDeployment", "DescribeModel"),
    "capplan.v1.CatalogService": (
        "GetAccelerator",
        "ListAccelerators",
        "GetMigProfile",
        "ListMigProfiles",
        "GetModelProfile",
        "ListModelProfiles",
        "GetPrice",
        "ListPrices",
    ),
    "grpc.health.v1.Health": ("Check", "List"),
}


@pytest.fixture
def metrics(application: Application) -> Metrics:
    return Metrics(lambda: application.messages)


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_method_and_code_starts_at_zero(metrics: Metrics) -> None:
    found = samples(metrics)
    for service, methods in METHODS.items():
        for method in methods:
            labels = {"grpc_type": "unary", "grpc_service": service, "grpc_method": method}
            assert found["grpc_server_started_total", frozenset(labels.items())] == 0
            assert found["grpc_server_handling_seconds_count", frozenset(labels.items())] == 0
            for code in CODES:
                assert found["grpc_server_handled_total", frozenset({**labels, "grpc_code": code}.items())] == 0
    counted = {dict(labels)["grpc_method"] for name, labels in found if name == "grpc_server_started_total"}
    assert counted == {method for methods in METHODS.values() for method in methods}
    for outcome in ("feasible", "infeasible", "error"):
        assert found["capplan_plans_total", frozenset({("outcome", outcome)})] == 0


def test_the_catalogue_is_shown_as_it_is(metrics: Metrics, application: Application) -> None:
    found = samples(metrics)
    assert found["capplan_catalog_revision", frozenset()] == application.revision
    assert found["capplan_catalog_updated_timestamp_seconds", frozenset()] > 1.7e9
    rows = {dict(labels)["table"]: value for (name, labels), value in found.items() if name == "capplan_catalog_rows"}
    assert rows == {
        "accelerators": len(application.messages.accelerators),
        "mig_profiles": len(application.messages.mig_profiles),
        "model_profiles": len(application.messages.model_profiles),
        "prices": len(application.messages.prices),
    }


def test_a_method_nobody_knows_is_not_counted(metrics: Metrics) -> None:
    assert metrics.method("/capplan.v1.PlannerService/PlanEverything") is None
    assert metrics.method("/grpc.health.v1.Health/Watch") is None


def test_plans_are_counted_by_outcome(metrics: Metrics, application: Application) -> None:
    plan = metrics.observed(application.plan_placement)
    feasible = plan(plan_request())
    assert isinstance(feasible, planner_service_pb2.PlanPlacementResponse)
    infeasible = plan_request()
    infeasible.constraints.max_usd_per_h = 0.001
    plan(infeasible)
    with pytest.raises(InvalidInputError):
        plan(planner_service_pb2.PlanPlacementRequest())
    found = samples(metrics)
    for outcome in ("feasible", "infeasible", "error"):
        assert found["capplan_plans_total", frozenset({("outcome", outcome)})] == 1
    assert found["capplan_planning_seconds_count", frozenset()] == 3
    assert found["capplan_candidates_evaluated_count", frozenset()] == 2
    assert found["capplan_candidates_evaluated_sum", frozenset()] >= feasible.evaluated_candidate_count > 0


def test_the_exposition_stays_small(metrics: Metrics) -> None:
    # Scraping holds the interpreter's lock, some 7 us a series.
    assert len(samples(metrics)) < 1_000


def test_scraping_tells_of_the_process_too(metrics: Metrics) -> None:
    found = {name for name, _ in samples(metrics)}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "capplan_build_info"} <= found
