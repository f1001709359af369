"""``capplan db``: the schema of a database."""

from __future__ import annotations

import sys

import typer

from capplan.cli import flags

app = typer.Typer(
    no_args_is_help=True,
    help="Upgrade a database's schema, or show its version.",
    rich_markup_mode="rich",
)


def add_to(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="db")


@app.command("upgrade")
def upgrade_schema(database_url: flags.DatabaseUrl = None) -> None:
    """Bring a database to the newest schema; does nothing when it is there already."""
    from capplan.cli.local import opened_database
    from capplan.database import upgrade

    with opened_database(database_url) as engine:
        sys.stdout.write(f"schema revision {upgrade(engine)}\n")


@app.command("version")
def show_version(database_url: flags.DatabaseUrl = None) -> None:
    """Show a database's schema revision and the newest one this program knows."""
    from capplan.cli.local import opened_database
    from capplan.database import current_revision, head_revision

    with opened_database(database_url) as engine:
        sys.stdout.write(f"schema revision {current_revision(engine) or 'none'}, newest {head_revision()}\n")
