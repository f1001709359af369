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
    "kv_precision": "",
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
    {"id": "no width, batch", "tp": "", "load_kind": "batch"},
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
    assert predicted["no width, batch"]["not_predicted_reason"] == "the tensor parallelism is not stated"
    assert predicted["tail"]["not_predicted_reason"] == "the statistic p99 is no mean or median"
    assert predicted["no such device"]["not_predicted_reason"].startswith("no accelerator named 'Abacus-9'")
    assert predicted["bad number"]["not_predicted_reason"] == "tp is 'many', not a whole number"


def test_a_figure_per_device_is_predicted_per_device(predicted):
    assert float(predicted["both devices"]["predicted"]) == pytest.approx(
        2 * float(predicted["per device"]["predicted"])
    )


def test_a_row_without_tensor_parallelism_is_predicted_in_the_best_layout(evaluate, tmp_path):
    """The best of what the same row gives in each layout: the lowest latency, the highest rate."""
    figures = {}
    for metric in ("tpot_ms", "output_tokens_per_s"):
        rows = [{"id": tp, "tp": tp, "num_gpus": "4", "metric": metric} for tp in ("1", "2", "4", "")]
        assert evaluate("--predictions", str(tmp_path / "out.csv"), rows=rows).exit_code == 0
        with (tmp_path / "out.csv").open(newline="") as file:
            back = {row["id"]: row for row in csv.DictReader(file)}
        figures[metric] = {tp: float(row["predicted"]) for tp, row in back.items()}
        assert [bool(row["layout_chosen"]) for row in back.values()] == [False, False, False, True]
        chosen = next(tp for tp in ("1", "2", "4") if figures[metric][tp] == figures[metric][""])
        replicas = 4 // int(chosen)
        note = f"layout chosen: tensor parallel {chosen}, replicas {replicas}, of 3 tried"
        assert back[""]["layout_chosen"] == note
    for metric, best in (("tpot_ms", min), ("output_tokens_per_s", max)):
        searched = figures[metric].pop("")
        assert searched == best(figures[metric].values())
        assert len(set(figures[metric].values())) == 3


def test_a_value_is_not_needed_for_a_prediction_nor_changes_it(predicted):
    figures = {predicted[name]["predicted"] for name in ("tpot", "median", "unstated value")}
    assert len(figures) == 1


def test_a_prediction_is_a_decode_step_of_the_right_size(predicted):
    # 8 GB of fp8 weights at 3.35 TB/s take 2.4 ms; sixteen contexts and launches add to it, tenfold would be absurd.
    assert 2.4 < float(predicted["tpot"]["predicted"]) < 24


def test_json_has_tables_names_reasons_and_malformed_rows(evaluate, predicted):
    answer = json.loads(evaluate("--output", "json").stdout)
    assert (answer["rows"], answer["predicted"], answer["compared"]) == (11, 7, 6)
    families, layouts, engines, *_ = answer["tables"]
    strata = {stratum["stratum"]: stratum for stratum in families["strata"]}
    assert {name: stratum["rows"] for name, stratum in strata.items()} == {
        "tpot_concurrency": 3,
        "ttft_concurrency": 1,
        "output_rate_concurrency": 2,
    }
    ratio = float(predicted["tpot"]["predicted"]) / 8
    # Two of the three rows are the same figure, so it is the median of all.
    assert strata["tpot_concurrency"]["median_ratio"] == pytest.approx(ratio)
    assert strata["tpot_concurrency"]["median_error"] == pytest.approx(abs(ratio - 1))
    assert layouts["title"] == "layout chosen"
    assert sum(stratum["rows"] for stratum in layouts["strata"]) == answer["layout_chosen"] == 1
    (layout,) = answer["layouts"]
    assert (layout["line"], layout["tensor_parallel"] * layout["replicas"]) == (8, 8)
    assert engines["title"] == "TPOT by engine"
    assert [stratum["stratum"] for stratum in engines["strata"]] == ["vllm"]
    covered = {entry["family"]: entry["rows"] for entry in answer["interval_coverage"]}
    assert covered == {"tpot_concurrency": 3, "ttft_concurrency": 1, "output_rate_concurrency": 2}
    assert answer["malformed"] == [{"line": 12, "reason": "tp is 'many', not a whole number"}]
    assert {"reason": "the tensor parallelism is not stated", "rows": 1, "first_line": 9} in answer["not_predicted"]
    assert len(answer["worst"]) == 6
    assert all(row["bottleneck"] for row in answer["worst"])
    taken = {(name["model"], name["weights"], name["sku"], name["engine"]) for name in answer["names"]}
    assert taken == {("meta-llama/Meta-Llama-3.1-8B", "fp8", "h100-sxm-80gb", "vllm")}


def test_tables_fit_a_page_and_every_name_is_printed_when_asked_for(evaluate):
    outcome = evaluate("--verbose")
    assert outcome.exit_code == 0
    assert max(map(len, outcome.stdout.splitlines())) <= 80
    assert "11 rows, 7 predicted, 6 compared" in outcome.stdout
    assert "layout chosen: 1 rows" in outcome.stdout.replace(" \n", " ")
    assert "line 12: tp is 'many', not a whole number" in outcome.stdout
    for taken in ("meta-llama/Meta-Llama-3.1-8B", "h100-sxm-80gb"):
        assert taken in outcome.stdout


def test_names_that_are_not_the_catalogues_are_printed_without_asking(evaluate):
    rows = [{}, {"model": "Qwen3-8B"}, {"gpu": "B200-SXM-180GB"}, {"engine": "vLLM (2023)", "kv_precision": "fp8"}]
    text = evaluate(rows=rows).stdout
    names = text[text.index("What names were taken for") :]
    assert max(map(len, names.splitlines())) <= 80
    # Each name with the rows that use it, and the formats of a model's.
    words = " ".join(names.split())
    assert "3 Llama-3.x-8B meta-llama/Meta-Llama-3.1-8B (fp8, fp8 with KV fp8)" in words
    assert "1 B200-SXM-180GB b200-180gb" in words
    assert "1 vLLM (2023) vllm" in words
    # A name that only lacks its publisher, or is in capitals, is the catalogue's.
    assert "Qwen" not in names
    assert "H100" not in names


def test_nothing_is_said_of_names_that_are_all_the_catalogues(evaluate):
    assert "every name is the catalogue's" in evaluate(rows=[{"model": "Qwen3-8B"}]).stdout


def test_a_file_of_which_nothing_can_be_predicted_is_evaluated_too(evaluate):
    outcome = evaluate(rows=[{"gpu": "Abacus-9"}])
    assert outcome.exit_code == 0
    assert "1 rows, 0 predicted" in outcome.stdout


def test_coefficients_of_a_file_are_used(evaluate, tmp_path):
    """Host work of one step a millisecond longer makes a fixed batch's decode step that much longer."""
    rows = []
    for step_s in (1e-3, 2e-3):
        path = tmp_path / "coefficients.json"
        content: dict = {"generations": [], "engines": [], "coefficients": {"step_s": step_s}, "residuals": {}}
        content |= {"sites": [], "reach": []}
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


@pytest.mark.parametrize("path", ["/nowhere/figures.csv", "/nowhere\x00"])
def test_a_file_that_cannot_be_read_is_a_usage_error(run, path):
    outcome = run("evaluate", "throughput", path)
    assert outcome.exit_code == 2
    assert "figures.csv" in outcome.stderr or "no path" in outcome.stderr


def test_predictions_that_cannot_be_written_are_a_usage_error(evaluate):
    outcome = evaluate("--predictions", "/nowhere/out.csv")
    assert outcome.exit_code == 2
    assert "cannot write /nowhere/out.csv" in outcome.stderr
