"""Exact parameter counts. Tied tensors count once; buffers and multi-token prediction layers are counted apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from capplan.modeling.architecture import LayerRun, ModelArchitecture
from capplan.modeling.linear import Component


def parameter_groups(architecture: ModelArchitecture) -> Mapping[Component, int]:
    """Parameters by component; the values sum to :func:`total_parameters`.

    A tied head shows under ``EMBEDDING`` only. Every component is present, with 0 where the model has none of it.
    """
    groups: Counter[Component] = Counter(dict.fromkeys(Component, 0))
    for run in architecture.block_runs():
        for linear in run.block.maps():
            groups[linear.component] += linear.parameters * run.count
        for vectors in run.block.vectors():
            groups[vectors.component] += vectors.parameters * run.count
    for table in architecture.embeddings:
        groups[Component.EMBEDDING] += table.parameters
    for linear in architecture.outer_maps:
        groups[linear.component] += linear.parameters
    if architecture.head is not None:
        groups[Component.LM_HEAD] += architecture.head.parameters
    groups[Component.LM_HEAD] += architecture.head_extra_parameters
    groups[Component.NORM] += architecture.final_norm_parameters
    for tower in architecture.towers:
        groups[Component.MULTIMODAL_ENCODER] += tower.parameters
    return dict(groups)


def total_parameters(architecture: ModelArchitecture) -> int:
    """All parameters of the model."""
    return sum(parameter_groups(architecture).values())


def active_parameters(architecture: ModelArchitecture) -> int:
    """Parameters one token touches: all but the routed experts it does not visit (embedding and head included)."""
    idle = sum(linear.idle_parameters * run.count for run in architecture.block_runs() for linear in run.block.maps())
    return total_parameters(architecture) - idle


def buffer_parameters(architecture: ModelArchitecture) -> int:
    """Stored buffers that no parameter count includes (score-correction biases of routers)."""
    return sum(run.block.buffer_parameters * run.count for run in architecture.block_runs())


def multi_token_prediction_parameters(architecture: ModelArchitecture) -> int:
    """Parameters of the multi-token prediction layers in the checkpoint; 0 without."""
    prediction = architecture.prediction
    if prediction is None:
        return 0
    return sum(_run_parameters(run) for run in prediction.layers) + prediction.extra_parameters


def _run_parameters(run: LayerRun) -> int:
    maps = sum(linear.parameters for linear in run.block.maps())
    vectors = sum(vectors.parameters for vectors in run.block.vectors())
    return (maps + vectors) * run.count
