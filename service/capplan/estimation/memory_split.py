"""How an engine lays out a device's memory. The one formula, for one rank and for many at once.

``weights + activations + graphs + runtime + KV pool = budget``, where the engine's memory fraction fixes either the
budget (vLLM), or weights and pool together (SGLang), or the pool over what is left (TensorRT-LLM).
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.device import RankDevice
from capplan.estimation.engine_records import BudgetRule, EngineSettings, MemoryRule
from capplan.units import GIB

_MXFP4_PADDING_GENERATIONS = frozenset({"hopper", "blackwell", "blackwell-ultra"})
# From Hopper on, kernels pad mxfp4 experts.

_PCIE_BYTES_PER_S = 64e9
# Where peers reach each other at the speed of PCIe 5.0 x16 or less (a GeForce's bridge too), collective buffers are
# small; over a fabric they are large.

_CONTEXT_BYTES = int(0.35 * GIB)
# What the driver's context takes before an engine measures what is free.

Bytes = TypeVar("Bytes", int, NDArray[np.int64])
"""Bytes of one rank, or of N ranks."""


class Split(NamedTuple, Generic[Bytes]):
    """How the memory of a rank is laid out.

    Attributes:
        budget: what the engine lays out, to the byte.
        graphs: captured graphs, where they count against the budget.
        pool: what is left for cache and state; negative when the weights do not fit.
        beside: what else has to be free on the device.
    """

    budget: Bytes
    graphs: Bytes
    pool: Bytes
    beside: Bytes


def _whole(value: Any) -> Any:
    """The whole part of a number or of many."""
    return value.astype(np.int64) if isinstance(value, np.ndarray) else int(value)


def split_memory(
    rule: MemoryRule,
    fraction: float | NDArray[np.float64],
    total: Bytes,
    occupied: Bytes,
    weights: Bytes,
    activations: Bytes,
    graphs: Bytes,
    runtime: Bytes,
) -> Split[Bytes]:
    """Splits the memory of one rank, or of N ranks of one rule.

    Args:
        rule: the memory rule.
        fraction: the engine's memory fraction.
        total: what the engine sees of the device.
        occupied: what others than the engine hold of it.
        weights: weights, with the tables loaded beside them.
        activations: peak activations.
        graphs: captured graphs.
        runtime: context, libraries and collective buffers.
    """
    none = graphs * 0
    match rule.budget:
        case BudgetRule.OF_TOTAL:
            budget = _whole(fraction * total)
            inside = graphs if rule.graphs_in_budget else none
            beside = _CONTEXT_BYTES + occupied if rule.start_checks_free else none
            return Split(budget, inside, budget - weights - activations - inside - runtime, beside)
        case BudgetRule.OF_FREE_BEFORE_LOAD:
            pool = _whole(fraction * (total - runtime)) - weights
            return Split(weights + pool + activations + graphs + runtime, graphs, pool, none)
        case BudgetRule.OF_FREE_AFTER_LOAD:
            left = total - weights - activations - graphs - runtime
            # what is missing is missing whole
            pool = left - (left > 0) * (left - _whole(fraction * left))
            return Split(weights + pool + activations + graphs + runtime, graphs, pool, none)


def pads_experts(device: RankDevice) -> bool:
    """Whether kernels of the device pad mxfp4 experts."""
    return device.accelerator.architecture in _MXFP4_PADDING_GENERATIONS


def runtime_bytes(device: RankDevice, rule: MemoryRule, *, peers: bool) -> int:
    """Context, libraries and collective buffers of a rank, without what a model brings."""
    runtime = rule.runtime_bytes + device.occupied_bytes
    if peers:
        fabric = (device.accelerator.link_bytes_per_s or 0.0) > _PCIE_BYTES_PER_S
        runtime += rule.peer_bytes if fabric else rule.pcie_peer_bytes
    return runtime


def memory_fraction(settings: EngineSettings, *, multimodal: bool) -> float:
    """The memory fraction, of what the engine's rule says; ``multimodal`` for a model with towers."""
    return settings.memory_fraction * (settings.multimodal_share if multimodal else 1.0)
