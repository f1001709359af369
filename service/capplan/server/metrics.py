"""What the service tells Prometheus. Labels come from closed sets only, and every series is there from the start."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, Info, ProcessCollector

from capplan import __version__
from capplan.server.catalog_messages import CatalogMessages
from capplan.server.methods import SERVICES
from capplan.v1 import planner_service_pb2

UNARY: Final = "unary"
CODES: Final = tuple(code.name for code in grpc.StatusCode)

_CALL_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CANDIDATE_BUCKETS: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)

Plan = Callable[[Any], Message]


@dataclass(frozen=True, slots=True)
class MethodSeries:
    """The series of one method, looked up once.

    Attributes:
        started: calls begun.
        handled: calls ended, by code.
        handling_seconds: how long they took.
    """

    started: Counter
    handled: dict[str, Counter]
    handling_seconds: Histogram


class Metrics:
    """Every metric, in a registry of its own."""

    def __init__(self, messages: Callable[[], CatalogMessages]) -> None:
        """Make the metrics; those of the catalogue are read from ``messages`` when they are scraped."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = Info("capplan_build", "Version that runs.", registry=self.registry)
        build.info({"version": __version__, "python_version": platform.python_version()})
        self._methods = self._method_series()
        self._plans = Counter(
            "capplan_plans",
            "Placement questions worked out, by outcome; answers from the cache are not counted.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("feasible", "infeasible", "error"):
            self._plans.labels(outcome)
        self._planning_seconds = Histogram(
            "capplan_planning_seconds",
            "Time to work out one placement question, waiting left out.",
            buckets=_CALL_BUCKETS_S,
            registry=self.registry,
        )
        self._candidates = Histogram(
            "capplan_candidates_evaluated",
            "Configurations evaluated for one placement question.",
            buckets=_CANDIDATE_BUCKETS,
            registry=self.registry,
        )
        lookups = Counter(
            "capplan_answer_cache_lookups", "Looks into the cache of answers.", ["result"], registry=self.registry
        )
        self._cache_lookups = {hit: lookups.labels("hit" if hit else "miss") for hit in (True, False)}
        self._refresh_failures = Counter(
            "capplan_catalog_refresh_failures",
            "Attempts to look for a newer catalogue that failed; the one held goes on answering.",
            registry=self.registry,
        )
        self._catalog_gauges(messages)

    def _method_series(self) -> dict[str, MethodSeries]:
        labels = ["grpc_type", "grpc_service", "grpc_method"]
        started = Counter("grpc_server_started", "Calls begun on the server.", labels, registry=self.registry)
        handled = Counter(
            "grpc_server_handled",
            "Calls ended on the server, whatever their code.",
            [*labels, "grpc_code"],
            registry=self.registry,
        )
        seconds = Histogram(
            "grpc_server_handling_seconds",
            "Time from a call's begin to its end on the server.",
            labels,
            buckets=_CALL_BUCKETS_S,
            registry=self.registry,
        )
        return {
            f"/{service}/{method}": MethodSeries(
                started=started.labels(UNARY, service, method),
                handled={code: handled.labels(UNARY, service, method, code) for code in CODES},
                handling_seconds=seconds.labels(UNARY, service, method),
            )
            for service, method in _unary_methods()
        }

    def _catalog_gauges(self, messages: Callable[[], CatalogMessages]) -> None:
        revision = Gauge(
            "capplan_catalog_revision", "Revision of the catalogue that answers are given from.", registry=self.registry
        )
        revision.set_function(lambda: messages().snapshot.revision)
        updated = Gauge(
            "capplan_catalog_updated_timestamp_seconds", "When that revision was made.", registry=self.registry
        )
        updated.set_function(lambda: messages().snapshot.updated_at.timestamp())
        rows = Gauge("capplan_catalog_rows", "Rows of the catalogue, by table.", ["table"], registry=self.registry)
        rows.labels("accelerators").set_function(lambda: len(messages().accelerators))
        rows.labels("mig_profiles").set_function(lambda: len(messages().mig_profiles))
        rows.labels("model_profiles").set_function(lambda: len(messages().model_profiles))
        rows.labels("prices").set_function(lambda: len(messages().prices))

    def method(self, full_name: str) -> MethodSeries | None:
        """The series of a method; ``None`` for one that is not counted (streams, unknown names)."""
        return self._methods.get(full_name)

    def looked_up(self, *, hit: bool) -> None:
        """A look into the cache of answers."""
        self._cache_lookups[hit].inc()

    def refresh_failed(self) -> None:
        """An attempt to look for a newer catalogue failed."""
        self._refresh_failures.inc()

    def observed(self, plan: Plan) -> Plan:
        """The same planning function, counted and timed."""

        def observed_plan(request: Any) -> Message:
            begin = time.perf_counter()
            outcome = "error"
            try:
                response = plan(request)
                assert isinstance(response, planner_service_pb2.PlanPlacementResponse)
                outcome = "feasible" if response.placements else "infeasible"
                self._candidates.observe(response.evaluated_candidate_count)
            finally:
                self._planning_seconds.observe(time.perf_counter() - begin)
                self._plans.labels(outcome).inc()
            return response

        return observed_plan


def _unary_methods() -> Iterable[tuple[str, str]]:
    health = health_pb2.DESCRIPTOR.services_by_name["Health"]
    for service in (*SERVICES, health):
        for method in service.methods:
            if not method.server_streaming and not method.client_streaming:
                yield service.full_name, method.name
