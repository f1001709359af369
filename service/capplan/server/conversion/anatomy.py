"""The parts of a model's description that go beyond its sizes: sequences, steps, splits, accelerators, training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from capplan.errors import InvalidInputError
from capplan.estimation.context_fit import ContextFit, context_fits
from capplan.estimation.engine import EngineChoice
from capplan.estimation.ridge import Ridge, ridge
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.costs import AttentionCost, ModelCosts
from capplan.modeling.parallelism import ParallelismFault, parallelism_faults
from capplan.modeling.parameters import total_parameters
from capplan.modeling.token_costs import (
    decode_flop,
    decode_intensity,
    is_causal,
    prefill_flop,
    sequence_cache_bytes,
    state_bytes_per_sequence,
)
from capplan.modeling.training import (
    Optimizer,
    ParameterMemory,
    Recomputation,
    TrainingPrecision,
    activation_bytes,
    activation_refusal,
    known_optimizer,
    parameter_memory,
)
from capplan.server.conversion.integers import MAX_INT64, int64
from capplan.server.resource_names import accelerator_name
from capplan.v1 import model_pb2

SEQUENCE_TOKENS: Final = (1024, 8192, 131_072)
"""Lengths a sequence is described at."""
BATCH_SIZES: Final = (1, 32, 256)
"""Batches a decode step is described at."""
STEP_CONTEXT_TOKENS: Final = 8192
"""Context of each sequence of such a step."""
DEGREES: Final = range(1, 17)
"""Tensor-parallel degrees that are judged."""


def full_context_tokens(model: ModelCosts) -> int:
    """The context an accelerator is to hold: the model's, or the longest described one when its config is silent."""
    return model.max_context_tokens or SEQUENCE_TOKENS[-1]


def to_attention_layers(model: ModelCosts) -> Iterator[model_pb2.AttentionLayers]:
    """The KV cache by how layers attend."""
    for attention in model.attentions:
        yield model_pb2.AttentionLayers(
            kind=_kind(attention),
            layer_count=attention.layers,
            cache_bytes_per_token_per_layer=attention.cache_bytes_per_token,
            window_tokens=attention.window_tokens or 0,
            latent=attention.latent,
            attended_tokens_limit=attention.attended_tokens_limit or 0,
        )


def _kind(attention: AttentionCost) -> str:
    if attention.latent:
        return "latent"
    return "full" if attention.window_tokens is None else "windowed"


def to_sequences(architecture: ModelArchitecture, model: ModelCosts) -> Iterator[model_pb2.SequenceCosts]:
    """One sequence at each length, capped at the model's context."""
    causal = is_causal(architecture)
    state = int64(state_bytes_per_sequence(model), "bytes of recurrent state")
    for asked in SEQUENCE_TOKENS:
        tokens = min(asked, full_context_tokens(model))
        cache = int64(round(sequence_cache_bytes(model, tokens)), "bytes of KV cache")
        yield model_pb2.SequenceCosts(
            asked_context_tokens=asked,
            context_tokens=tokens,
            kv_cache_bytes=cache,
            state_bytes=state,
            total_bytes=int64(cache + state, "bytes of a sequence"),
            decode_flop_per_token=decode_flop(model, tokens) if causal else 0.0,
            prefill_flop_per_token=prefill_flop(model, tokens, causal=causal),
        )


def to_decode_intensities(architecture: ModelArchitecture, model: ModelCosts) -> Iterator[model_pb2.DecodeIntensity]:
    """Decode steps of each batch; an encoder has none."""
    if not is_causal(architecture):
        return
    tokens = min(STEP_CONTEXT_TOKENS, full_context_tokens(model))
    for batch in BATCH_SIZES:
        yield model_pb2.DecodeIntensity(
            batch_size=batch,
            weight_flop_per_byte=decode_intensity(model, batch),
            step_flop_per_byte=decode_intensity(model, batch, tokens),
            context_tokens=tokens,
        )


def to_degrees(model: ModelCosts) -> Iterator[model_pb2.TensorParallelDegree]:
    """Each tensor-parallel degree with what speaks against it, without and with expert parallelism."""
    has_experts = any(gemm.experts for gemm in model.gemms)
    for degree in DEGREES:
        faults = parallelism_faults(model, degree)
        with_experts = parallelism_faults(model, degree, expert_parallel=degree) if has_experts else ()
        yield model_pb2.TensorParallelDegree(
            tensor_parallel=degree,
            legal=not faults,
            faults=_to_split_faults(faults),
            legal_with_expert_parallel=has_experts and not with_experts,
            expert_parallel_faults=_to_split_faults(with_experts),
        )


def _to_split_faults(faults: Iterable[ParallelismFault]) -> list[model_pb2.SplitFault]:
    return [model_pb2.SplitFault(reason=fault.code.value, description=fault.sentence) for fault in faults]


def to_accelerator_fits(
    model: ModelCosts, accelerators: Iterable[Accelerator], intensities: Iterable[model_pb2.DecodeIntensity]
) -> tuple[list[model_pb2.AcceleratorFit], list[str]]:
    """The model on each accelerator, and what was assumed about the engine.

    Args:
        model: the model in its formats.
        accelerators: the devices.
        intensities: the decode steps to put beside each ridge.
    """
    devices, steps = tuple(accelerators), tuple(intensities)
    fits = context_fits(model, devices, full_context_tokens(model), EngineChoice())
    engines = dict.fromkeys(fit.engine for fit in fits if fit.engine)
    return (
        [
            _to_fit(accelerator, fit, ridge(model, accelerator), steps)
            for accelerator, fit in zip(devices, fits, strict=True)
        ],
        [
            f"what accelerators hold is what {engine} leaves for the KV cache with its default settings"
            for engine in engines
        ],
    )


def _to_fit(
    accelerator: Accelerator, fit: ContextFit, bend: Ridge | None, steps: tuple[model_pb2.DecodeIntensity, ...]
) -> model_pb2.AcceleratorFit:
    message = model_pb2.AcceleratorFit(
        accelerator=accelerator_name(accelerator.sku),
        longest_context_tokens=fit.longest_context_tokens,
        full_context_tensor_parallel=fit.full_context_tensor_parallel or 0,
    )
    if fit.fault is not None:
        message.reason, message.description = fit.fault.reason, fit.fault.description
    if bend is not None:
        message.arithmetic, message.ridge_flop_per_byte = bend.arithmetic, bend.flop_per_byte
        if steps:
            message.ridge_batch_size = int64(bend.batch_size, "sequences of a batch")
        message.decode_bounds.extend(
            model_pb2.DecodeBound(
                batch_size=step.batch_size,
                matrix_products=bend.binds(step.weight_flop_per_byte),
                step=bend.binds(step.step_flop_per_byte),
            )
            for step in steps
        )
    return message


def to_training(
    architecture: ModelArchitecture, asked: model_pb2.TrainingSelection
) -> Iterator[model_pb2.TrainingMemory]:
    """Memory of training the model, in mixed precision and in fp32.

    Raises:
        InvalidInputError: the optimiser is not known, or the activations come to more than 64 bits hold.
    """
    optimizer = known_optimizer(asked.optimizer or Optimizer.ADAMW)
    parameters = total_parameters(architecture)
    refusal = activation_refusal(architecture) if asked.batch_size else None
    for precision in TrainingPrecision:
        held = parameter_memory(architecture, precision, optimizer)
        message = model_pb2.TrainingMemory(
            precision=precision.value,
            optimizer=optimizer.value,
            weight_bytes=held.weight_bytes,
            gradient_bytes=held.gradient_bytes,
            master_bytes=held.master_bytes,
            optimizer_bytes=held.optimizer_bytes,
            total_bytes=held.total_bytes,
            bytes_per_parameter=held.total_bytes / parameters if parameters else 0.0,
            activation_refusal=refusal or "",
        )
        if asked.batch_size and refusal is None:
            message.activations.extend(_to_activations(architecture, held, asked))
        yield message


def _to_activations(
    architecture: ModelArchitecture, held: ParameterMemory, asked: model_pb2.TrainingSelection
) -> Iterator[model_pb2.ActivationMemory]:
    for recomputation in Recomputation:
        size = activation_bytes(
            architecture, asked.batch_size, asked.sequence_length_tokens, recomputation, held.precision
        )
        if held.total_bytes + size > MAX_INT64:
            raise InvalidInputError.single(
                "training", "the activations come to more than 2^63 bytes; accepted: fewer or shorter sequences"
            )
        yield model_pb2.ActivationMemory(
            recomputation=recomputation.value, activation_bytes=size, total_bytes=held.total_bytes + size
        )
