"""Where a device's roofline bends, and on which side of it a decode step of a model falls. Nominal peaks throughout."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from capplan.hardware.accelerator import Accelerator
from capplan.hardware.arithmetic import arithmetic_support
from capplan.modeling.costs import ModelCosts
from capplan.modeling.token_costs import decode_intensity, weight_bytes_read


@dataclass(frozen=True, slots=True)
class Ridge:
    """The bend of one device's roofline for one model.

    Attributes:
        arithmetic: number format whose peak applies.
        flop_per_byte: peak FLOP over peak bandwidth; a step with more FLOP for each byte waits for arithmetic, one with
            fewer for memory.
        batch_size: smallest batch of decoding sequences whose matrix products reach the ridge.
    """

    arithmetic: str
    flop_per_byte: float
    batch_size: int

    def binds(self, flop_per_byte: float) -> str:
        """What a step of this intensity waits for: ``compute`` or ``memory_bandwidth``."""
        return "compute" if flop_per_byte >= self.flop_per_byte else "memory_bandwidth"


def main_storage(model: ModelCosts) -> str | None:
    """The storage format that holds most of the weights that are multiplied with; ``None`` without any."""
    parameters: Counter[str] = Counter()
    for gemm in model.gemms:
        if gemm.active_parameters:
            parameters[gemm.storage] += gemm.parameters
    return max(parameters, key=lambda storage: (parameters[storage], storage), default=None)


def ridge(model: ModelCosts, accelerator: Accelerator) -> Ridge | None:
    """The ridge in the arithmetic that the model's main storage format runs in on a device.

    Returns:
        ``None`` when the device has no arithmetic for the format, or the model multiplies with nothing.
    """
    storage = main_storage(model)
    support = arithmetic_support(accelerator, storage) if storage is not None else None
    if support is None or not support.supported:
        return None
    bend = accelerator.peak_flop_per_s[support.arithmetic] / accelerator.memory_bandwidth_bytes_per_s
    return Ridge(support.arithmetic, bend, _crossing(model, bend))


def _crossing(model: ModelCosts, flop_per_byte: float) -> int:
    """Smallest batch whose intensity, weights alone, reaches a value. It rises with the batch: bisection."""
    # Were every expert read by every step, the intensity would rise in proportion; it never is below that.
    every_weight = decode_intensity(model, 1) * _read_share(model)
    low, high = 0, max(1, math.ceil(flop_per_byte / every_weight))
    while decode_intensity(model, high) < flop_per_byte:  # rounding alone can get here
        high += 1
    while high - low > 1:
        middle = (low + high) // 2
        if decode_intensity(model, middle) >= flop_per_byte:
            high = middle
        else:
            low = middle
    return high


def _read_share(model: ModelCosts) -> float:
    """Share of the weight bytes, lookup tables left out, that one sequence's step reads."""
    multiplied = sum(gemm.stored_bytes for gemm in model.gemms if gemm.active_parameters) + model.replicated_bytes
    return weight_bytes_read(model, 1) / multiplied
