"""What the documents point to is there, and figures that stand in two of them are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capplan.cli.evaluate_left_out import document_around_tables

CHECKOUT = Path(__file__).resolve().parents[2]
ACCURACY = CHECKOUT / "docs/accuracy.md"
DOCUMENTS = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def rows_of(text: str) -> dict[str, list[str]]:
    """Rows of Markdown tables by their first cell."""
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if "|" in line]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    missing = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert missing == []


def test_the_page_of_errors_has_a_place_for_its_tables() -> None:
    before, after = document_around_tables(str(ACCURACY))
    tables = ACCURACY.read_text().removeprefix(before).removesuffix(after)
    for by in ("gpu", "model", "source"):
        assert f"### Each {by} left out in turn" in tables
    assert "### What each part buys" in tables


@pytest.mark.parametrize(
    ("told", "family"),
    [("time per output token", "TPOT"), ("offline maximum tokens/s", "offline maximum"), ("TTFT under", "TTFT")],
)
def test_the_readme_states_the_errors_of_that_page(told: str, family: str) -> None:
    parts = re.split(r"### Each (?:gpu|model|source) left out in turn", ACCURACY.read_text())[1:]
    expected = []
    for part in parts:
        rows, _, median, _, p90, _, inside, _ = rows_of(part.split("###")[0])[family]
        shown = [float(cell.split()[0]) for cell in (median, p90)]
        expected.append((rows, *shown, round(float(inside))))
    (name, cells) = next((n, c) for n, c in rows_of((CHECKOUT / "README.md").read_text()).items() if n.startswith(told))
    (rows,) = re.findall(r"\(([\d,]+)", name)
    stated = [[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in cells]
    assert [(rows, *numbers) for numbers in stated] == expected
