"""Inference engines by version: what their settings mean, default to, and cost in memory.

The figures are vLLM's, from its release sources (``vllm/engine/arg_utils.py``, ``vllm/config``,
``vllm/v1/worker/gpu_worker.py`` at the tags named below) and from published start-up logs; each field says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from capplan.errors import InvalidInputError
from capplan.hardware.accelerator import Accelerator
from capplan.units import GIB


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Inference engine and the settings a caller may pin; ``None`` means the engine's default for its version.

    Attributes:
        name: ``vllm`` (others are refused by name until they are modelled).
        version: ``major.minor``; ``None`` picks the newest one known.
        gpu_memory_utilization: share of device memory the engine may use.
        max_num_seqs: most sequences in one step.
        max_num_batched_tokens: token budget of one step.
    """

    name: str = "vllm"
    version: str | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Defaults and memory accounting of a range of engine versions.

    Attributes:
        name: engine.
        since: first ``(major, minor)`` it holds for.
        gpu_memory_utilization: default share of total device memory.
        sampler_logit_copies: fp32 logit-sized buffers alive at once while the sampler is profiled at ``max_num_seqs``.
        graphs_in_budget: whether captured graphs are subtracted from the budget.
        runtime_bytes: context and libraries of one rank without peers.
        peer_bytes: collective buffers added as soon as a replica has more than one rank.
    """

    name: str
    since: tuple[int, int]
    gpu_memory_utilization: float
    sampler_logit_copies: float
    graphs_in_budget: bool
    runtime_bytes: int
    peer_bytes: int


# Sampler copies: published activation peaks divided by max_num_seqs * vocabulary * 4 bytes. 0.12-0.16: Qwen3-14B 5.64,
# Llama-3.1-8B 4.76 and gpt-oss-120b 7.38 GiB on H100 (1,024 sequences) all give 9.6-9.7; 0.17: Qwen3-14B 2.23 and 0.19:
# Llama-3.1-8B 1.89 GiB give 3.85; 0.11: Mistral-Small-3.2 2.12 GiB gives 4.2 (llm-d-planner, empirical memory results).
# Non-torch memory: 0.13/0.55 GiB (TP 1/2) before 0.17, 0.25/2.07 GiB at 0.19 (same reports).
# Defaults of gpu_memory_utilization and graph accounting: vLLM arg_utils.py and gpu_worker.py at 0.19 and 0.20.
_VLLM = (
    EngineProfile("vllm", (0, 8), 0.90, 4.2, False, int(0.14 * GIB), int(0.42 * GIB)),
    EngineProfile("vllm", (0, 12), 0.90, 9.65, False, int(0.14 * GIB), int(0.42 * GIB)),
    EngineProfile("vllm", (0, 17), 0.90, 3.85, False, int(0.25 * GIB), int(1.85 * GIB)),
    EngineProfile("vllm", (0, 20), 0.92, 3.85, True, int(0.25 * GIB), int(1.85 * GIB)),
)
NEWEST_VLLM = "0.33"
OLDEST_VLLM = "0.8"
"""Older releases run the V0 engine, whose scheduler and memory profile are not modelled."""

_VLLM_ARCHITECTURES = frozenset({"cdna2", "cdna3", "cdna4"})
_VLLM_MIN_COMPUTE_CAPABILITY = (7, 0)
"""vLLM's documented minimum for NVIDIA GPUs."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings a replica is started with, all resolved.

    Attributes:
        name: engine.
        version: ``major.minor``.
        gpu_memory_utilization: share of device memory the engine may use.
        max_num_seqs: most sequences in one step.
        max_num_batched_tokens: token budget of one step.
        profile: memory accounting of this version.
    """

    name: str
    version: str
    gpu_memory_utilization: float
    max_num_seqs: int
    max_num_batched_tokens: int
    profile: EngineProfile


def _parse_version(text: str) -> tuple[int, int]:
    parts = text.lstrip("v").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts[:2]):
        raise InvalidInputError.single(
            "constraints.engine.version", f"{text!r} is not a version; expected major.minor such as {NEWEST_VLLM!r}"
        )
    return int(parts[0]), int(parts[1])


@lru_cache(maxsize=256)
def engine_profile(choice: EngineChoice) -> tuple[EngineProfile, str]:
    """Finds the accounting that holds for an engine choice.

    Returns:
        The profile and the version as ``major.minor``.

    Raises:
        InvalidInputError: the engine or version is not modelled.
    """
    if choice.name.lower() != "vllm":
        raise InvalidInputError.single(
            "constraints.engine.name", f"engine {choice.name!r} is not modelled yet; accepted: 'vllm'"
        )
    version = _parse_version(choice.version or NEWEST_VLLM)
    if not _parse_version(OLDEST_VLLM) <= version <= _parse_version(NEWEST_VLLM):
        raise InvalidInputError.single(
            "constraints.engine.version",
            f"vLLM {choice.version} is not modelled; accepted: {OLDEST_VLLM} (the first with the V1 engine) to "
            f"{NEWEST_VLLM}",
        )
    profile = max((p for p in _VLLM if p.since <= version), key=lambda p: p.since)
    return profile, f"{version[0]}.{version[1]}"


def engine_refusal(accelerator: Accelerator) -> str | None:
    """Says why the engine does not run on an accelerator, or ``None`` when it does."""
    if accelerator.vendor == "nvidia" and accelerator.compute_capability is not None:
        major, minor = (int(part) for part in accelerator.compute_capability.split("."))
        if (major, minor) < _VLLM_MIN_COMPUTE_CAPABILITY:
            return f"vLLM needs compute capability 7.0 or higher, this device has {accelerator.compute_capability}"
        return None
    if accelerator.architecture in _VLLM_ARCHITECTURES:
        return None
    return (
        f"serving on {accelerator.vendor} {accelerator.architecture} is not modelled yet; "
        "vLLM is modelled on NVIDIA GPUs and AMD Instinct"
    )


def resolve_settings(choice: EngineChoice, accelerator: Accelerator, device_bytes: int) -> EngineSettings:
    """Fills in what the engine would default to on a device.

    The caps are vLLM's API-server defaults by device memory: 1,024 sequences and 8,192 tokens from 70 GiB on (16,384
    tokens from 160 GiB on since 0.28), else 256 and 2,048; an A100 always counts as small
    (``vllm/engine/arg_utils.py``).

    Args:
        choice: what the caller pinned.
        accelerator: the whole device (its name matters to vLLM's defaults).
        device_bytes: memory of the device or MIG slice that one rank sees.

    Raises:
        InvalidInputError: the engine or version is not modelled.
    """
    profile, version = engine_profile(choice)
    large = device_bytes >= 70 * GIB and "a100" not in accelerator.sku
    max_num_seqs = 1024 if large else 256
    max_num_batched_tokens = 8192 if large else 2048
    if device_bytes >= 160 * GIB and _parse_version(version) >= (0, 28):
        max_num_batched_tokens = 16384
    return EngineSettings(
        name=profile.name,
        version=version,
        gpu_memory_utilization=choice.gpu_memory_utilization or profile.gpu_memory_utilization,
        max_num_seqs=choice.max_num_seqs or max_num_seqs,
        max_num_batched_tokens=choice.max_num_batched_tokens or max_num_batched_tokens,
        profile=profile,
    )
