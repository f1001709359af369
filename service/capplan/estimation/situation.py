"""What a measured or planned replica has in common with others: the features by which residuals are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from capplan.estimation.identity import Same
from capplan.estimation.replica import Parallelism, Replica
from capplan.modeling.costs import ModelCosts

Shape = tuple[float, float, float]
"""log2 of the hidden size, of experts per active expert, of the number of experts; 0 for what a dense model lacks."""

PLAIN: Final = "plain"
EXPERTS: Final = "experts"
ATTENTION: Final = "attention"
SPREADS: Final = (PLAIN, EXPERTS, ATTENTION, f"{EXPERTS}+{ATTENTION}")
"""What is dealt out over ranks instead of split: nothing, experts, sequences to attend for, or both."""


@dataclass(frozen=True, slots=True, order=True)
class Situation:
    """One way to run one model.

    Nothing here depends on the number of layers: a correction then is the same for a model and for one with more
    layers, and more layers never look better.

    Attributes:
        model: widths that tell models apart: hidden size, vocabulary, experts, experts per token and their mean width;
            the same for all builds of one design.
        shape: the same as numbers, by which models are more or less alike.
        weights: weight precision.
        sku: accelerator, with the GPU instance profile for a slice.
        generation: the accelerator's architecture.
        engine: the engine's core where it was rewritten, else its name.
        spread: one of :data:`SPREADS`.
        devices: devices of one replica.
    """

    model: str
    shape: Shape
    weights: str
    sku: str
    generation: str
    engine: str
    spread: str
    devices: int

    @property
    def has_experts(self) -> bool:
        """Whether the model has routed experts."""
        return self.shape[2] > 0.0


def situation_of(model: ModelCosts, replica: Replica) -> Situation:
    """The features of a replica of a model."""
    (situation,) = situations_of(model, (replica,))
    return situation


def situations_of(model: ModelCosts, replicas: Sequence[Replica]) -> list[Situation]:
    """The features of replicas of a model."""
    (name, shape), weights = _widths(Same(model)), model.weight_precision
    spreads: dict[Parallelism, tuple[str, int]] = {}
    situations = []
    for replica in replicas:
        device, parallelism, settings = replica.device, replica.parallelism, replica.settings
        accelerator = device.accelerator
        sku = accelerator.sku if device.profile is None else f"{accelerator.sku}/{device.profile.name}"
        spread = spreads.get(parallelism)
        if spread is None:
            spread = spreads[parallelism] = _spread(parallelism), parallelism.devices
        engine = settings.runtime or settings.name
        situations.append(Situation(name, shape, weights, sku, accelerator.architecture, engine, *spread))
    return situations


@lru_cache(maxsize=64)
def _widths(same: Same[ModelCosts]) -> tuple[str, Shape]:
    """The name and the numbers of a model's widths."""
    model = same.value
    hidden = math.log2(model.hidden_size)
    widths = f"{model.hidden_size}x{model.vocabulary_size}"
    routed = [gemm for gemm in model.gemms if gemm.experts]
    if not routed:
        return f"{widths}:dense", (hidden, 0.0, 0.0)
    experts = max(gemm.experts for gemm in routed)
    active = max(gemm.experts_per_token for gemm in routed)
    # Over all of them, so that it is the same whichever of them a build stores in another format.
    outputs = sum(gemm.matrices_per_token * gemm.output_features for gemm in routed)
    width = round(outputs / sum(gemm.matrices_per_token for gemm in routed))
    return f"{widths}:{experts}x{active}x{width}", (hidden, math.log2(experts / active), math.log2(experts))


def _spread(parallelism: Parallelism) -> str:
    parts = []
    if parallelism.expert_parallel > 1:
        parts.append(EXPERTS)
    if parallelism.attention_data_parallel > 1:
        parts.append(ATTENTION)
    return "+".join(parts) or PLAIN
