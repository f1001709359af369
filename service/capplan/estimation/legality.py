"""Would a replica start? Formats against the hardware, widths against the split, memory against the context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from capplan.estimation.engine import EngineChoice, engine_name, engine_refusal
from capplan.estimation.engine_formats import format_refusal
from capplan.estimation.identity import Same
from capplan.estimation.memory import MemoryBreakdown
from capplan.estimation.replica import Parallelism
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.arithmetic import ArithmeticMode, arithmetic_support, kv_cache_support
from capplan.hardware.collectives import all_reduce_ranks_limit
from capplan.modeling.costs import ModelCosts
from capplan.modeling.parallelism import parallelism_faults
from capplan.units import GIB

_DEFAULT_ENGINE = EngineChoice()


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason why a layout would not start or is not allowed.

    Attributes:
        reason: stable UPPER_SNAKE code.
        description: the reason as a sentence.
        shortfall: what is missing, negative, in ``unit``; 0 when an amount has no meaning.
        unit: unit of the shortfall, empty without one.
    """

    reason: str
    description: str
    shortfall: float = 0.0
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ModelFormats:
    """The number formats a model asks of a device.

    Attributes:
        storages: storage formats of everything that is multiplied with.
        asked: the weight precision that was asked for.
        kv_cache: KV-cache format; ``None`` without a cache.
    """

    storages: tuple[str, ...]
    asked: str
    kv_cache: str | None


def model_formats(model: ModelCosts) -> ModelFormats:
    """The number formats of a model."""
    storages = tuple(dict.fromkeys(gemm.storage for gemm in model.gemms if gemm.active_parameters))
    return ModelFormats(storages, model.weight_precision, model.kv_precision if model.attentions else None)


def device_faults(
    model: ModelCosts, accelerator: Accelerator, engine: EngineChoice = _DEFAULT_ENGINE
) -> tuple[Fault, ...]:
    """Whether engine and number formats run on a device at all.

    Raises:
        InvalidInputError: the engine is not modelled.
    """
    return format_faults(model_formats(model), accelerator, engine)


def format_faults(formats: ModelFormats, accelerator: Accelerator, engine: EngineChoice) -> tuple[Fault, ...]:
    """:func:`device_faults` of any model in these formats.

    Raises:
        InvalidInputError: the engine is not modelled.
    """
    return _format_faults(formats, Same(accelerator), engine_name(engine.name))


@lru_cache(maxsize=4096)
def _format_faults(formats: ModelFormats, same: Same[Accelerator], name: str) -> tuple[Fault, ...]:
    accelerator = same.value
    refusal = engine_refusal(accelerator, name)
    if refusal is not None:
        return (Fault("ENGINE_UNSUPPORTED", refusal),)
    faults = []
    for storage in formats.storages:
        support = arithmetic_support(accelerator, storage)
        refusal = None if not support.supported else format_refusal(name, storage, accelerator)
        if not support.supported or refusal is not None:
            faults.append(Fault("FORMAT_UNSUPPORTED", refusal or support.reason))
        elif support.mode is ArithmeticMode.CONVERTED and storage == formats.asked:
            # parts of a quantised checkpoint may be converted, but an asked bf16 makes the engine refuse to start
            text = f"the engine does not start in {storage} on {accelerator.product_name}; ask for {support.arithmetic}"
            faults.append(Fault("FORMAT_UNSUPPORTED", text))
    if formats.kv_cache is not None:
        support = kv_cache_support(accelerator, formats.kv_cache)
        if not support.supported:
            faults.append(Fault("KV_FORMAT_UNSUPPORTED", support.reason))
    return tuple(faults)


def link_faults(accelerator: Accelerator, parallelism: Parallelism) -> tuple[Fault, ...]:
    """Whether so many devices of this kind reach each other."""
    ranks, limit = parallelism.tensor_parallel, all_reduce_ranks_limit(accelerator)
    if ranks <= limit:
        return ()
    text = f"{ranks} devices of {accelerator.product_name} cannot reach each other inside one node; at most {limit} can"
    return (Fault("TENSOR_PARALLEL_BEYOND_LINK", text, float(limit - ranks), "devices"),)


def split_faults(model: ModelCosts, parallelism: Parallelism) -> tuple[Fault, ...]:
    """Whether the model's widths, layers and experts divide over the ranks."""
    faults = parallelism_faults(
        model,
        parallelism.tensor_parallel,
        parallelism.pipeline_parallel,
        parallelism.expert_parallel,
        parallelism.attention_data_parallel,
    )
    return tuple(Fault(fault.code.value, fault.sentence) for fault in faults)


def memory_faults(memory: MemoryBreakdown, context_tokens: int) -> tuple[Fault, ...]:
    """Whether the weights fit, one request of the full context beside them, and all of it on the device."""
    pool, needed = memory.kv_pool_bytes, memory.full_context_request_bytes
    if pool <= 0:
        return (
            Fault(
                "WEIGHTS_DO_NOT_FIT",
                f"weights ({memory.weight_bytes / GIB:.2f} GiB), activations "
                f"({memory.activation_bytes / GIB:.2f} GiB), graphs and runtime "
                f"({(memory.graph_bytes + memory.runtime_bytes) / GIB:.2f} GiB) exceed the budget of "
                f"{memory.budget_bytes / GIB:.2f} GiB per device by {-pool / GIB:.2f} GiB, before any KV cache; one "
                f"request of {context_tokens} tokens needs {needed / GIB:.2f} GiB more",
                float(pool - needed),
                "bytes_per_device",
            ),
        )
    if needed > pool:
        return (
            Fault(
                "CONTEXT_DOES_NOT_FIT",
                f"one request of {context_tokens} tokens needs {needed / GIB:.2f} GiB of KV cache per device, "
                f"{pool / GIB:.2f} GiB are left beside the weights; the longest context that fits is "
                f"{memory.longest_context_tokens} tokens",
                float(pool - needed),
                "bytes_per_device",
            ),
        )
    if memory.missing_bytes:
        return (
            Fault(
                "DEVICE_MEMORY_EXCEEDED",
                f"the memory fraction leaves too little of {memory.device_bytes / GIB:.2f} GiB for what lives outside "
                f"weights and KV cache, by {memory.missing_bytes / GIB:.2f} GiB; lower it",
                -float(memory.missing_bytes),
                "bytes_per_device",
            ),
        )
    if memory.state_blocks is not None:
        return (
            Fault(
                "STATE_BLOCKS_BELOW_MAX_NUM_SEQS",
                f"the pool holds {memory.state_blocks} blocks of recurrent state, fewer than max_num_seqs; the engine "
                f"starts with max_num_seqs of at most {memory.state_blocks}",
            ),
        )
    return ()
