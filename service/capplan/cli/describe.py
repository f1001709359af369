"""``capplan describe-model``: the anatomy of one model, or of several side by side."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from capplan.cli import flags
from capplan.cli.backend import Backend, Connection, connect
from capplan.cli.failures import ExitCode, UsageError, describe, report
from capplan.cli.flags import ADDRESS_DEFAULT, TIMEOUT_S_DEFAULT
from capplan.cli.model_files import named_model
from capplan.cli.output import open_console
from capplan.cli.questions import building_request, model_selection, positive
from capplan.cli.views.model import print_model, print_models
from capplan.cli.views.model_lines import error_line, model_line
from capplan.errors import CapplanError
from capplan.v1 import model_pb2, planner_service_pb2

_EPILOG: Final = (
    "Examples:\n\n"
    "capplan describe-model openai/gpt-oss-120b\n\n"
    "capplan describe-model llama-3.1-8b ./config.json --output json | jq .total_parameters\n\n"
    "capplan describe-model --config - --precision fp8 --precision int4 --kv-cache fp8\n\n"
    "capplan describe-model llama-3.1-8b --training-batch 4 --training-length 8192"
)
_MODEL_PANEL: Final = "Model"
_TRAINING_PANEL: Final = "Training"
_STOPPING_REASONS: Final = frozenset({"UNREACHABLE", "DEADLINE_EXCEEDED", "DEADLINE_TOO_NEAR"})
"""Nobody is there to answer the next model either."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("describe-model", epilog=_EPILOG)(describe_model)


def describe_model(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|NAME]...",
            help="Catalogue name or alias, e.g. Qwen/Qwen3-32B, or path of a config.json; "
            "<stem>.hf_quant_config.json beside <stem>.json is read with it.",
        ),
    ] = None,
    config: flags.Config = None,
    quantization_config: Annotated[
        str | None,
        typer.Option(
            "--quantization-config",
            metavar="FILE",
            help="Separate hf_quant_config.json of the one config file.",
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = None,
    precisions: Annotated[
        list[str] | None,
        typer.Option(
            "--precision",
            metavar="FORMAT",
            help="Weight format to size; repeatable. Default: every one the model can be stored in.",
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = None,
    kv_cache: flags.KvCache = None,
    training_batch: Annotated[
        int | None,
        typer.Option(
            "--training-batch",
            metavar="N",
            help="Sequences of one forward pass in training; activations are counted with --training-length.",
            rich_help_panel=_TRAINING_PANEL,
        ),
    ] = None,
    training_length: Annotated[
        int | None,
        typer.Option("--training-length", metavar="N", help="Tokens of each of them.", rich_help_panel=_TRAINING_PANEL),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer", metavar="NAME", help="adamw (default) or adamw-8bit.", rich_help_panel=_TRAINING_PANEL
        ),
    ] = None,
    output: Annotated[
        flags.OutputFormat,
        typer.Option(
            "--output",
            "-o",
            help="table to read; json for programs: a line for each model, in order, a refused one an object with the "
            "key error.",
            rich_help_panel="Asking",
        ),
    ] = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Take a model apart: parameters, memory, FLOP, legal splits, what accelerators hold of it, training."""
    arguments: list[str | None] = list(models or [])
    if len(arguments) > 1 and (config is not None or quantization_config is not None):
        flag = "--config" if config is not None else "--quantization-config"
        raise UsageError(f"{flag} goes with one model, and {len(arguments)} are named")
    if not arguments:
        if config is None:
            raise UsageError("name a MODEL (`capplan catalog models` lists them), or give a config.json")
        arguments.append(None)
    with building_request():
        question = planner_service_pb2.DescribeModelRequest(
            precisions=precisions or (),
            kv_cache=kv_cache or "",
            training=model_pb2.TrainingSelection(
                batch_size=int(positive("--training-batch", training_batch)),
                sequence_length_tokens=int(positive("--training-length", training_length)),
                optimizer=optimizer or "",
            ),
        )
    answers: list[planner_service_pb2.DescribeModelResponse] = []
    failed = 0
    with connect(context, Connection(local, address, timeout_s)) as backend:
        for argument in arguments:
            label = argument or config or ""
            try:
                answer = _ask(backend, question, argument, config, quantization_config)
            except CapplanError as error:
                stops = error.reason in _STOPPING_REASONS
                if stops or (len(arguments) == 1 and output is flags.OutputFormat.TABLE):
                    raise
                failed += 1
                _refuse(label, error, output)
            else:
                if output is flags.OutputFormat.JSON:
                    _write_line(model_line(label, answer))
                answers.append(answer)
    if output is flags.OutputFormat.TABLE:
        _print(answers)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _ask(
    backend: Backend,
    question: planner_service_pb2.DescribeModelRequest,
    argument: str | None,
    config: str | None,
    quantization_config: str | None,
) -> planner_service_pb2.DescribeModelResponse:
    """The description of one model.

    Raises:
        CapplanError: it cannot be read, asked for, found or sized.
    """
    with building_request():
        request = planner_service_pb2.DescribeModelRequest()
        request.CopyFrom(question)
        if config is not None or argument is None:
            selection = model_selection(argument, config, quantization_config)
        else:
            selection = named_model(argument, quantization_config)
        request.model.CopyFrom(selection)
    return backend.describe_model(request)


def _refuse(label: str, error: CapplanError, output: flags.OutputFormat) -> None:
    if output is flags.OutputFormat.JSON:
        _write_line(error_line(label, error))
    else:
        report(UsageError(f"{label}: {'; '.join(describe(error))}"))


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _print(answers: list[planner_service_pb2.DescribeModelResponse]) -> None:
    if len(answers) == 1:
        print_model(open_console(), answers[0])
    elif answers:
        print_models(open_console(), answers)
