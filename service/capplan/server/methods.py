"""The contract's methods, read from its descriptors: which message each takes and which application method answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from capplan.server.errors import UndecodableRequestError
from capplan.v1 import catalog_service_pb2, planner_service_pb2

PLANNER: Final[ServiceDescriptor] = planner_service_pb2.DESCRIPTOR.services_by_name["PlannerService"]
CATALOG: Final[ServiceDescriptor] = catalog_service_pb2.DESCRIPTOR.services_by_name["CatalogService"]
SERVICES: Final = (PLANNER, CATALOG)


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the contract.

    Attributes:
        service: full name of its service.
        name: its own name.
        request_type: the message it takes.
        answer: the application method that answers it.
        plans: whether answering takes the planner or estimator, not only a look into the catalogue.
    """

    service: str
    name: str
    request_type: type[Message]
    answer: Callable[[Any], Message]
    plans: bool

    @property
    def full_name(self) -> str:
        """Name as it travels: ``/package.Service/Method``."""
        return f"/{self.service}/{self.name}"

    def answer_bytes(self, request: bytes) -> bytes:
        """Decodes a request, answers it and encodes the answer, the same answer always to the same bytes.

        Raises:
            UndecodableRequestError: the bytes are no message of the right type.
            CapplanError: what the application raises.
        """
        try:
            message = self.request_type.FromString(request)
        except DecodeError:
            raise UndecodableRequestError(self.request_type.DESCRIPTOR.full_name) from None
        return self.answer(message).SerializeToString(deterministic=True)


def methods_of(application: object) -> tuple[Method, ...]:
    """Every method of the contract, answered by the application's method of the same name in snake case.

    Raises:
        AttributeError: the application lacks one.
    """
    return tuple(_methods(application))


def _methods(application: object) -> Iterator[Method]:
    for service in SERVICES:
        for method in service.methods:
            yield Method(
                service=service.full_name,
                name=method.name,
                request_type=message_factory.GetMessageClass(method.input_type),
                answer=getattr(application, re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()),
                plans=service is PLANNER,
            )
