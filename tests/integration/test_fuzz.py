"""Whatever is sent, the server answers with an answer or with an error that is the caller's, and stays healthy."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from capplan.server.methods import Method, methods_of
from tests.integration.strategies import messages
from tests.server.requests import estimate_request, plan_request
from tests.server.running_server import RunningServer

ALLOWED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}

_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


class _Nothing:
    """Stands in for an application where only the methods' names and types are wanted."""

    def __getattr__(self, name: str) -> object:
        return None


METHODS = {method.name: method for method in methods_of(_Nothing())}


def code_of(server: RunningServer, method: Method, request: bytes) -> grpc.StatusCode:
    """What the server says to the bytes."""
    try:
        server.call_bytes(method.full_name, request)
    except grpc.RpcError as error:
        refusal = error
    else:
        return grpc.StatusCode.OK
    code: grpc.StatusCode = refusal.code()
    assert code in ALLOWED, f"{code}: {refusal.details()}"
    assert refusal.details()
    return code


def is_serving(server: RunningServer) -> bool:
    status = server.health.Check(health_pb2.HealthCheckRequest(), timeout=10).status
    return bool(status == health_pb2.HealthCheckResponse.SERVING)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_any_message_is_answered_or_refused_by_name(server: RunningServer, method: Method) -> None:
    @settings(_FIXTURE, max_examples=60 if method.plans else 40)
    @given(messages(method.request_type))
    def check(request: Message) -> None:
        code_of(server, method, request.SerializeToString())

    check()
    assert is_serving(server)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_any_bytes_are_answered_or_refused_by_name(server: RunningServer, method: Method) -> None:
    @settings(_FIXTURE, max_examples=40)
    @given(st.binary(max_size=200))
    @example(b"\xff\xff\xff\xff")
    @example(b"\x0a\x02\x0a\xff")
    @example(b"\x0a" * 150)
    def check(request: bytes) -> None:
        code_of(server, method, request)

    check()
    assert is_serving(server)


# A question that can be answered, with one thing after the other made strange: most random messages stop at the first
# check and never reach the planner.
@settings(_FIXTURE, max_examples=80)
@given(messages(type(plan_request())))
def test_a_good_question_with_anything_added_is_answered_or_refused(server: RunningServer, extra: Any) -> None:
    request = plan_request()
    extra.ClearField("model")
    request.MergeFrom(extra)
    code_of(server, METHODS["PlanPlacement"], request.SerializeToString())


@settings(_FIXTURE, max_examples=80)
@given(messages(type(estimate_request())))
def test_a_good_layout_with_anything_added_is_answered_or_refused(server: RunningServer, extra: Any) -> None:
    request = estimate_request()
    extra.ClearField("model")
    request.MergeFrom(extra)
    code_of(server, METHODS["EstimateDeployment"], request.SerializeToString())
