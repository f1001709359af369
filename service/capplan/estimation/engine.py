"""Inference engines: which are modelled, what a choice of one resolves to on a device, and where it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from capplan.errors import FieldViolation, InvalidInputError
from capplan.estimation.engine_records import (
    ENGINE_FIELD,
    BudgetRule,
    EngineChoice,
    EngineSettings,
    GraphRule,
    MemoryRule,
    StateRule,
    Version,
    WindowRule,
)
from capplan.estimation.engines import sglang, tensorrt_llm, vllm
from capplan.estimation.identity import Same
from capplan.hardware.accelerator import Accelerator

__all__ = [
    "ENGINE_NAMES",
    "BudgetRule",
    "EngineChoice",
    "EngineSettings",
    "GraphRule",
    "MemoryRule",
    "StateRule",
    "WindowRule",
    "engine_name",
    "engine_notes",
    "engine_refusal",
    "engine_version",
    "memory_fraction_field",
    "modelled_versions",
    "resolve_settings",
    "settings_key",
    "settings_resolver",
    "takes_gpu_memory_utilization",
]


@dataclass(frozen=True, slots=True)
class _Engine:
    """One engine's functions, the versions they know, and the memory fraction it takes."""

    title: str
    oldest: str
    newest: str
    fraction_field: str
    version_of: Callable[[EngineChoice], Version]
    label: Callable[[Version], str]
    refusal: Callable[[Accelerator], str | None]
    uses_context: Callable[[EngineChoice], bool]
    resolve: Callable[[EngineChoice, Accelerator, int, int, int | None], EngineSettings]


def _never(choice: EngineChoice) -> bool:
    del choice
    return False


_ENGINES: Final[Mapping[str, _Engine]] = MappingProxyType(
    {
        vllm.NAME: _Engine(
            "vLLM",
            vllm.OLDEST,
            vllm.NEWEST,
            "gpu_memory_utilization",
            vllm.version_of,
            vllm.label,
            vllm.refusal,
            vllm.uses_context,
            vllm.resolve,
        ),
        sglang.NAME: _Engine(
            "SGLang",
            sglang.OLDEST,
            sglang.NEWEST,
            "mem_fraction_static",
            sglang.version_of,
            sglang.label,
            sglang.refusal,
            _never,
            sglang.resolve,
        ),
        tensorrt_llm.NAME: _Engine(
            "TensorRT-LLM",
            tensorrt_llm.OLDEST,
            tensorrt_llm.NEWEST,
            "free_gpu_memory_fraction",
            tensorrt_llm.version_of,
            tensorrt_llm.label,
            tensorrt_llm.refusal,
            _never,
            tensorrt_llm.resolve,
        ),
    }
)
ENGINE_NAMES: Final = tuple(_ENGINES)
"""Engines that are modelled, by the names :class:`EngineChoice` takes."""

_SPELLINGS: Final = MappingProxyType(
    {"vllm": vllm.NAME, "sglang": sglang.NAME}
    | dict.fromkeys(("tensorrtllm", "trtllm", "tensorrt", "trt"), tensorrt_llm.NAME)
)
_EAGER_NOTE: Final = (
    "Without captured graphs every kernel is launched on its own; the memory that saves is modelled, the time it costs "
    "is not."
)
_FRACTION_FIELDS: Final = ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction")


@lru_cache(maxsize=256)
def engine_name(name: str) -> str:
    """The name of an engine, whatever the case, dashes, dots and blanks it was written with.

    Raises:
        InvalidInputError: no engine that is modelled.
    """
    found = _SPELLINGS.get("".join(character for character in name.lower() if character.isalnum()))
    if found is None:
        accepted = ", ".join(repr(known) for known in ENGINE_NAMES)
        raise InvalidInputError.single(f"{ENGINE_FIELD}.name", f"engine {name!r} is not modelled; accepted: {accepted}")
    return found


def engine_version(choice: EngineChoice) -> str:
    """The version a choice means, as the engine's table spells it.

    Raises:
        InvalidInputError: the engine or version is not modelled.
    """
    engine = _ENGINES[engine_name(choice.name)]
    return engine.label(engine.version_of(choice))


def modelled_versions(name: str) -> tuple[str, str]:
    """The oldest and the newest version that is modelled of an engine.

    Raises:
        InvalidInputError: the engine is not modelled.
    """
    engine = _ENGINES[engine_name(name)]
    return engine.oldest, engine.newest


def memory_fraction_field(name: str) -> str:
    """The field of :class:`EngineChoice` that an engine's memory fraction is pinned by.

    Raises:
        InvalidInputError: the engine is not modelled.
    """
    return _ENGINES[engine_name(name)].fraction_field


def takes_gpu_memory_utilization(choice: EngineChoice) -> bool:
    """Whether the engine's memory fraction is of the device's total memory, as vLLM's is.

    Raises:
        InvalidInputError: the engine is not modelled.
    """
    return _ENGINES[engine_name(choice.name)].fraction_field == "gpu_memory_utilization"


def engine_notes(choice: EngineChoice) -> tuple[str, ...]:
    """What is assumed about an engine and version on whatever device, one sentence each.

    Raises:
        InvalidInputError: the engine or version is not modelled.
    """
    notes = vllm.notes(vllm.version_of(choice)) if engine_name(choice.name) == vllm.NAME else ()
    return (*notes, _EAGER_NOTE) if choice.enforce_eager else notes


def engine_refusal(accelerator: Accelerator, name: str = vllm.NAME) -> str | None:
    """Says why an engine does not run on an accelerator, or ``None`` when it does.

    Raises:
        InvalidInputError: the engine is not modelled.
    """
    return _ENGINES[engine_name(name)].refusal(accelerator)


def resolve_settings(
    choice: EngineChoice,
    accelerator: Accelerator,
    device_bytes: int,
    *,
    ranks: int = 1,
    context_tokens: int | None = None,
) -> EngineSettings:
    """Fills in what the engine would default to on a device.

    Args:
        choice: what the caller pinned.
        accelerator: the whole device (its name matters to vLLM's defaults).
        device_bytes: memory of the device or MIG slice that one rank sees.
        ranks: ranks of one replica (tensor times pipeline parallel).
        context_tokens: context the engine is started with; matters to the V0 engine of vLLM only.

    Raises:
        InvalidInputError: the engine or version is not modelled, or a memory fraction of another engine is pinned.
    """
    return settings_resolver(choice, context_tokens)(accelerator, device_bytes, ranks)


def settings_key(choice: EngineChoice, context_tokens: int | None) -> tuple[EngineChoice, int | None]:
    """What settings turn on beside the device: one object for equal choices, and the context where it matters.

    Raises:
        InvalidInputError: the engine or version is not modelled.
    """
    uses_context = _ENGINES[engine_name(choice.name)].uses_context(choice)
    return _canonical(choice), context_tokens if uses_context else None


def settings_resolver(
    choice: EngineChoice, context_tokens: int | None = None
) -> Callable[[Accelerator, int, int], EngineSettings]:
    """:func:`resolve_settings` for many devices: takes accelerator, bytes that one rank sees, and ranks.

    Raises:
        InvalidInputError: the engine or version is not modelled.
    """
    choice, context = settings_key(choice, context_tokens)
    same_choice = Same(choice)

    def resolve(accelerator: Accelerator, device_bytes: int, ranks: int) -> EngineSettings:
        return _resolved(same_choice, Same(accelerator), device_bytes, ranks, context)

    return resolve


@lru_cache(maxsize=1024)
def _canonical(choice: EngineChoice) -> EngineChoice:
    """One object for equal choices."""
    return choice


@lru_cache(maxsize=4096)
def _resolved(
    same_choice: Same[EngineChoice],
    accelerator: Same[Accelerator],
    device_bytes: int,
    ranks: int,
    context_tokens: int | None,
) -> EngineSettings:
    """Settings turn on few facts, and a plan asks for the same ones hundreds of times."""
    choice = same_choice.value
    engine = _ENGINES[engine_name(choice.name)]
    foreign = [
        FieldViolation(
            f"{ENGINE_FIELD}.{field}", f"is not a setting of {engine.title}, which takes {engine.fraction_field}"
        )
        for field in _FRACTION_FIELDS
        if field != engine.fraction_field and getattr(choice, field) is not None
    ]
    if foreign:
        raise InvalidInputError(foreign)
    return engine.resolve(choice, accelerator.value, device_bytes, ranks, context_tokens)
