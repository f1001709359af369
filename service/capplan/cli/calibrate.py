"""``capplan calibrate``: fits the step model to a database's measurements and stores what was fitted."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import flags
from capplan.cli.failures import UsageError
from capplan.cli.output import open_console
from capplan.cli.views import calibration as views


def add_to(root: typer.Typer) -> None:
    """Adds the command."""
    root.command("calibrate")(calibrate_database)


def calibrate_database(
    file: Annotated[
        Path | None,
        typer.Option("--output-file", metavar="FILE", help="Write the calibration there too, as the package ships it."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and report, store nothing.")] = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    database_url: flags.DatabaseUrl = None,
) -> None:
    """Fit the step model to the measurements of a database, your own ones among them.

    Takes minutes with the shipped measurements. The calibration becomes the one that estimates rest on; running servers
    take it up as they take up any change of the catalogue. The same measurements give the same calibration.
    """
    from capplan.catalog.calibrations import store_calibration, to_file_text
    from capplan.catalog.fitting import fit_observations
    from capplan.catalog.measurements import load_measurements
    from capplan.catalog.observations import observe_all
    from capplan.catalog.snapshot import load_snapshot
    from capplan.cli.local import opened_database
    from capplan.database import require_current_schema, session_scope

    if file is not None:
        _require_writable(file)
    with opened_database(database_url) as engine:
        require_current_schema(engine)
        with session_scope(engine) as session:
            catalog = load_snapshot(session)
            measurements = load_measurements(session)
        # No transaction is held open while the fit runs.
        with _progress() as progress:
            report = fit_observations(observe_all(measurements, catalog), catalog.coefficients, progress)
        if file is not None:
            _write(file, to_file_text(report.calibration))
        stored = None
        if not dry_run:
            with session_scope(engine) as session:
                stored = store_calibration(session, report.calibration, datetime.datetime.now(datetime.UTC))
    if output is flags.OutputFormat.JSON:
        views.print_json_report(report, stored)
    else:
        views.print_report(open_console(), report, stored)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from None


def _require_writable(file: Path) -> None:
    """A fit takes minutes: a file that cannot be written is better refused before it."""
    existed = file.exists()
    try:
        file.open("a").close()
        if not existed:
            file.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from None


@contextmanager
def _progress() -> Iterator[Callable[[int, float], None]]:
    """Evaluations and the error so far, on standard error; nothing where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        # How many evaluations a fit takes is not known before it ends.
        task = bar.add_task("calibrating", total=None)

        def show(evaluations: int, error: float) -> None:
            bar.update(task, description=f"evaluation {evaluations}, mean error {error:.1%}")

        yield show
