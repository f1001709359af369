"""`capplan evaluate memory` from the file to the tables; what it predicts is tested with the catalogue."""

from __future__ import annotations

import csv
import json

import pytest

COLUMNS = "engine,engine_version,model,weight_precision,gpu,gpu_mem_gb,tp,gpu_memory_utilization"
TABLE = f"""{COLUMNS},weights_gib_per_gpu,kv_tokens
vllm,0.19.0,meta-llama/Llama-3.1-8B-Instruct,bf16,H100,80,1,0.95,14.99,476016
vllm,0.19.0,no/such-model,bf16,H100,80,1,0.95,,
tgi,2.2,Qwen/Qwen3-8B,bf16,H100,80,1,0.95,15.3,
vllm,0.19.0,Qwen/Qwen3-8B,bf16,H100,80,many,0.95,,
"""


@pytest.fixture
def evaluate(run, tmp_path):
    def invoke(*arguments: str, content: str = TABLE):
        (tmp_path / "logs.csv").write_text(content)
        return run("evaluate", "memory", str(tmp_path / "logs.csv"), *arguments)

    return invoke


def test_tables_tell_errors_reasons_and_what_names_were_taken_for(evaluate):
    outcome = evaluate()
    assert outcome.exit_code == 0
    text = " ".join(outcome.output.split())
    assert "4 rows: 1 predicted, 1 with their weights alone, 2 not; 3 figures compared" in text
    for heading in ("engine", "settings", "GPU", "model family", "precision"):
        assert f"Errors by {heading}" in text
    assert "tp is 'many', not a whole number" in text
    assert "no model named 'no/such-model'" in text
    assert "Qwen/Qwen3-8B, bf16, KV bf16" in text
    assert max(map(len, outcome.output.splitlines())) <= 80


def test_json_has_every_row(evaluate):
    answer = json.loads(evaluate("--output", "json").output)
    assert (answer["rows"], answer["predicted"], answer["weights_alone"], answer["compared"]) == (4, 1, 1, 3)
    assert [outcome["line"] for outcome in answer["outcomes"]] == [2, 3, 4, 5]
    assert answer["outcomes"][0]["predicted"]["weights_gib_per_gpu"] == pytest.approx(14.99, rel=0.01)


def test_predictions_are_written_beside_every_row(evaluate, tmp_path):
    assert evaluate("--predictions", str(tmp_path / "out.csv")).exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["predicted_weights_gib_per_gpu"]) for row in rows] == [True, False, True, False]
    assert [bool(row["not_predicted_reason"]) for row in rows] == [False, True, True, True]


@pytest.mark.parametrize(("content", "fault"), [("model,kv_tokens\n", "no column gpu"), ("", "no column model, gpu")])
def test_a_file_that_is_no_such_table_ends_with_a_sentence(evaluate, content, fault):
    outcome = evaluate(content=content)
    assert outcome.exit_code != 0
    assert fault in outcome.output


def test_a_file_that_is_not_there_ends_with_a_sentence(run):
    outcome = run("evaluate", "memory", "/nowhere/logs.csv")
    assert outcome.exit_code != 0
    assert "cannot read /nowhere/logs.csv" in outcome.output


def test_help_names_the_columns(run):
    text = " ".join(run("evaluate", "memory", "--help").output.split())
    assert "gpu_memory_utilization" in text
    assert "not stated" in text
