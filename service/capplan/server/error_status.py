"""Exception to ``google.rpc.Status``: the one table, and what each status carries.

Every status has one ``ErrorInfo`` (a stable reason in the domain ``capplan``), and where they apply ``BadRequest``,
``ResourceInfo`` and ``RetryInfo``. Texts are cut, because a status travels in HTTP/2 trailers, which clients take only
to 8 KiB; what was left out is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from capplan.catalog.snapshot import CatalogBusyError
from capplan.errors import CapplanError, FieldViolation, InvalidInputError, NotFoundError
from capplan.server.errors import DeadlineTooNearError, OverloadedError, ShuttingDownError, UndecodableRequestError

DOMAIN: Final = "capplan"

MAX_MESSAGE_BYTES: Final = 600
MAX_VIOLATIONS: Final = 12
MAX_VIOLATIONS_BYTES: Final = 2_400
MAX_FIELD_BYTES: Final = 160
MAX_DESCRIPTION_BYTES: Final = 400
MAX_NAME_BYTES: Final = 256

Details = Iterable[Message]


def status_of(error: Exception, request_id: str) -> status_pb2.Status:
    """The status a client gets for an exception.

    Args:
        error: what a call raised.
        request_id: identifies the call in the log; given to the client when there is nothing else to tell.
    """
    for kind, code, details in _TABLE:
        if isinstance(error, kind):
            return _status(code, str(error), details(error))
    return _status(
        code_pb2.INTERNAL,
        "internal error; the server's log has it under the request id",
        (_info("INTERNAL"), error_details_pb2.RequestInfo(request_id=request_id)),
    )


def _status(code: int, message: str, details: Details) -> status_pb2.Status:
    packed = []
    for detail in details:
        wrapped = any_pb2.Any()
        wrapped.Pack(detail)
        packed.append(wrapped)
    return status_pb2.Status(code=code, message=_cut(message, MAX_MESSAGE_BYTES), details=packed)


def _info(reason: str, **metadata: str) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)


def _reason_only(error: CapplanError) -> Details:
    return (_info(error.reason),)


def _invalid_input(error: InvalidInputError) -> Details:
    kept: list[FieldViolation] = []
    size = 0
    for violation in error.violations[:MAX_VIOLATIONS]:
        cut = FieldViolation(_cut(violation.field, MAX_FIELD_BYTES), _cut(violation.description, MAX_DESCRIPTION_BYTES))
        size += len(cut.field.encode()) + len(cut.description.encode())
        if size > MAX_VIOLATIONS_BYTES and kept:
            break
        kept.append(cut)
    left_out = len(error.violations) - len(kept)
    more = {"violations_left_out": str(left_out)} if left_out else {}
    return (
        _info(error.reason, **more),
        error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(field=violation.field, description=violation.description)
                for violation in kept
            ]
        ),
    )


def _not_found(error: NotFoundError) -> Details:
    name = _cut(error.name, MAX_NAME_BYTES)
    near = ", ".join(_cut(candidate, MAX_NAME_BYTES) for candidate in error.near[:MAX_VIOLATIONS])
    return (
        _info(error.reason, kind=error.kind, name=name, near=_cut(near, MAX_MESSAGE_BYTES)),
        error_details_pb2.ResourceInfo(resource_type=error.kind, resource_name=name, description=_cut(str(error), 400)),
    )


def _overloaded(error: OverloadedError) -> Details:
    delay = Duration()
    delay.FromMilliseconds(round(error.retry_delay_s * 1_000))
    return (_info(error.reason), error_details_pb2.RetryInfo(retry_delay=delay))


_TABLE: Final[tuple[tuple[type[Exception], int, Callable[[Any], Details]], ...]] = (
    (InvalidInputError, code_pb2.INVALID_ARGUMENT, _invalid_input),
    (UndecodableRequestError, code_pb2.INVALID_ARGUMENT, _reason_only),
    (NotFoundError, code_pb2.NOT_FOUND, _not_found),
    (OverloadedError, code_pb2.RESOURCE_EXHAUSTED, _overloaded),
    (DeadlineTooNearError, code_pb2.DEADLINE_EXCEEDED, _reason_only),
    (ShuttingDownError, code_pb2.UNAVAILABLE, _reason_only),
    (CatalogBusyError, code_pb2.UNAVAILABLE, _reason_only),
    # Whatever else is said to a caller in a typed way is about the state of the system, not about the request.
    (CapplanError, code_pb2.FAILED_PRECONDITION, _reason_only),
)


def _cut(text: str, most_bytes: int) -> str:
    """At most so many bytes of UTF-8; ends in an ellipsis when something is left out."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= most_bytes:
        return encoded.decode()
    return encoded[: most_bytes - 3].decode(errors="ignore") + "…"
