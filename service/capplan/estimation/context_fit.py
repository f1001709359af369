"""The longest context a device holds of a model, and over how few devices the full one fits.

Nothing is computed here that a plan would not: the memory formula, the engine's defaults and every reason not to
start are those of :mod:`capplan.estimation.memory`, :mod:`capplan.estimation.engine` and
:mod:`capplan.estimation.legality`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.legality import Fault, device_faults, link_faults, memory_faults, split_faults
from capplan.estimation.memory import MemoryBreakdown, RankFootprint, memory_breakdown, rank_footprint
from capplan.estimation.replica import Parallelism
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.costs import ModelCosts

TENSOR_PARALLEL_SIZES = tuple(range(1, 17))
"""Sizes that are tried."""


@dataclass(frozen=True, slots=True)
class ContextFit:
    """What one kind of device holds of a model, whole devices, one request at a time.

    Attributes:
        longest_context_tokens: longest context on one device; 0 when the weights leave no room.
        full_context_tensor_parallel: fewest devices of one replica that hold the full context; ``None`` when no number
            that divides the model and whose devices reach each other does.
        fault: why not: of the device when nothing starts there, else of the largest replica that was tried.
        engine: engine and version whose memory was counted; empty where nothing starts.
    """

    longest_context_tokens: int
    full_context_tensor_parallel: int | None
    fault: Fault | None
    engine: str = ""


def context_fits(
    model: ModelCosts, accelerators: Iterable[Accelerator], full_context_tokens: int, engine: EngineChoice
) -> tuple[ContextFit, ...]:
    """Fits a model onto each of several accelerators.

    Args:
        model: the model in its formats.
        accelerators: the devices.
        full_context_tokens: the context to hold; no longer one is looked for.
        engine: engine and its pinned settings.

    Raises:
        InvalidInputError: the engine or its version is not modelled.
    """
    footprints = {
        size: rank_footprint(model, size)
        for size in TENSOR_PARALLEL_SIZES
        if not split_faults(model, Parallelism(tensor_parallel=size))
    }
    return tuple(_fit(model, accelerator, footprints, full_context_tokens, engine) for accelerator in accelerators)


def _fit(
    model: ModelCosts,
    accelerator: Accelerator,
    footprints: dict[int, RankFootprint],
    full_context_tokens: int,
    engine: EngineChoice,
) -> ContextFit:
    unsupported = device_faults(model, accelerator)
    if unsupported:
        return ContextFit(0, None, unsupported[0])
    device = whole_device(accelerator)
    if device is None:
        text = f"the memory size of {accelerator.product_name} is not in the catalogue"
        return ContextFit(0, None, Fault("MEMORY_UNKNOWN", text))
    settings = resolve_settings(engine, accelerator, device.memory_bytes)

    def memory(size: int) -> MemoryBreakdown:
        return memory_breakdown(
            footprints[size],
            device,
            settings,
            peers=size > 1,
            context_tokens=full_context_tokens,
            live_tokens=full_context_tokens,
        )

    longest = min(memory(1).longest_context_tokens, full_context_tokens)
    size, fault = _smallest_fit(accelerator, footprints, memory, full_context_tokens)
    return ContextFit(longest, size, fault, f"{settings.name} {settings.version}")


def _smallest_fit(
    accelerator: Accelerator,
    footprints: dict[int, RankFootprint],
    memory: Callable[[int], MemoryBreakdown],
    full_context_tokens: int,
) -> tuple[int | None, Fault | None]:
    fault: Fault | None = None
    for size in footprints:
        if link_faults(accelerator, Parallelism(tensor_parallel=size)):
            break
        faults = memory_faults(memory(size), full_context_tokens)
        if not faults:
            return size, None
        fault = faults[0]
    return None, fault
