"""A model's sizes as messages."""

from __future__ import annotations

from collections.abc import Iterable

from capplan.errors import UnsupportedPrecisionError
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.parameters import (
    active_parameters,
    multi_token_prediction_parameters,
    parameter_groups,
    total_parameters,
)
from capplan.modeling.precision import native_precision
from capplan.modeling.token_costs import active_parameter_groups, decode_intensity, token_costs
from capplan.server.conversion.anatomy import (
    full_context_tokens,
    to_accelerator_fits,
    to_attention_layers,
    to_decode_intensities,
    to_degrees,
    to_sequences,
    to_training,
)
from capplan.server.conversion.integers import int64
from capplan.server.layer_summary import layer_summary
from capplan.v1 import model_pb2


def to_model_description(
    architecture: ModelArchitecture,
    costs: ModelCosts,
    precisions: Iterable[str],
    *,
    accelerators: Iterable[Accelerator] = (),
    training: model_pb2.TrainingSelection | None = None,
) -> model_pb2.ModelDescription:
    """Everything ``DescribeModel`` says about a model.

    Args:
        architecture: the model.
        costs: its costs in the weight format that figures of tokens, steps and accelerators are for.
        precisions: weight formats to size; one the model cannot be stored in is answered with the refusal.
        accelerators: devices to put the model on.
        training: what training is asked about; ``None`` for AdamW without activations.

    Raises:
        InvalidInputError: the optimiser is not known, or a figure needs more than 64 bits.
    """
    token = token_costs(costs)
    parameters = total_parameters(architecture)
    native = native_precision(architecture)
    published = costs if costs.weight_precision == native else model_costs(architecture, native)
    active = active_parameter_groups(architecture)
    intensities = list(to_decode_intensities(architecture, costs))
    fits, assumed = to_accelerator_fits(costs, accelerators, intensities)
    return model_pb2.ModelDescription(
        name=architecture.name,
        family=architecture.family,
        layer_count=architecture.layer_count,
        hidden_size=architecture.hidden_size,
        vocabulary_size=architecture.vocabulary_size,
        max_context_tokens=architecture.max_context_tokens or 0,
        layer_summary=layer_summary(architecture),
        total_parameters=int64(parameters, "parameters"),
        active_parameters=active_parameters(architecture),
        parameter_groups=[
            model_pb2.ParameterGroup(
                component=component.value, total_parameters=count, active_parameters=active[component]
            )
            for component, count in parameter_groups(architecture).items()
            if count
        ],
        multi_token_prediction_parameters=int64(
            multi_token_prediction_parameters(architecture), "parameters of multi-token prediction"
        ),
        native_weights=native,
        weight_bytes=int64(published.weight_bytes, "bytes of weights"),
        precisions=[_to_precision_size(architecture, weights, parameters) for weights in precisions],
        weights=costs.weight_precision,
        kv_cache=costs.kv_precision,
        kv_cache_bytes_per_token=token.cache_bytes,
        kv_cache_bytes_per_token_beyond_window=token.cache_bytes_beyond_window,
        attention_layers=to_attention_layers(costs),
        state_bytes_per_sequence=int64(token.state_bytes_per_sequence, "bytes of recurrent state"),
        sequences=to_sequences(architecture, costs),
        flop_per_token=token.flop,
        attention_flop_per_context_token=token.attention_flop_per_context_token,
        decode_intensity_flop_per_byte=decode_intensity(costs, batch_size=1),
        decode_intensities=intensities,
        tensor_parallel_degrees=to_degrees(costs),
        full_context_tokens=full_context_tokens(costs),
        accelerators=fits,
        training=to_training(architecture, training or model_pb2.TrainingSelection()),
        assumptions=(*costs.assumptions, *assumed),
    )


def _to_precision_size(architecture: ModelArchitecture, weights: str, parameters: int) -> model_pb2.PrecisionSize:
    try:
        costs = model_costs(architecture, weights)
    except UnsupportedPrecisionError as refusal:
        return model_pb2.PrecisionSize(
            weights=weights, refusal="; ".join(violation.description for violation in refusal.violations)
        )
    return model_pb2.PrecisionSize(
        weights=weights,
        weight_bytes=int64(costs.weight_bytes, "bytes of weights"),
        effective_bits_per_parameter=8.0 * costs.weight_bytes / parameters if parameters else 0.0,
        # What was assumed about the config is said once, for the model.
        assumptions=costs.assumptions[len(architecture.assumptions) :],
    )
