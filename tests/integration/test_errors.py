"""Every refusal over a socket, with the details a program reads."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2

from capplan.server.application import Application
from capplan.server.logs import configure_logs
from capplan.v1 import catalog_service_pb2, planner_service_pb2
from tests.server.requests import describe_request, plan_request
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer, details_of, eventually, running


def refusal_of(call, request) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as refusal:
        call(request, timeout=CALL_TIMEOUT_S)
    return refusal.value


def test_every_fault_of_a_request_is_in_the_details(server: RunningServer) -> None:
    error = refusal_of(server.planner.PlanPlacement, planner_service_pb2.PlanPlacementRequest())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = details_of(error)
    info, bad = details[error_details_pb2.ErrorInfo], details[error_details_pb2.BadRequest]
    assert (info.reason, info.domain) == ("INVALID_INPUT", "capplan")
    assert {violation.field for violation in bad.field_violations} == {"model", "target", "workload"}


def test_an_unknown_name_comes_with_near_ones(server: RunningServer) -> None:
    request = plan_request()
    request.constraints.allowed_accelerators.append("h100-sxm-81gb")
    error = refusal_of(server.planner.PlanPlacement, request)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    details = details_of(error)
    assert "h100-sxm-80gb" in details[error_details_pb2.ErrorInfo].metadata["near"]
    assert "h100-sxm-80gb" in error.details()
    assert details[error_details_pb2.ResourceInfo].resource_name == "h100-sxm-81gb"


@pytest.mark.parametrize(
    ("method", "request_message", "missing"),
    [
        ("GetAccelerator", catalog_service_pb2.GetAcceleratorRequest(name="gpu-of-dreams"), "gpu-of-dreams"),
        ("GetModelProfile", catalog_service_pb2.GetModelProfileRequest(name="models/no--such"), "no/such"),
        (
            "GetMigProfile",
            catalog_service_pb2.GetMigProfileRequest(name="migBoards/a100-40gb/profiles/200"),
            "migBoards/a100-40gb/profiles/200",
        ),
        ("GetPrice", catalog_service_pb2.GetPriceRequest(name="prices/nothing"), "prices/nothing"),
    ],
)
def test_what_the_catalogue_lacks_is_not_found(server: RunningServer, method: str, request_message, missing) -> None:
    error = refusal_of(getattr(server.catalog, method), request_message)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert details_of(error)[error_details_pb2.ResourceInfo].resource_name == missing


def test_a_model_that_cannot_be_sized_is_refused_by_name(server: RunningServer) -> None:
    request = describe_request()
    request.model.config_json = json.dumps({"model_type": "a_model_of_tomorrow", "hidden_size": 8})
    error = refusal_of(server.planner.DescribeModel, request)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details_of(error)[error_details_pb2.ErrorInfo].reason == "MODEL_UNSUPPORTED"


def test_a_format_the_model_is_not_stored_in_is_refused_by_name(server: RunningServer) -> None:
    request = plan_request()
    request.precision.weights = "mxfp4"
    error = refusal_of(server.planner.PlanPlacement, request)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details_of(error)[error_details_pb2.ErrorInfo].reason == "PRECISION_UNSUPPORTED"


def test_bytes_that_are_no_message_are_the_callers_error(server: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        server.call_bytes("/capplan.v1.PlannerService/PlanPlacement", b"\xff\xff\xff")
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details_of(refusal.value)[error_details_pb2.ErrorInfo].reason == "REQUEST_UNDECODABLE"
    assert "PlanPlacementRequest" in refusal.value.details()


def test_text_that_is_no_unicode_is_the_callers_error(server: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        server.call_bytes("/capplan.v1.CatalogService/GetPrice", b"\x0a\x02\xff\xfe")
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_thousands_of_faults_still_arrive(server: RunningServer) -> None:
    request = plan_request()
    request.constraints.denied_accelerators.extend(["\n" * 200] * 256)
    request.constraints.tensor_parallel_sizes.extend([-1] * 256)
    error = refusal_of(server.planner.PlanPlacement, request)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = details_of(error)
    shown = len(details[error_details_pb2.BadRequest].field_violations)
    assert shown + int(details[error_details_pb2.ErrorInfo].metadata["violations_left_out"]) == 512


@pytest.fixture
def broken(application: Application) -> Iterator[RunningServer]:
    """A server whose DescribeModel fails in a way nobody foresaw."""

    def fail(request: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    double = Application(application.snapshot, application._paginator)
    double.describe_model = fail  # type: ignore[method-assign]
    with running(double) as server:
        yield server


def test_what_nobody_foresaw_is_logged_whole_and_told_as_nothing_but_a_request_id(broken: RunningServer) -> None:
    log = io.StringIO()
    configure_logs("json", "info", log)
    with pytest.raises(grpc.RpcError) as refusal:
        broken.planner.DescribeModel(
            describe_request(), timeout=CALL_TIMEOUT_S, metadata=(("x-request-id", "ticket-42"),)
        )
    error = refusal.value
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()
    details = details_of(error)
    assert details[error_details_pb2.ErrorInfo].reason == "INTERNAL"
    assert details[error_details_pb2.RequestInfo].request_id == "ticket-42"
    labels = {"grpc_type": "unary", "grpc_service": "capplan.v1.PlannerService", "grpc_method": "DescribeModel"}
    eventually(lambda: broken.sample("grpc_server_handled_total", grpc_code="INTERNAL", **labels) == 1)
    eventually(lambda: '"event": "rpc"' in log.getvalue())
    entries = [json.loads(line) for line in log.getvalue().splitlines()]
    (unexpected,) = [entry for entry in entries if entry["event"] == "unexpected error"]
    assert "ZeroDivisionError: the secret of the house" in unexpected["exception"]
    assert unexpected["request_id"] == "ticket-42"
    (call,) = [entry for entry in entries if entry["event"] == "rpc"]
    assert (call["code"], call["method"]) == ("INTERNAL", "/capplan.v1.PlannerService/DescribeModel")
    # After it the server goes on.
    assert broken.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S).placements
