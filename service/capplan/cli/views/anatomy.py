"""The parts of a model's description beyond its sizes: cache, sequences, steps, splits, accelerators, training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console

from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.figures import ABSENT, count, figure, gib, sentence, short_name
from capplan.units import KIB, MIB
from capplan.v1 import model_pb2

_BOUND = {"memory_bandwidth": "M", "compute": "C"}
_UNSERVED = {"ENGINE_UNSUPPORTED", "FORMAT_UNSUPPORTED", "KV_FORMAT_UNSUPPORTED", "MEMORY_UNKNOWN"}
"""Reasons that have nothing to do with how much memory there is."""
_SCOPE = {
    "none": "keeping everything",
    "selective": "recomputing attention scores",
    "full": "keeping layer inputs only",
}


def print_attention_layers(console: Console, model: model_pb2.ModelDescription) -> None:
    """The KV cache by how layers attend."""
    if not any(layers.cache_bytes_per_token_per_layer for layers in model.attention_layers):
        return
    print_heading(console, f"KV cache by layer (in {model.kv_cache})")
    right = ("layers", "KiB per token\nand layer", "window\ntokens", "attended\nat most")
    table = new_table(console, "attention", *right, right=right)
    for layers in model.attention_layers:
        table.add_row(
            layers.kind,
            count(layers.layer_count),
            figure(layers.cache_bytes_per_token_per_layer / KIB),
            count(layers.window_tokens) if layers.window_tokens else ABSENT,
            count(layers.attended_tokens_limit) if layers.attended_tokens_limit else ABSENT,
        )
    console.print(table)


def print_sequences(console: Console, model: model_pb2.ModelDescription) -> None:
    """What one sequence holds and costs at each length."""
    print_heading(console, "One sequence")
    right = ("tokens", "KV cache\nMiB", "state\nMiB", "GFLOP per\ndecoded token", "GFLOP per\nprompt token")
    table = new_table(console, *right, "", right=right)
    shown = set()
    for sequence in model.sequences:
        if sequence.context_tokens in shown:
            continue
        shown.add(sequence.context_tokens)
        capped = sequence.context_tokens < sequence.asked_context_tokens
        table.add_row(
            count(sequence.context_tokens),
            figure(sequence.kv_cache_bytes / MIB),
            figure(sequence.state_bytes / MIB),
            figure(sequence.decode_flop_per_token / 1e9) if sequence.decode_flop_per_token else ABSENT,
            figure(sequence.prefill_flop_per_token / 1e9),
            "the model's whole context" if capped else "",
        )
    console.print(table)


def print_decode_steps(console: Console, model: model_pb2.ModelDescription) -> None:
    """FLOP for each byte that a decode step moves, by batch."""
    if not model.decode_intensities:
        return
    print_heading(console, "One decode step")
    tokens = count(model.decode_intensities[0].context_tokens)
    right = ("batch", "FLOP per\nweight byte", f"FLOP per byte, cache\nof {tokens} tokens each read")
    table = new_table(console, *right, right=right)
    for step in model.decode_intensities:
        table.add_row(count(step.batch_size), figure(step.weight_flop_per_byte), figure(step.step_flop_per_byte))
    console.print(table)


def print_degrees(console: Console, model: model_pb2.ModelDescription) -> None:
    """Legal tensor-parallel degrees, and the others by what speaks against them."""
    degrees = model.tensor_parallel_degrees
    print_heading(console, f"Tensor parallel: {_numbers(d.tensor_parallel for d in degrees if d.legal)}")
    if any(d.legal_with_expert_parallel for d in degrees):
        legal = _numbers(d.tensor_parallel for d in degrees if d.legal_with_expert_parallel)
        console.print(f"With expert parallelism over the same ranks: {legal}")
    by_reason: dict[str, list[int]] = {}
    for degree in degrees:
        for reason in dict.fromkeys(fault.reason for fault in degree.faults):
            by_reason.setdefault(reason, []).append(degree.tensor_parallel)
    print_bullets(console, [f"{sentence(reason)}: {_numbers(numbers)}" for reason, numbers in by_reason.items()])


def print_accelerators(console: Console, model: model_pb2.ModelDescription) -> None:
    """Ridge, bound of decode steps and contexts that fit, for each accelerator that serves the model."""
    if not model.accelerators:
        return
    served = [fit for fit in model.accelerators if fit.reason not in _UNSERVED]
    batches = "/".join(str(step.batch_size) for step in model.decode_intensities)
    print_heading(console, f"On accelerators (weights {model.weights}, KV cache {model.kv_cache})")
    right = ("ridge\nFLOP/B", "from\nbatch", "context\non one", f"devices for\n{count(model.full_context_tokens)}")
    table = new_table(console, "accelerator", "in", *right[:2], batches or "bound", *right[2:], right=right)
    for fit in served:
        bounds = "/".join(_BOUND.get(bound.matrix_products, "?") for bound in fit.decode_bounds)
        table.add_row(
            short_name(fit.accelerator),
            fit.arithmetic or ABSENT,
            figure(fit.ridge_flop_per_byte) if fit.arithmetic else ABSENT,
            count(fit.ridge_batch_size) if fit.ridge_batch_size else ABSENT,
            bounds or ABSENT,
            count(fit.longest_context_tokens) if fit.longest_context_tokens else ABSENT,
            count(fit.full_context_tensor_parallel) if fit.full_context_tensor_parallel else ABSENT,
        )
    console.print(table)
    if batches:
        console.print(f"{batches}: matrix products of such a batch wait for memory (M) or compute (C).")
    _print_refused(console, [fit for fit in model.accelerators if fit.reason in _UNSERVED])


def _print_refused(console: Console, refused: list[model_pb2.AcceleratorFit]) -> None:
    by_reason: dict[str, list[str]] = {}
    for fit in refused:
        by_reason.setdefault(fit.reason, []).append(short_name(fit.accelerator))
    print_bullets(console, [f"{sentence(reason)}: {', '.join(names)}" for reason, names in by_reason.items()])


def print_training(console: Console, model: model_pb2.ModelDescription) -> None:
    """What training holds, unsharded."""
    if not model.training:
        return
    print_heading(console, f"Training all parameters with {model.training[0].optimizer}, before any sharding (GiB)")
    right = ("weights", "gradients", "fp32 copy", "optimiser", "total", "bytes per\nparameter")
    table = new_table(console, "in", *right, right=right)
    for memory in model.training:
        sizes = (memory.weight_bytes, memory.gradient_bytes, memory.master_bytes, memory.optimizer_bytes)
        table.add_row(memory.precision, *map(gib, sizes), gib(memory.total_bytes), f"{memory.bytes_per_parameter:.2f}")
    console.print(table)
    _print_activations(console, {memory.precision: memory.activations for memory in model.training})
    if model.training[0].activation_refusal:
        print_bullets(console, [f"activations are not counted: {model.training[0].activation_refusal}"])


def _print_activations(console: Console, by_precision: Mapping[str, Iterable[model_pb2.ActivationMemory]]) -> None:
    rows = [(precision, memory) for precision, memories in by_precision.items() for memory in memories]
    if not rows:
        return
    table = new_table(console, "in", "activations", "GiB", "with all\nabove", right=("GiB", "with all\nabove"))
    for precision, memory in rows:
        scope = _SCOPE.get(memory.recomputation, memory.recomputation)
        table.add_row(precision, scope, gib(memory.activation_bytes), gib(memory.total_bytes))
    console.print(table)


def _numbers(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in values) or "none"
