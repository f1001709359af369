"""Answers of ``DescribeModel``: one model in full, several side by side."""

from __future__ import annotations

from rich.console import Console

from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.anatomy import (
    print_accelerators,
    print_attention_layers,
    print_decode_steps,
    print_degrees,
    print_sequences,
    print_training,
)
from capplan.cli.views.figures import ABSENT, count, figure, gib, parameters, percent, sentence
from capplan.units import KIB, MIB
from capplan.v1 import model_pb2, planner_service_pb2


def print_models(console: Console, answers: list[planner_service_pb2.DescribeModelResponse]) -> None:
    """The main figures of several models, a row each."""
    right = ("parameters", "active", "weights\nGiB", "KV KiB\nper token", "state\nMiB")
    table = new_table(console, "model", "parameters", "active", "format", *right[2:], right=right)
    for answer in answers:
        model = answer.model
        table.add_row(
            model.name,
            _billions(model.total_parameters),
            _billions(model.active_parameters),
            model.native_weights,
            gib(model.weight_bytes),
            figure(model.kv_cache_bytes_per_token / KIB),
            figure(model.state_bytes_per_sequence / MIB) if model.state_bytes_per_sequence else ABSENT,
        )
    console.print(table)
    console.print("Name one model for its whole anatomy.")


def _billions(value: int) -> str:
    return f"{value / 1e9:,.2f} B" if value >= 1e9 else f"{value / 1e6:,.2f} M"


def print_model(console: Console, answer: planner_service_pb2.DescribeModelResponse) -> None:
    """Everything but what only programs want: reasons by degree and by accelerator come grouped."""
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
    print_attention_layers(console, model)
    _print_token_costs(console, model)
    print_sequences(console, model)
    print_decode_steps(console, model)
    print_degrees(console, model)
    print_accelerators(console, model)
    print_training(console, model)
    if model.assumptions:
        print_heading(console, "Assumed")
        print_bullets(console, list(model.assumptions))


def _print_parameters(console: Console, model: model_pb2.ModelDescription) -> None:
    total = model.total_parameters
    print_heading(
        console, f"{parameters(total)} parameters, {parameters(model.active_parameters)} of them for one token"
    )
    right = ("parameters", "share", "for one token")
    table = new_table(console, "part", *right, right=right)
    for group in model.parameter_groups:
        share = percent(group.total_parameters / total) if total else ABSENT
        table.add_row(sentence(group.component), count(group.total_parameters), share, count(group.active_parameters))
    table.add_section()
    table.add_row("total", count(total), "", count(model.active_parameters))
    console.print(table)
    if model.multi_token_prediction_parameters:
        apart = parameters(model.multi_token_prediction_parameters)
        console.print(f"Apart from these, {apart} in multi-token-prediction layers, loaded only with speculation.")


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
    print_heading(console, f"What a token costs (weights {model.weights}, KV cache {model.kv_cache})")
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
