"""``capplan catalog``: read the catalogue, and load the shipped facts into a database."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from google.protobuf.message import Message
from rich.console import Console

from capplan.cli import flags
from capplan.cli.backend import Connection, connect
from capplan.cli.flags import ADDRESS_DEFAULT, TIMEOUT_S_DEFAULT
from capplan.cli.output import new_table, open_console, print_json
from capplan.cli.questions import building_request
from capplan.cli.views import catalog as views
from capplan.v1 import catalog_service_pb2 as messages

_FILTER_HELP: Final = (
    'Comparisons joined by AND, e.g. "vendor = nvidia AND memory_bytes >= 80000000000"; fields as in the JSON output.'
)
Filter = Annotated[str | None, typer.Option("--filter", metavar="FILTER", help=_FILTER_HELP)]
PageSize = Annotated[int | None, typer.Option("--page-size", min=1, max=500, help="Most rows of a page. Default: 50.")]
PageToken = Annotated[
    str | None, typer.Option("--page-token", metavar="TOKEN", help="Go on where the page with this token ended.")
]
All = Annotated[bool, typer.Option("--all", help="Every page, not only one.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Read accelerators, MIG profiles, models and prices; load the shipped facts.",
    rich_markup_mode="rich",
)


def add_to(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="catalog")


@app.command("accelerators")
def accelerators(
    context: typer.Context,
    filter_: Filter = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
    everything: All = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """List accelerators."""
    with building_request():
        request = messages.ListAcceleratorsRequest(
            filter=filter_ or "", page_size=page_size or 0, page_token=page_token or ""
        )
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = _pages(backend.list_accelerators, request, "accelerators", everything=everything)
    _print_page(answer, "accelerators", output, views.print_accelerators)


@app.command("accelerator")
def accelerator(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="SKU or alias, e.g. h100-sxm-80gb.")],
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Show one accelerator."""
    with building_request():
        request = messages.GetAcceleratorRequest(name=name)
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = backend.get_accelerator(request)
    _print_entry(answer, answer.accelerator, output)


@app.command("mig-profiles")
def mig_profiles(
    context: typer.Context,
    board: Annotated[
        str | None, typer.Argument(metavar="BOARD", help="MIG board, e.g. a100-80gb. Default: all.")
    ] = None,
    filter_: Filter = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
    everything: All = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """List the MIG profiles of one board or of all."""
    with building_request():
        request = messages.ListMigProfilesRequest(
            parent=_qualified(board, "migBoards/") if board else "",
            filter=filter_ or "",
            page_size=page_size or 0,
            page_token=page_token or "",
        )
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = _pages(backend.list_mig_profiles, request, "mig_profiles", everything=everything)
    _print_page(answer, "mig_profiles", output, views.print_mig_profiles)


@app.command("mig-profile")
def mig_profile(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Board and profile id, e.g. migBoards/a100-80gb/profiles/19.")],
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Show one MIG profile."""
    with building_request():
        request = messages.GetMigProfileRequest(name=name)
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = backend.get_mig_profile(request)
    _print_entry(answer, answer.mig_profile, output)


@app.command("models")
def models(
    context: typer.Context,
    filter_: Filter = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
    everything: All = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """List model profiles."""
    with building_request():
        request = messages.ListModelProfilesRequest(
            filter=filter_ or "", page_size=page_size or 0, page_token=page_token or ""
        )
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = _pages(backend.list_model_profiles, request, "model_profiles", everything=everything)
    _print_page(answer, "model_profiles", output, views.print_models)


@app.command("model")
def model(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Hub id or alias, e.g. Qwen/Qwen3-32B.")],
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Show one model profile; `capplan describe-model` has its sizes."""
    with building_request():
        request = messages.GetModelProfileRequest(name=name)
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = backend.get_model_profile(request)
    _print_entry(answer, answer.model_profile, output)


@app.command("prices")
def prices(
    context: typer.Context,
    filter_: Filter = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
    everything: All = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """List prices of one device and hour."""
    with building_request():
        request = messages.ListPricesRequest(
            filter=filter_ or "", page_size=page_size or 0, page_token=page_token or ""
        )
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = _pages(backend.list_prices, request, "prices", everything=everything)
    _print_page(answer, "prices", output, views.print_prices)


@app.command("price")
def price(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="As `capplan catalog prices` lists it.")],
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Show one price."""
    with building_request():
        request = messages.GetPriceRequest(name=_qualified(name, "prices/"))
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = backend.get_price(request)
    _print_entry(answer, answer.price, output)


@app.command("load")
def load(database_url: flags.DatabaseUrl = None) -> None:
    """Bring a database to the current schema and to the shipped facts.

    What an operator changed stays as it is; loading again changes nothing.
    """
    from capplan.catalog.loader import load_catalog
    from capplan.cli.local import opened_database
    from capplan.database import session_scope, upgrade

    with opened_database(database_url) as engine:
        upgrade(engine)
        with session_scope(engine) as session:
            report = load_catalog(session)
    console = open_console()
    columns = ("new", "changed", "unchanged", "kept", "withdrawn")
    table = new_table(console, "table", *columns, right=columns)
    for name, rows in report.tables.items():
        table.add_row(name, *(str(n) for n in (rows.inserted, rows.updated, rows.unchanged, rows.kept, rows.withdrawn)))
    console.print(table)
    console.print(f"catalogue revision {report.revision}")


def _qualified(name: str, collection: str) -> str:
    return name if name.startswith(collection) else collection + name


def _pages(call: Callable[[Any], Any], request: Any, rows: str, *, everything: bool) -> Any:
    """One page, or every page from the request's on as one."""
    answer = call(request)
    while everything and answer.next_page_token:
        request.page_token = answer.next_page_token
        page = call(request)
        getattr(answer, rows).extend(getattr(page, rows))
        answer.next_page_token = page.next_page_token
    return answer


def _print_page(answer: Any, rows: str, output: flags.OutputFormat, print_rows: Callable[[Console, Any], None]) -> None:
    if output is flags.OutputFormat.JSON:
        print_json(answer)
        return
    print_rows(open_console(), getattr(answer, rows))
    if answer.next_page_token:
        sys.stderr.write(f"more rows: add --all, or --page-token {answer.next_page_token}\n")


def _print_entry(answer: Message, entry: Message, output: flags.OutputFormat) -> None:
    if output is flags.OutputFormat.JSON:
        print_json(answer)
    else:
        views.print_entry(open_console(), entry)
