"""A fleet's own benchmark results move the answers of a running server, and leave no trace when they are taken back."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.orm import Session

from capplan.catalog.importers.landing import forget_import, import_measurements
from capplan.catalog.importers.runs import Facts
from capplan.database import session_scope
from capplan.estimation import corrections
from capplan.server.application import Application
from capplan.v1 import placement_pb2, planner_service_pb2
from tests.server.catalogue import MODEL, make_application
from tests.server.requests import estimate_request, plan_request
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer, eventually, running

ACCELERATOR = "h100-sxm-80gb"
CONCURRENCY = 16
SLOWER = 1.4


def vllm_result(itl_ms: float) -> bytes:
    """What `vllm bench serve --save-result` writes, as far as it is read: 200 prompts of 1,000 tokens, 200 answered."""
    result = {
        "backend": "vllm",
        "model_id": MODEL,
        "request_rate": "inf",
        "max_concurrency": CONCURRENCY,
        "num_prompts": 200,
        "completed": 200,
        "total_input_tokens": 200_000,
        "total_output_tokens": 40_000,
        "mean_itl_ms": itl_ms,
        "engine_version": "0.21.0",
    }
    return json.dumps(result).encode()


def table(itl_ms: float) -> bytes:
    """The same as a plain table."""
    columns = {
        "model": MODEL,
        "gpu": ACCELERATOR,
        "engine": "vllm",
        "engine_version": "0.21.0",
        "isl": 1000,
        "osl": 200,
        "load_kind": "concurrency",
        "load_value": CONCURRENCY,
        "metric": "itl_ms",
        "statistic": "mean",
        "value": itl_ms,
    }
    return f"{','.join(columns)}\n{','.join(map(str, columns.values()))}\n".encode()


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    application = make_application()
    yield application
    application.close()


@pytest.fixture(scope="module")
def server(application: Application) -> Iterator[RunningServer]:
    with running(application, catalog_refresh_s=0.05) as server:
        yield server


def estimate(server: RunningServer, **changes: str) -> placement_pb2.ReplicaPerformance:
    request = estimate_request()
    request.concurrency = CONCURRENCY
    request.model.name = changes.get("model", MODEL)
    request.deployment.accelerator = changes.get("accelerator", ACCELERATOR)
    return server.planner.EstimateDeployment(request, timeout=CALL_TIMEOUT_S).performance


def plan(server: RunningServer, accelerator: str) -> planner_service_pb2.PlanPlacementResponse:
    request = plan_request()
    request.constraints.allowed_accelerators.append(accelerator)
    response = server.planner.PlanPlacement(request, timeout=CALL_TIMEOUT_S)
    response.ClearField("catalog_revision")
    return response


Answers = tuple[list[placement_pb2.ReplicaPerformance], list[planner_service_pb2.PlanPlacementResponse]]


def answers(server: RunningServer) -> Answers:
    """Estimates, the measured configuration's first, and plans, that of the measured device first."""
    estimates = [
        estimate(server),
        *(estimate(server, accelerator=other) for other in ("h200-sxm-141gb", "a100-sxm4-80gb", "mi300x-192gb")),
        estimate(server, model="Qwen/Qwen3-8B"),
    ]
    return estimates, [plan(server, accelerator) for accelerator in (ACCELERATOR, "mi300x-192gb")]


def changed(server: RunningServer, change: Callable[[Session], int]) -> int:
    """The outcome of a change of the database, once the server has taken it up."""
    engine = server.application._engine
    assert engine is not None
    before = server.sample("capplan_catalog_revision")
    with session_scope(engine) as session:
        outcome = change(session)
    eventually(lambda: server.sample("capplan_catalog_revision") > before)
    return outcome


def imported(content: bytes, format_: str) -> Callable[[Session], int]:
    """Imports a result, and returns the number of the import."""
    beside = Facts(model=MODEL, accelerator=ACCELERATOR, weights="bf16", tensor_parallel=1)
    now = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
    return lambda session: import_measurements(session, content, format_, "run", beside, now).import_id


@pytest.mark.parametrize(("format_", "file"), [("vllm", vllm_result), ("csv", table)])
def test_an_imported_result_moves_answers_until_it_is_forgotten(
    server: RunningServer, format_: str, file: Callable[[float], bytes]
) -> None:
    before = answers(server)
    measured_ms = SLOWER * before[0][0].itl_ms.value
    number = changed(server, imported(file(measured_ms), format_))
    during = answers(server)

    own_before, own = before[0][0], during[0][0]
    assert own.itl_ms.value == pytest.approx(measured_ms, rel=0.1)
    assert own.provenance == placement_pb2.PROVENANCE_MEASURED != own_before.provenance
    assert own.engine_versions == "vllm 0.21.0"
    assert own.itl_ms.upper / own.itl_ms.lower < 0.8 * own_before.itl_ms.upper / own_before.itl_ms.lower
    assert own.itl_ms.lower < measured_ms < own.itl_ms.upper

    # Others share the way of measuring, and some the engine and the design: a little of 1.4, less than a tenth.
    for other, other_before in zip(during[0][1:4], before[0][1:4], strict=True):
        assert other.itl_ms.value == pytest.approx(other_before.itl_ms.value, rel=0.1)
        assert other.provenance == other_before.provenance

    # A slower replica is planned for where it was measured; elsewhere as good as nothing changes.
    rates_before, rates = ([p.placements[0].capacity.output_tokens_per_s.value for p in a[1]] for a in (before, during))
    assert rates[0] < 0.97 * rates_before[0]
    assert rates[1] == pytest.approx(rates_before[1], rel=0.05)

    changed(server, lambda session: forget_import(session, number))
    assert answers(server) == before


def test_no_call_waits_for_the_regression(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is solved when a catalogue is taken up: were it solved in a call, that call would fail."""

    def solve(*_: object) -> None:
        raise AssertionError("solved in a call")

    changed(server, imported(vllm_result(9.0), "vllm"))
    monkeypatch.setattr(corrections, "Kriging", solve)
    assert estimate(server).provenance == placement_pb2.PROVENANCE_MEASURED
    assert plan(server, ACCELERATOR).placements
