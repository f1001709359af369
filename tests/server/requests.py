"""Requests the server's tests start from."""

from __future__ import annotations

from capplan.v1 import planner_service_pb2
from tests.server.catalogue import CONFIG_JSON, MODEL


def plan_request(model: str = MODEL) -> planner_service_pb2.PlanPlacementRequest:
    """An easy question about a catalogue model."""
    request = planner_service_pb2.PlanPlacementRequest()
    request.model.name = model
    request.target.output_tokens_per_s = 1000
    request.workload.input_tokens = 1000
    request.workload.output_tokens = 200
    request.workload.max_context_tokens = 8192
    return request


def estimate_request() -> planner_service_pb2.EstimateDeploymentRequest:
    """A layout that starts."""
    request = planner_service_pb2.EstimateDeploymentRequest()
    request.model.name = MODEL
    request.workload.input_tokens = 1000
    request.workload.output_tokens = 200
    request.workload.max_context_tokens = 8192
    request.deployment.accelerator = "h100-sxm-80gb"
    return request


def describe_request() -> planner_service_pb2.DescribeModelRequest:
    """The sizes of a config."""
    request = planner_service_pb2.DescribeModelRequest()
    request.model.config_json = CONFIG_JSON
    return request
