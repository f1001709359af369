"""What an engine's start-up log would say: weights, KV pool, KV tokens, concurrency, and whether it starts at all."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.errors import InvalidInputError
from capplan.estimation.device import RankDevice, mig_rank_device, whole_device
from capplan.estimation.engine import EngineChoice, EngineSettings, resolve_settings
from capplan.estimation.legality import Fault, device_faults, memory_faults, split_faults
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint
from capplan.estimation.replica import Parallelism
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.modeling.costs import ModelCosts
from capplan.units import GIB


@dataclass(frozen=True, slots=True)
class Start:
    """One replica at start-up, as its first rank sees it.

    Attributes:
        faults: why it does not start; empty when it does.
        settings: engine settings; ``None`` when the device's memory is unknown or the split is impossible.
        memory: the breakdown; ``None`` with the settings.
    """

    faults: tuple[Fault, ...]
    settings: EngineSettings | None
    memory: MemoryBreakdown | None

    @property
    def starts(self) -> bool:
        """Whether the engine would come up and hold one request of the full context."""
        return not self.faults

    @property
    def weights_gib(self) -> float | None:
        """Weights of one rank as the engine prints them."""
        return None if self.memory is None else self.memory.reported_weight_bytes / GIB

    @property
    def kv_pool_gib(self) -> float | None:
        """KV pool of one rank; negative when the weights do not fit."""
        return None if self.memory is None else self.memory.kv_pool_bytes / GIB

    @property
    def kv_tokens(self) -> int | None:
        """KV tokens as the engine prints them."""
        return None if self.memory is None else self.memory.reported_kv_tokens

    @property
    def max_concurrency(self) -> float | None:
        """Requests of the full context that the pool holds."""
        return None if self.memory is None else self.memory.full_context_requests


def predict_start(
    model: ModelCosts,
    accelerator: Accelerator,
    engine: EngineChoice,
    *,
    mig: tuple[MigBoard, MigProfile] | None = None,
    parallelism: Parallelism | None = None,
    max_context_tokens: int | None = None,
) -> Start:
    """Predicts what starting one replica shows.

    Args:
        model: the model in its formats.
        accelerator: the physical device.
        engine: engine, version and pinned settings.
        mig: board tables and profile when a rank runs on a slice.
        parallelism: spread of the replica; one rank by default.
        max_context_tokens: context the engine is started with; the model's by default.

    Raises:
        InvalidInputError: the engine or version is not modelled, the model's context is unknown and none is given, or
            the slice's memory was never published.
    """
    spread = parallelism or Parallelism()
    context = max_context_tokens or model.max_context_tokens
    if context is None:
        raise InvalidInputError.single(
            "workload.max_context_tokens", "the model's config does not state its context length; give one"
        )
    faults = [*device_faults(model, accelerator, engine), *split_faults(model, spread)]
    if mig is not None and spread.devices > 1:
        text = "instances have no peer access, so a replica is one instance"
        faults.append(Fault("MIG_NEEDS_TENSOR_PARALLEL_1", text))
    device = _device(accelerator, mig)
    if device is None:
        text = f"the memory size of {accelerator.product_name} is not in the catalogue"
        return Start((*faults, Fault("MEMORY_UNKNOWN", text)), None, None)
    settings = resolve_settings(engine, accelerator, device.memory_bytes, ranks=spread.devices, context_tokens=context)
    if spread.pipeline_parallel > model.layers:
        return Start(tuple(faults), settings, None)
    memory = memory_breakdown(
        rank_footprint(
            model,
            spread.tensor_parallel,
            pipeline_parallel=spread.pipeline_parallel,
            attention_data_parallel=spread.attention_data_parallel,
        ),
        device,
        settings,
        peers=spread.devices > 1,
        context_tokens=context,
        live_tokens=context,
    )
    return Start((*faults, *memory_faults(memory, context)), settings, memory)


def _device(accelerator: Accelerator, mig: tuple[MigBoard, MigProfile] | None) -> RankDevice | None:
    return whole_device(accelerator) if mig is None else mig_rank_device(accelerator, *mig)
