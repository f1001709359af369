"""Requests that break rules: each fault by its path, with what would be accepted, and all of them at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from capplan.errors import InvalidInputError
from capplan.server.validation.planner import (
    validate_describe_model,
    validate_estimate_deployment,
    validate_plan_placement,
)
from capplan.v1 import placement_pb2, planner_service_pb2
from tests.server.requests import describe_request, estimate_request, plan_request

VALIDATORS: dict[type, Callable[[Any], None]] = {
    planner_service_pb2.PlanPlacementRequest: validate_plan_placement,
    planner_service_pb2.EstimateDeploymentRequest: validate_estimate_deployment,
    planner_service_pb2.DescribeModelRequest: validate_describe_model,
}


def faults(request: Any) -> dict[str, str]:
    """Descriptions of a request's faults by field."""
    try:
        VALIDATORS[type(request)](request)
    except InvalidInputError as refusal:
        return {violation.field: violation.description for violation in refusal.violations}
    return {}


def test_the_requests_the_tests_start_from_have_no_fault() -> None:
    assert faults(plan_request()) == faults(estimate_request()) == faults(describe_request()) == {}


def test_an_empty_question_is_told_everything_it_lacks() -> None:
    assert set(faults(planner_service_pb2.PlanPlacementRequest())) == {"model", "target", "workload"}
    assert set(faults(planner_service_pb2.EstimateDeploymentRequest())) == {"model", "workload", "deployment"}
    assert set(faults(planner_service_pb2.DescribeModelRequest())) == {"model"}


def test_every_fault_is_reported_at_once() -> None:
    request = plan_request()
    request.precision.weights = "fp7"
    request.target.requests_per_s = -1
    request.workload.input_tokens = 0
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_ITL, limit_ms=50)
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_TTFT, limit_ms=0)
    request.constraints.allowed_accelerators.append(" ")
    request.max_placements = 101
    assert set(faults(request)) == {
        "precision.weights",
        "target.requests_per_s",
        "workload.input_tokens",
        "latency_limits[1].limit_ms",
        "constraints.allowed_accelerators[0]",
        "max_placements",
    }


NOT_FINITE = (math.nan, math.inf, -math.inf)


def assign(request: Any, path: str, value: object) -> None:
    """Set a field by its path; a list gets the value as its only entry."""
    *parents, name = path.split(".")
    for parent in parents:
        if parent.endswith("[0]"):
            entries = getattr(request, parent.removesuffix("[0]"))
            request = entries[0] if entries else entries.add()
        else:
            request = getattr(request, parent)
    if name.endswith("[0]"):
        getattr(request, name.removesuffix("[0]")).append(value)
    else:
        setattr(request, name, value)


PLAN_FAULTS: list[tuple[str, object, str]] = [
    *(
        ("target.output_tokens_per_s", value, "accepted: a number from 1e-06")
        for value in (0, -1, 5e-324, 1.1e9, *NOT_FINITE)
    ),
    *(("target.requests_per_s", value, "accepted: a number from 1e-06") for value in (0, *NOT_FINITE)),
    *(("target.concurrent_users", value, "accepted: a number from 1e-06") for value in (0, *NOT_FINITE)),
    *(("workload.input_tokens", value, "from 1 to 1e+08") for value in (0, 0.5, -3, 1.1e8, *NOT_FINITE)),
    *(("workload.output_tokens", value, "from 1 to 1e+08") for value in (0, 0.5, 1.1e8, *NOT_FINITE)),
    *(("workload.max_context_tokens", value, "the model's full context") for value in (-1, 10**9, -(2**63))),
    *(("workload.prefix_cache_hit_share", value, "from 0 to below 1") for value in (-0.1, 1, *NOT_FINITE)),
    *(("constraints.headroom_share", value, "from 0 to 10") for value in (-0.1, 10.1, *NOT_FINITE)),
    *(("constraints.max_usd_per_h", value, "or 0 for no limit") for value in (-1, 1e10, *NOT_FINITE)),
    *(("constraints.max_devices", value, "or 0 for no limit") for value in (-1, 2**31 - 1)),
    *(("constraints.tensor_parallel_sizes[0]", value, "from 1 to 1024") for value in (0, -8, 2048)),
    *(("constraints.price_term", value, "on_demand, spot") for value in ("reserved", "On_Demand", "\x00")),
    *(("constraints.mig_policy", value, "MIG_POLICY_REQUIRED") for value in (4, -1)),
    *(("objective", value, "OBJECTIVE_ENERGY") for value in (5, -1)),
    *(("max_placements", value, "from 1 to 100, or 0 for 5") for value in (-1, 101)),
    *(
        ("constraints.engine.gpu_memory_utilization", value, "above 0 to 1, or 0 for the version's default")
        for value in (-0.1, 1.01, *NOT_FINITE)
    ),
    *(("constraints.engine.max_num_seqs", value, "or 0 for the version's default") for value in (-1, 2**31 - 1)),
    ("constraints.engine.max_num_batched_tokens", -1, "or 0 for the version's default"),
    ("constraints.engine.name", "v" * 300, "at most 256"),
    ("constraints.denied_accelerators[0]", "", "a catalogue name or alias"),
    ("constraints.denied_accelerators[0]", "x" * 300, "at most 256"),
    ("constraints.mig_profiles[0]", "", "1g.10gb"),
    ("precision.weights", "bfloat16", "accepted: fp32, tf32, bf16"),
    ("precision.kv_cache", "int8", "accepted: auto, bf16, fp16, fp8, or nothing for auto"),
    ("model.name", "  ", "a catalogue name"),
    ("model.name", "x" * 300, "at most 256"),
    ("model.config_json", "", "the text of a config.json"),
    ("model.config_json", "x" * (2**20 + 1), "at most 1048576"),
    ("model.display_name", "mine", "only together with model.config_json"),
    ("model.quantization_config_json", "{}", "only together with model.config_json"),
]


@pytest.mark.parametrize(("field", "value", "says"), PLAN_FAULTS, ids=[f"{f}={str(v)[:12]}" for f, v, _ in PLAN_FAULTS])
def test_one_fault_of_a_question_is_named_with_what_is_accepted(field: str, value: object, says: str) -> None:
    request = plan_request()
    assign(request, field, value)
    found = faults(request)
    assert set(found) == {field}
    assert says in found[field]


ESTIMATE_FAULTS: list[tuple[str, object]] = [
    *(("concurrency", value) for value in (-1, 1e10, *NOT_FINITE)),
    *(("deployment.tensor_parallel", value) for value in (-1, 2048)),
    *(("deployment.replica_count", value) for value in (-1, 2**62)),
    *(("deployment.accelerator", value) for value in ("", " ", "x" * 300)),
    ("deployment.mig_profile", "x" * 300),
    ("deployment.engine.gpu_memory_utilization", 2.0),
    ("precision.weights", "int3"),
    ("workload.output_tokens", 0),
    *(("workload.prefix_cache_hit_share", value) for value in (-0.1, 1, 1.5, *NOT_FINITE)),
    *(("second_opinions[0]", value) for value in ("", " ", "x" * 300)),
]


@pytest.mark.parametrize(("field", "value"), ESTIMATE_FAULTS)
def test_one_fault_of_a_layout_is_named(field: str, value: object) -> None:
    request = estimate_request()
    assign(request, field, value)
    assert set(faults(request)) == {field}


def test_a_latency_limit_must_name_a_metric_that_is_one() -> None:
    for metric in (placement_pb2.LATENCY_METRIC_UNSPECIFIED, 17):
        request = plan_request()
        request.latency_limits.add(metric=metric, limit_ms=10)
        found = faults(request)
        assert set(found) == {"latency_limits[0].metric"}
        assert "UNSPECIFIED" not in found["latency_limits[0].metric"]
        assert "LATENCY_METRIC_TTFT" in found["latency_limits[0].metric"]


@pytest.mark.parametrize("percentile", [50, 99, 100, -1, math.nan, math.inf])
def test_only_the_mean_is_served_so_far(percentile: float) -> None:
    request = plan_request()
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_TTFT, limit_ms=500, percentile=percentile)
    found = faults(request)
    assert set(found) == {"latency_limits[0].percentile"}
    assert "only the mean is served so far" in found["latency_limits[0].percentile"]


def test_a_second_limit_on_one_metric_is_refused_and_names_the_first() -> None:
    request = plan_request()
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_ITL, limit_ms=40)
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_ITL, limit_ms=50)
    found = faults(request)
    assert set(found) == {"latency_limits[1].metric"}
    assert "latency_limits[0]" in found["latency_limits[1].metric"]


def test_each_metric_may_have_a_limit() -> None:
    request = plan_request()
    for metric in (
        placement_pb2.LATENCY_METRIC_TTFT,
        placement_pb2.LATENCY_METRIC_ITL,
        placement_pb2.LATENCY_METRIC_E2E,
    ):
        request.latency_limits.add(metric=metric, limit_ms=1e4)
    assert faults(request) == {}


@pytest.mark.parametrize("share", [0.0, -0.0, 5e-324, 0.5, 1.0 - 2.0**-53])
def test_any_share_of_hits_below_one_is_taken(share: float) -> None:
    for request in (estimate_request(), plan_request()):
        request.workload.prefix_cache_hit_share = share
        assert faults(request) == {}


def test_an_estimator_is_asked_once() -> None:
    request = estimate_request()
    request.second_opinions.extend(["a", "b", "a"])
    assert faults(request) == {"second_opinions[2]": "'a' is listed already; accepted: each once"}


def test_long_lists_are_refused_whole_not_entry_by_entry() -> None:
    request = plan_request()
    request.constraints.allowed_accelerators.extend([""] * 100_000)
    request.constraints.tensor_parallel_sizes.extend([0] * 100_000)
    for _ in range(1_000):
        request.latency_limits.add()
    assert set(faults(request)) == {
        "constraints.allowed_accelerators",
        "constraints.tensor_parallel_sizes",
        "latency_limits",
    }


def test_slices_cannot_be_named_and_forbidden() -> None:
    request = plan_request()
    request.constraints.mig_profiles.append("1g.10gb")
    request.constraints.mig_policy = placement_pb2.MIG_POLICY_FORBIDDEN
    assert set(faults(request)) == {"constraints.mig_profiles"}


def test_a_display_name_must_print() -> None:
    request = describe_request()
    request.model.display_name = "two\nlines"
    assert set(faults(request)) == {"model.display_name"}


def test_precisions_to_describe_are_known_and_each_once() -> None:
    request = describe_request()
    request.precisions.extend(["bf16", "fp9", "bf16"])
    request.kv_cache = "fp4"
    assert set(faults(request)) == {"precisions[1]", "precisions[2]", "kv_cache"}


def test_a_callers_text_is_quoted_in_part_only() -> None:
    request = plan_request()
    request.precision.weights = "x" * 100_000
    assert len(faults(request)["precision.weights"]) < 300
