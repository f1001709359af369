"""A typed client: one method per call of the contract, a deadline on each, and capplan's own errors back.

    with Client("127.0.0.1:50051") as client:
        answer = client.plan_placement(request)

A server's refusal arrives as the error class that the server raised, so a caller handles the service and an
:class:`capplan.server.application.Application` in its own process alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Final, Self, TypeVar, cast

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from capplan.errors import (
    CapplanError,
    FieldViolation,
    InvalidInputError,
    NotFoundError,
    UnsupportedModelError,
    UnsupportedPrecisionError,
)
from capplan.v1 import catalog_service_pb2 as catalog
from capplan.v1 import planner_service_pb2 as planner
from capplan.v1.catalog_service_pb2_grpc import CatalogServiceStub
from capplan.v1.planner_service_pb2_grpc import PlannerServiceStub

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

DEFAULT_TIMEOUT_S: Final = 30.0

# Every call only reads, so a call that met a closed connection may be sent again (gRFC A6, client retries).
_SERVICE_CONFIG: Final = {
    "methodConfig": [
        {
            "name": [{"service": "capplan.v1.PlannerService"}, {"service": "capplan.v1.CatalogService"}],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}

_INVALID_INPUT: Mapping[str, type[InvalidInputError]] = MappingProxyType(
    {error.reason: error for error in (InvalidInputError, UnsupportedModelError, UnsupportedPrecisionError)}
)


class RpcError(CapplanError):
    """A call that failed for another reason than its input.

    Attributes:
        code: gRPC status code.
        reason: the server's reason, or the code's name when it gave none.
    """

    def __init__(self, code: grpc.StatusCode, message: str, reason: str = "") -> None:
        self.code = code
        self.reason = reason or code.name
        super().__init__(message or code.name)


class UnreachableError(RpcError):
    """No server answers at the address."""

    def __init__(self, address: str, message: str) -> None:
        self.address = address
        super().__init__(
            grpc.StatusCode.UNAVAILABLE, f"no capplan server answers at {address} ({message})", "UNREACHABLE"
        )


class DeadlineError(RpcError):
    """The server did not answer in time."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(grpc.StatusCode.DEADLINE_EXCEEDED, f"{address} did not answer within {timeout_s:g} s")


class Client:
    """Calls a capplan server over one channel; safe to share between threads.

    Attributes:
        address: ``host:port``.
        timeout_s: deadline of every call.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Opens no connection yet; the first call does.

        Args:
            address: ``host:port`` or any gRPC target.
            timeout_s: deadline of every call.
            credentials: TLS credentials; without them the channel is plain text.
        """
        self.address = address
        self.timeout_s = timeout_s
        options = (("grpc.service_config", json.dumps(_SERVICE_CONFIG)),)
        self._channel = (
            grpc.insecure_channel(address, options)
            if credentials is None
            else grpc.secure_channel(address, credentials, options)
        )
        self._planner = PlannerServiceStub(self._channel)
        self._catalog = CatalogServiceStub(self._channel)

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the channel."""
        self.close()

    def close(self) -> None:
        """Closes the channel; calls in flight are cancelled."""
        self._channel.close()

    def plan_placement(self, request: planner.PlanPlacementRequest) -> planner.PlanPlacementResponse:
        """Placements that meet a target, and why every other accelerator was ruled out."""
        return self._call(self._planner.PlanPlacement, request)

    def estimate_deployment(self, request: planner.EstimateDeploymentRequest) -> planner.EstimateDeploymentResponse:
        """Figures of one given layout."""
        return self._call(self._planner.EstimateDeployment, request)

    def describe_model(self, request: planner.DescribeModelRequest) -> planner.DescribeModelResponse:
        """Exact sizes of a model."""
        return self._call(self._planner.DescribeModel, request)

    def get_accelerator(self, request: catalog.GetAcceleratorRequest) -> catalog.GetAcceleratorResponse:
        """One accelerator."""
        return self._call(self._catalog.GetAccelerator, request)

    def list_accelerators(self, request: catalog.ListAcceleratorsRequest) -> catalog.ListAcceleratorsResponse:
        """A page of accelerators."""
        return self._call(self._catalog.ListAccelerators, request)

    def get_mig_profile(self, request: catalog.GetMigProfileRequest) -> catalog.GetMigProfileResponse:
        """One MIG profile."""
        return self._call(self._catalog.GetMigProfile, request)

    def list_mig_profiles(self, request: catalog.ListMigProfilesRequest) -> catalog.ListMigProfilesResponse:
        """A page of MIG profiles."""
        return self._call(self._catalog.ListMigProfiles, request)

    def get_model_profile(self, request: catalog.GetModelProfileRequest) -> catalog.GetModelProfileResponse:
        """One model profile."""
        return self._call(self._catalog.GetModelProfile, request)

    def list_model_profiles(self, request: catalog.ListModelProfilesRequest) -> catalog.ListModelProfilesResponse:
        """A page of model profiles."""
        return self._call(self._catalog.ListModelProfiles, request)

    def get_price(self, request: catalog.GetPriceRequest) -> catalog.GetPriceResponse:
        """One price."""
        return self._call(self._catalog.GetPrice, request)

    def list_prices(self, request: catalog.ListPricesRequest) -> catalog.ListPricesResponse:
        """A page of prices."""
        return self._call(self._catalog.ListPrices, request)

    def _call(self, method: grpc.UnaryUnaryMultiCallable[_Request, _Response], request: _Request) -> _Response:
        try:
            return method(request, timeout=self.timeout_s)
        except grpc.RpcError as error:
            # What a stub raises is the finished call as well; only gRPC's type stubs do not say so.
            raise decode_error(cast(grpc.Call, error), self.address, self.timeout_s) from None


def decode_error(call: grpc.Call, address: str, timeout_s: float) -> CapplanError:
    """The error that a failed call stands for, from its status and its ``google.rpc`` details.

    Args:
        call: the failed call, which is what a stub raises.
        address: where the call went, for the message.
        timeout_s: the call's deadline, for the message.
    """
    code, message = call.code(), call.details() or ""
    details = _Details(call)
    if code is grpc.StatusCode.INVALID_ARGUMENT and details.violations:
        return _INVALID_INPUT.get(details.reason, InvalidInputError)(details.violations)
    if code is grpc.StatusCode.NOT_FOUND and "name" in details.metadata:
        near = details.metadata.get("near", "")
        return NotFoundError(
            details.metadata.get("kind", "entry"), details.metadata["name"], near.split(", ") if near else ()
        )
    # A server that sheds load or shuts down explains itself in the details; a missing one cannot.
    if code is grpc.StatusCode.UNAVAILABLE and not details.reason:
        return UnreachableError(address, message)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and not details.reason:
        return DeadlineError(address, timeout_s)
    return RpcError(code, message, details.reason)


class _Details:
    """The parts of a rich status that capplan's servers send; empty for any other status."""

    def __init__(self, call: grpc.Call) -> None:
        self.reason = ""
        self.metadata: Mapping[str, str] = {}
        self.violations: tuple[FieldViolation, ...] = ()
        for detail in _status(call).details:
            info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(bad_request):
                self.violations = tuple(
                    FieldViolation(violation.field, violation.description) for violation in bad_request.field_violations
                )
        left_out = self.metadata.get("violations_left_out")
        if left_out:
            self.violations += (FieldViolation("request", f"{left_out} more faults that are not listed"),)


def _status(call: grpc.Call) -> status_pb2.Status:
    try:
        return rpc_status.from_call(call) or status_pb2.Status()
    except ValueError:
        # A proxy in between may rewrite the code and leave the details: they then contradict and are not to be used.
        return status_pb2.Status()
