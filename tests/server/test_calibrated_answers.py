"""Plans and estimates rest on the active calibration, and a new one is taken up with the catalogue's next revision."""

from __future__ import annotations

import datetime

import pytest

from capplan.catalog.calibrations import Calibration, store_calibration
from capplan.catalog.paging import Paginator
from capplan.catalog.snapshot import load_snapshot
from capplan.database import open_engine, session_scope
from capplan.estimation.coefficients import Coefficients
from capplan.server.application import Application
from capplan.v1 import placement_pb2
from tests.server.catalogue import prepare
from tests.server.requests import estimate_request, plan_request

# Cache and weight reads at half the bandwidth's usual share, launches of a layer at ten times their usual time.
SLOW = Coefficients({"weight_read": 0.5, "kv_read": 0.5, "layer_s": 300e-6}, frozenset({"hopper"}), frozenset({"vllm"}))


@pytest.fixture
def application():
    engine = open_engine("sqlite://")
    prepare(engine)
    with session_scope(engine) as session:
        snapshot = load_snapshot(session)
    application = Application(snapshot, Paginator(None), engine)
    yield application, engine
    application.close()


def calibrate(engine, coefficients: Coefficients) -> None:
    with session_scope(engine) as session:
        store_calibration(session, Calibration(coefficients, {}), datetime.datetime.now(datetime.UTC))


def test_an_estimate_follows_the_coefficients(application) -> None:
    app, engine = application
    before = app.estimate_deployment(estimate_request())
    calibrate(engine, SLOW)
    assert app.estimate_deployment(estimate_request()) == before  # not taken up yet
    assert app.refresh()
    after = app.estimate_deployment(estimate_request())
    assert after.catalog_revision == before.catalog_revision + 1
    assert after.performance.itl_ms.value > 1.2 * before.performance.itl_ms.value
    assert after.performance.provenance == placement_pb2.PROVENANCE_CALIBRATED


def test_a_plan_follows_the_coefficients(application) -> None:
    app, engine = application
    request = plan_request()
    request.constraints.allowed_accelerators.append("h100-sxm-80gb")
    before = app.plan_placement(request).placements[0]
    calibrate(engine, SLOW)
    app.refresh()
    after = app.plan_placement(request).placements[0]
    assert after.capacity.output_tokens_per_s.value < before.capacity.output_tokens_per_s.value
    assert after.capacity.provenance == placement_pb2.PROVENANCE_CALIBRATED


def test_a_generation_that_was_not_seen_is_analytic(application) -> None:
    app, engine = application
    calibrate(engine, SLOW)
    app.refresh()
    request = estimate_request()
    request.deployment.accelerator = "l4-24gb"  # Ada
    assert app.estimate_deployment(request).performance.provenance == placement_pb2.PROVENANCE_ANALYTIC
