"""Calibrations in the database and in the shipped file: stored, read back, refused, landed beside one's own."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select
from sqlalchemy.exc import IntegrityError

from capplan.catalog.calibrations import (
    Calibration,
    ErrorSummary,
    parse_calibration,
    read_active_calibration,
    store_calibration,
    to_content,
    to_file_text,
)
from capplan.catalog.fitting import error_summaries, fit_observations
from capplan.catalog.loader import load_catalog
from capplan.catalog.measurements import measurement_revision
from capplan.catalog.observations import ObservedRows, observe_all
from capplan.catalog.repository import table_of
from capplan.catalog.shipped import ShippedCatalog, read_shipped
from capplan.catalog.snapshot import load_snapshot
from capplan.catalog.tables import CalibrationRow
from capplan.database import session_scope
from capplan.errors import InvalidInputError
from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.corrections import Corrections, Novelty
from capplan.estimation.sites import Figures
from tests.estimation.measured import LLAMA, UNLIKE, site
from tests.estimation.measurements import as_if, measurement

NOW = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.UTC)
CALIBRATION = Calibration(
    Coefficients(
        {"weight_read": 0.875, "gemm_rate|engine=vllm": 1.25}, frozenset({"hopper", "ampere"}), frozenset({"vllm"})
    ),
    {"tpot_ms": ErrorSummary(100, 0.08, 0.3, -0.01)},
)
CORRECTIONS = Corrections(
    (site(), site(log_time=-0.25, running=0.5), site(UNLIKE, figures=Figures.FIRST_TOKEN, engine_version="")),
    {(Figures.PER_TOKEN, Novelty.SEEN): 1.75, (Figures.FIRST_TOKEN, Novelty.GPU_UNSEEN): 2.125},
)
CORRECTED = replace(CALIBRATION, coefficients=replace(CALIBRATION.coefficients, corrections=CORRECTIONS))
OTHER = replace(CALIBRATION, coefficients=replace(CALIBRATION.coefficients, values={"weight_read": 0.5}))


def with_calibration(facts: ShippedCatalog, *calibrations: Calibration) -> ShippedCatalog:
    return replace(facts, calibrations=tuple(to_content(calibration) for calibration in calibrations))


def active(engine: Engine):
    with session_scope(engine) as session:
        return read_active_calibration(session)


def stored(engine: Engine) -> list[tuple[str, bool]]:
    table = table_of(CalibrationRow)
    with session_scope(engine) as session:
        return [tuple(row) for row in session.execute(select(table.c.source, table.c.active).order_by(table.c.id))]


class TestStored:
    def test_what_is_stored_is_read_back_and_active(self, loaded: Engine) -> None:
        with session_scope(loaded) as session:
            revision = measurement_revision(session)
            store_calibration(session, CALIBRATION, NOW)
        record = active(loaded)
        assert record.calibration == CALIBRATION
        assert (record.created_at, record.source, record.measurement_revision) == (NOW, "own", revision)

    def test_corrections_are_stored_with_the_coefficients(self, loaded: Engine) -> None:
        with session_scope(loaded) as session:
            record = store_calibration(session, CORRECTED, NOW)
        assert record.calibration == active(loaded).calibration == CORRECTED
        with session_scope(loaded) as session:
            assert load_snapshot(session).coefficients.corrections == CORRECTIONS

    def test_a_row_from_before_there_were_corrections_has_none(self, empty: Engine) -> None:
        values = to_content(CALIBRATION) | {"created_at": NOW, "measurement_revision": 0, "source": "own"}
        without = {name: value for name, value in values.items() if name not in {"sites", "reach"}}
        with session_scope(empty) as session:
            session.execute(insert(table_of(CalibrationRow)).values(**without, active=True))
        assert active(empty).calibration == CALIBRATION

    def test_the_newest_of_ones_own_is_the_only_active_one(self, loaded: Engine) -> None:
        for calibration in (CALIBRATION, OTHER):
            with session_scope(loaded) as session:
                store_calibration(session, calibration, NOW)
        assert active(loaded).calibration == OTHER
        assert [is_active for _, is_active in stored(loaded)].count(True) == 1

    def test_a_new_calibration_is_a_new_revision_with_other_coefficients(self, loaded: Engine) -> None:
        with session_scope(loaded) as session:
            before = load_snapshot(session)
            store_calibration(session, OTHER, NOW)
        with session_scope(loaded) as session:
            after = load_snapshot(session)
        assert after.revision == before.revision + 1
        assert after.coefficients == OTHER.coefficients != before.coefficients
        assert after.calibration.calibration_id == active(loaded).calibration_id

    def test_two_active_ones_are_refused_by_the_database(self, empty: Engine) -> None:
        values = to_content(CALIBRATION) | {"created_at": NOW, "measurement_revision": 0, "source": "own"}
        statement = insert(table_of(CalibrationRow)).values(**values, active=True)
        with session_scope(empty) as session:
            session.execute(statement)
        with pytest.raises(IntegrityError), session_scope(empty) as session:
            session.execute(statement)

    def test_inactive_ones_may_be_many(self, empty: Engine) -> None:
        values = to_content(CALIBRATION) | {"created_at": NOW, "measurement_revision": 0, "source": "own"}
        with session_scope(empty) as session:
            session.execute(insert(table_of(CalibrationRow)), [values | {"active": False}] * 3)
        assert len(stored(empty)) == 3
        assert active(empty) is None

    @pytest.mark.parametrize("change", [{"source": "hearsay"}, {"measurement_revision": -1}])
    def test_what_breaks_a_rule_is_refused_by_the_database(self, empty: Engine, change: dict) -> None:
        values = to_content(CALIBRATION) | {"created_at": NOW, "measurement_revision": 0, "source": "own"} | change
        with pytest.raises(IntegrityError), session_scope(empty) as session:
            session.execute(insert(table_of(CalibrationRow)).values(**values))

    def test_a_catalogue_without_one_has_the_start_values(self, empty: Engine) -> None:
        with session_scope(empty) as session:
            snapshot = load_snapshot(session)
        assert snapshot.calibration is None
        assert snapshot.coefficients == UNFITTED


class TestChecked:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("weight_red", 1.0),
            ("half_rate|engine=vllm", 1.0),  # deviates by arithmetic only
            ("gemm_rate|engine=", 1.0),
            ("gemm_rate|", 1.0),
            ("half_rate|generation=hopper", 1.0),
            ("weight_read", 0.0),
            ("weight_read", -1.0),
            ("weight_read", float("nan")),
            ("weight_read", float("inf")),
            ("weight_read", 10**400),
            ("weight_read", True),
            ("weight_read", "1"),
            ("weight_read", None),
        ],
    )
    def test_a_coefficient_that_is_none_is_refused_by_name(self, loaded: Engine, name: str, value: Any) -> None:
        bad = replace(CALIBRATION, coefficients=replace(CALIBRATION.coefficients, values={name: value}))
        with pytest.raises(InvalidInputError) as caught, session_scope(loaded) as session:
            store_calibration(session, bad, NOW)
        assert [fault.field for fault in caught.value.violations] == [f"coefficients[{name}]"]
        assert ("own", True) not in stored(loaded)

    @pytest.mark.parametrize(
        "change",
        [
            {"more": 1},
            {"generations": "hopper"},
            {"engines": [""]},
            {"coefficients": [1.0]},
            {"sites": {}},
            {"sites": None},
            {"reach": {}},
            {"residuals": {"tpot": {"rows": 1, "median": 0.1, "p90": 0.1, "bias": 0.0}}},
            {"residuals": {"tpot_ms": {"rows": 1}}},
            {"residuals": {"tpot_ms": {"rows": float("inf"), "median": 0.1, "p90": 0.1, "bias": 0.0}}},
        ],
    )
    def test_a_file_of_another_shape_is_refused(self, change: dict) -> None:
        with pytest.raises(InvalidInputError):
            parse_calibration(to_content(CALIBRATION) | change)

    @pytest.mark.parametrize("name", ["sites", "reach"])
    def test_a_file_without_corrections_says_so_by_empty_lists(self, name: str) -> None:
        content = to_content(CALIBRATION)
        assert content.pop(name) == []
        with pytest.raises(InvalidInputError, match=name):
            parse_calibration(content)

    @pytest.mark.parametrize(
        ("corrections", "field"),
        [
            (Corrections((site(), site(noise=float("nan")))), "sites[0].rows[1].noise"),
            (Corrections((site(), site(replace(LLAMA, spread="tensor")))), "sites[1].spread"),
            (Corrections((), {(Figures.PER_TOKEN, Novelty.SEEN): -1.0}), "reach[0].deviations"),
        ],
    )
    def test_a_correction_that_is_none_is_not_stored(
        self, loaded: Engine, corrections: Corrections, field: str
    ) -> None:
        bad = replace(CALIBRATION, coefficients=replace(CALIBRATION.coefficients, corrections=corrections))
        with pytest.raises(InvalidInputError) as caught, session_scope(loaded) as session:
            store_calibration(session, bad, NOW)
        assert [fault.field for fault in caught.value.violations] == [field]
        assert ("own", True) not in stored(loaded)

    @pytest.mark.parametrize("calibration", [CALIBRATION, CORRECTED])
    def test_a_file_says_what_was_written_and_the_same_each_time(self, calibration: Calibration) -> None:
        text = to_file_text(calibration)
        assert parse_calibration(json.loads(text)) == calibration
        assert to_file_text(parse_calibration(json.loads(text))) == text

    def test_a_file_has_a_line_for_each_run_of_sites_and_each_span(self) -> None:
        content = to_content(CORRECTED)
        lines = [line.strip().rstrip(",") for line in to_file_text(CORRECTED).splitlines()]
        # two sites are of one run, the third is another; two spans
        assert [len(run["rows"]) for run in content["sites"]] == [2, 1]
        start = lines.index('"sites": [')
        assert [json.loads(line) for line in lines[start + 1 : start + 3]] == content["sites"]
        assert lines[start + 3 : start + 5] == ["]", '"reach": [']
        assert [json.loads(line) for line in lines[start + 5 : start + 7]] == content["reach"]
        assert lines[start + 7 :] == ["]", "}"]

    def test_a_package_with_a_broken_calibration_is_not_loaded(self, empty: Engine, shipped: ShippedCatalog) -> None:
        bad = replace(CALIBRATION, coefficients=Coefficients({"weight_red": 1.0}))
        with pytest.raises(InvalidInputError, match="weight_red"), session_scope(empty) as session:
            load_catalog(session, with_calibration(shipped, bad))
        with pytest.raises(InvalidInputError, match="at most one"), session_scope(empty) as session:
            load_catalog(session, with_calibration(shipped, CALIBRATION, OTHER))


class TestLanded:
    def load(self, engine: Engine, facts: ShippedCatalog):
        with session_scope(engine) as session:
            return load_catalog(session, facts)

    def test_the_shipped_one_becomes_active_once(self, empty: Engine, shipped: ShippedCatalog) -> None:
        facts = with_calibration(shipped, CALIBRATION)
        first = self.load(empty, facts)
        assert first.tables["calibrations"].inserted == 1
        record = active(empty)
        assert (record.source, record.calibration) == ("shipped", CALIBRATION)
        assert record.measurement_revision == first.revision
        second = self.load(empty, facts)
        assert second.revision == first.revision
        assert active(empty) == record
        assert stored(empty) == [("shipped", True)]

    def test_the_shipped_corrections_are_found_again_as_they_are(self, empty: Engine, shipped: ShippedCatalog) -> None:
        facts = with_calibration(shipped, CORRECTED)
        first = self.load(empty, facts)
        assert active(empty).calibration == CORRECTED
        assert self.load(empty, facts).revision == first.revision

    def test_a_changed_one_replaces_it_and_raises_the_revision(self, empty: Engine, shipped: ShippedCatalog) -> None:
        first = self.load(empty, with_calibration(shipped, CALIBRATION))
        second = self.load(empty, with_calibration(shipped, OTHER))
        assert second.tables["calibrations"].updated == 1
        assert second.revision == first.revision + 1
        assert active(empty).calibration == OTHER
        assert stored(empty) == [("shipped", True)]

    def test_ones_own_stays_active_whatever_is_shipped(self, empty: Engine, shipped: ShippedCatalog) -> None:
        self.load(empty, with_calibration(shipped, CALIBRATION))
        with session_scope(empty) as session:
            own = store_calibration(session, OTHER, NOW)
        changed = replace(CALIBRATION, residuals={})
        for facts in (with_calibration(shipped, CALIBRATION), with_calibration(shipped, changed)):
            report = self.load(empty, facts)
            assert report.tables["calibrations"].kept == 1
            assert active(empty) == own
        assert sorted(stored(empty)) == [("own", True), ("shipped", False)]

    def test_one_that_is_shipped_no_longer_goes(self, empty: Engine, shipped: ShippedCatalog) -> None:
        self.load(empty, with_calibration(shipped, CALIBRATION))
        assert self.load(empty, with_calibration(shipped)).tables["calibrations"].withdrawn == 1
        assert active(empty) is None


class TestFitted:
    TRUTH = Coefficients({"weight_read": 0.8, "gemm_rate": 0.6})

    def test_errors_are_those_of_a_ratio_worked_out_by_hand(self) -> None:
        rows = [row for row in as_if(UNFITTED) if row.metric == "tpot_ms"][:4]
        # measured 1/0.8, 1, 1/1.1 and 1/1.3 of what is predicted: errors 0.2, 0, 0.1, 0.3
        ratios = (0.8, 1.0, 1.1, 1.3)
        rows = [
            replace(row, measurement=replace(row.measurement, value=row.measurement.value / ratio))
            for row, ratio in zip(rows, ratios, strict=True)
        ]
        (found,) = error_summaries(rows, UNFITTED).values()
        assert found.rows == 4
        assert found.median == pytest.approx(0.15, abs=1e-3)  # halfway between 0.1 and 0.2
        assert found.bias == pytest.approx(0.05, abs=1e-3)  # halfway between 1.0 and 1.1, less 1
        assert found.p90 == pytest.approx(0.2 + 0.7 * 0.1, abs=1e-3)  # at 2.7 of the ordered 0..3

    def test_a_fit_lowers_the_error_and_is_rounded(self) -> None:
        # every fifth row is the fleet's own
        rows = tuple(
            replace(row, measurement=replace(row.measurement, own=True, trust="own")) if index % 5 == 0 else row
            for index, row in enumerate(as_if(self.TRUTH))
        )
        report = fit_observations(ObservedRows(rows, {"no reason": 2}), UNFITTED)
        assert report.observations == len(rows)
        assert report.calibration.residuals["tpot_ms"].median < report.before["tpot_ms"].median
        values = report.calibration.coefficients.values
        assert all(float(f"{value:.6g}") == value for value in values.values())
        again = fit_observations(ObservedRows(rows, {"no reason": 2}), UNFITTED)
        assert to_file_text(again.calibration) == to_file_text(report.calibration)
        # Own rows become sites when the catalogue is loaded, so none of them is stored; published ones all are, as the
        # five loads of a run are few.
        assert len(report.calibration.coefficients.corrections.sites) == len(rows) - math.ceil(len(rows) / 5)

    def test_too_few_rows_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="at least 30"):
            fit_observations(ObservedRows(tuple(as_if(UNFITTED)[:5]), {}), UNFITTED)


class TestObserved:
    def row(self, **change):
        return replace(measurement(), model="Qwen/Qwen3-8B", sku="h100-sxm-80gb", **change)

    def test_rows_of_one_model_share_its_costs(self, snapshot) -> None:
        found = observe_all([self.row(), self.row(load_value=32.0), self.row(weights="fp8")], snapshot)
        first, second, third = (observation.model for observation in found.observations)
        assert first is second
        assert third is not first
        assert found.excluded == {}

    def test_what_cannot_be_used_is_counted_by_reason(self, snapshot) -> None:
        rows = [
            self.row(),
            self.row(flags=("disaggregated",)),
            self.row(flags=("disaggregated", "precision_inferred")),
            self.row(flags=("power_limited",)),
            self.row(tensor_parallel=None),
            self.row(weights="nonsense"),
        ]
        found = observe_all(rows, snapshot)
        assert len(found.observations) == 1
        assert list(found.excluded.values()) == [2, 1, 1, 1]
        assert "disaggregated" in next(iter(found.excluded))
        assert any("Qwen/Qwen3-8B in nonsense cannot be costed" in reason for reason in found.excluded)


def test_the_shipped_calibration_is_of_the_step_model() -> None:
    (content,) = read_shipped().calibrations
    calibration = parse_calibration(content)
    assert {"vllm", "sglang", "tensorrt-llm"} <= calibration.coefficients.engines
    assert {"hopper", "blackwell", "ampere"} <= calibration.coefficients.generations
    assert calibration.residuals["tpot_ms"].rows > 1_000


def test_the_shipped_file_is_what_the_command_writes() -> None:
    text = (files("capplan.catalog") / "data" / "calibration.json").read_text(encoding="utf-8")
    assert to_file_text(parse_calibration(json.loads(text))) == text
