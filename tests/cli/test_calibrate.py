"""`capplan calibrate` on a database file with few measurements, made up from the step model's own answers."""

from __future__ import annotations

import json

from capplan.catalog.calibrations import parse_calibration, read_active_calibration
from capplan.catalog.repository import read_revision
from capplan.database import session_scope
from tests.cli.few_measurements import METRICS


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
    assert (report["measurements"], report["observations"]) == (62, 60)
    assert report["excluded"] == {"the statistic p99 is no mean or median": 2}
    # The rows follow the step model exactly; so few of them do not quite outweigh the priors.
    for metric in METRICS:
        assert report["errors_after"][metric]["rows"] == 20
        assert report["errors_after"][metric]["median"] < 0.5 * report["errors_before"][metric]["median"]


def test_a_dry_run_stores_nothing_and_says_so(run, database):
    before = in_force(database)
    outcome = run("calibrate", "--dry-run")
    assert outcome.exit_code == 0
    assert in_force(database) == before
    assert "60 of 62 measurements were fitted to" in outcome.stdout
    assert "2: the statistic p99 is no mean or median" in outcome.stdout
    assert "nothing was stored" in outcome.stdout
    assert all(metric in outcome.stdout for metric in METRICS)


def test_too_few_measurements_are_refused(run, database):
    with database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM measurements WHERE metric <> 'ttft_ms'")
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
