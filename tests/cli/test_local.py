"""``--local``: the whole way from flags to the shipped catalogue and back, in this process."""

from __future__ import annotations

import json
import os
import re

import pytest
from google.protobuf import json_format
from typer.testing import CliRunner

from capplan.cli.main import app
from capplan.v1 import catalog_service_pb2, planner_service_pb2

SHAPE = ["--input-tokens", "1000", "--output-tokens", "300", "--max-context-tokens", "8192"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("CAPPLAN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, input: str | None = None):
        return CliRunner().invoke(app, list(arguments), input=input, catch_exceptions=False)

    return invoke


def plan_json(run, *arguments: str) -> planner_service_pb2.PlanPlacementResponse:
    result = run("plan", *arguments, "--local", "--output", "json")
    assert result.exit_code in {0, 3}, result.stderr
    return json_format.Parse(result.stdout, planner_service_pb2.PlanPlacementResponse())


def test_the_readable_question_has_an_answer_that_carries_the_target(run, tmp_path):
    answer = plan_json(
        run, "Qwen/Qwen3-32B", "--precision", "fp8", "--output-tokens-per-s", "5000", *SHAPE,
        "--ttft-ms", "1000", "--itl-ms", "40",
    )  # fmt: skip
    assert answer.placements
    for placement in answer.placements:
        assert placement.capacity.output_tokens_per_s.value * placement.replica_count >= 5000
        assert placement.operating_point.itl_ms.value <= 40
        assert placement.operating_point.ttft_ms.value <= 1000
    assert list(tmp_path.iterdir()) == [], "a question leaves no file behind"


def test_the_table_of_a_real_answer_fits_80_columns_and_its_slices_start_where_the_board_allows(run):
    question = ["plan", "Qwen/Qwen3-4B", "--output-tokens-per-s", "3000", *SHAPE, "--mig", "required",
                "--accelerator", "h100-sxm-80gb"]  # fmt: skip
    out = run(*question, "--local", "--all-rejections").stdout
    assert max(map(len, out.splitlines())) <= 80
    profile = re.search(r"MIG layout: (\S+) \(profile id (\d+)\)", out)
    starts = [int(start) for start in re.search(r"^start  (.*)$", out, re.MULTILINE).group(1).split()]
    listed = run("catalog", "mig-profile", f"migBoards/h100-80gb-sxm5/profiles/{profile.group(2)}", "--local",
                 "--output", "json")  # fmt: skip
    entry = json.loads(listed.stdout)["mig_profile"]
    assert entry["profile"] == profile.group(1)
    assert starts
    assert set(starts) <= set(entry["starts"])
    assert f"nvidia.com/mig-{profile.group(1)}" in out


def test_parameters_of_a_catalogue_model_are_those_of_its_checkpoint(run):
    result = run("describe-model", "Qwen/Qwen3-4B", "--local", "--output", "json", "--precision", "bf16")
    model = json.loads(result.stdout)
    # From its published shape: width 2,560, 36 layers, 32 query and 8 key/value heads of 128, feed-forward of 9,728,
    # a vocabulary of 151,936 with a tied head; a norm before attention and feed-forward, one on queries, one on keys.
    attention = 2560 * (32 + 8 + 8) * 128 + 32 * 128 * 2560
    layer = attention + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
    total = 36 * layer + 151_936 * 2560 + 2560
    assert model["total_parameters"] == total
    assert sum(group["total_parameters"] for group in model["parameter_groups"]) == total
    assert model["precisions"][0]["weight_bytes"] == model["weight_bytes"] == 2 * total


def test_an_estimate_says_whether_it_starts(run):
    small = run("estimate", "Qwen/Qwen3-4B", "h100-sxm-80gb", *SHAPE, "--local")
    assert (small.exit_code, small.stdout.split(":")[0]) == (0, "STARTS")
    # 70.6 billion parameters in two bytes each are 141 GB; the device has 80 GiB.
    large = run("estimate", "meta-llama/Llama-3.1-70B", "h100-sxm-80gb", "--precision", "bf16", *SHAPE, "--local")
    assert (large.exit_code, large.stdout.split(":")[0]) == (3, "DOES NOT START")
    assert max(map(len, (small.stdout + large.stdout).splitlines())) <= 80


def test_an_estimate_of_many_lines_answers_each(run):
    good = {
        "model": {"name": "Qwen/Qwen3-4B"},
        "workload": {"input_tokens": 100, "output_tokens": 100, "max_context_tokens": 4096},
        "deployment": {"accelerator": "h100-sxm-80gb"},
    }
    unknown = {**good, "deployment": {"accelerator": "h100-sxm-81gb"}}
    text = "\n".join(json.dumps(line) for line in (good, unknown, {}, good))
    result = run("estimate", "--requests", "-", "--local", input=text)
    assert result.exit_code == 1
    first, second, third, fourth = (json.loads(line) for line in result.stdout.splitlines())
    assert first["starts"] is fourth["starts"] is True
    assert first == fourth
    assert (second["error"]["line"], second["error"]["reason"]) == (2, "NOT_FOUND")
    assert "h100-sxm-80gb" in second["error"]["message"]
    assert (third["error"]["line"], third["error"]["reason"]) == (3, "INVALID_INPUT")


def test_a_refused_field_is_named_with_its_flag(run):
    result = run("plan", "Qwen/Qwen3-4B", "--output-tokens-per-s", "-5", *SHAPE, "--local")
    assert result.exit_code == 2
    assert "target.output_tokens_per_s (--output-tokens-per-s)" in result.stderr
    result = run("plan", "Qwen/Qwen3-4B", "--output-tokens-per-s", "5", *SHAPE, "--local", "--precision", "fp9")
    assert result.exit_code == 2
    assert "precision.weights (--precision)" in result.stderr
    assert "fp8" in result.stderr


def test_an_unknown_model_is_refused_with_near_names(run):
    result = run("plan", "Qwen/Qwen3-23B", "--output-tokens-per-s", "5", *SHAPE, "--local")
    assert result.exit_code == 1
    assert "Qwen/Qwen3-32B" in result.stderr


@pytest.mark.parametrize(
    ("listing", "rows", "message"),
    [
        ("accelerators", "accelerators", catalog_service_pb2.ListAcceleratorsResponse),
        ("mig-profiles", "mig_profiles", catalog_service_pb2.ListMigProfilesResponse),
        ("models", "model_profiles", catalog_service_pb2.ListModelProfilesResponse),
        ("prices", "prices", catalog_service_pb2.ListPricesResponse),
    ],
)
def test_every_listing_has_a_table_json_and_single_entries(run, listing, rows, message):
    listed = run("catalog", listing, "--local", "--all", "--page-size", "30", "--output", "json")
    entries = getattr(json_format.Parse(listed.stdout, message()), rows)
    # More than one page, and no entry twice.
    assert len({entry.name for entry in entries}) == len(entries) > 30
    table = run("catalog", listing, "--local", "--all")
    assert table.exit_code == 0
    assert max(map(len, table.stdout.splitlines())) <= 80
    single = listing.removesuffix("s")
    shown = run("catalog", single, entries[-1].name, "--local")
    assert shown.exit_code == 0
    assert entries[-1].name in re.sub(r"\s+", "", shown.stdout)
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_the_profiles_of_one_board_can_be_listed(run):
    listed = run("catalog", "mig-profiles", "a100-80gb", "--local", "--output", "json")
    names = [entry["name"] for entry in json.loads(listed.stdout)["mig_profiles"]]
    assert names
    assert all(name.startswith("migBoards/a100-80gb/profiles/") for name in names)


def test_a_filter_that_does_not_parse_is_a_usage_error(run):
    result = run("catalog", "accelerators", "--local", "--filter", "vendor ~ x")
    assert result.exit_code == 2
    assert "filter (--filter)" in result.stderr


def test_loading_the_catalogue_twice_changes_nothing_the_second_time(run, tmp_path):
    url = f"sqlite:///{tmp_path}/facts.sqlite3"
    first, second = run("catalog", "load", "--database-url", url), run("catalog", "load", "--database-url", url)
    assert (first.exit_code, second.exit_code) == (0, 0)

    def new_and_changed(out: str) -> int:
        rows = re.findall(r"^\w+\s+(\d+)\s+(\d+)\s+\d+\s+\d+\s+\d+\s*$", out, re.MULTILINE)
        assert len(rows) >= 6
        return sum(int(new) + int(changed) for new, changed in rows)

    assert new_and_changed(first.stdout) > 100
    assert new_and_changed(second.stdout) == 0


def test_local_questions_use_the_database_of_the_environment(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPPLAN_DATABASE_URL", f"sqlite:///{tmp_path}/mine.sqlite3")
    assert run("catalog", "accelerator", "h100-sxm-80gb", "--local").exit_code == 0
    assert (tmp_path / "mine.sqlite3").exists()
    monkeypatch.setenv("CAPPLAN_DATABASE_URL", "sqlite:////no/such/folder/x.sqlite3")
    result = run("catalog", "accelerator", "h100-sxm-80gb", "--local")
    assert result.exit_code == 1
    assert "/no/such/folder" in result.stderr


def test_the_schema_can_be_made_and_asked_for(run, tmp_path):
    url = f"sqlite:///{tmp_path}/new.sqlite3"
    assert "schema revision none" in run("db", "version", "--database-url", url).stdout
    upgraded = run("db", "upgrade", "--database-url", url).stdout.split()[-1]
    assert f"schema revision {upgraded}, newest {upgraded}" in run("db", "version", "--database-url", url).stdout


def test_a_wrong_setting_in_the_environment_is_a_usage_error(run, monkeypatch):
    monkeypatch.setenv("CAPPLAN_PORT", "many")
    result = run("catalog", "models", "--local")
    assert result.exit_code == 2
    assert "setting port" in result.stderr
