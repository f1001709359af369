"""Who answers a command: a server over gRPC, or the application in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import typer

from capplan.v1 import catalog_service_pb2 as catalog
from capplan.v1 import planner_service_pb2 as planner

DEFAULT_ADDRESS = "127.0.0.1:50051"


class Backend(Protocol):
    """Every call of the contract; a :class:`capplan.client.Client` and an ``Application`` both have them."""

    def plan_placement(self, request: planner.PlanPlacementRequest, /) -> planner.PlanPlacementResponse:
        """Placements that meet a target."""

    def estimate_deployment(self, request: planner.EstimateDeploymentRequest, /) -> planner.EstimateDeploymentResponse:
        """Figures of one given layout."""

    def describe_model(self, request: planner.DescribeModelRequest, /) -> planner.DescribeModelResponse:
        """Exact sizes of a model."""

    def get_accelerator(self, request: catalog.GetAcceleratorRequest, /) -> catalog.GetAcceleratorResponse:
        """One accelerator."""

    def list_accelerators(self, request: catalog.ListAcceleratorsRequest, /) -> catalog.ListAcceleratorsResponse:
        """A page of accelerators."""

    def get_mig_profile(self, request: catalog.GetMigProfileRequest, /) -> catalog.GetMigProfileResponse:
        """One MIG profile."""

    def list_mig_profiles(self, request: catalog.ListMigProfilesRequest, /) -> catalog.ListMigProfilesResponse:
        """A page of MIG profiles."""

    def get_model_profile(self, request: catalog.GetModelProfileRequest, /) -> catalog.GetModelProfileResponse:
        """One model profile."""

    def list_model_profiles(self, request: catalog.ListModelProfilesRequest, /) -> catalog.ListModelProfilesResponse:
        """A page of model profiles."""

    def get_price(self, request: catalog.GetPriceRequest, /) -> catalog.GetPriceResponse:
        """One price."""

    def list_prices(self, request: catalog.ListPricesRequest, /) -> catalog.ListPricesResponse:
        """A page of prices."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a command takes its answer from.

    Attributes:
        local: answer in this process.
        address: server to ask otherwise.
        timeout_s: deadline of a call to the server.
    """

    local: bool
    address: str
    timeout_s: float


BackendFactory = Callable[[Connection], AbstractContextManager[Backend]]


def connect(context: typer.Context, connection: Connection) -> AbstractContextManager[Backend]:
    """The backend of a command; the context's object replaces the way it is opened."""
    factory: BackendFactory = context.obj or open_backend
    return factory(connection)


@contextmanager
def open_backend(connection: Connection) -> Iterator[Backend]:
    """Opens what the connection names. A server is first called by the first question."""
    # Imported here: each costs a fraction of a second, and no command needs both.
    if connection.local:
        from capplan.cli.local import open_application

        with open_application() as application:
            yield application
    else:
        from capplan.client import Client

        with Client(connection.address, timeout_s=connection.timeout_s) as client:
            yield client
