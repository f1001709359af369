"""Health by the standard protocol, and the contract readable from the running server."""

from __future__ import annotations

from typing import Any, cast

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from capplan.server.application import Application
from capplan.server.methods import SERVICES
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer, running

# The stubs of gRPC lack the messages of ``List``.
HealthListRequest = cast(Any, health_pb2).HealthListRequest
SERVING = health_pb2.HealthCheckResponse.SERVING
CONTRACT = {"capplan.v1.PlannerService", "capplan.v1.CatalogService"}


@pytest.mark.parametrize("service", ["", *sorted(CONTRACT)])
def test_the_server_and_each_service_are_serving(server: RunningServer, service: str) -> None:
    response = server.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_TIMEOUT_S)
    assert response.status == SERVING


def test_a_service_nobody_knows_is_not_found(server: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        server.health.Check(health_pb2.HealthCheckRequest(service="nobody.Knows"), timeout=CALL_TIMEOUT_S)
    assert refusal.value.code() is grpc.StatusCode.NOT_FOUND


def test_everything_the_server_has_is_listed(server: RunningServer) -> None:
    statuses = server.health.List(HealthListRequest(), timeout=CALL_TIMEOUT_S).statuses
    assert {name: status.status for name, status in statuses.items()} == dict.fromkeys({"", *CONTRACT}, SERVING)


def test_a_watcher_is_told_the_status(server: RunningServer) -> None:
    watch = server.health.Watch(health_pb2.HealthCheckRequest(), timeout=CALL_TIMEOUT_S)
    assert next(watch).status == SERVING
    watch.cancel()


def reflect(server: RunningServer, request: reflection_pb2.ServerReflectionRequest):
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(server.channel)
    return next(iter(stub.ServerReflectionInfo(iter([request]), timeout=CALL_TIMEOUT_S)))


def test_reflection_lists_the_services(server: RunningServer) -> None:
    response = reflect(server, reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {service.name for service in response.list_services_response.service}
    assert listed >= CONTRACT | {"grpc.health.v1.Health"}


def test_reflection_gives_every_method_of_the_contract(server: RunningServer) -> None:
    for service in SERVICES:
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=service.full_name)
        files = reflect(server, request).file_descriptor_response.file_descriptor_proto
        found = {
            method.name
            for file in files
            for described in descriptor_pb2.FileDescriptorProto.FromString(file).service
            if described.name == service.name
            for method in described.method
        }
        assert found == {method.name for method in service.methods} != set()


def test_reflection_can_be_left_out(application: Application) -> None:
    with running(application, reflection=False) as server, pytest.raises(grpc.RpcError) as refusal:
        reflect(server, reflection_pb2.ServerReflectionRequest(list_services=""))
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
