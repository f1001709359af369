"""An evaluation of the memory estimator, as tables that fit a page and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from capplan.catalog.evaluation_memory import name_uses, reason_counts
from capplan.catalog.evaluation_memory_errors import memory_error_tables, worst_rows
from capplan.catalog.evaluation_memory_file import MemoryMetric
from capplan.cli.output import new_table, print_heading
from capplan.cli.views.evaluation_parts import json_reasons, print_names, print_reasons
from capplan.cli.views.figures import ABSENT, count, figure

if TYPE_CHECKING:
    from capplan.catalog.evaluation_memory import MemoryEvaluation, MemoryOutcome
    from capplan.catalog.evaluation_memory_errors import MemoryErrorTable

_WORST: Final = 20
_COLUMNS: Final = 26
_SHORT: Final[Mapping[MemoryMetric, str]] = {
    MemoryMetric.WEIGHTS: "weights",
    MemoryMetric.KV_CACHE: "KV GiB",
    MemoryMetric.KV_TOKENS: "KV tokens",
    MemoryMetric.CONCURRENCY: "concurrency",
}


def print_evaluation(console: Console, evaluation: MemoryEvaluation, *, verbose: bool) -> None:
    """Errors by figure and property, the worst rows, what was not predicted and what names were taken for.

    Args:
        console: where to.
        evaluation: what to print.
        verbose: whether to print every row.
    """
    outcomes = evaluation.outcomes
    whole = sum(not outcome.reason for outcome in outcomes)
    part = sum(bool(outcome.reason and outcome.predicted) for outcome in outcomes)
    console.print(
        f"{count(len(outcomes))} rows: {count(whole)} predicted, {count(part)} with their weights alone, "
        f"{count(len(outcomes) - whole - part)} not; {count(len(evaluation.comparisons))} figures compared"
    )
    if evaluation.not_positive:
        console.print(f"{count(evaluation.not_positive)} stated figures are 0 or less and compared with nothing")
    stopped = sum(bool(outcome.faults) for outcome in outcomes)
    if stopped:
        console.print(f"{count(stopped)} rows are predicted not to start with the settings they state")
    console.print("Errors are |predicted / measured - 1| in percent; bias: median of predicted / measured - 1.")
    for table in memory_error_tables(evaluation.comparisons):
        if table.strata:
            print_heading(console, f"Errors by {table.by}" if table.by else "Errors")
            _print_errors(console, table)
    _print_worst(console, evaluation)
    _print_reasons(console, evaluation)
    _print_names(console, evaluation)
    if verbose:
        _print_rows(console, evaluation)


def _print_errors(console: Console, errors: MemoryErrorTable) -> None:
    right = ("rows", "median", "p90", "bias")
    table = new_table(console, errors.by, "figure", *right, right=right)
    last = ""
    for (value, metric), found in errors.strata.items():
        cells = (count(found.rows), _percent(found.median), _percent(found.p90), f"{found.bias * 100:+,.2f}")
        table.add_row("" if value == last else value, _SHORT[metric], *cells)
        last = value
    console.print(table)


def _percent(share: float) -> str:
    return f"{share * 100:,.2f}"


def _print_worst(console: Console, evaluation: MemoryEvaluation) -> None:
    rows = worst_rows(evaluation.comparisons, _WORST)
    if not rows:
        return
    print_heading(console, f"The {len(rows)} worst figures")
    right = ("line", "measured", "predicted", "off %")
    table = new_table(console, "line", "model\ndevice", "figure\nengine", *right[1:], right=right)
    for row in rows:
        table.add_row(
            str(row.line),
            f"{row.stated.model.rpartition('/')[2][:_COLUMNS]}\n{row.taken.sku[:_COLUMNS]}",
            f"{_SHORT[row.metric]}\n{row.taken.engine} {row.taken.version}",
            figure(row.measured),
            figure(row.predicted),
            f"{(row.ratio - 1) * 100:+,.1f}",
        )
    console.print(table)


def _print_reasons(console: Console, evaluation: MemoryEvaluation) -> None:
    reasons = reason_counts(evaluation)
    if not reasons:
        return
    print_heading(console, "Not predicted, or not in full, by reason")
    print_reasons(console, reasons.items())


def _print_names(console: Console, evaluation: MemoryEvaluation) -> None:
    uses = name_uses(evaluation)
    if not uses:
        return
    print_heading(console, "What names were taken for")
    print_names(console, uses)


def _print_rows(console: Console, evaluation: MemoryEvaluation) -> None:
    print_heading(console, "Every row: measured > predicted")
    figures = tuple(_SHORT.values())
    table = new_table(console, "line", *figures, right=("line", *figures))
    for outcome in evaluation.outcomes:
        table.add_row(str(outcome.row.line), *(_pair(outcome, metric) for metric in MemoryMetric))
    console.print(table)


def _pair(outcome: MemoryOutcome, metric: MemoryMetric) -> str:
    pair = (outcome.row.measured.get(metric), outcome.predicted.get(metric))
    return " > ".join(ABSENT if value is None else figure(value) for value in pair)


def print_json_evaluation(evaluation: MemoryEvaluation, basis: Mapping[str, Any]) -> None:
    """The same for programs, row by row."""
    outcomes = evaluation.outcomes
    answer = {
        "rows": len(outcomes),
        "predicted": sum(not outcome.reason for outcome in outcomes),
        "weights_alone": sum(bool(outcome.reason and outcome.predicted) for outcome in outcomes),
        "compared": len(evaluation.comparisons),
        "not_positive": evaluation.not_positive,
        **basis,
        "tables": [
            {
                "by": table.by,
                "strata": [
                    {"value": value, "figure": metric.value} | asdict(errors)
                    for (value, metric), errors in table.strata.items()
                ],
            }
            for table in memory_error_tables(evaluation.comparisons)
        ],
        "worst": [
            {
                "line": row.line,
                "figure": row.metric.value,
                "measured": row.measured,
                "predicted": row.predicted,
                "ratio": row.ratio,
                "model": row.stated.model,
                "gpu": row.stated.gpu,
                "source": row.stated.source,
            }
            for row in worst_rows(evaluation.comparisons, _WORST)
        ],
        "not_predicted": json_reasons(reason_counts(evaluation)),
        "names": [
            {"published": published, "taken_for": taken, "rows": rows}
            for (published, taken), rows in name_uses(evaluation).items()
        ],
        "outcomes": [
            {
                "line": outcome.row.line,
                "measured": {metric.value: value for metric, value in outcome.row.measured.items()},
                "predicted": {metric.value: value for metric, value in outcome.predicted.items()},
                "taken": asdict(outcome.taken),
                "faults": list(outcome.faults),
                "reason": outcome.reason,
            }
            for outcome in outcomes
        ],
    }
    sys.stdout.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")
