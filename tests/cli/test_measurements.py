"""`capplan measurements` on a database file of its own."""

from __future__ import annotations

import json

import pytest

from capplan.catalog.loader import load_catalog
from capplan.catalog.shipped import read_shipped
from capplan.database import open_engine, session_scope, upgrade

RESULT = {
    "backend": "vllm",
    "model_id": "org/m-8b",
    "request_rate": "inf",
    "max_concurrency": 32,
    "completed": 100,
    "total_input_tokens": 100_000,
    "total_output_tokens": 25_000,
    "output_throughput": 1700.0,
    "mean_tpot_ms": 18.0,
}
GIVEN = ("--model", "Qwen/Qwen3-8B", "--accelerator", "h100-sxm-80gb", "--weights", "fp8", "--tensor-parallel", "1")


@pytest.fixture(scope="module")
def database_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("measurements") / "catalog.sqlite3"
    engine = open_engine(f"sqlite:///{path}")
    upgrade(engine)
    with session_scope(engine) as session:
        load_catalog(session, read_shipped())
    engine.dispose()
    return path


@pytest.fixture
def measurements(run, database_file, tmp_path, monkeypatch):
    copy = tmp_path / "copy.sqlite3"
    copy.write_bytes(database_file.read_bytes())
    monkeypatch.setenv("CAPPLAN_DATABASE_URL", f"sqlite:///{copy}")
    return lambda *arguments, input=None: run("measurements", *arguments, input=input)


@pytest.fixture
def result_file(tmp_path) -> str:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RESULT))
    return str(path)


def listed(outcome):
    assert outcome.exit_code == 0
    return json.loads(outcome.stdout)["measurements"]


def test_a_result_is_imported_and_listed_as_own(measurements, result_file):
    outcome = measurements("import", result_file, "--format", "vllm", *GIVEN)
    assert outcome.exit_code == 0
    assert "import 1: 2 landed, 0 present already, 0 rejected" in outcome.stdout
    rows = listed(measurements("list", "--filter", "own = true", "--output", "json"))
    assert {(row["metric"], row["value"]) for row in rows} == {("output_tokens_per_s", 1700.0), ("tpot_ms", 18.0)}
    assert {(row["model"], row["trust"], row["import_id"], row["notes"]) for row in rows} == {
        ("Qwen/Qwen3-8B", "own", 1, "served as org/m-8b")
    }


def test_importing_twice_lands_nothing_twice(measurements, result_file):
    for landed, present in ((2, 0), (0, 2)):
        outcome = measurements("import", result_file, "--format", "vllm", *GIVEN, "--output", "json")
        report = json.loads(outcome.stdout)
        assert (outcome.exit_code, report["landed"], report["present"]) == (0, landed, present)


def test_an_import_tells_what_it_changes(measurements, result_file):
    first = measurements("import", result_file, "--format", "vllm", *GIVEN, "--output", "json")
    effect = json.loads(first.stdout)["effect"]
    assert (effect["correcting"], effect["idle"]) == (2, {})
    assert {metric: found["figures"] for metric, found in effect["by_metric"].items()} == {
        "output_tokens_per_s": 1,
        "tpot_ms": 1,
    }
    measurements("forget", "1")
    # The same run at half the time per token: measured over estimated is half as much.
    faster = json.dumps(RESULT | {"mean_tpot_ms": float(str(RESULT["mean_tpot_ms"])) / 2, "p99_tpot_ms": 50.0})
    second = measurements("import", "-", "--format", "vllm", *GIVEN, "--output", "json", input=faster)
    again = json.loads(second.stdout)["effect"]
    before, after = (float(found["by_metric"]["tpot_ms"]["median_ratio"]) for found in (effect, again))
    assert after == pytest.approx(before / 2)
    assert again["by_metric"]["output_tokens_per_s"] == effect["by_metric"]["output_tokens_per_s"]
    assert again["idle"] == {"the statistic p99 is no mean or median": 1}
    nothing = measurements("import", "-", "--format", "vllm", *GIVEN, "--output", "json", input=faster)
    assert json.loads(nothing.stdout)["effect"] is None


def test_the_change_is_told_for_reading(measurements):
    result = json.dumps(RESULT | {"p99_tpot_ms": 50.0})
    outcome = measurements("import", "-", "--format", "vllm", *GIVEN, input=result)
    text = " ".join(outcome.stdout.split())
    assert "2 of 3 figures correct estimates from now on; a running server takes them up by itself" in text
    assert "metric figures measured / estimated before" in text
    assert "1 correct nothing: - 1: the statistic p99 is no mean or median" in text.replace("•", "-")
    assert max(len(line) for line in outcome.stdout.splitlines()) <= 80


def test_the_help_says_that_own_measurements_correct_estimates(run):
    group = " ".join(run("measurements", "--help").stdout.split())
    assert "Your own measurements correct estimates and plans at once" in group
    assert "measured over estimated" in " ".join(run("measurements", "import", "--help").stdout.split())


def test_a_file_may_come_by_standard_input(measurements):
    outcome = measurements("import", "-", "--format", "vllm", *GIVEN, input=json.dumps(RESULT))
    assert outcome.exit_code == 0
    assert "2 landed" in outcome.stdout
    assert "standard input" in measurements("imports").stdout


def test_nothing_usable_is_a_failure_with_the_reasons(measurements, result_file):
    outcome = measurements("import", result_file, "--format", "vllm")
    assert outcome.exit_code == 1
    # Wrapped at the width of a page.
    text = " ".join(outcome.stdout.split())
    assert "run: accelerator is stated neither in the file nor beside it; weights is stated neither" in text


def test_a_load_the_file_does_not_say_is_given(measurements, tmp_path):
    file = tmp_path / "export.csv"
    file.write_text("Metric,avg\nTime to First Token (ms),95.10\n")
    arguments = ("import", str(file), "--format", "aiperf", *GIVEN, "--engine", "vllm")
    assert measurements(*arguments).exit_code == 1
    assert measurements(*arguments, "--concurrency", "8", "--input-tokens", "500").exit_code == 0
    (row,) = listed(measurements("list", "--filter", "own = true", "--output", "json"))
    assert (row["load_kind"], row["load_value"], row["input_tokens"]) == ("concurrency", 8.0, 500.0)
    outcome = measurements(*arguments, "--concurrency", "8", "--offline")
    assert outcome.exit_code == 2
    assert "not several" in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("/nowhere/run.json", "--format", "vllm"), "cannot read /nowhere/run.json"),
        (("-", "--format", "xml"), "'xml' is unknown; accepted: vllm, guidellm, aiperf, inferencex, csv"),
        (("-", "--format", "vllm"), "file: no JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_usage_error(measurements, arguments, says):
    outcome = measurements("import", *arguments, input="no json")
    assert outcome.exit_code == 2
    assert says in outcome.stderr


def test_a_listing_is_cut_and_says_so(measurements):
    outcome = measurements("list", "--filter", "sku = mi300x-192gb", "--limit", "3", "--output", "json")
    answer = json.loads(outcome.stdout)
    assert len(answer["measurements"]) == 3
    assert answer["found"] > 3
    assert f"3 of {answer['found']} rows" in outcome.stderr
    everything = measurements("list", "--filter", "sku = mi300x-192gb", "--all", "--output", "json")
    assert len(json.loads(everything.stdout)["measurements"]) == answer["found"]
    assert everything.stderr == ""


def test_a_listing_for_reading_fits_its_page(measurements):
    outcome = measurements("list", "--filter", 'model : "gpt-oss" AND trust = A', "--limit", "5")
    assert outcome.exit_code == 0
    assert "openai/gpt-oss-120b" in outcome.stdout
    assert max(len(line) for line in outcome.stdout.splitlines()) <= 80


def test_a_bad_filter_is_a_usage_error(measurements):
    outcome = measurements("list", "--filter", "colour = red")
    assert outcome.exit_code == 2
    assert "there is no field 'colour'" in outcome.stderr


def test_an_import_can_be_taken_back(measurements, result_file):
    measurements("import", result_file, "--format", "vllm", *GIVEN)
    outcome = measurements("forget", "1")
    assert (outcome.exit_code, outcome.stdout) == (0, "import 1: 2 measurements deleted\n")
    assert listed(measurements("list", "--filter", "own = true", "--output", "json")) == []
    (record,) = json.loads(measurements("imports", "--output", "json").stdout)["imports"]
    assert (record["file_name"], record["landed"]) == ("run.json", 0)
    assert measurements("forget", "9").exit_code == 1


def test_a_database_without_a_schema_is_named_with_the_remedy(run, tmp_path):
    outcome = run("measurements", "list", "--database-url", f"sqlite:///{tmp_path / 'new.sqlite3'}")
    assert outcome.exit_code == 1
    assert "capplan db upgrade" in outcome.stderr
