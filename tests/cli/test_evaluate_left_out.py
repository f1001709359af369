"""`capplan evaluate left-out` on a database file with few measurements."""

from __future__ import annotations

import json

import pytest

from capplan.catalog import ablation
from capplan.catalog.ablation import Part
from capplan.estimation.calibration import Pinned

DOCUMENT = "# Title\n\n<!-- tables: begin -->\nold\n<!-- tables: end -->\n\nafter\n"


@pytest.fixture
def one_part(monkeypatch):
    """One part to take away, in place of a minute each for all of them."""
    part = Part("request handling", "a request costs nothing before its first token", Pinned({"request_s": 1e-12}))
    for module in ("capplan.catalog.ablation", "capplan.cli.views.left_out"):
        monkeypatch.setattr(f"{module}.PARTS", (part,))
    assert [one.name for one in ablation.PARTS] == [part.name]


def answer(run, *arguments: str):
    outcome = run("evaluate", "left-out", "--output", "json", *arguments)
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


def test_every_device_is_predicted_by_the_others(run, database):
    (report,) = answer(run, "--by", "gpu")["left_out"]
    assert (report["by"], report["exact"]) == ("gpu", False)
    families = {family["family"]: family for family in report["families"]}
    # 2 devices at 10 loads each
    assert {name: family["corrected"]["rows"] for name, family in families.items()} == {
        "tpot_concurrency": 20,
        "ttft_concurrency": 20,
        "output_rate_concurrency": 20,
    }
    for family in families.values():
        rows = {group["name"]: group["rows"] for group in family["groups"]}
        assert rows == {"h100-sxm-80gb": 10, "a100-sxm4-80gb": 10}
        errors = [group["median_error"] for group in family["groups"]]
        assert errors == sorted(errors)
    assert families["tpot_concurrency"]["bars"] == {"median": 0.08, "by_group": 0.12, "p90": 0.30}
    # Rows made up of one truth for all devices: what one says of the other is nearly right.
    assert families["tpot_concurrency"]["corrected"]["median_error"] < 0.1
    assert "median" not in families["tpot_concurrency"]["missed"]


def test_a_fit_made_anew_says_nearly_the_same(run, database):
    first, anew = (answer(run, "--by", "gpu", *flags)["left_out"][0] for flags in ((), ("--exact",)))
    assert anew["exact"]
    for a, b in zip(first["families"], anew["families"], strict=True):
        assert b["step_model"]["median_error"] == pytest.approx(a["step_model"]["median_error"], abs=0.05)


@pytest.mark.usefixtures("one_part")
def test_taking_a_part_away_shows_where_it_counts(run, database):
    found = {part["without"]: part for part in answer(run, "--by", "source", "--ablation")["ablation"]}
    assert list(found) == ["nothing", "measured corrections", "request handling"]
    # Handling a request is 40 ms of a first token, and no part of the later ones.
    whole, without = found["nothing"]["seen"], found["request handling"]["seen"]
    assert without["ttft_concurrency"] > whole["ttft_concurrency"] + 0.05
    assert without["tpot_concurrency"] < whole["tpot_concurrency"] + 0.02


@pytest.mark.usefixtures("one_part")
def test_tables_are_printed_and_put_into_a_document(run, database, tmp_path):
    file = tmp_path / "accuracy.md"
    file.write_text(DOCUMENT)
    outcome = run("evaluate", "left-out", "--by", "model", "--ablation", "--markdown", str(file))
    assert outcome.exit_code == 0, outcome.output
    assert "Each model left out in turn" in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= 80
    text = file.read_text()
    assert text.startswith("# Title\n\n<!-- tables: begin -->\n")
    assert text.endswith("<!-- tables: end -->\n\nafter\n")
    assert "old" not in text
    assert "| TPOT | 20 |" in text
    assert "| request handling |" in text


@pytest.mark.parametrize("text", ["# no place for tables\n", "<!-- tables: begin -->\nno end\n"])
def test_a_document_without_a_place_for_the_tables_is_refused_before_the_fit(run, database, tmp_path, text):
    file = tmp_path / "accuracy.md"
    file.write_text(text)
    outcome = run("evaluate", "left-out", "--markdown", str(file))
    assert outcome.exit_code == 2
    assert "<!-- tables: begin -->" in outcome.output
    assert file.read_text() == text
