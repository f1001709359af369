"""``capplan measurements``: a fleet's own benchmark results into a database, and what a database has."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from capplan.cli import flags
from capplan.cli.failures import ExitCode, UsageError
from capplan.cli.output import open_console
from capplan.cli.views import measurements as views

_LOAD: Final = "Load, where the file does not say it"
_SETUP: Final = "Setup, where the file does not say it"
_SOURCE: Final = "Source"
_MAX_FILE_BYTES: Final = 1 << 30
_FEW_RUNS: Final = 1_000
"""Below this an import is over before a progress bar is read."""

app = typer.Typer(
    no_args_is_help=True,
    help="Import benchmark results as measurements of your own, and list what a database has.\n\n"
    "Your own measurements correct estimates and plans at once, next to where they were measured, and outweigh the "
    "shipped ones there; [bold]forget[/bold] takes them back. A running server takes up either by itself. "
    "[bold]capplan calibrate[/bold] fits the coefficients to them too, which reaches further.",
    rich_markup_mode="rich",
)


def add_to(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="measurements")


def _setup(flag: str, help_: str, metavar: str | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, help=help_, metavar=metavar, rich_help_panel=_SETUP)
    return option


@app.command("import")
def import_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Benchmark result file; - reads standard input.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="vllm (bench serve --save-result), guidellm (JSON), aiperf (AIPerf or GenAI-Perf, JSON or CSV), "
            "inferencex (CSV or JSON) or csv (a table, one figure a row).",
        ),
    ],
    model: Annotated[str | None, _setup("--model", "Model of the catalogue.", "NAME")] = None,
    accelerator: Annotated[str | None, _setup("--accelerator", "Accelerator of the catalogue.", "NAME")] = None,
    weights: Annotated[str | None, _setup("--weights", "What the weights were stored in.", "FORMAT")] = None,
    kv_cache: Annotated[str | None, _setup("--kv-cache", "Default: auto, as the engine chooses.", "FORMAT")] = None,
    engine: Annotated[str | None, _setup("--engine", "Inference engine.", "NAME")] = None,
    engine_version: Annotated[str | None, _setup("--engine-version", "Its version.", "VERSION")] = None,
    tensor_parallel: Annotated[int | None, _setup("--tensor-parallel", "Ranks that share the heads.", "N")] = None,
    pipeline_parallel: Annotated[int | None, _setup("--pipeline-parallel", "Stages. Default: 1.", "N")] = None,
    expert_parallel: Annotated[int | None, _setup("--expert-parallel", "Default: 1.", "N")] = None,
    attention_data_parallel: Annotated[int | None, _setup("--attention-data-parallel", "Default: 1.", "N")] = None,
    devices: Annotated[
        int | None,
        _setup("--devices", "Devices, or MIG instances, of the whole deployment. Default: one replica's.", "N"),
    ] = None,
    mig_profile: Annotated[str | None, _setup("--mig-profile", "E.g. 1g.10gb. Default: whole GPUs.", "NAME")] = None,
    input_tokens: Annotated[float | None, _setup("--input-tokens", "Mean prompt length.")] = None,
    output_tokens: Annotated[float | None, _setup("--output-tokens", "Mean generated length.")] = None,
    concurrency: Annotated[
        float | None, typer.Option("--concurrency", help="Requests in flight, kept up.", rich_help_panel=_LOAD)
    ] = None,
    requests_per_s: Annotated[
        float | None, typer.Option("--requests-per-s", help="Arrivals.", rich_help_panel=_LOAD)
    ] = None,
    batch: Annotated[
        float | None, typer.Option("--batch", help="One fixed batch, begun and ended together.", rich_help_panel=_LOAD)
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="All requests queued at once.", rich_help_panel=_LOAD)
    ] = False,
    source: Annotated[
        str | None, typer.Option("--source", help="Title. Default: the file's name.", rich_help_panel=_SOURCE)
    ] = None,
    source_url: Annotated[str | None, typer.Option("--source-url", help="Address.", rich_help_panel=_SOURCE)] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Date. Default: the file's, else today.", rich_help_panel=_SOURCE)
    ] = None,
    output: flags.Output = flags.OutputFormat.TABLE,
    database_url: flags.DatabaseUrl = None,
) -> None:
    """Import a benchmark result file as measurements of your own.

    What cannot be used is reported, and the rest lands; importing again lands nothing twice. A flag names what the file
    does not say; where the file says otherwise, names given here win and anything else is rejected.

    What landed corrects estimates from then on. How many of its figures do, why others do not, and how far estimates
    were off before is told by metric, as the median of measured over estimated.
    """
    from capplan.catalog.importers.landing import import_measurements
    from capplan.catalog.importers.runs import Facts
    from capplan.catalog.own_effects import effect_of_import
    from capplan.cli.local import opened_database
    from capplan.database import require_current_schema, session_scope

    load_kind, load_value = _load(concurrency, requests_per_s, batch, offline)
    given = Facts(
        model=model,
        accelerator=accelerator,
        engine=engine,
        engine_version=engine_version,
        weights=weights,
        kv_cache=kv_cache,
        mig_profile=mig_profile,
        devices=devices,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        expert_parallel=expert_parallel,
        attention_data_parallel=attention_data_parallel,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        load_kind=load_kind,
        load_value=load_value,
        source=source,
        source_url=source_url,
        as_of=as_of,
    )
    content = _read_bytes(file)
    name = "standard input" if file == "-" else Path(file).name
    with opened_database(database_url) as engine_, _progress() as progress:
        require_current_schema(engine_)
        with session_scope(engine_) as session:
            now = datetime.datetime.now(datetime.UTC)
            report = import_measurements(session, content, format_, name, given, now, progress)
        with session_scope(engine_) as session:
            effect = effect_of_import(session, report.import_id) if report.landed else None
    if output is flags.OutputFormat.JSON:
        views.print_json_report(report, effect)
    else:
        console = open_console()
        views.print_report(console, report)
        if effect is not None:
            views.print_effect(console, effect)
    if report.rejections and not (report.landed or report.present):
        raise typer.Exit(ExitCode.FAILED)


@app.command("list")
def list_measurements(
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="FILTER",
            help='Comparisons joined by AND, e.g. "model : qwen3 AND own = true"; fields as in the JSON output.',
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows to show.")] = 50,
    everything: Annotated[bool, typer.Option("--all", help="Every row, not only the first ones.")] = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    database_url: flags.DatabaseUrl = None,
) -> None:
    """List measurements, shipped and your own, by model, accelerator and load."""
    from capplan.catalog.filtering import parse_filter
    from capplan.catalog.measurements import MEASUREMENT_FIELDS, read_measurements
    from capplan.cli.local import opened_database
    from capplan.database import require_current_schema, session_scope

    wanted = parse_filter(filter_ or "", MEASUREMENT_FIELDS)
    with opened_database(database_url) as engine:
        require_current_schema(engine)
        with session_scope(engine) as session:
            found = wanted.apply(read_measurements(session))
    found.sort(key=views.order)
    shown = found if everything else found[:limit]
    if output is flags.OutputFormat.JSON:
        views.print_json_rows(shown, len(found))
    else:
        views.print_rows(open_console(), shown)
    if len(shown) < len(found):
        sys.stderr.write(f"{len(shown)} of {len(found)} rows: add --all or a --filter\n")


@app.command("imports")
def list_imports(output: flags.Output = flags.OutputFormat.TABLE, database_url: flags.DatabaseUrl = None) -> None:
    """List what was imported, and when."""
    from capplan.catalog.measurements import read_imports
    from capplan.cli.local import opened_database
    from capplan.database import require_current_schema, session_scope

    with opened_database(database_url) as engine:
        require_current_schema(engine)
        with session_scope(engine) as session:
            imports = read_imports(session)
    if output is flags.OutputFormat.JSON:
        views.print_json_imports(imports)
    else:
        views.print_imports(open_console(), imports)


@app.command("forget")
def forget(
    import_id: Annotated[int, typer.Argument(metavar="IMPORT", help="Its number, as `imports` lists it.")],
    database_url: flags.DatabaseUrl = None,
) -> None:
    """Take an import back: its measurements are deleted."""
    from capplan.catalog.importers.landing import forget_import
    from capplan.cli.local import opened_database
    from capplan.database import require_current_schema, session_scope

    with opened_database(database_url) as engine:
        require_current_schema(engine)
        with session_scope(engine) as session:
            gone = forget_import(session, import_id)
    sys.stdout.write(f"import {import_id}: {gone} measurements deleted\n")


def _load(
    concurrency: float | None, requests_per_s: float | None, batch: float | None, offline: bool
) -> tuple[str | None, float | None]:
    loads = {"concurrency": concurrency, "qps": requests_per_s, "batch": batch}
    stated: list[tuple[str, float | None]] = [(kind, value) for kind, value in loads.items() if value is not None]
    if offline:
        stated.append(("offline_max", None))
    if len(stated) > 1:
        raise UsageError("give one of --concurrency, --requests-per-s, --batch and --offline, not several")
    return stated[0] if stated else (None, None)


def _read_bytes(path: str) -> bytes:
    try:
        if path == "-":
            content = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path!r} is no path: {error}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise UsageError(f"{path} has more than {_MAX_FILE_BYTES} bytes")
    return content


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error for a large file; nothing where nobody watches."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("importing", total=None, visible=False)

        def show(done: int, runs: int) -> None:
            if runs >= _FEW_RUNS:
                bar.update(task, completed=done, total=runs, visible=True)

        yield show
