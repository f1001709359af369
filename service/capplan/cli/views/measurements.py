"""Measurements and imports, as tables and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from capplan.cli.output import new_table, print_bullets
from capplan.cli.views.figures import ABSENT, figure

if TYPE_CHECKING:
    from capplan.catalog.importers.landing import ImportReport
    from capplan.catalog.measurements import ImportRecord, MeasurementRecord
    from capplan.catalog.own_effects import Effect

_FEW: Final = 20
"""Rejections that are read; JSON has all of them."""


def print_report(console: Console, report: ImportReport) -> None:
    """What an import did."""
    console.print(
        f"import {report.import_id}: {report.landed} landed, {report.present} present already, "
        f"{len(report.rejections)} rejected; catalogue revision {report.revision}"
    )
    print_bullets(console, [f"{fault.place}: {fault.reason}" for fault in report.rejections[:_FEW]])
    if len(report.rejections) > _FEW:
        console.print(f"and {len(report.rejections) - _FEW} more; --output json lists them")


def print_effect(console: Console, effect: Effect) -> None:
    """What the figures that landed change."""
    idle = sum(effect.idle.values())
    console.print(
        f"{effect.correcting} of {effect.correcting + idle} figures correct estimates from now on; "
        "a running server takes them up by itself"
    )
    if effect.by_metric:
        right = ("figures", "measured / estimated before")
        table = new_table(console, "metric", *right, right=right)
        for metric, found in effect.by_metric.items():
            table.add_row(metric, str(found.figures), f"{found.median_ratio:.2f}")
        console.print(table)
    if idle:
        console.print(f"{idle} correct nothing:")
        print_bullets(console, [f"{rows}: {reason}" for reason, rows in effect.idle.items()])


def print_json_report(report: ImportReport, effect: Effect | None) -> None:
    """The same for programs; no effect where nothing landed."""
    told = (
        {
            "correcting": effect.correcting,
            "idle": dict(effect.idle),
            "by_metric": {metric: asdict(found) for metric, found in effect.by_metric.items()},
        }
        if effect is not None
        else None
    )
    _print_json(asdict(report) | {"rejected": len(report.rejections), "effect": told})


def order(record: MeasurementRecord) -> tuple[Any, ...]:
    """Sorts a listing: by model, accelerator, formats, lengths, load and metric."""
    row = record.measurement
    return (
        (row.model, row.sku, row.weights, row.devices, row.input_tokens or 0.0, row.output_tokens or 0.0),
        (row.load_kind, row.load_value or 0.0, row.metric, row.statistic, row.key),
    )


def print_rows(console: Console, rows: Sequence[MeasurementRecord]) -> None:
    """Two lines for each measurement."""
    table = new_table(console, "model\nmeasured on", "load\ntokens in/out", "value\nstatistic, trust")
    for record in rows:
        row = record.measurement
        tensor = f" TP{row.tensor_parallel}" if row.tensor_parallel is not None else ""
        profile = f" {row.mig_profile}" if row.mig_profile else ""
        load = f" {figure(row.load_value)}" if row.load_value is not None else ""
        table.add_row(
            f"{row.model}\n{row.devices} x {row.sku}{profile}{tensor} {row.weights} {row.engine}",
            f"{row.load_kind}{load}\n{_tokens(row.input_tokens)}/{_tokens(row.output_tokens)}",
            f"{figure(row.value)} {row.metric}\n{row.statistic or ABSENT}, {row.trust}",
        )
    console.print(table)


def _tokens(value: float | None) -> str:
    return f"{value:.0f}" if value is not None else ABSENT


def print_json_rows(rows: Sequence[MeasurementRecord], found: int) -> None:
    """Measurements with every field, and how many match in all."""
    listed = [asdict(row.measurement) | {"notes": row.notes, "import_id": row.import_id} for row in rows]
    _print_json({"measurements": listed, "found": found})


def print_imports(console: Console, imports: Sequence[ImportRecord]) -> None:
    """One line for each import."""
    right = ("import", "landed", "present", "rejected")
    table = new_table(console, "import", "file", "format", "when (UTC)", *right[1:], right=right)
    for row in imports:
        counts = (str(row.landed), str(row.present), str(row.rejected))
        table.add_row(str(row.import_id), row.file_name, row.format, f"{row.imported_at:%Y-%m-%d %H:%M}", *counts)
    console.print(table)


def print_json_imports(imports: Sequence[ImportRecord]) -> None:
    """The same for programs."""
    _print_json({"imports": [asdict(row) | {"imported_at": row.imported_at.isoformat()} for row in imports]})


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
