"""The client against a small server whose answers the test chooses; rich errors are made as the service makes them."""

from __future__ import annotations

import re
import time
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from capplan.client import Client, DeadlineError, RpcError, UnreachableError
from capplan.errors import (
    CapplanError,
    FieldViolation,
    InvalidInputError,
    NotFoundError,
    UnsupportedModelError,
    UnsupportedPrecisionError,
)
from capplan.server.error_status import status_of
from capplan.server.errors import OverloadedError, ShuttingDownError
from capplan.v1 import catalog_service_pb2, planner_service_pb2

SERVICES = [
    planner_service_pb2.DESCRIPTOR.services_by_name["PlannerService"],
    catalog_service_pb2.DESCRIPTOR.services_by_name["CatalogService"],
]
METHODS = [method for service in SERVICES for method in service.methods]


class ScriptedHandler(grpc.GenericRpcHandler):
    """Answers every method with an empty answer, or does what the test says."""

    def __init__(self) -> None:
        self.address = ""
        self.called: list[str] = []
        self.behave = None

    def service(self, details):
        name = details.method.rpartition("/")[2]

        def handle(_request, context):
            self.called.append(details.method)
            if self.behave is not None:
                self.behave(context)
            method = next(method for method in METHODS if method.name == name)
            return message_factory.GetMessageClass(method.output_type)().SerializeToString()

        return grpc.unary_unary_rpc_method_handler(handle)


@pytest.fixture(scope="module")
def server():
    handler = ScriptedHandler()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    handler.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield handler
    server.stop(None).wait()


@pytest.fixture
def client(server):
    server.called.clear()
    server.behave = None
    with Client(server.address) as client:
        yield client


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_of_the_contract_has_one_of_the_client(client, server, method):
    request = message_factory.GetMessageClass(method.input_type)()
    answer = getattr(client, snake(method.name))(request)
    assert server.called == [f"/{method.containing_service.full_name}/{method.name}"]
    assert answer.DESCRIPTOR is descriptor_pool.Default().FindMessageTypeByName(method.output_type.full_name)


def refusal_of(client) -> Any:
    with pytest.raises(CapplanError) as caught:
        client.describe_model(planner_service_pb2.DescribeModelRequest())
    return caught.value


def abort_with(error: Exception):
    return lambda context: context.abort_with_status(rpc_status.to_status(status_of(error, "request-1")))


@pytest.mark.parametrize(
    "error",
    [
        InvalidInputError([FieldViolation("a.b", "is wrong"), FieldViolation("c", "is missing; give 1 to 5")]),
        UnsupportedModelError.single("model.config_json.model_type", "'acme' is not known"),
        UnsupportedPrecisionError.single("precision.weights", "'fp9' is not known"),
        NotFoundError("model", "Qwen/Qwen3-23B", ("Qwen/Qwen3-32B", "Qwen/Qwen3-8B")),
        NotFoundError("accelerator", "h1000"),
        NotFoundError("model", "Ünknown\n'model'"),
    ],
)
def test_a_refusal_arrives_as_the_error_that_was_raised(client, server, error):
    server.behave = abort_with(error)
    arrived = refusal_of(client)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.reason == error.reason
    if isinstance(error, InvalidInputError):
        assert arrived.violations == error.violations
    else:
        assert (arrived.kind, arrived.name, arrived.near) == (error.kind, error.name, error.near)


def test_faults_that_the_server_left_out_are_counted(client, server):
    server.behave = abort_with(InvalidInputError(FieldViolation(f"field_{n}", "is wrong") for n in range(40)))
    arrived = refusal_of(client)
    listed = len(arrived.violations) - 1
    assert arrived.violations[-1].description == f"{40 - listed} more faults that are not listed"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OverloadedError("planning", 64, 0.5), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (ShuttingDownError(), grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_a_server_that_cannot_answer_now_is_not_called_unreachable(client, server, error, code):
    server.behave = abort_with(error)
    arrived = refusal_of(client)
    assert type(arrived) is RpcError
    assert (arrived.code, arrived.reason, str(arrived)) == (code, error.reason, str(error))


def test_an_internal_error_keeps_the_servers_message(client, server):
    server.behave = abort_with(RuntimeError("secret"))
    arrived = refusal_of(client)
    assert isinstance(arrived, RpcError)
    assert arrived.code is grpc.StatusCode.INTERNAL
    assert "secret" not in str(arrived)


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_bare_status_becomes_an_error_with_its_code(client, server, code):
    server.behave = lambda context: context.abort(code, "said so")
    arrived = refusal_of(client)
    assert isinstance(arrived, RpcError)
    assert arrived.code is code


def test_details_that_contradict_the_code_are_not_believed(client, server):
    packed = status_pb2.Status(code=code_pb2.NOT_FOUND, message="other").SerializeToString()

    def rewritten(context):
        context.set_trailing_metadata((("grpc-status-details-bin", packed),))
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "by a proxy")

    server.behave = rewritten
    arrived = refusal_of(client)
    assert isinstance(arrived, RpcError)
    assert (arrived.code, str(arrived)) == (grpc.StatusCode.UNAUTHENTICATED, "by a proxy")


def test_a_call_ends_at_its_deadline(server):
    server.behave = lambda context: time.sleep(0.5)
    with Client(server.address, timeout_s=0.1) as client:
        arrived = refusal_of(client)
    assert isinstance(arrived, DeadlineError)
    assert "0.1 s" in str(arrived)


def test_a_call_that_met_an_unavailable_server_is_sent_again(client, server):
    def first_time_only(context):
        if len(server.called) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")

    server.behave = first_time_only
    client.describe_model(planner_service_pb2.DescribeModelRequest())
    assert len(server.called) == 2


def test_no_server_is_unreachable_and_names_the_address():
    # Port 1 is reserved (tcpmux) and nothing listens there.
    with Client("127.0.0.1:1", timeout_s=5) as client:
        arrived = refusal_of(client)
    assert isinstance(arrived, UnreachableError)
    assert arrived.reason == "UNREACHABLE"
    assert "127.0.0.1:1" in str(arrived)
