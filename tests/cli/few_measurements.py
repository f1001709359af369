"""A database file with few measurements, made up from the step model's own answers."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from capplan.catalog.loader import load_catalog
from capplan.catalog.measurements import measurement_key
from capplan.catalog.observations import observe_all
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
    """62 rows: 60 whose values are what the step model says under TRUTH, and two that cannot be used."""
    plain = replace(measurement(), model="Qwen/Qwen3-8B")
    rows = [
        replace(plain, sku=sku, load_value=concurrency, metric=metric)
        for sku in ("h100-sxm-80gb", "a100-sxm4-80gb")
        for concurrency in (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0, 64.0, 96.0, 128.0)
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
