"""`capplan calibrate` on a database file with few measurements, made up from the step model's own answers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from capplan.catalog.calibrations import parse_calibration, read_active_calibration
from capplan.catalog.loader import load_catalog
from capplan.catalog.measurements import measurement_key
from capplan.catalog.observations import observe_all
from capplan.catalog.repository import read_revision
from capplan.catalog.shipped import read_shipped
from capplan.catalog.snapshot import load_snapshot
from capplan.database import open_engine, session_scope, upgrade
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.observation import batches, predict, settle
from tests.estimation.measurements import measurement

TRUTH = Coefficients({"weight_read": 0.8, "gemm_rate": 0.5, "request_s": 40e-3})
METRICS = ("tpot_ms", "ttft_ms", "output_tokens_per_s")


def to_row(row):
    """A measurement as a row of the catalogue's table."""
    values = {name: value if value != "" else None for name, value in asdict(row).items() if name != "own"}
    values |= {"flags": " ".join(row.flags) or None, "notes": None, "import_id": None}
    return values | {"key": measurement_key(values)}


def made_up(snapshot):
    """32 rows: 30 whose values are what the step model says under TRUTH, and two that cannot be used."""
    plain = replace(measurement(), model="Qwen/Qwen3-8B")
    rows = [
        replace(plain, sku=sku, load_value=concurrency, metric=metric)
        for sku in ("h100-sxm-80gb", "a100-sxm4-80gb")
        for concurrency in (1.0, 4.0, 16.0, 64.0, 128.0)
        for metric in METRICS
    ]
    observations = observe_all(rows, snapshot).observations
    groups = batches(observations)
    settle(groups, TRUTH)
    values = predict(groups, len(rows), TRUTH)
    rows = [replace(row, value=float(value)) for row, value in zip(rows, values, strict=True)]
    unusable = [replace(plain, sku="h100-sxm-80gb", value=float(n), statistic="p99") for n in (1, 2)]
    return tuple(to_row(row) for row in (*rows, *unusable))


@pytest.fixture(scope="module")
def database_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("calibrate") / "catalog.sqlite3"
    engine = open_engine(f"sqlite:///{path}")
    upgrade(engine)
    facts = replace(read_shipped(), calibrations=(), measurements=())
    with session_scope(engine) as session:
        load_catalog(session, facts)
        snapshot = load_snapshot(session)
    with session_scope(engine) as session:
        load_catalog(session, replace(facts, measurements=made_up(snapshot)))
    engine.dispose()
    return path


@pytest.fixture
def database(database_file, tmp_path, monkeypatch):
    copy = tmp_path / "copy.sqlite3"
    copy.write_bytes(database_file.read_bytes())
    monkeypatch.setenv("CAPPLAN_DATABASE_URL", f"sqlite:///{copy}")
    engine = open_engine(f"sqlite:///{copy}")
    yield engine
    engine.dispose()


def in_force(engine):
    with session_scope(engine) as session:
        return read_active_calibration(session), read_revision(session).number


def test_a_calibration_is_fitted_stored_and_written_out(run, database, tmp_path):
    file = tmp_path / "calibration.json"
    _, revision = in_force(database)
    outcome = run("calibrate", "--output", "json", "--output-file", str(file))
    assert outcome.exit_code == 0
    report = json.loads(outcome.stdout)
    record, new_revision = in_force(database)
    assert new_revision == revision + 1
    assert (record.source, record.calibration_id) == ("own", report["calibration_id"])
    assert record.calibration == parse_calibration(json.loads(file.read_text()))
    assert (report["generations"], report["engines"]) == (["ampere", "hopper"], ["vllm"])
    assert (report["measurements"], report["observations"]) == (32, 30)
    assert report["excluded"] == {"the statistic p99 is no mean or median": 2}
    # The rows follow the step model exactly; so few of them do not quite outweigh the priors.
    for metric in METRICS:
        assert report["errors_after"][metric]["rows"] == 10
        assert report["errors_after"][metric]["median"] < 0.5 * report["errors_before"][metric]["median"]


def test_a_dry_run_stores_nothing_and_says_so(run, database):
    before = in_force(database)
    outcome = run("calibrate", "--dry-run")
    assert outcome.exit_code == 0
    assert in_force(database) == before
    assert "30 of 32 measurements were fitted to" in outcome.stdout
    assert "2: the statistic p99 is no mean or median" in outcome.stdout
    assert "nothing was stored" in outcome.stdout
    assert all(metric in outcome.stdout for metric in METRICS)


def test_too_few_measurements_are_refused(run, database):
    with database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM measurements WHERE metric = 'ttft_ms'")
    outcome = run("calibrate")
    assert outcome.exit_code == 2
    assert "20 observations are too few" in outcome.stderr
    assert in_force(database)[0] is None


def test_a_file_that_cannot_be_written_is_refused_before_the_fit(run, database, tmp_path):
    outcome = run("calibrate", "--output-file", str(tmp_path / "absent" / "file.json"))
    assert outcome.exit_code == 2
    assert "cannot write" in outcome.stderr
    assert in_force(database)[0] is None


def test_a_database_without_a_schema_is_refused(run, tmp_path):
    outcome = run("calibrate", "--database-url", f"sqlite:///{tmp_path / 'none.sqlite3'}")
    assert outcome.exit_code == 1
    assert "capplan db upgrade" in outcome.stderr
