"""Every error leads to one status: its code, its details, and a size that fits into trailers."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from hypothesis import example, given
from hypothesis import strategies as st

from capplan.catalog.snapshot import CatalogBusyError
from capplan.errors import (
    CapplanError,
    FieldViolation,
    InvalidInputError,
    NotFoundError,
    UnsupportedModelError,
    UnsupportedPrecisionError,
)
from capplan.server.error_status import status_of
from capplan.server.errors import (
    AddressInUseError,
    DeadlineTooNearError,
    OverloadedError,
    ShuttingDownError,
    UndecodableRequestError,
)

TRAILER_BYTES = 8_192
"""What gRPC's own clients accept of metadata before they may drop it (``grpc.max_metadata_size``)."""


def unpack(status: status_pb2.Status, kind: type[Message]) -> Message | None:
    """The detail of a type."""
    for packed in status.details:
        message = kind()
        if packed.Unpack(message):
            return message
    return None


def info_of(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    found = [packed for packed in status.details if packed.TypeName() == "google.rpc.ErrorInfo"]
    assert len(found) == 1
    info = unpack(status, error_details_pb2.ErrorInfo)
    assert isinstance(info, error_details_pb2.ErrorInfo)
    return info


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (InvalidInputError.single("a", "b"), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"),
        (UnsupportedModelError.single("a", "b"), grpc.StatusCode.INVALID_ARGUMENT, "MODEL_UNSUPPORTED"),
        (UnsupportedPrecisionError.single("a", "b"), grpc.StatusCode.INVALID_ARGUMENT, "PRECISION_UNSUPPORTED"),
        (UndecodableRequestError("x.Y"), grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_UNDECODABLE"),
        (NotFoundError("model", "x"), grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        (OverloadedError("planning", 3, 0.5), grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED"),
        (DeadlineTooNearError(0.01), grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_TOO_NEAR"),
        (ShuttingDownError(), grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"),
        (CatalogBusyError("busy"), grpc.StatusCode.UNAVAILABLE, "CATALOG_BUSY"),
        (AddressInUseError("x", "y"), grpc.StatusCode.FAILED_PRECONDITION, "ADDRESS_UNAVAILABLE"),
        (CapplanError("x"), grpc.StatusCode.FAILED_PRECONDITION, "CAPPLAN_ERROR"),
        (RuntimeError("secret"), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_its_code_and_its_reason(error: Exception, code: grpc.StatusCode, reason: str) -> None:
    status = status_of(error, "id")
    assert status.code == code.value[0]
    info = info_of(status)
    assert (info.reason, info.domain) == (reason, "capplan")
    assert status.message


def test_every_fault_of_the_input_is_a_field_violation() -> None:
    error = InvalidInputError((FieldViolation("workload.input_tokens", "low"), FieldViolation("target", "absent")))
    status = status_of(error, "id")
    assert status.message == "workload.input_tokens: low; target: absent"
    bad = unpack(status, error_details_pb2.BadRequest)
    assert isinstance(bad, error_details_pb2.BadRequest)
    assert [(v.field, v.description) for v in bad.field_violations] == [
        ("workload.input_tokens", "low"),
        ("target", "absent"),
    ]


def test_a_missing_entry_comes_with_near_names() -> None:
    status = status_of(NotFoundError("accelerator", "h1000", ("h100-sxm-80gb", "h200-sxm-141gb")), "id")
    assert dict(info_of(status).metadata) == {
        "kind": "accelerator",
        "name": "h1000",
        "near": "h100-sxm-80gb, h200-sxm-141gb",
    }
    assert "h100-sxm-80gb" in status.message
    resource = unpack(status, error_details_pb2.ResourceInfo)
    assert isinstance(resource, error_details_pb2.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("accelerator", "h1000")


def test_an_overloaded_server_says_when_to_come_back() -> None:
    retry = unpack(status_of(OverloadedError("planning", 3, 0.25), "id"), error_details_pb2.RetryInfo)
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.ToMilliseconds() == 250


def test_an_unexpected_error_leaks_nothing_but_the_request_id() -> None:
    status = status_of(ValueError("password=hunter2"), "request-17")
    assert b"hunter2" not in status.SerializeToString()
    assert b"ValueError" not in status.SerializeToString()
    request = unpack(status, error_details_pb2.RequestInfo)
    assert isinstance(request, error_details_pb2.RequestInfo)
    assert request.request_id == "request-17"


ANY_TEXT = st.text(max_size=2_000) | st.sampled_from(("x" * 50_000, "\u20ac" * 20_000, "\ud800" * 500))


def trailer_bytes(status: status_pb2.Status) -> int:
    """What the status takes in trailers: the message percent-encoded, the details in base64."""
    message = status.message.encode()
    return len(message) + 2 * sum(byte < 0x20 or byte > 0x7E for byte in message) + status.ByteSize() * 4 // 3


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=30))
@example([("x" * 2_000, "\u20ac" * 2_000)] * 30)
@example([("x", "\n" * 100)] * 30)
def test_any_number_of_faults_of_any_length_fits_into_trailers(faults: list[tuple[str, str]]) -> None:
    status = status_of(InvalidInputError(FieldViolation(*fault) for fault in faults), "id")
    assert trailer_bytes(status) < TRAILER_BYTES
    bad = unpack(status, error_details_pb2.BadRequest)
    assert isinstance(bad, error_details_pb2.BadRequest)
    left_out = int(info_of(status).metadata.get("violations_left_out", "0"))
    assert len(bad.field_violations) >= 1
    assert len(bad.field_violations) + left_out == len(faults)


@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=10))
def test_any_missing_name_fits_into_trailers(name: str, near: list[str]) -> None:
    assert trailer_bytes(status_of(NotFoundError("model", name, near), "id")) < TRAILER_BYTES
