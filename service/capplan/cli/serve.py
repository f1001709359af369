"""``capplan serve``: the server in the foreground."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capplan import __version__
from capplan.cli import flags
from capplan.cli.failures import UsageError

if TYPE_CHECKING:
    from capplan.server.runtime import Addresses

_EPILOG: Final = (
    "Every setting can also be given by an environment variable with the prefix CAPPLAN_, e.g. CAPPLAN_PORT.\n\n"
    "Examples:\n\n"
    "capplan serve\n\n"
    "capplan serve --address 0.0.0.0:50051 --metrics-address 0.0.0.0:9464 --database-url "
    "postgresql+psycopg://capplan@db/capplan"
)

# What the printed lines start with; the demonstration reads the addresses from behind them.
LISTENING: Final = "capplan listens on "
METRICS: Final = "metrics at http://"
METRICS_PATH: Final = "/metrics"

_SAMPLE_QUESTION: Final = (
    "capplan plan Qwen/Qwen3-32B --precision fp8 --output-tokens-per-s 5000 \\\n"
    "  --input-tokens 1000 --output-tokens 300 --ttft-ms 1000 --itl-ms 40"
)


class LogFormat(StrEnum):
    """Values of ``--log-format``."""

    JSON = "json"
    CONSOLE = "console"


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("serve", epilog=_EPILOG)(serve)


def serve(
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Where to take gRPC calls; port 0 takes a free one. Default: 127.0.0.1:50051.",
        ),
    ] = None,
    metrics_address: Annotated[
        str | None,
        typer.Option(
            "--metrics-address",
            metavar="HOST:PORT",
            help="Where to serve metrics over HTTP; port 0 takes a free one. Default: 127.0.0.1:9464.",
        ),
    ] = None,
    database_url: flags.DatabaseUrl = None,
    log_format: Annotated[
        LogFormat | None, typer.Option("--log-format", help="Format of the log on standard error. Default: json.")
    ] = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the calls in progress; a second signal hurries."""
    from capplan.cli.local import read_settings
    from capplan.server.runtime import run

    host, port = parse_address(address, "--address")
    metrics_host, metrics_port = parse_address(metrics_address, "--metrics-address")
    settings = read_settings(
        host=host,
        port=port,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        database_url=database_url,
        log_format=log_format.value if log_format else None,
    )
    run(settings, _print_addresses)


def parse_address(text: str | None, flag: str) -> tuple[str | None, int | None]:
    """Host and port of ``HOST:PORT``; an IPv6 host stands in brackets.

    Args:
        text: the flag's value; ``None`` gives ``None`` twice.
        flag: the flag, for the message.

    Raises:
        UsageError: it is no such pair.
    """
    if text is None:
        return None, None
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"{flag}: an IPv6 host stands in brackets, e.g. [::1]:50051, not {text!r}")
    if not (colon and host and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65_535):
        raise UsageError(f"{flag}: expected HOST:PORT, e.g. 127.0.0.1:50051, not {text!r}")
    return host, int(port)


def _print_addresses(addresses: Addresses) -> None:
    sys.stdout.write(
        f"{LISTENING}{addresses.grpc} (version {__version__}; Ctrl-C stops)\n"
        f"{METRICS}{addresses.metrics}{METRICS_PATH}\n"
        f"try:\n{_SAMPLE_QUESTION} \\\n  --address {addresses.grpc}\n"
    )
    sys.stdout.flush()
