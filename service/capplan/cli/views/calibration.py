"""What a calibration did, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.figures import count

if TYPE_CHECKING:
    from capplan.catalog.calibrations import CalibrationRecord, ErrorSummary
    from capplan.catalog.fitting import FitReport


def print_report(console: Console, report: FitReport, stored: CalibrationRecord | None) -> None:
    """Errors by metric before and after, the rows that could not be used, and what was stored."""
    console.print(f"{count(report.observations)} of {count(_rows(report))} measurements were fitted to")
    right = ("rows", "median\nbefore", "median\nafter", "p90\nbefore", "p90\nafter", "bias\nbefore", "bias\nafter")
    table = new_table(console, "metric", *right, right=right)
    for metric, after in report.calibration.residuals.items():
        before = report.before.get(metric)
        table.add_row(
            metric,
            count(after.rows),
            *(
                f"{getattr(side, name):{sign}.1%}" if side is not None else "-"
                for name, sign in (("median", ""), ("p90", ""), ("bias", "+"))
                for side in (before, after)
            ),
        )
    console.print(table)
    if report.excluded:
        print_heading(console, "Not used")
        print_bullets(console, [f"{count(rows)}: {reason}" for reason, rows in report.excluded.items()])
    console.print()
    if stored is None:
        console.print("nothing was stored")
    else:
        console.print(f"stored as calibration {stored.calibration_id}, which estimates rest on from now on")


def print_json_report(report: FitReport, stored: CalibrationRecord | None) -> None:
    """The same for programs, with the coefficients."""
    coefficients = report.calibration.coefficients
    value = {
        "calibration_id": stored.calibration_id if stored is not None else None,
        "created_at": stored.created_at.isoformat() if stored is not None else None,
        "measurement_revision": stored.measurement_revision if stored is not None else None,
        "measurements": _rows(report),
        "observations": report.observations,
        "excluded": dict(report.excluded),
        "errors_before": _errors(report.before),
        "errors_after": _errors(report.calibration.residuals),
        "generations": sorted(coefficients.generations),
        "engines": sorted(coefficients.engines),
        "coefficients": dict(coefficients.values),
    }
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _rows(report: FitReport) -> int:
    return report.observations + sum(report.excluded.values())


def _errors(summaries: Mapping[str, ErrorSummary]) -> dict[str, Any]:
    return {metric: asdict(summary) for metric, summary in summaries.items()}
