"""An evaluation of the estimator, as tables that fit a page and as JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from capplan.catalog.evaluation import reason_counts
from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.figures import count, figure
from capplan.estimation.evaluation import ErrorStatistics, error_tables, interval_coverage, worst

if TYPE_CHECKING:
    from capplan.catalog.evaluation import Evaluation

_WORST: Final = 20
_WORST_COLUMNS: Final = 23
_FEW: Final = 20
"""Malformed rows, and reasons, that are read; JSON has all of them."""
_STRATUM_COLUMNS: Final = 30


def print_evaluation(console: Console, evaluation: Evaluation, basis: str, *, verbose: bool) -> None:
    """Errors by stratum, coverage, the worst rows and what was not predicted.

    Args:
        console: where to.
        evaluation: what to print.
        basis: which coefficients and corrections it rests on.
        verbose: whether to print what names were taken for.
    """
    outcomes = evaluation.outcomes
    predicted = sum(outcome.predicted is not None for outcome in outcomes)
    console.print(
        f"{count(len(outcomes))} rows, {count(predicted)} predicted, {count(len(evaluation.comparisons))} compared "
        f"with a measured figure; {basis}"
    )
    console.print(
        "Errors are |predicted / measured - 1| in percent; by group: median over (source, model, GPU) of the mean "
        "error inside each; bias: median of predicted / measured - 1."
    )
    for table in error_tables(evaluation.comparisons):
        if table.strata:
            print_heading(console, f"Errors by {table.title}" if table.title == "metric family" else table.title)
            _print_errors(console, table.strata)
    _print_coverage(console, evaluation)
    _print_worst(console, evaluation)
    _print_reasons(console, evaluation)
    _print_malformed(console, evaluation)
    if verbose:
        _print_names(console, evaluation)


def _print_errors(console: Console, strata: Mapping[str, ErrorStatistics]) -> None:
    right = ("rows", "groups", "median", "mean", "p90", "by group", "bias")
    table = new_table(console, "", *right, right=right)
    for name, statistics in strata.items():
        table.add_row(
            name[:_STRATUM_COLUMNS],
            count(statistics.rows),
            count(statistics.groups),
            _percent(statistics.median_error),
            _percent(statistics.mean_error),
            _percent(statistics.p90_error),
            _percent(statistics.group_median_error),
            f"{(statistics.median_ratio - 1.0) * 100:+.1f}",
        )
    console.print(table)


def _percent(share: float) -> str:
    return f"{share * 100:,.1f}"


def _print_coverage(console: Console, evaluation: Evaluation) -> None:
    coverage = interval_coverage(evaluation.comparisons)
    print_heading(console, "Measured figures inside the 90 % interval")
    if not coverage:
        console.print("no prediction has an interval")
        return
    table = new_table(console, "metric family", "rows", "inside", "percent", right=("rows", "inside", "percent"))
    for family, covered in coverage.items():
        table.add_row(family.value, count(covered.rows), count(covered.inside), _percent(covered.share))
    console.print(table)


def _print_worst(console: Console, evaluation: Evaluation) -> None:
    rows = worst(evaluation.comparisons, _WORST)
    if not rows:
        return
    print_heading(console, f"The {len(rows)} worst rows")
    right = ("line", "measured", "predicted", "ratio")
    table = new_table(console, "line", "model, GPU\nsource", *right[1:], "family\nbottleneck", right=right)
    for row in rows:
        source, model, sku = row.group
        table.add_row(
            str(row.row),
            f"{model.rpartition('/')[2][:_WORST_COLUMNS]}\n{sku[:_WORST_COLUMNS]}\n{source[:_WORST_COLUMNS]}",
            figure(row.measured),
            figure(row.predicted),
            f"{row.ratio:.3g}",
            f"{row.family.value}\n{row.bottleneck}",
        )
    console.print(table)


def _print_reasons(console: Console, evaluation: Evaluation) -> None:
    reasons = reason_counts(evaluation)
    if not reasons:
        return
    print_heading(console, "Not predicted, by reason")
    table = new_table(console, "rows", "first line", "reason", right=("rows", "first line"))
    for reason, (rows, line) in list(reasons.items())[:_FEW]:
        table.add_row(count(rows), str(line), reason)
    console.print(table)
    if len(reasons) > _FEW:
        rest = sum(rows for rows, _ in list(reasons.values())[_FEW:])
        console.print(f"and {count(rest)} rows for {len(reasons) - _FEW} more reasons; --output json lists them")


def _print_malformed(console: Console, evaluation: Evaluation) -> None:
    malformed = [row for row in evaluation.file.rows if row.malformed]
    if not malformed:
        return
    print_heading(console, f"Rows that cannot be read: {count(len(malformed))}")
    print_bullets(console, [f"line {row.line}: {row.fault}" for row in malformed[:_FEW]])
    if len(malformed) > _FEW:
        console.print(f"and {count(len(malformed) - _FEW)} more; --output json lists them")


def _print_names(console: Console, evaluation: Evaluation) -> None:
    print_heading(console, "What names were taken for")
    table = new_table(console, "rows", "published", "taken for", right=("rows",))
    for (published, taken), rows in _name_pairs(evaluation).items():
        table.add_row(count(rows), published, taken)
    console.print(table)


def _name_pairs(evaluation: Evaluation) -> Mapping[tuple[str, str], int]:
    """Rows by (published, taken for): models with their formats, then accelerators, then engines."""
    models, accelerators, engines = (Counter[tuple[str, str]]() for _ in range(3))
    for use in evaluation.names:
        words = use.published
        stated = ", ".join(filter(None, (words.model, words.weight_precision, _cache(words.kv_precision))))
        models[stated, f"{use.model}, {use.weights}, {_cache(use.kv_cache)}"] += use.rows
        accelerators[words.gpu, use.sku] += use.rows
        engines[words.engine, use.engine] += use.rows
    return {pair: rows for names in (models, accelerators, engines) for pair, rows in names.most_common()}


def _cache(precision: str) -> str:
    return f"KV {precision}" if precision else ""


def print_json_evaluation(evaluation: Evaluation, basis: Mapping[str, Any]) -> None:
    """The same for programs, with every malformed row, every reason and every name."""
    outcomes = evaluation.outcomes
    answer = {
        "rows": len(outcomes),
        "predicted": sum(outcome.predicted is not None for outcome in outcomes),
        "compared": len(evaluation.comparisons),
        **basis,
        "tables": [
            {
                "title": table.title,
                "strata": [{"stratum": name} | asdict(statistics) for name, statistics in table.strata.items()],
            }
            for table in error_tables(evaluation.comparisons)
        ],
        "interval_coverage": [
            {"family": family.value} | asdict(covered) | {"share": covered.share}
            for family, covered in interval_coverage(evaluation.comparisons).items()
        ],
        "worst": [asdict(row) | {"ratio": row.ratio} for row in worst(evaluation.comparisons, _WORST)],
        "not_predicted": [
            {"reason": reason, "rows": rows, "first_line": line}
            for reason, (rows, line) in reason_counts(evaluation).items()
        ],
        "malformed": [{"line": row.line, "reason": row.fault} for row in evaluation.file.rows if row.malformed],
        "names": [asdict(use) for use in evaluation.names],
    }
    sys.stdout.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")
