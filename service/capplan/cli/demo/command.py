"""``capplan demo``: start the service, ask it, watch it, stop it."""

from __future__ import annotations

import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from capplan.cli.demo.failure import DemoError, check
from capplan.cli.demo.server import running_server
from capplan.cli.output import new_table, open_console

_SHOWN_METRICS: Final = (
    "grpc_server_handled_total",
    "capplan_plans_total",
    "capplan_planning_seconds_sum",
    "capplan_answer_cache_lookups_total",
    "capplan_catalog_revision",
    "capplan_catalog_rows",
)
_CONSTANT_LABELS: Final = frozenset({"grpc_type", "grpc_service"})
"""Labels left out of the table: they say nothing that the method does not say."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo")(demo)


def demo() -> None:
    """Start a server with a temporary database, ask it a few questions, show its metrics, stop it."""
    from capplan.cli.demo.steps import STEPS
    from capplan.client import Client

    begin = time.monotonic()
    console = open_console()
    with tempfile.TemporaryDirectory(prefix="capplan-demo-") as folder:
        console.print(
            "Starting a server on a new SQLite database: it makes the schema and loads the shipped catalogue."
        )
        with running_server(f"sqlite:///{folder}/demo.sqlite3", Path(folder, "server.log")) as server:
            console.print(f"It takes calls at {server.address}, its metrics are at {server.metrics_url}.")
            with Client(server.address) as client:
                for step in STEPS:
                    step(client, console)
            _show_metrics(console, server.metrics_url)
            console.print(f"The server stopped cleanly in {server.stop():.1f} s.")
    console.print(f"Everything shown in {time.monotonic() - begin:.1f} s.")


def _show_metrics(console: Console, url: str) -> None:
    """What Prometheus would see, without the series that are still zero."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            text = response.read().decode()
    except OSError as error:
        raise DemoError(f"the metrics cannot be read from {url}: {error}") from None
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in _SHOWN_METRICS and sample.value
    ]
    plans = sum(sample.value for sample in samples if sample.name == "capplan_plans_total")
    check(plans > 0, "the server counted the plans it made")
    tables = {sample.labels["table"] for sample in samples if sample.name == "capplan_catalog_rows"}
    check(tables >= {"accelerators", "mig_profiles", "model_profiles"}, "the server loaded the shipped catalogue")
    console.rule(characters="=")
    console.print("What Prometheus sees of all this, series at zero left out:")
    table = new_table(console, "metric", "labels", "value", right=("value",))
    for sample in samples:
        labels = [value for name, value in sorted(sample.labels.items()) if name not in _CONSTANT_LABELS]
        table.add_row(sample.name, " ".join(labels), f"{sample.value:.6g}")
    console.print(table)
