"""The longest context a device holds of a model, and over how few devices the full one fits.

Nothing is computed here that a plan would not: the memory formula, the engine's defaults and every reason not to
start are those of :mod:`capplan.estimation.memory`, :mod:`capplan.estimation.engine` and
:mod:`capplan.estimation.legality`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from capplan.estimation.device import RankDevice, whole_device
from capplan.estimation.engine import EngineChoice, EngineSettings, resolve_settings
from capplan.estimation.legality import Fault, device_faults, link_faults, memory_faults, split_faults
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint
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

    def start(device: RankDevice, size: int, context_tokens: int) -> _Start:
        settings = resolve_settings(engine, device.accelerator, device.memory_bytes)
        memory = memory_breakdown(
            footprints[size],
            device,
            settings,
            peers=size > 1,
            context_tokens=context_tokens,
            live_tokens=context_tokens,
        )
        return _Start(settings, memory, next(iter(memory_faults(memory, context_tokens)), None))

    return tuple(
        _fit(model, accelerator, tuple(footprints), full_context_tokens, start) for accelerator in accelerators
    )


@dataclass(frozen=True, slots=True)
class _Start:
    """A replica started with some context: its settings, the memory of a rank, and what keeps it from starting."""

    settings: EngineSettings
    memory: MemoryBreakdown
    fault: Fault | None


_Starter = Callable[[RankDevice, int, int], _Start]


def _fit(
    model: ModelCosts, accelerator: Accelerator, sizes: tuple[int, ...], full_context_tokens: int, start: _Starter
) -> ContextFit:
    unsupported = device_faults(model, accelerator)
    if unsupported:
        return ContextFit(0, None, unsupported[0])
    device = whole_device(accelerator)
    if device is None:
        text = f"the memory size of {accelerator.product_name} is not in the catalogue"
        return ContextFit(0, None, Fault("MEMORY_UNKNOWN", text))
    alone = start(device, 1, full_context_tokens)
    longest = min(alone.memory.longest_context_tokens, full_context_tokens)
    # A pool may be large enough and something else still in the way.
    if alone.fault is not None and (longest == 0 or start(device, 1, longest).fault is not None):
        longest = 0
    size, fault = _smallest_fit(device, sizes, full_context_tokens, start)
    return ContextFit(longest, size, fault, f"{alone.settings.name} {alone.settings.version}")


def _smallest_fit(
    device: RankDevice, sizes: tuple[int, ...], full_context_tokens: int, start: _Starter
) -> tuple[int | None, Fault | None]:
    """The smallest of ascending sizes that starts with the full context, or the fault of the largest in reach."""
    fault: Fault | None = None
    for size in sizes:
        if link_faults(device.accelerator, Parallelism(tensor_parallel=size)):
            break
        fault = start(device, size, full_context_tokens).fault
        if fault is None:
            return size, None
    return None, fault
