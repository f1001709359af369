"""``capplan describe-model``: exact sizes of a model."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from capplan.cli import flags
from capplan.cli.backend import Connection, connect
from capplan.cli.flags import ADDRESS_DEFAULT, TIMEOUT_S_DEFAULT
from capplan.cli.output import open_console, print_json
from capplan.cli.questions import building_request, model_selection
from capplan.cli.views.model import print_model
from capplan.v1 import planner_service_pb2

_EPILOG: Final = (
    "Examples:\n\n"
    "capplan describe-model openai/gpt-oss-120b\n\n"
    "capplan describe-model --config config.json --precision fp8 --precision int4 --kv-cache fp8"
)


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("describe-model", epilog=_EPILOG)(describe_model)


def describe_model(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Catalogue name or alias, e.g. Qwen/Qwen3-32B.")
    ] = None,
    config: flags.Config = None,
    quantization_config: flags.QuantizationConfig = None,
    precisions: Annotated[
        list[str] | None,
        typer.Option(
            "--precision",
            metavar="FORMAT",
            help="Weight format to size; repeatable. Default: every one the model can be stored in.",
            rich_help_panel="Model",
        ),
    ] = None,
    kv_cache: flags.KvCache = None,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Count a model's parameters, size its weights per precision and say what a token costs."""
    with building_request():
        request = planner_service_pb2.DescribeModelRequest(
            model=model_selection(model, config, quantization_config),
            precisions=precisions or (),
            kv_cache=kv_cache or "",
        )
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = backend.describe_model(request)
    if output is flags.OutputFormat.JSON:
        print_json(answer)
    else:
        print_model(open_console(), answer)
