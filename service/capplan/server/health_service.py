"""The standard health service for a fixed set of services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import grpc.aio
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2

_messages: Any = health_pb2  # whose stubs lack the messages of ``List``

WHOLE_SERVER: Final = ""
"""Name under which the standard keeps the status of the whole server."""


class HealthService(health.aio.HealthServicer):
    """As gRPC's own, and with the protocol's ``List``, which that leaves out."""

    def __init__(self, services: Iterable[str]) -> None:
        """Know the whole server and these services."""
        super().__init__()
        self._names = (WHOLE_SERVER, *services)

    async def start_serving(self) -> None:
        """Say SERVING for everything."""
        for name in self._names:
            await self.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def List(self, request: Message, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        """The status of everything: a ``HealthListResponse`` for a ``HealthListRequest``."""
        statuses = {
            name: await self.Check(health_pb2.HealthCheckRequest(service=name), context) for name in self._names
        }
        response: Message = _messages.HealthListResponse(statuses=statuses)
        return response
