"""An answer of ``DescribeModel``."""

from __future__ import annotations

from rich.console import Console

from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.figures import ABSENT, count, figure, gib, parameters, percent, sentence
from capplan.units import KIB
from capplan.v1 import model_pb2, planner_service_pb2


def print_model(console: Console, answer: planner_service_pb2.DescribeModelResponse) -> None:
    """Shape, parameters by part, bytes by precision, and what a token costs."""
    model = answer.model
    context = f"{count(model.max_context_tokens)} tokens" if model.max_context_tokens else "not in the config"
    console.print(f"{model.name}: {model.family}, published in {model.native_weights}")
    console.print(
        f"{count(model.layer_count)} layers, width {count(model.hidden_size)}, vocabulary "
        f"{count(model.vocabulary_size)}, longest context {context}; catalogue revision {answer.catalog_revision}"
    )
    print_bullets(console, list(model.layer_summary))
    _print_parameters(console, model)
    _print_precisions(console, model)
    _print_token_costs(console, model)
    if model.assumptions:
        print_heading(console, "Assumed")
        print_bullets(console, list(model.assumptions))


def _print_parameters(console: Console, model: model_pb2.ModelDescription) -> None:
    total = model.total_parameter_count
    print_heading(
        console, f"{parameters(total)} parameters, {parameters(model.active_parameter_count)} of them for one token"
    )
    table = new_table(console, "part", "parameters", "share", right=("parameters", "share"))
    for group in model.parameter_groups:
        share = percent(group.parameter_count / total) if total else ABSENT
        table.add_row(sentence(group.component), count(group.parameter_count), share)
    table.add_section()
    table.add_row("total", count(total), "")
    console.print(table)


def _print_precisions(console: Console, model: model_pb2.ModelDescription) -> None:
    if not model.precisions:
        return
    print_heading(console, "Weights by precision")
    table = new_table(console, "precision", "GiB", "bits per\nparameter", "notes", right=("GiB", "bits per\nparameter"))
    for size in model.precisions:
        if size.refusal:
            table.add_row(size.weights, ABSENT, ABSENT, f"cannot be stored so: {size.refusal}")
        else:
            table.add_row(
                size.weights,
                gib(size.weight_bytes),
                f"{size.effective_bits_per_parameter:.2f}",
                "; ".join(size.assumptions),
            )
    console.print(table)


def _print_token_costs(console: Console, model: model_pb2.ModelDescription) -> None:
    print_heading(console, f"What a token costs (KV cache {model.kv_cache})")
    table = new_table(console, "figure", "value", right=("value",))
    table.add_row("KV cache per token", f"{figure(model.kv_cache_bytes_per_token / KIB)} KiB")
    if model.kv_cache_bytes_per_token_beyond_window != model.kv_cache_bytes_per_token:
        beyond = figure(model.kv_cache_bytes_per_token_beyond_window / KIB)
        table.add_row("KV cache per token once every window is full", f"{beyond} KiB")
    if model.state_bytes_per_sequence:
        table.add_row("recurrent state per sequence", f"{figure(model.state_bytes_per_sequence / KIB)} KiB")
    table.add_row("FLOP without attention over the context", f"{model.flop_per_token / 1e9:,.2f} GFLOP")
    table.add_row("attention FLOP per token of context", f"{model.attention_flop_per_context_token / 1e6:,.2f} MFLOP")
    table.add_row(
        "FLOP per weight byte when one sequence decodes", f"{model.decode_intensity_flop_per_byte:,.2f} FLOP/B"
    )
    console.print(table)
