"""How errors on what was left out are laid out, from given figures."""

from __future__ import annotations

import io
import json
from types import MappingProxyType

import pytest
from rich.console import Console

from capplan.catalog.ablation import Ablated
from capplan.catalog.left_out import By, LeftOutFamily, LeftOutReport
from capplan.cli.views.left_out import markdown, print_json_reports, print_reports
from capplan.estimation.evaluation import Coverage, ErrorStatistics, FigureFamily

LONG = "The documentation of an engine | performance overview (version 1.0 data)"
FINE = ErrorStatistics(1_000, 10, 0.05, 0.06, 0.2, 0.09, 1.02)
POOR = ErrorStatistics(40, 1, 0.205, 0.3, 0.9, 0.13, 0.9)


def report(*, corrected: ErrorStatistics, inside: int, exact: bool = False) -> LeftOutReport:
    """A report on times per token, with two sources."""
    family = LeftOutFamily(corrected, POOR, Coverage(1_000, inside), MappingProxyType({"one": FINE, LONG: POOR}))
    return LeftOutReport(By.SOURCE, exact, MappingProxyType({FigureFamily.TPOT: family}))


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_errors_stand_beside_their_bars() -> None:
    text = lines(markdown([report(corrected=FINE, inside=900)], {}))
    assert "| TPOT | 1,000 | 20.5 | 5.0 (8) | 9.0 (12) | 20.0 (30) | +2.0 | 90.0 | - |" in text


@pytest.mark.parametrize(("inside", "named"), [(860, True), (880, False), (925, False), (960, True)])
def test_too_few_or_too_many_inside_is_missed(inside: int, named: bool) -> None:
    text = lines(markdown([report(corrected=FINE, inside=inside)], {}))
    assert any(line.endswith("| inside |") for line in text) is named


def test_what_is_missed_is_named() -> None:
    text = lines(markdown([report(corrected=POOR, inside=900)], {}))
    assert any(line.endswith("| median, by group, p90, bias |") for line in text)


def test_a_document_has_whole_names_and_a_terminal_what_fits() -> None:
    reports = [report(corrected=FINE, inside=900)]
    assert "| " + LONG.replace("|", "\\|") + " | 40 | 20.5 | 90.0 | -10.0 |" in markdown(reports, {})
    written = io.StringIO()
    print_reports(Console(width=80, file=written), reports, {})
    text = written.getvalue()
    assert LONG[:30] in text
    assert LONG not in text
    assert max(map(len, text.splitlines())) <= 80


def test_it_says_how_fits_were_made() -> None:
    assert "to first order" in markdown([report(corrected=FINE, inside=900)], {})
    assert "to first order" not in markdown([report(corrected=FINE, inside=900, exact=True)], {})


def test_parts_taken_away_are_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    errors = MappingProxyType({FigureFamily.TPOT: 0.1, FigureFamily.TTFT: 0.25})
    ablated = {"tile ramp": Ablated(errors, MappingProxyType({FigureFamily.TPOT: 0.2}))}
    (line,) = [line for line in lines(markdown([], ablated)) if "tile ramp" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    # families without rows have no error
    assert cells == ["tile ramp", "10.0", "-", "25.0", "20.0", "-", "-", "products of few tokens run at full rate"]
    print_json_reports([], ablated, {"rows": 7})
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"] == 7
    assert answer["ablation"] == [
        {
            "without": "tile ramp",
            "seen": {"tpot_concurrency": 0.1, "ttft_concurrency": 0.25},
            "left_out": {"tpot_concurrency": 0.2},
        }
    ]
