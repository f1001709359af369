"""`capplan evaluate throughput` on a few invented rows, from the file to the tables."""

from __future__ import annotations

import csv
import json

import pytest

from capplan.catalog.loader import load_catalog
from capplan.catalog.shipped import read_shipped
from capplan.database import open_engine, session_scope, upgrade

USUAL = {
    "id": "",
    "source_title": "Made up",
    "model": "Llama-3.x-8B",
    "weight_precision": "fp8",
    "gpu": "H100-SXM-80GB",
    "num_gpus": "1",
    "tp": "1",
    "engine": "vLLM",
    "isl": "1000",
    "osl": "200",
    "load_kind": "concurrency",
    "load_value": "16",
    "metric": "tpot_ms",
    "statistic": "mean",
    "value": "8",
    "per_gpu": "false",
    "notes": "",
}
COLUMNS = list(USUAL)
ROWS = [
    {"id": "tpot", "notes": 'a "quoted" note, with a comma'},
    {"id": "median", "statistic": "unstated(mean or p50)"},
    {"id": "ttft", "metric": "ttft_ms", "value": "60"},
    {"id": "per device", "num_gpus": "2", "per_gpu": "true", "metric": "output_tokens_per_s", "value": "1500"},
    {"id": "both devices", "num_gpus": "2", "metric": "output_tokens_per_s", "value": "3000"},
    {"id": "unstated value", "value": ""},
    {"id": "no width", "tp": "", "num_gpus": "8"},
    {"id": "tail", "statistic": "p99"},
    {"id": "no such device", "gpu": "Abacus-9"},
    {"id": "bad number", "tp": "many"},
]


@pytest.fixture(scope="module")
def database_url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('evaluate') / 'catalog.sqlite3'}"
    engine = open_engine(url)
    upgrade(engine)
    with session_scope(engine) as session:
        load_catalog(session, read_shipped())
    engine.dispose()
    return url


@pytest.fixture
def evaluate(run, database_url, tmp_path):
    def invoke(*arguments: str, rows=ROWS):
        path = tmp_path / "figures.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(USUAL | row for row in rows)
        return run("evaluate", "throughput", str(path), "--database-url", database_url, *arguments)

    return invoke


@pytest.fixture
def predicted(evaluate, tmp_path):
    """Rows of the table of predictions by id."""
    outcome = evaluate("--predictions", str(tmp_path / "out.csv"))
    assert outcome.exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_every_row_comes_back_unchanged_with_a_prediction_or_a_reason(predicted):
    assert list(predicted) == [row["id"] for row in ROWS]
    for row in ROWS:
        back = predicted[row["id"]]
        assert {column: back[column] for column in COLUMNS} == USUAL | row
        assert bool(back["predicted"]) is not bool(back["not_predicted_reason"])
        assert bool(back["bottleneck"]) is bool(back["provenance"]) is bool(back["predicted"])


def test_reasons_name_what_is_missing(predicted):
    assert predicted["no width"]["not_predicted_reason"] == "the tensor parallelism is not stated"
    assert predicted["tail"]["not_predicted_reason"] == "the statistic p99 is no mean or median"
    assert predicted["no such device"]["not_predicted_reason"].startswith("no accelerator named 'Abacus-9'")
    assert predicted["bad number"]["not_predicted_reason"] == "tp is 'many', not a whole number"


def test_a_figure_per_device_is_predicted_per_device(predicted):
    assert float(predicted["both devices"]["predicted"]) == pytest.approx(
        2 * float(predicted["per device"]["predicted"])
    )


def test_a_value_is_not_needed_for_a_prediction_nor_changes_it(predicted):
    figures = {predicted[name]["predicted"] for name in ("tpot", "median", "unstated value")}
    assert len(figures) == 1


def test_a_prediction_is_a_decode_step_of_the_right_size(predicted):
    # 8 GB of fp8 weights at 3.35 TB/s take 2.4 ms; sixteen contexts and launches add to it, tenfold would be absurd.
    assert 2.4 < float(predicted["tpot"]["predicted"]) < 24


def test_json_has_tables_names_reasons_and_malformed_rows(evaluate, predicted):
    answer = json.loads(evaluate("--output", "json").stdout)
    assert (answer["rows"], answer["predicted"], answer["compared"]) == (10, 6, 5)
    families, engines, *_ = answer["tables"]
    strata = {stratum["stratum"]: stratum for stratum in families["strata"]}
    assert {name: stratum["rows"] for name, stratum in strata.items()} == {
        "tpot_concurrency": 2,
        "ttft_concurrency": 1,
        "output_rate_concurrency": 2,
    }
    ratio = float(predicted["tpot"]["predicted"]) / 8
    assert strata["tpot_concurrency"]["median_ratio"] == pytest.approx(ratio)
    assert strata["tpot_concurrency"]["median_error"] == pytest.approx(abs(ratio - 1))
    assert engines["title"] == "TPOT by engine"
    assert [stratum["stratum"] for stratum in engines["strata"]] == ["vllm"]
    assert answer["interval_coverage"] == []
    assert answer["malformed"] == [{"line": 11, "reason": "tp is 'many', not a whole number"}]
    assert {"reason": "the tensor parallelism is not stated", "rows": 1, "first_line": 8} in answer["not_predicted"]
    assert len(answer["worst"]) == 5
    taken = {(name["model"], name["weights"], name["sku"], name["engine"]) for name in answer["names"]}
    assert taken == {("meta-llama/Meta-Llama-3.1-8B", "fp8", "h100-sxm-80gb", "vllm")}


def test_tables_fit_a_page_and_names_are_printed_when_asked_for(evaluate):
    outcome = evaluate("--verbose")
    assert outcome.exit_code == 0
    assert max(map(len, outcome.stdout.splitlines())) <= 80
    assert "10 rows, 6 predicted, 5 compared" in outcome.stdout
    assert "line 11: tp is 'many', not a whole number" in outcome.stdout
    for taken in ("meta-llama/Meta-Llama-3.1-8B", "h100-sxm-80gb"):
        assert taken in outcome.stdout
    assert "What names were taken for" not in evaluate().stdout


def test_a_file_of_which_nothing_can_be_predicted_is_evaluated_too(evaluate):
    outcome = evaluate(rows=[{"gpu": "Abacus-9"}])
    assert outcome.exit_code == 0
    assert "1 rows, 0 predicted" in outcome.stdout


def test_coefficients_of_a_file_are_used(evaluate, tmp_path):
    """Host work of one step a millisecond longer makes a fixed batch's decode step that much longer."""
    rows = []
    for step_s in (1e-3, 2e-3):
        path = tmp_path / "coefficients.json"
        content = {"generations": [], "engines": [], "coefficients": {"step_s": step_s}, "residuals": {}}
        path.write_text(json.dumps(content))
        out = str(tmp_path / "out.csv")
        assert evaluate("--coefficients", str(path), "--predictions", out, rows=[{"load_kind": "batch"}]).exit_code == 0
        with open(out, newline="") as file:
            rows += [float(row["predicted"]) for row in csv.DictReader(file)]
    assert rows[1] - rows[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "is no JSON"), ("[]", "holds no object"), ('{"coefficients": {}}', "missing or unknown")],
)
def test_a_bad_coefficients_file_is_a_usage_error(evaluate, tmp_path, text, says):
    path = tmp_path / "coefficients.json"
    path.write_text(text)
    outcome = evaluate("--coefficients", str(path))
    assert outcome.exit_code == 2
    assert says in outcome.stderr


def test_measured_neighbours_correct_predictions_when_asked_to(evaluate, tmp_path):
    figures = []
    for flags in ((), ("--neighbours",)):
        outcome = evaluate("--predictions", str(tmp_path / "out.csv"), "--output", "json", *flags)
        assert json.loads(outcome.stdout)["neighbours"] is bool(flags)
        with (tmp_path / "out.csv").open(newline="") as file:
            figures.append([row["predicted"] for row in csv.DictReader(file)])
    plain, corrected = figures
    assert plain[0] != corrected[0]
    assert [bool(figure) for figure in plain] == [bool(figure) for figure in corrected]


@pytest.mark.parametrize("path", ["/nowhere/figures.csv", "/nowhere\x00"])
def test_a_file_that_cannot_be_read_is_a_usage_error(run, path):
    outcome = run("evaluate", "throughput", path)
    assert outcome.exit_code == 2
    assert "figures.csv" in outcome.stderr or "no path" in outcome.stderr


def test_predictions_that_cannot_be_written_are_a_usage_error(evaluate):
    outcome = evaluate("--predictions", "/nowhere/out.csv")
    assert outcome.exit_code == 2
    assert "cannot write /nowhere/out.csv" in outcome.stderr
