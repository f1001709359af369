"""Shipped measurements: every row can be used as it is, and readers get them apart from the snapshot."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sqlalchemy import Engine

from capplan.catalog.editing import retire_row
from capplan.catalog.loader import load_catalog
from capplan.catalog.measurements import load_measurements, measurement_key, measurement_revision
from capplan.catalog.repository import read_revision
from capplan.catalog.shipped import ShippedCatalog
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.catalog.tables import AcceleratorRow, DevicePriceRow, MeasurementRow, ModelProfileRow
from capplan.database import open_engine, session_scope
from capplan.errors import InvalidInputError
from capplan.estimation.measurement import LOAD_KINDS, METRICS, STATISTICS, Measurement
from capplan.modeling.costs import model_costs


@pytest.fixture(scope="session")
def measurements(loaded_file: Path) -> tuple[Measurement, ...]:
    engine = open_engine(f"sqlite:///{loaded_file}")
    with session_scope(engine) as session:
        rows = load_measurements(session)
    engine.dispose()
    return rows


def test_each_shipped_row_comes_back_as_one_measurement(
    measurements: tuple[Measurement, ...], shipped: ShippedCatalog
) -> None:
    assert len(measurements) == len(shipped.measurements) > 5_000
    assert len({row.key for row in measurements}) == len(measurements)


def test_every_model_can_be_stored_in_the_formats_it_was_measured_in(
    measurements: tuple[Measurement, ...], snapshot: CatalogSnapshot
) -> None:
    for model, weights, kv_cache in sorted({(row.model, row.weights, row.kv_cache) for row in measurements}):
        costs = model_costs(snapshot.models[model].architecture, weights, kv_cache)
        assert costs.weight_precision == weights


def test_every_row_speaks_the_cores_words(measurements: tuple[Measurement, ...], snapshot: CatalogSnapshot) -> None:
    for row in measurements:
        assert row.load_kind in LOAD_KINDS
        assert row.metric in METRICS
        assert row.statistic in {"", *STATISTICS}
        assert row.sku in snapshot.accelerators
        assert not row.own
        assert row.source
        assert row.source_url.startswith("https://")


def test_only_trusted_rows_are_shipped(measurements: tuple[Measurement, ...]) -> None:
    assert {row.trust for row in measurements} == {"A", "B", "B-"}
    flags = {flag for row in measurements for flag in row.flags}
    assert flags == {"precision_inferred", "power_limited", "dp_attention", "disaggregated", "neighbours_busy"}


def test_the_ranks_of_an_aggregated_replica_divide_its_devices(measurements: tuple[Measurement, ...]) -> None:
    for row in measurements:
        if row.tensor_parallel is not None and "disaggregated" not in row.flags:
            ranks = row.tensor_parallel * row.pipeline_parallel * row.attention_data_parallel
            assert row.devices % ranks == 0, row


def test_no_rate_and_latency_of_a_closed_loop_contradict_each_other(measurements: tuple[Measurement, ...]) -> None:
    """Little's law: with C requests in flight, no more than C / TPOT tokens can come out per second."""
    runs: defaultdict[Measurement, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in measurements:
        if row.load_kind == "concurrency" and row.statistic == "mean" and "disaggregated" not in row.flags:
            runs[dataclasses.replace(row, key="", metric="", value=0.0)][row.metric].append(row.value)
    ratios = [
        figures["output_tokens_per_s"][0] * figures["tpot_ms"][0] / 1000 / run.load_value
        for run, figures in runs.items()
        if len(figures["tpot_ms"]) == len(figures["output_tokens_per_s"]) == 1
    ]
    assert len(ratios) > 50
    # The mean of ratios is no ratio of means, and a few published runs are of a handful of requests.
    assert max(ratios) < 1.2
    assert sum(ratio > 1.05 for ratio in ratios) < 0.05 * len(ratios)


# Published: MLPerf Inference v4.1 closed, ASUSTeK ESC_N8_E11_H100x8, llama2-70b-99 Server: 20,605.3 tokens/s.
def test_an_audited_row_is_as_published(measurements: tuple[Measurement, ...]) -> None:
    (row,) = [row for row in measurements if row.source.startswith("MLPerf Inference v4.1") and row.value == 20605.3]
    assert (row.model, row.weights, row.sku, row.devices) == (
        "meta-llama/Llama-2-70b-hf",
        "fp8",
        "h100-sxm-80gb",
        8,
    )
    assert (row.load_kind, row.load_value, row.statistic) == ("qps", None, "max_under_slo")
    assert row.tensor_parallel is None
    assert row.trust == "A"
    assert row.flags == ("precision_inferred",)


# TensorRT-LLM v0.9.0 docs/source/performance.md, Llama 70B fp16 on A100 at TP 8, batch 512, 128/2048: 684 tokens/s/GPU.
def test_a_figure_published_per_gpu_is_stored_for_the_whole_deployment(measurements: tuple[Measurement, ...]) -> None:
    (row,) = [
        row
        for row in measurements
        if (row.engine, row.engine_version, row.sku) == ("tensorrt-llm", "0.9.0", "a100-sxm4-80gb")
        and (row.model, row.tensor_parallel) == ("meta-llama/Llama-2-70b-hf", 8)
        and (row.input_tokens, row.output_tokens, row.load_value) == (128, 2048, 512)
    ]
    assert row.value == 684 * 8


def test_every_mig_row_names_a_profile_of_its_board(
    measurements: tuple[Measurement, ...], snapshot: CatalogSnapshot
) -> None:
    sliced = {(row.sku, row.mig_profile) for row in measurements if row.mig_profile}
    assert ("a100-sxm4-80gb", "1g.10gb") in sliced
    for sku, profile in sliced:
        board = snapshot.mig_board_of(snapshot.accelerators[sku].accelerator)
        assert profile in {known.name for known in board.profiles}


# MLPerf Inference v1.0 closed, NVIDIA DGX-A100 with 56 instances of 1g.10gb: eight GPUs, cut in seven.
def test_a_deployment_on_mig_counts_its_instances(measurements: tuple[Measurement, ...]) -> None:
    counts = {row.devices for row in measurements if "MIG_56x1g.10gb" in row.source_url}
    assert counts == {56}


# InferenceX draws lengths uniformly from 0.8 to 1.0 of 1024 and 8192: the means are 0.9 of them.
def test_lengths_drawn_from_a_range_are_stored_as_their_means(measurements: tuple[Measurement, ...]) -> None:
    lengths = Counter(
        (row.input_tokens, row.output_tokens) for row in measurements if row.source.startswith("InferenceX")
    )
    assert set(lengths) == {(921.6, 921.6), (921.6, 7372.8), (7372.8, 921.6)}


def test_loading_again_changes_nothing(loaded: Engine) -> None:
    with session_scope(loaded) as session:
        before = load_measurements(session)
        revision = measurement_revision(session)
        assert revision == 1
        report = load_catalog(session)
        assert not report.tables["measurements"].changed
        assert report.tables["measurements"].unchanged == len(before)
        assert load_measurements(session) == before
        assert measurement_revision(session) == revision


def test_the_measurements_revision_moves_only_with_the_measurements(loaded: Engine, shipped: ShippedCatalog) -> None:
    price = {"sku": "l4-24gb", "term": "spot", "market": "typical"}
    with session_scope(loaded) as session:
        retire_row(session, DevicePriceRow, price)
        assert (read_revision(session).number, measurement_revision(session)) == (2, 1)
        report = load_catalog(session, dataclasses.replace(shipped, measurements=shipped.measurements[1:]))
        assert report.tables["measurements"].withdrawn == 1
        assert (report.revision, measurement_revision(session)) == (3, 3)


def test_measurements_of_what_an_operator_deleted_are_not_handed_out(
    loaded: Engine, measurements: tuple[Measurement, ...]
) -> None:
    first = measurements[0]
    with session_scope(loaded) as session:
        retire_row(session, AcceleratorRow, {"sku": first.sku})
        assert first.sku not in {row.sku for row in load_measurements(session)}
        model = next(row.model for row in measurements if row.sku != first.sku)
        retire_row(session, ModelProfileRow, {"name": model})
        assert model not in {row.model for row in load_measurements(session)}


def test_a_measurement_of_nothing_in_the_catalogue_is_refused(empty: Engine, shipped: ShippedCatalog) -> None:
    row = shipped.measurements[0]
    bad = (row, row, row | {"key": "a", "model": "o/m"}, row | {"key": "b", "sku": "x-1gb"})
    with session_scope(empty) as session, pytest.raises(InvalidInputError) as caught:
        load_catalog(session, dataclasses.replace(shipped, measurements=bad))
    assert [violation.description for violation in caught.value.violations] == [
        "listed twice",
        "no model 'o/m'",
        "no accelerator 'x-1gb'",
    ]


def test_the_key_names_the_figure_and_not_where_it_was_read(shipped: ShippedCatalog) -> None:
    row = shipped.measurements[0]
    assert len(row["key"]) == 32
    for same in ({"source": "a copy"}, {"source_url": None}, {"as_of": "later"}, {"notes": None}, {"trust": "C"}):
        assert measurement_key(row | same) == row["key"]
    columns = {column.name for column in MeasurementRow.__table__.columns}
    unnamed = {"key", "source", "source_url", "as_of", "trust", "flags", "notes", "import_id", "edited", "retired"}
    for column in columns - unnamed:
        assert measurement_key(row | {column: "other"}) != row["key"], column
    assert measurement_key(row | {"input_tokens": 128}) == measurement_key(row | {"input_tokens": 128.0})
