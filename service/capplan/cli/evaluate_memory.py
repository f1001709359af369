"""``capplan evaluate memory``: how far the memory estimator is from what engines print when they start."""

from __future__ import annotations

from typing import Annotated

import typer

from capplan.cli import flags
from capplan.cli.evaluation_files import opened_catalog, read_bytes, write_text
from capplan.cli.output import open_console

_COLUMNS = "\n\n".join(
    (
        "Columns that must be there: [b]model[/b] and [b]gpu[/b]. Figures of the log, each of them predicted whether "
        "stated or not: weights_gib_per_gpu, kv_cache_gib_per_gpu, kv_tokens, max_concurrency.",
        "Columns that are read when there: engine, engine_version, date, weight_precision (or dtype, quant), kv_dtype, "
        "gpu_mem_gb, mig_profile, tp, pp, ep, dp, gpu_memory_utilization (the memory fraction, whichever the engine's "
        "is), max_model_len, max_num_seqs, max_num_batched_tokens, enforce_eager (yes or no), url, notes. An empty "
        "cell, 'default' and 'auto' are not stated: the default of that engine and version holds. Notes that say "
        "'max_num_seqs 2', 'max-num-batched-tokens 8192' or 'language-model-only' count as settings.",
        "A row whose engine or device is not modelled has its weights predicted alone. A release between two that are "
        "modelled follows the nearest lower one; a vLLM build without a version, the newest release at the row's date.",
        "Example: [b]capplan evaluate memory logs.csv --predictions out.csv[/b]",
    )
)


def memory(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV of engine start-up logs, one start a row.")],
    predictions: Annotated[
        str | None,
        typer.Option("--predictions", metavar="OUT.csv", help="Write every row of FILE there, with its predictions."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every row, measured beside predicted.")
    ] = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    database_url: flags.CatalogUrl = None,
) -> None:
    """Predict the weights and the KV cache of every start in a table of engine logs, and print how far off they are."""
    from capplan.catalog.evaluation_memory import evaluate_memory, predictions_table
    from capplan.catalog.evaluation_memory_file import read_memory_file
    from capplan.catalog.snapshot import load_snapshot
    from capplan.cli.views import evaluation_memory as views
    from capplan.database import session_scope

    table = read_memory_file(read_bytes(file))
    with opened_catalog(database_url) as engine, session_scope(engine) as session:
        snapshot = load_snapshot(session)
    evaluation = evaluate_memory(table, snapshot)
    if predictions is not None:
        write_text(predictions, predictions_table(evaluation))
    if output is flags.OutputFormat.JSON:
        views.print_json_evaluation(evaluation, {"catalog_revision": snapshot.revision})
    else:
        views.print_evaluation(open_console(), evaluation, verbose=verbose)


def add_to(group: typer.Typer) -> None:
    """Adds the command to the group of evaluations."""
    group.command("memory", epilog=_COLUMNS)(memory)
