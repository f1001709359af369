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
from capplan.catalog.names import fold_accelerator_name, fold_model_name
from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.evaluation_parts import json_reasons, print_names, print_reasons
from capplan.cli.views.figures import count, figure
from capplan.estimation.evaluation import (
    COVERAGE_TARGET,
    Coverage,
    ErrorStatistics,
    error_tables,
    families_to_split,
    interval_coverage,
    worst,
)

if TYPE_CHECKING:
    from capplan.catalog.evaluation import Evaluation, NameUse

_WORST: Final = 20
_WORST_COLUMNS: Final = 23
_FEW: Final = 20
"""Malformed rows, and reasons, that are read; JSON has all of them."""
_STRATUM_COLUMNS: Final = 30
_HEADINGS: Final = {
    "metric family": "Errors by metric family",
    "layout chosen": "Layout chosen where none is stated: errors of the best one",
}


def print_evaluation(console: Console, evaluation: Evaluation, basis: str, *, verbose: bool) -> None:
    """Errors by stratum, coverage, the worst rows, what was not predicted, and what names were taken for.

    Args:
        console: where to.
        evaluation: what to print.
        basis: which coefficients it rests on.
        verbose: whether to print every name, not only those that differ from the catalogue's.
    """
    outcomes = evaluation.outcomes
    predicted = sum(outcome.predicted is not None for outcome in outcomes)
    console.print(
        f"{count(len(outcomes))} rows, {count(predicted)} predicted, {count(len(evaluation.comparisons))} compared "
        f"with a measured figure; layout chosen: {count(_layouts_chosen(evaluation))} rows; {basis}"
    )
    console.print(
        "Errors are |predicted / measured - 1| in percent; by group: median over (source, model, GPU) of the mean "
        "error inside each; bias: median of predicted / measured - 1."
    )
    for table in error_tables(evaluation.comparisons):
        if table.strata:
            print_heading(console, _HEADINGS.get(table.property_name, table.title))
            _print_errors(console, table.strata)
    _print_coverage(console, evaluation)
    _print_worst(console, evaluation)
    _print_reasons(console, evaluation)
    _print_malformed(console, evaluation)
    if verbose:
        _print_names(console, evaluation)
    else:
        _print_differing_names(console, evaluation)


def _layouts_chosen(evaluation: Evaluation) -> int:
    """Rows that state no tensor parallelism and were predicted in the best layout."""
    return sum(outcome.layout is not None for outcome in evaluation.outcomes)


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
    least, greatest = COVERAGE_TARGET
    print_heading(
        console, f"Measured figures inside the 90 % interval (target {least * 100:.0f} to {greatest * 100:.0f} %)"
    )
    if not coverage["all"]:
        console.print("no prediction has an interval")
        return
    right = ("rows", "inside", "percent")
    table = new_table(console, "by", "", *right, "target", right=right)
    for name, strata in coverage.items():
        for value, covered in strata.items():
            table.add_row(
                "" if name == value else name,
                value,
                count(covered.rows),
                count(covered.inside),
                _percent(covered.share),
                covered.verdict.value,
            )
    console.print(table)


def _json_coverage(covered: Coverage) -> dict[str, Any]:
    return asdict(covered) | {"share": covered.share, "verdict": covered.verdict.value}


def _json_coverages(coverage: Mapping[str, Coverage], name: str) -> list[dict[str, Any]]:
    return [{name: value} | _json_coverage(covered) for value, covered in coverage.items()]


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
    print_reasons(console, list(reasons.items())[:_FEW])
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
    print_names(console, _name_pairs(evaluation))


def _print_differing_names(console: Console, evaluation: Evaluation) -> None:
    """Names that the catalogue does not have as they are written, with the formats of a model's rows."""
    print_heading(console, "What names were taken for, where the catalogue's is another")
    pairs = _differing_names(evaluation)
    if not pairs:
        console.print("every name is the catalogue's")
    else:
        print_names(console, pairs)
    console.print("--verbose prints every name, and formats as published beside those they were taken for")


def _differing_names(evaluation: Evaluation) -> Mapping[tuple[str, str], int]:
    """Rows by (published, taken for) where the two are not one name to the catalogue."""
    models, others = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    formats: dict[tuple[str, str], Counter[str]] = {}
    for use in evaluation.names:
        words = use.published
        model = (words.model, use.model)
        # The publisher's name before the model's is left out by nearly everybody, and tells nothing apart.
        if fold_model_name(words.model) not in (fold_model_name(use.model), fold_model_name(use.model.split("/")[-1])):
            models[model] += use.rows
            formats.setdefault(model, Counter())[_format(use)] += use.rows
        if fold_accelerator_name(words.gpu) != fold_accelerator_name(use.sku):
            others[words.gpu, use.sku] += use.rows
        if words.engine.casefold() != use.engine:
            others[words.engine, use.engine] += use.rows
    shown = {
        (published, f"{taken} ({', '.join(name for name, _ in formats[published, taken].most_common())})"): rows
        for (published, taken), rows in models.most_common()
    }
    return shown | dict(others.most_common())


def _format(use: NameUse) -> str:
    return use.weights if use.kv_cache == "auto" else f"{use.weights} with {_cache(use.kv_cache)}"


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
    """The same for programs: every family with rows enough is split; all malformed rows, reasons and names."""
    outcomes, comparisons = evaluation.outcomes, evaluation.comparisons
    coverage = interval_coverage(comparisons)
    answer = {
        "rows": len(outcomes),
        "predicted": sum(outcome.predicted is not None for outcome in outcomes),
        "compared": len(comparisons),
        "layout_chosen": _layouts_chosen(evaluation),
        **basis,
        "tables": [
            {
                "title": table.title,
                "strata": [{"stratum": name} | asdict(statistics) for name, statistics in table.strata.items()],
            }
            for table in error_tables(comparisons, families_to_split(comparisons))
        ],
        "interval_coverage_target": list(COVERAGE_TARGET),
        "interval_coverage_all": _json_coverage(coverage["all"]["all"]) if coverage["all"] else None,
        "interval_coverage": _json_coverages(coverage["family"], "family"),
        "interval_coverage_by_provenance": _json_coverages(coverage["provenance"], "provenance"),
        "interval_coverage_by_novelty": _json_coverages(coverage["novelty"], "novelty"),
        "worst": [asdict(row) | {"ratio": row.ratio} for row in worst(comparisons, _WORST)],
        "layouts": [
            {"line": outcome.row.line} | asdict(outcome.layout) | {"note": outcome.layout.note}
            for outcome in outcomes
            if outcome.layout is not None
        ],
        "not_predicted": json_reasons(reason_counts(evaluation)),
        "malformed": [{"line": row.line, "reason": row.fault} for row in evaluation.file.rows if row.malformed],
        "names": [asdict(use) for use in evaluation.names],
    }
    sys.stdout.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")
