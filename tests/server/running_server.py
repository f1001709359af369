"""A real server on real sockets, on an event loop in a thread of its own, so that tests call it like any client."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_status import rpc_status
from prometheus_client.parser import text_string_to_metric_families

from capplan.server.application import Application
from capplan.server.runtime import Addresses, Server
from capplan.settings import Settings
from capplan.v1 import catalog_service_pb2_grpc, planner_service_pb2_grpc

CALL_TIMEOUT_S = 30.0
LIMIT_S = 20.0
_START_TIMEOUT_S = 30.0


class RunningServer:
    """One server and a channel to it."""

    def __init__(self, application: Application, settings: Settings) -> None:
        self.application = application
        self.settings = settings
        self.hurry: asyncio.Event | None = None
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="test-server")
        self._thread.start()
        assert self._started.wait(_START_TIMEOUT_S)
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        self.channel = grpc.insecure_channel(self.addresses.grpc)
        self.planner = planner_service_pb2_grpc.PlannerServiceStub(self.channel)
        self.catalog = catalog_service_pb2_grpc.CatalogServiceStub(self.channel)
        self.health: Any = health_pb2_grpc.HealthStub(self.channel)

    addresses: Addresses

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self.hurry = asyncio.Event(), asyncio.Event()
        self._server = Server(self.application, self.settings)
        try:
            self.addresses = await self._server.start()
        except BaseException as failure:
            self._failure = failure
            await self._server.close()
            return
        finally:
            self._started.set()
        await self._stopping.wait()
        await self._server.close()

    def start_drain(self) -> Any:
        """Begin to drain; the future that is returned ends with it."""
        assert self._server is not None
        assert self._loop is not None
        assert self.hurry is not None
        return asyncio.run_coroutine_threadsafe(self._server.drain(self.hurry), self._loop)

    def set_hurry(self) -> None:
        """What a second stop signal does."""
        assert self._loop is not None
        assert self.hurry is not None
        self._loop.call_soon_threadsafe(self.hurry.set)

    def call_bytes(self, method: str, request: bytes, **options: Any) -> bytes:
        """A unary call with the bytes as they are."""
        call: Any = self.channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        answer: bytes = call(request, timeout=CALL_TIMEOUT_S, **options)
        return answer

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample, scraped over HTTP."""
        with urllib.request.urlopen(f"http://{self.addresses.metrics}/metrics", timeout=CALL_TIMEOUT_S) as answer:
            text = answer.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def sample(self, name: str, **labels: str) -> float:
        """One sample."""
        return self.metrics()[name, frozenset(labels.items())]

    def close(self) -> None:
        self.channel.close()
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that another thread is about to bring about.

    A refused call is counted and logged after its status is on the way, so a client may look too early.
    """
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def server_settings(**changes: Any) -> Settings:
    """Settings of a server on free ports that does not wait."""
    defaults = {"port": 0, "metrics_port": 0, "drain_delay_s": 0.0, "stop_grace_s": 10.0, "catalog_refresh_s": 0.0}
    return Settings(**{**defaults, **changes})


@contextmanager
def running(application: Application, **changes: Any) -> Iterator[RunningServer]:
    """A server for the length of a block."""
    server = RunningServer(application, server_settings(**changes))
    try:
        yield server
    finally:
        server.close()


def details_of(error: Any) -> dict[type[Message], Any]:
    """The details of a status by their type; a type occurs once at most."""
    status = rpc_status.from_call(error)
    assert status is not None, "the status carries no details"
    known = {
        kind.DESCRIPTOR.full_name: kind
        for kind in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.BadRequest,
            error_details_pb2.ResourceInfo,
            error_details_pb2.RetryInfo,
            error_details_pb2.RequestInfo,
        )
    }
    details: dict[type[Message], Any] = {}
    for packed in status.details:
        kind = known[packed.TypeName()]
        message = kind()
        packed.Unpack(message)
        assert kind not in details
        details[kind] = message
    return details
