"""The running server: what it listens on, how it starts, keeps its catalogue fresh, drains and stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from capplan.errors import CapplanError
from capplan.server.answer_cache import AnswerCache
from capplan.server.application import Application
from capplan.server.dispatch import Dispatcher, generic_handlers
from capplan.server.errors import AddressInUseError
from capplan.server.health_service import HealthService
from capplan.server.interceptors import ErrorInterceptor, ObservationInterceptor
from capplan.server.logs import configure_logs, server_logger
from capplan.server.methods import SERVICES, Method, methods_of
from capplan.server.metrics import Metrics
from capplan.server.metrics_server import MetricsServer
from capplan.server.work_pool import WorkPool
from capplan.settings import Settings

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_MIN_PING_INTERVAL_MS: Final = 60_000
"""Clients may ping an idle connection once a minute; gRPC's own default hangs up on more than one in five."""

_SWITCH_INTERVAL_S: Final = 0.0005
"""How long a planning thread keeps the interpreter when the event loop wants it.

With the default of 5 ms, and both planning threads busy, the 99th percentile of a cached call was 60 to 70 ms on two
cores; with this it was 20 to 23 ms, at the same rate of plans (three interleaved runs of 300 calls).
"""

_SERVICE_NAMES: Final = tuple(service.full_name for service in SERVICES)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a server listens: ``host:port`` of calls and of metrics."""

    grpc: str
    metrics: str


class Server:
    """One gRPC server over one application. Starts once, stops once."""

    def __init__(self, application: Application, settings: Settings) -> None:
        """Put the parts together; listens to nothing yet."""
        self._application = application
        self._settings = settings
        self._logger = server_logger()
        self._metrics = Metrics(lambda: application.messages)
        self._planning = WorkPool(
            "planning",
            workers=settings.planning_workers,
            queued=settings.planning_queue,
            deadline_reserve_s=settings.deadline_reserve_ms / 1_000,
        )
        self._reading = WorkPool(
            "reading",
            workers=settings.reading_workers,
            queued=settings.reading_queue,
            deadline_reserve_s=settings.deadline_reserve_ms / 1_000,
        )
        self._health = HealthService(_SERVICE_NAMES)
        self._grpc: grpc.aio.Server | None = None
        self._metrics_server: MetricsServer | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> Addresses:
        """Listen, and say where.

        Calls are taken once what estimates rest on is worked out: a server that says it is ready must not keep its
        first callers waiting for that, about a second, while others could answer them.

        Raises:
            AddressInUseError: an address cannot be had.
        """
        settings = self._settings
        server = self._build()
        address = _join(settings.host, settings.port)
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise AddressInUseError("gRPC calls", address) from error
        self._metrics_server = MetricsServer(self._metrics.registry, settings.metrics_host, settings.metrics_port)
        began = time.monotonic()
        await self._planning.run(self._application.warm, None)
        warmed_s = time.monotonic() - began
        await self._health.start_serving()
        await server.start()
        self._grpc = server
        if settings.catalog_refresh_s:
            self._refreshing = asyncio.create_task(self._keep_fresh())
        addresses = Addresses(
            grpc=_join(settings.host, port), metrics=_join(settings.metrics_host, self._metrics_server.port)
        )
        estimators = self._application.estimators
        for name, why in estimators.unavailable.items():
            self._logger.warning("estimator not available", estimator=name, error=why)
        self._logger.info(
            "listening",
            address=addresses.grpc,
            metrics_address=addresses.metrics,
            catalog_revision=self._application.revision,
            estimators=sorted(estimators.available),
            warmed_s=round(warmed_s, 3),
        )
        return addresses

    def _build(self) -> grpc.aio.Server:
        settings = self._settings
        server = grpc.aio.server(
            interceptors=(ObservationInterceptor(self._metrics, self._logger), ErrorInterceptor(self._logger)),
            options=(
                ("grpc.max_receive_message_length", settings.max_receive_message_bytes),
                ("grpc.max_connection_age_ms", int(settings.max_connection_age_s * 1_000)),
                ("grpc.max_connection_age_grace_ms", int(settings.stop_grace_s * 1_000) or 1),
                ("grpc.http2.min_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
                # A second process on the same port is a mistake to be told of, not a share of the calls.
                ("grpc.so_reuseport", 0),
            ),
            maximum_concurrent_rpcs=settings.max_concurrent_rpcs,
        )
        dispatcher = Dispatcher(
            revision=lambda: self._application.revision,
            planning=self._planning,
            reading=self._reading,
            cache=AnswerCache(settings.answer_cache_bytes),
            observer=self._metrics,
        )
        methods = (self._observed(method) for method in methods_of(self._application))
        server.add_generic_rpc_handlers(generic_handlers(dispatcher, methods))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if settings.reflection:
            names = (*_SERVICE_NAMES, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        return server

    def _observed(self, method: Method) -> Method:
        if method.name != "PlanPlacement":
            return method
        return replace(method, answer=self._metrics.observed(method.answer))

    async def _keep_fresh(self) -> None:
        """Looks for newer revisions until cancelled; what goes wrong is told and tried again."""
        while True:
            await asyncio.sleep(self._settings.catalog_refresh_s)
            try:
                if await asyncio.to_thread(self._application.refresh):
                    self._logger.info("catalogue refreshed", catalog_revision=self._application.revision)
            except CapplanError as error:
                self._metrics.refresh_failed()
                self._logger.warning("catalogue not refreshed", reason=error.reason, error=str(error))
            except Exception:
                self._metrics.refresh_failed()
                self._logger.exception("catalogue not refreshed")

    async def drain(self, hurry: asyncio.Event) -> None:
        """Stop in good order: say NOT_SERVING, go on for the drain delay, let calls in progress end.

        Args:
            hurry: when set, waiting ends and calls in progress are cut off.
        """
        await self._health.enter_graceful_shutdown()
        self._logger.info("draining", delay_s=self._settings.drain_delay_s, grace_s=self._settings.stop_grace_s)
        await _wait(hurry, self._settings.drain_delay_s)
        assert self._grpc is not None
        stopping = asyncio.create_task(self._grpc.stop(None if hurry.is_set() else self._settings.stop_grace_s))
        hurrying = asyncio.create_task(hurry.wait())
        await asyncio.wait({stopping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await self._grpc.stop(None)
            await stopping
        hurrying.cancel()

    async def close(self) -> None:
        """Stop at once and let go of all but the application; after :meth:`drain` there is nothing to cut off."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refreshing
        if self._grpc is not None:
            await self._grpc.stop(None)
        self._planning.close()
        self._reading.close()
        if self._metrics_server is not None:
            await asyncio.to_thread(self._metrics_server.close)
        self._logger.info("stopped")


async def serve(
    application: Application, settings: Settings, on_started: Callable[[Addresses], Any] | None = None
) -> None:
    """Serve until a stop signal, then drain; a second signal hurries.

    Args:
        application: what to serve.
        settings: how.
        on_started: told of the addresses once calls are taken.

    Raises:
        AddressInUseError: an address cannot be had.
    """
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    server = Server(application, settings)
    try:
        addresses = await server.start()
        if on_started is not None:
            on_started(addresses)
        await stop.wait()
        await server.drain(hurry)
    finally:
        await server.close()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def run(settings: Settings, on_started: Callable[[Addresses], Any] | None = None) -> None:
    """Open the catalogue and serve until a stop signal. Takes over the process's logs and signals.

    Raises:
        CapplanError: the database or an address cannot be used; the message says why.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    configure_logs(settings.log_format, settings.log_level)
    application = Application.from_settings(settings)
    try:
        asyncio.run(serve(application, settings, on_started))
    finally:
        application.close()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
