"""Errors on what was left out, and without parts of the estimator: as tables, as Markdown, and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console

from capplan.catalog.ablation import FAMILIES, PARTS, Ablated
from capplan.catalog.bars import MOST_BIAS, Bars, bars_of, missed
from capplan.catalog.left_out import LeftOutReport
from capplan.cli.output import new_table, print_heading
from capplan.cli.views.figures import count
from capplan.estimation.evaluation import COVERAGE_TARGET, CoverageVerdict, FigureFamily

_NAME_COLUMNS: Final = 34
_WORDS_LAST: Final = ("missed", "which means")


@dataclass(frozen=True, slots=True)
class LaidOut:
    """One table.

    Attributes:
        title: above it.
        header: names of the columns, of which the first and the last are words.
        rows: the cells.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def laid_out(reports: Sequence[LeftOutReport], ablated: Mapping[str, Ablated]) -> list[LaidOut]:
    """All tables, in the order they are read in."""
    tables = []
    for report in reports:
        tables.append(_families(report))
        tables += [_groups(report, family) for family in FAMILIES if family in report.families]
    return [*tables, _ablation(ablated)] if ablated else tables


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"


def _beside(share: float, bar: float | None) -> str:
    return _percent(share) if bar is None else f"{_percent(share)} ({bar * 100:.0f})"


def _families(report: LeftOutReport) -> LaidOut:
    rows = []
    for family, found in report.families.items():
        statistics, bars = found.corrected, bars_of(family, report.by)
        rows.append(
            (
                family.label,
                count(statistics.rows),
                _percent(found.step_model.median_error),
                _beside(statistics.median_error, bars.median),
                _beside(statistics.group_median_error, bars.by_group),
                _beside(statistics.p90_error, bars.p90),
                f"{(statistics.median_ratio - 1.0) * 100:+.1f}",
                _percent(found.coverage.share),
                ", ".join(_missed(report, family)) or "-",
            )
        )
    header = ("", "rows", "model alone", "median", "by group", "p90", "bias", "inside", "missed")
    return LaidOut(f"Each {report.by.value} left out in turn", header, tuple(rows))


def _missed(report: LeftOutReport, family: FigureFamily) -> tuple[str, ...]:
    found = report.families[family]
    names = missed(found.corrected, bars_of(family, report.by)) if bars_of(family, report.by) != Bars() else ()
    outside = found.coverage.verdict in (CoverageVerdict.BELOW, CoverageVerdict.ABOVE)
    return (*names, "inside") if outside else names


def _groups(report: LeftOutReport, family: FigureFamily) -> LaidOut:
    rows = tuple(
        (
            name,
            count(statistics.rows),
            _percent(statistics.median_error),
            _percent(statistics.p90_error),
            f"{(statistics.median_ratio - 1.0) * 100:+.1f}",
        )
        for name, statistics in report.families[family].groups.items()
    )
    return LaidOut(
        f"{family.label} by {report.by.value} left out, worst last", ("", "rows", "median", "p90", "bias"), rows
    )


def _ablation(ablated: Mapping[str, Ablated]) -> LaidOut:
    words = {part.name: part.without for part in PARTS}
    rows = tuple(
        (
            name,
            *(
                _percent(of[family]) if family in of else "-"
                for of in (errors.seen, errors.left_out)
                for family in FAMILIES
            ),
            words.get(name, "-"),
        )
        for name, errors in ablated.items()
    )
    names = tuple(family.label for family in FAMILIES)
    header = ("without", *(f"{name}" for name in names), *(f"{name}, model left out" for name in names), "which means")
    return LaidOut("What each part buys: median errors without it, the rest fitted again", header, rows)


def explanation(reports: Sequence[LeftOutReport]) -> str:
    """What the columns mean."""
    least, greatest = COVERAGE_TARGET
    exact = any(report.exact for report in reports)
    how = "fitted anew" if exact else "fitted anew to first order"
    return (
        "Errors are |predicted / measured - 1| in percent, with the bar they are held to in brackets; every figure was "
        f"predicted by a step model {how} and by corrections that never saw its group. Model alone: without the "
        "corrections. By group: median over (source, model, GPU) of the mean error inside each. Bias: median of "
        f"predicted / measured - 1, held to {MOST_BIAS * 100:.0f} either way. Inside: figures inside their 90 % "
        f"interval, held to {least * 100:.0f} to {greatest * 100:.0f}."
    )


def print_reports(console: Console, reports: Sequence[LeftOutReport], ablated: Mapping[str, Ablated]) -> None:
    """Everything as tables that fit a page."""
    console.print(explanation(reports))
    for table in laid_out(reports, ablated):
        print_heading(console, table.title)
        header = tuple(name.replace(", ", ",\n").replace("model alone", "model\nalone") for name in table.header)
        words_last = table.header[-1] in _WORDS_LAST
        shown = new_table(console, *header, right=header[1:-1] if words_last else header[1:])
        for row in table.rows:
            shown.add_row(row[0][:_NAME_COLUMNS], *row[1:])
        console.print(shown)


def markdown(reports: Sequence[LeftOutReport], ablated: Mapping[str, Ablated]) -> str:
    """The same for a document."""
    parts = [explanation(reports)]
    for table in laid_out(reports, ablated):
        lines = [_line(table.header), _line("---" if i == 0 else "---:" for i in range(len(table.header)))]
        parts.append(f"### {table.title}\n\n" + "\n".join([*lines, *map(_line, table.rows)]))
    return "\n\n".join(parts) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def print_json_reports(
    reports: Sequence[LeftOutReport], ablated: Mapping[str, Ablated], head: Mapping[str, Any]
) -> None:
    """Everything for programs; errors are shares, not percent."""
    answer = dict(head) | {
        "left_out": [
            {
                "by": report.by.value,
                "exact": report.exact,
                "families": [
                    {
                        "family": family.value,
                        "corrected": asdict(found.corrected),
                        "step_model": asdict(found.step_model),
                        "bars": asdict(bars_of(family, report.by)),
                        "missed": list(_missed(report, family)),
                        "inside": asdict(found.coverage) | {"share": found.coverage.share},
                        "groups": [{"name": name} | asdict(errors) for name, errors in found.groups.items()],
                    }
                    for family, found in report.families.items()
                ],
            }
            for report in reports
        ],
        "ablation": [
            {"without": name, "seen": _json_errors(errors.seen), "left_out": _json_errors(errors.left_out)}
            for name, errors in ablated.items()
        ],
    }
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")


def _json_errors(errors: Mapping[FigureFamily, float]) -> dict[str, float]:
    return {family.value: error for family, error in errors.items()}
