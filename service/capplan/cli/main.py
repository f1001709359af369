"""The ``capplan`` command: its subcommands, and the one place where an error becomes an exit code."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from capplan import __version__
from capplan.cli import calibrate, catalog, database, describe, estimate, evaluate, measurements, plan, serve
from capplan.cli.demo import command as demo
from capplan.cli.failures import ExitCode, exit_code_of, report
from capplan.errors import CapplanError

_EPILOG = (
    "Exit codes: 0 answered and feasible; 1 no answer (unknown name, no server, failed call); 2 the command line or a "
    "field of the question is not valid; 3 answered, but infeasible or the layout does not start."
)


class ReportingGroup(TyperGroup):
    """Runs a subcommand and turns capplan's errors into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """As the base class, without a traceback for an error that has a name."""
        try:
            return super().invoke(ctx)
        except CapplanError as error:
            report(error)
            raise typer.Exit(exit_code_of(error)) from None


app = typer.Typer(
    cls=ReportingGroup,
    name="capplan",
    help="Which accelerators, how many and in which layout serve a model at a precision and a throughput target.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"capplan {__version__}")
        raise typer.Exit(ExitCode.OK)


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("version")
def version() -> None:
    """Print the version."""
    _print_version(True)


plan.add_to(app)
estimate.add_to(app)
describe.add_to(app)
catalog.add_to(app)
measurements.add_to(app)
evaluate.add_to(app)
calibrate.add_to(app)
serve.add_to(app)
demo.add_to(app)
database.add_to(app)
