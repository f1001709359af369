"""``capplan evaluate left-out``: errors on devices, models and sources that the estimator has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import flags
from capplan.cli.evaluation_files import opened_catalog, read_bytes, write_text
from capplan.cli.failures import UsageError
from capplan.cli.output import open_console

if TYPE_CHECKING:
    from capplan.catalog.left_out import Progress

_BEGIN, _END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
_MARKDOWN_FLAG = "--markdown"


def left_out(
    by: Annotated[
        list[flags.LeftOutFlag] | None,
        typer.Option("--by", help="What to leave out; give it more than once for several. Default: all three."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Fit anew for each group, a minute each, instead of to first order.")
    ] = False,
    ablation: Annotated[
        bool,
        typer.Option("--ablation", help="Take each part of the step model away in turn as well, a minute each."),
    ] = False,
    markdown: Annotated[
        str | None,
        typer.Option(
            _MARKDOWN_FLAG,
            metavar="FILE.md",
            help=f"Put the tables into that document, between the lines {_BEGIN.strip()} and {_END.strip()}.",
        ),
    ] = None,
    output: flags.Output = flags.OutputFormat.TABLE,
    database_url: flags.CatalogUrl = None,
) -> None:
    """Leave every GPU, model and source out in turn, and print how far off they are predicted by all the others.

    Fits the step model to the database's measurements first, which takes a minute or two.
    """
    from capplan.catalog.ablation import ablate, whole, without_corrections
    from capplan.catalog.left_out import By, fit_all, left_out
    from capplan.catalog.measurements import load_measurements
    from capplan.catalog.observations import observe_all
    from capplan.catalog.snapshot import load_snapshot
    from capplan.cli.views import left_out as views
    from capplan.database import session_scope

    kinds = [By(each.value) for each in by or flags.LeftOutFlag]
    document = None if markdown is None else document_around_tables(markdown)
    with opened_catalog(database_url) as engine, session_scope(engine) as session:
        snapshot = load_snapshot(session)
        rows = observe_all(load_measurements(session), snapshot)
    with _progress() as progress:
        fitted = fit_all(rows, progress)
        reports = [left_out(fitted, each, snapshot, progress, exact=exact) for each in kinds]
        ablated = {}
        if ablation:
            ablated = {"nothing": whole(fitted), "measured corrections": without_corrections(fitted)}
            ablated |= ablate(fitted, progress)
    if markdown is not None and document is not None:
        before, after = document
        write_text(markdown, f"{before}{_BEGIN}\n{views.markdown(reports, ablated)}\n{_END}{after}")
    if output is flags.OutputFormat.JSON:
        views.print_json_reports(reports, ablated, {"catalog_revision": snapshot.revision, "rows": len(fitted.rows)})
    else:
        views.print_reports(open_console(), reports, ablated)


def document_around_tables(path: str) -> tuple[str, str]:
    """What stands before and after the tables of a document.

    Raises:
        UsageError: it cannot be read, or has no place for them.
    """
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{_MARKDOWN_FLAG}: {path} is no text") from None
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise UsageError(f"{_MARKDOWN_FLAG}: {path} has no lines {_BEGIN.strip()} and {_END.strip()}")
    return before, after


@contextmanager
def _progress() -> Iterator[Progress]:
    """What is being done, on standard error; nothing where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, of: int) -> None:
            bar.update(task, description=f"{what}, {done}" if done else what, completed=done, total=of or None)

        yield show


def add_to(group: typer.Typer) -> None:
    """Adds the command to the group of evaluations."""
    group.command("left-out")(left_out)
