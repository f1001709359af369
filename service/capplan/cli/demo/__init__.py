"""``capplan demo``: the service end to end on this machine, with a temporary database."""

from __future__ import annotations

import typer

from capplan.cli.demo.command import demo


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo")(demo)
