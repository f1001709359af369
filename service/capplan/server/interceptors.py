"""What surrounds every call: outside, its observation (metrics and one log line); inside, errors become statuses."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, cast

import grpc
import grpc.aio
import structlog
from grpc_status import rpc_status

from capplan.server.dispatch import time_remaining_s
from capplan.server.error_status import status_of
from capplan.server.metrics import Metrics

REQUEST_ID_KEY: Final = "x-request-id"

_REQUEST_ID: Final = re.compile(r"[0-9A-Za-z._:/+=-]{1,128}")
_HEALTH_PREFIX: Final = "/grpc.health."

_request_id: ContextVar[str] = ContextVar("request_id", default="")

Context = grpc.aio.ServicerContext[Any, Any]
# Quoted: only the stubs of gRPC know this class as generic.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]"
Unary = Callable[[Any, Context], Awaitable[Any]]


def _write(log: Callable[..., Any], event: str, **fields: Any) -> None:
    """Writes an entry; a log that cannot be written (closed, disk full) must not fail the call it is about."""
    with contextlib.suppress(OSError, ValueError):
        log(event, **fields)


class _UnaryInterceptor(grpc.aio.ServerInterceptor):
    """Puts a function around the unary handlers and leaves streams (health watches, reflection) alone."""

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler:
        handler = await continuation(handler_call_details)
        # gRPC gives no handler for a method that does not exist, and answers UNIMPLEMENTED itself.
        if handler is None or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            # The stubs of gRPC know handlers of the synchronous server only.
            cast(Any, self.around(handler_call_details.method, cast(Unary, handler.unary_unary))),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def around(self, method: str, inner: Unary) -> Unary:
        """The handler to call in place of ``inner``."""
        raise NotImplementedError


class ObservationInterceptor(_UnaryInterceptor):
    """Counts, times and logs every unary call. Never logs what is in a request."""

    def __init__(self, metrics: Metrics, logger: structlog.typing.FilteringBoundLogger) -> None:
        """Observe into ``metrics`` and ``logger``."""
        self._metrics = metrics
        self._logger = logger

    def around(self, method: str, inner: Unary) -> Unary:
        """The handler, observed."""
        series = self._metrics.method(method)

        async def observed(request: Any, context: Context) -> Any:
            begin = time.perf_counter()
            request_id = _request_id_of(context)
            _request_id.set(request_id)
            if series is not None:
                series.started.inc()
            code = grpc.StatusCode.UNKNOWN.name
            try:
                response = await inner(request, context)
                code = _code_of(context)
            except asyncio.CancelledError:
                remaining_s = time_remaining_s(context)
                expired = remaining_s is not None and remaining_s <= 0
                code = (grpc.StatusCode.DEADLINE_EXCEEDED if expired else grpc.StatusCode.CANCELLED).name
                raise
            except grpc.aio.AbortError:
                code = _code_of(context)
                raise
            finally:
                seconds = time.perf_counter() - begin
                if series is not None:
                    series.handled[code].inc()
                    series.handling_seconds.observe(seconds)
                # Probes come every few seconds and say nothing while they succeed.
                log = self._logger.debug if method.startswith(_HEALTH_PREFIX) else self._logger.info
                duration_ms = round(seconds * 1_000, 3)
                _write(log, "rpc", method=method, code=code, duration_ms=duration_ms, request_id=request_id)
            return response

        return observed


class ErrorInterceptor(_UnaryInterceptor):
    """Ends a call that raised with the status of the error table; what is not in the table is logged whole."""

    def __init__(self, logger: structlog.typing.FilteringBoundLogger) -> None:
        """Log unexpected errors to ``logger``."""
        self._logger = logger

    def around(self, method: str, inner: Unary) -> Unary:
        """The handler, with its errors translated."""

        async def translated(request: Any, context: Context) -> Any:
            try:
                return await inner(request, context)
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                status = status_of(error, _request_id.get())
                if status.code == grpc.StatusCode.INTERNAL.value[0]:
                    _write(self._logger.exception, "unexpected error", method=method, request_id=_request_id.get())
                await context.abort_with_status(rpc_status.to_status(status))

        return translated


def _request_id_of(context: Context) -> str:
    """The caller's request id when it is a plain short one, else a new one."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return uuid.uuid4().hex


def _code_of(context: Context) -> str:
    """Name of the status code a call ends with; gRPC sets none when it ends well."""
    code = cast("grpc.StatusCode | None", context.code())
    return (code or grpc.StatusCode.OK).name
