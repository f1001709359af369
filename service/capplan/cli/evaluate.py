"""``capplan evaluate``: how far the estimator is from published figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import evaluate_left_out, evaluate_memory, flags
from capplan.cli.evaluation_files import opened_catalog, read_bytes, write_text
from capplan.cli.failures import UsageError
from capplan.cli.output import open_console
from capplan.cli.questions import read_text

if TYPE_CHECKING:
    from capplan.catalog.evaluation import Evaluation
    from capplan.catalog.snapshot import CatalogSnapshot
    from capplan.estimation.coefficients import Coefficients

_COEFFICIENTS_FLAG = "--coefficients"

app = typer.Typer(no_args_is_help=True, help="Compare the estimator with published figures.", rich_markup_mode="rich")


@app.callback()
def _group() -> None:
    pass


def add_to(root: typer.Typer) -> None:
    """Adds the group of commands."""
    evaluate_memory.add_to(app)
    evaluate_left_out.add_to(app)
    root.add_typer(app, name="evaluate")


@app.command("throughput")
def throughput(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="CSV, one figure a row, as `measurements import --format csv` reads. Default: the database's own "
            "measurements, which its calibration has seen.",
        ),
    ] = None,
    coefficients: Annotated[
        str | None,
        typer.Option(
            _COEFFICIENTS_FLAG,
            metavar="FILE",
            help="Calibration file, as `calibrate --output-file` writes. Default: the catalogue's.",
        ),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option("--predictions", metavar="OUT.csv", help="Write every row of FILE there, with its prediction."),
    ] = None,
    plots: Annotated[
        str | None,
        typer.Option(
            "--plots",
            metavar="DIR",
            help="Draw predicted against measured, and residuals by concurrency, as PNG files there. Needs "
            r"capplan\[plots].",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print what every name and precision was taken for.")
    ] = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    database_url: flags.CatalogUrl = None,
) -> None:
    """Predict every row of a table of published figures, and print how far the predictions are off.

    A row without a value is predicted and compared with nothing; what cannot be predicted is listed by its reason.
    """
    from capplan.catalog.evaluation import evaluate_file
    from capplan.catalog.evaluation_catalog import catalogue_file
    from capplan.catalog.evaluation_file import read_evaluation_file
    from capplan.catalog.measurements import load_measurements
    from capplan.catalog.snapshot import load_snapshot
    from capplan.cli.evaluation_plots import require_plots, write_plots
    from capplan.cli.views import evaluation as views
    from capplan.database import session_scope

    if plots is not None:
        require_plots()
    content = None if file is None else read_bytes(file)
    given = None if coefficients is None else _read_coefficients(coefficients)
    with opened_catalog(database_url) as engine, session_scope(engine) as session:
        snapshot = load_snapshot(session)
        known = load_measurements(session)
    fitted, origin = _in_force(given, snapshot)
    if content is None:
        table, rows = catalogue_file(known), "the database's measurements"
        if given is None and snapshot.calibration is not None:
            rows += ", which the calibration has seen"
    else:
        table, rows = read_evaluation_file(content, snapshot, {row.engine for row in known}), "the file"
    evaluation = evaluate_file(table, snapshot, fitted, known)
    if predictions is not None:
        _write_predictions(predictions, evaluation)
    basis = f"rows of {rows}; coefficients: {origin}"
    pictures = () if plots is None else write_plots(plots, evaluation.comparisons, basis)
    if output is flags.OutputFormat.JSON:
        views.print_json_evaluation(
            evaluation,
            {
                "catalog_revision": snapshot.revision,
                "rows_of": rows,
                "coefficients": origin,
                "plots": [str(picture) for picture in pictures],
            },
        )
    else:
        console = open_console()
        views.print_evaluation(console, evaluation, basis, verbose=verbose)
        for picture in pictures:
            console.print(f"drawn: {picture}", soft_wrap=True)


def _in_force(given: Coefficients | None, snapshot: CatalogSnapshot) -> tuple[Coefficients, str]:
    """The coefficients to predict with, and whose they are."""
    if given is not None:
        return given, "file"
    if snapshot.calibration is not None:
        return snapshot.coefficients, f"catalogue ({snapshot.calibration.source})"
    return snapshot.coefficients, "start values"


def _read_coefficients(path: str) -> Coefficients:
    from capplan.catalog.calibrations import parse_calibration

    try:
        content = json.loads(read_text(path, _COEFFICIENTS_FLAG))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{_COEFFICIENTS_FLAG}: {path} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{_COEFFICIENTS_FLAG}: {path} holds no object")
    return parse_calibration(content).coefficients


def _write_predictions(path: str, evaluation: Evaluation) -> None:
    from capplan.catalog.evaluation import added_cells
    from capplan.catalog.evaluation_file import predictions_table

    write_text(path, predictions_table(evaluation.file, map(added_cells, evaluation.outcomes)))
