"""``capplan estimate``: would a given layout start, and what would it do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from capplan.cli import flags
from capplan.cli.backend import Backend, Connection, connect
from capplan.cli.failures import ExitCode, UsageError, describe
from capplan.cli.flags import ADDRESS_DEFAULT, TIMEOUT_S_DEFAULT
from capplan.cli.output import open_console, print_json, to_json
from capplan.cli.questions import (
    building_request,
    engine_selection,
    model_selection,
    parse_json,
    positive,
    precision,
    read_lines,
    read_text,
    refuse_question_flags,
    workload,
)
from capplan.cli.views.deployment import print_deployment
from capplan.errors import CapplanError, InvalidInputError
from capplan.v1 import planner_service_pb2

_LAYOUT_PANEL: Final = "Layout"

_EPILOG: Final = (
    "Examples:\n\n"
    "capplan estimate Qwen/Qwen3-32B h100-sxm-80gb --precision fp8 --tensor-parallel 2 --input-tokens 1000 "
    "--output-tokens 300\n\n"
    "capplan estimate Qwen/Qwen3-4B a100-sxm-80gb --mig-profile 2g.20gb --input-tokens 500 --output-tokens 200 "
    "--max-context-tokens 4096\n\n"
    "capplan estimate --requests layouts.jsonl > answers.jsonl\n\n"
    "Another estimator for --second-opinion is a Python object with a name and an estimate method, as "
    "capplan.estimation.estimator.Estimator describes. A distribution that is installed beside the server names it as "
    "an entry point of the group capplan.estimators; the server loads it when it starts. A name that is not there is "
    "answered with those that are.\n\n"
    "Exits with 0 when the layout starts and 3 when it does not; with --requests 1 when a line could not be answered."
)

_STOPPING_REASONS: Final = frozenset({"UNREACHABLE"})
"""Errors that every later line would meet too."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("estimate", epilog=_EPILOG)(estimate)


def estimate(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Catalogue name or alias; with --config an optional display name."),
    ] = None,
    accelerator: Annotated[
        str | None, typer.Argument(metavar="ACCELERATOR", help="Catalogue name or alias, e.g. h100-sxm-80gb.")
    ] = None,
    config: flags.Config = None,
    quantization_config: flags.QuantizationConfig = None,
    weights: flags.Precision = None,
    kv_cache: flags.KvCache = None,
    input_tokens: flags.InputTokens = None,
    output_tokens: flags.OutputTokens = None,
    max_context_tokens: flags.MaxContextTokens = None,
    prefix_cache_hit_share: flags.PrefixCacheHitShare = None,
    concurrency: Annotated[
        float | None,
        typer.Option("--concurrency", help="Requests in flight over all replicas. Default: as many as it holds."),
    ] = None,
    tensor_parallel: Annotated[
        int | None,
        typer.Option(
            "--tensor-parallel",
            metavar="N",
            min=1,
            help="Tensor-parallel ranks of one replica. Default: 1.",
            rich_help_panel=_LAYOUT_PANEL,
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            help="Replicas. Default: 1.",
            rich_help_panel=_LAYOUT_PANEL,
        ),
    ] = None,
    mig_profile: Annotated[
        str | None,
        typer.Option(
            "--mig-profile",
            metavar="PROFILE",
            help="Run on one slice, by profile name or id:N. Default: the whole device.",
            rich_help_panel=_LAYOUT_PANEL,
        ),
    ] = None,
    second_opinions: Annotated[
        list[str] | None,
        typer.Option(
            "--second-opinion",
            metavar="NAME",
            help="Show beside the answer what this estimator says; repeatable. analytic is capplan's own before any "
            "fit to measurements; others are installed, see below.",
        ),
    ] = None,
    engine: flags.Engine = None,
    engine_version: flags.EngineVersion = None,
    gpu_memory_utilization: flags.GpuMemoryUtilization = None,
    mem_fraction_static: flags.MemFractionStatic = None,
    free_gpu_memory_fraction: flags.FreeGpuMemoryFraction = None,
    max_num_seqs: flags.MaxNumSeqs = None,
    max_num_batched_tokens: flags.MaxNumBatchedTokens = None,
    request_file: Annotated[
        str | None,
        typer.Option(
            "--request",
            metavar="FILE",
            help="The whole question as an EstimateDeploymentRequest in JSON, - for standard input; takes no other "
            "flag of the question.",
            rich_help_panel="Asking",
        ),
    ] = None,
    requests_file: Annotated[
        str | None,
        typer.Option(
            "--requests",
            metavar="FILE",
            help="Many questions, one in JSON per line, - for standard input. Writes one line of JSON for each, in "
            "order: the answer, or an object with the key error.",
            rich_help_panel="Asking",
        ),
    ] = None,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Say whether a layout starts, with its memory, throughput and latencies."""
    connection = Connection(local, address, timeout_s)
    if requests_file is not None:
        refuse_question_flags(context, "--requests")
        with connect(context, connection) as backend:
            failed, total = _answer_lines(backend, read_lines(requests_file, "--requests"))
        if failed:
            sys.stderr.write(f"error: {failed} of {total} lines could not be answered\n")
            raise typer.Exit(ExitCode.FAILED)
        return
    if request_file is not None:
        refuse_question_flags(context, "--request")
        text = read_text(request_file, "--request")
        request = parse_json(text, planner_service_pb2.EstimateDeploymentRequest(), request_file)
    else:
        if config is not None and accelerator is None:
            # With a config file the display name may be left out: a single argument is then the accelerator.
            model, accelerator = None, model
        if not accelerator:
            raise UsageError("name a MODEL and an ACCELERATOR (`capplan catalog accelerators` lists them)")
        with building_request():
            request = planner_service_pb2.EstimateDeploymentRequest(
                model=model_selection(model, config, quantization_config),
                precision=precision(weights, kv_cache),
                workload=workload(input_tokens, output_tokens, max_context_tokens, prefix_cache_hit_share),
                deployment=planner_service_pb2.Deployment(
                    accelerator=accelerator,
                    mig_profile=mig_profile or "",
                    tensor_parallel=tensor_parallel or 0,
                    replica_count=replicas or 0,
                    engine=engine_selection(
                        engine,
                        engine_version,
                        gpu_memory_utilization,
                        mem_fraction_static,
                        free_gpu_memory_fraction,
                        max_num_seqs,
                        max_num_batched_tokens,
                    ),
                ),
                concurrency=positive("--concurrency", concurrency),
                second_opinions=second_opinions or (),
            )
    with connect(context, connection) as backend:
        answer = backend.estimate_deployment(request)
    if output is flags.OutputFormat.JSON:
        print_json(answer)
    else:
        print_deployment(open_console(), request, answer)
    if not answer.starts:
        raise typer.Exit(ExitCode.INFEASIBLE)


def _answer_lines(backend: Backend, lines: Iterable[bytes]) -> tuple[int, int]:
    """Answers each line as it comes; returns how many could not be answered, and how many there were."""
    failed = number = 0
    for number, line in enumerate(lines, start=1):
        try:
            answer = to_json(backend.estimate_deployment(_parse_line(line, number)), indent=None)
        except CapplanError as error:
            if error.reason in _STOPPING_REASONS:
                raise
            failed += 1
            answer = json.dumps({"error": _error_object(number, error)})
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    return failed, number


def _parse_line(line: bytes, number: int) -> planner_service_pb2.EstimateDeploymentRequest:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"line {number} is not UTF-8 text") from None
    return parse_json(text, planner_service_pb2.EstimateDeploymentRequest(), f"line {number}")


def _error_object(line: int, error: CapplanError) -> dict[str, object]:
    found: dict[str, object] = {"line": line, "reason": error.reason, "message": " ".join(describe(error))}
    if isinstance(error, InvalidInputError):
        found["message"] = str(error)
        found["violations"] = [
            {"field": violation.field, "description": violation.description} for violation in error.violations
        ]
    return found
