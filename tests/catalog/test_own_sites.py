"""A fleet's own measurements correct estimates as soon as the catalogue is loaded, and are gone when they are."""

from __future__ import annotations

import datetime
import json
import logging
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from capplan.catalog.importers.landing import forget_import, import_measurements
from capplan.catalog.importers.runs import Facts
from capplan.catalog.measurements import load_measurements, read_own_measurements
from capplan.catalog.observations import observe_all
from capplan.catalog.own_sites import with_own_sites
from capplan.catalog.snapshot import CatalogSnapshot, load_snapshot
from capplan.database import session_scope
from capplan.estimation.estimate import Provenance
from capplan.estimation.measurement import LOAD_KINDS, METRICS, STATISTICS
from tests.catalog.own_rows import MODEL, OWN, SKU, off_by, predicted


def land(session: Session, **figures: float) -> int:
    result = {
        "backend": "vllm",
        "model_id": MODEL,
        "request_rate": "inf",
        "max_concurrency": 16,
        "num_prompts": 200,
        "completed": 200,
        "total_input_tokens": 200_000,
        "total_output_tokens": 100_000,
        "engine_version": "0.21.0",
        **figures,
    }
    beside = Facts(model=MODEL, accelerator=SKU, weights="bf16", tensor_parallel=1)
    now = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
    return import_measurements(session, json.dumps(result).encode(), "vllm", "run.json", beside, now).import_id


def test_without_own_measurements_nothing_is_touched(snapshot: CatalogSnapshot) -> None:
    assert with_own_sites(snapshot.fitted, [], snapshot) is snapshot.fitted
    assert snapshot.coefficients is snapshot.fitted


def test_what_was_imported_is_in_force_until_it_is_forgotten(loaded) -> None:
    with session_scope(loaded) as session:
        before = load_snapshot(session)
        number = land(session, mean_itl_ms=40.0, mean_ttft_ms=90.0)
        during = load_snapshot(session)
        forget_import(session, number)
        after = load_snapshot(session)
    shipped = before.coefficients.corrections.sites
    own = [site for site in during.coefficients.corrections.sites if site not in set(shipped)]
    assert {(site.situation.sku, site.engine_version) for site in own} == {(SKU, "0.21.0")}
    assert len(own) == 2
    assert during.fitted == before.fitted
    assert after.coefficients == before.coefficients


def test_an_estimate_moves_to_what_was_measured(snapshot: CatalogSnapshot) -> None:
    row = off_by(1.4, OWN, snapshot)
    before = predicted(row, snapshot.fitted, snapshot)
    after = predicted(row, with_own_sites(snapshot.fitted, [row], snapshot), snapshot)
    assert row.value == pytest.approx(1.4 * before.value)
    assert after.value == pytest.approx(row.value, rel=0.1)
    assert after.provenance is Provenance.MEASURED is not before.provenance
    assert after.upper / after.lower < before.upper / before.lower


def test_an_own_measurement_outweighs_shipped_ones_at_the_same_place(loaded, snapshot: CatalogSnapshot) -> None:
    """Some of the places where shipped rows on vLLM correct estimates, told another figure."""
    with session_scope(loaded) as session:
        shipped = load_measurements(session)
    vllm = [row for row in shipped if row.engine == "vllm" and row.trust in "AB" and row.load_kind == "concurrency"]
    for metric in ("tpot_ms", "ttft_ms"):
        rows = [o.measurement for o in observe_all([m for m in vllm if m.metric == metric], snapshot).observations]
        measured = [
            (row, prediction.value)
            for row in rows[:: len(rows) // 12]
            for prediction in [predicted(row, snapshot.fitted, snapshot)]
            if prediction.provenance is Provenance.MEASURED
        ]
        assert len(measured) >= 3
        for row, estimated in measured[:3]:
            own = replace(row, key="own", own=True, trust="own", value=1.4 * estimated)
            after = predicted(own, with_own_sites(snapshot.fitted, [own], snapshot), snapshot)
            assert after.value == pytest.approx(own.value, rel=0.1), row


def test_every_kind_of_figure_moves_estimates_the_same_way(snapshot: CatalogSnapshot) -> None:
    # A rate that is low by 1.4 says what a time that is high by 1.4 says.
    slow = off_by(1 / 1.4, replace(OWN, metric="output_tokens_per_s"), snapshot)
    fitted = with_own_sites(snapshot.fitted, [slow], snapshot)
    assert predicted(OWN, fitted, snapshot).value > 1.2 * predicted(OWN, snapshot.fitted, snapshot).value


def test_other_models_and_devices_hardly_move(snapshot: CatalogSnapshot) -> None:
    """They share the way of measuring, and some the engine, of which a row of a factor of 1.4 says 5 % at most."""
    fitted = with_own_sites(snapshot.fitted, [off_by(1.4, OWN, snapshot)], snapshot)
    for other in (
        replace(OWN, sku="h100-sxm-80gb"),
        replace(OWN, sku="mi300x-192gb"),
        replace(OWN, model="openai/gpt-oss-120b", sku="h100-sxm-80gb", weights="mxfp4"),
        replace(OWN, engine="sglang"),
    ):
        before, after = (predicted(other, by, snapshot) for by in (snapshot.fitted, fitted))
        assert after.value == pytest.approx(before.value, rel=0.05)
        assert after.provenance is before.provenance


def test_rows_that_cannot_be_compared_are_skipped_and_logged(snapshot: CatalogSnapshot, caplog) -> None:
    good = off_by(1.1, OWN, snapshot)
    wrong = [
        replace(good, key="p99", statistic="p99"),
        replace(good, key="rate", load_kind="qps"),
        replace(good, key="far off", value=100 * good.value),
    ]
    with caplog.at_level(logging.DEBUG, logger="capplan.catalog.own_sites"):
        fitted = with_own_sites(snapshot.fitted, [good, *wrong], snapshot)
    assert fitted == with_own_sites(snapshot.fitted, [good], snapshot)
    assert len(caplog.records) == 3
    assert "p99" in caplog.text
    assert with_own_sites(snapshot.fitted, wrong, snapshot) is snapshot.fitted


numbers = st.sampled_from([1e-300, 1e-6, 0.5, 1.0, 1_000.0, 1e6, 9.9e8])
ranks = st.sampled_from([1, 2, 8, 61, 1_000])


@given(
    names=st.data(),
    weights=st.sampled_from(["bf16", "fp8", "no format"]),
    input_tokens=numbers,
    output_tokens=numbers,
    load_value=numbers,
    value=numbers,
    tensor_parallel=st.none() | ranks,
    pipeline_parallel=ranks,
    expert_parallel=ranks,
    attention_data_parallel=ranks,
    metric=st.sampled_from(METRICS),
    statistic=st.sampled_from(["", *STATISTICS]),
    load_kind=st.sampled_from(LOAD_KINDS),
    engine=st.sampled_from(["vllm", "sglang", "tensorrt-llm", "of our own"]),
    engine_version=st.sampled_from(["", "0.9", "nightly", "9" * 30]),
)
def test_no_row_breaks_a_load(snapshot: CatalogSnapshot, names: st.DataObject, **odd) -> None:
    odd |= {
        "model": names.draw(st.sampled_from([*snapshot.models])),
        "sku": names.draw(st.sampled_from([*snapshot.accelerators])),
    }
    wrong = replace(OWN, key="odd", devices=1_000_000, **odd)
    good = replace(OWN, value=40.0)
    fitted = with_own_sites(snapshot.fitted, [wrong, good], snapshot)
    new = len(fitted.corrections.sites) - len(snapshot.fitted.corrections.sites)
    assert new in (1, 2)
    assert all(math.isfinite(site.log_time) for site in fitted.corrections.sites)


def test_own_rows_are_read_alone(loaded) -> None:
    with session_scope(loaded) as session:
        assert read_own_measurements(session) == []
        land(session, mean_itl_ms=40.0)
        (record,) = read_own_measurements(session)
    assert (record.measurement.own, record.measurement.metric, record.measurement.value) == (True, "itl_ms", 40.0)
