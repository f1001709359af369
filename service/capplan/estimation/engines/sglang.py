"""SGLang by version: default settings and memory accounting.

Sources: https://github.com/sgl-project/sglang at v0.4.6, v0.4.10, v0.5.2, v0.5.9 and v0.5.23
(``python/sglang/srt/server_args.py`` and the KV cache configurator). The reserve for activations and graphs follows a
rule of the engine's own, in MiB; the pool is what the memory fraction leaves beside the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from capplan.errors import InvalidInputError
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
    capture_sizes,
    parse_version,
)
from capplan.hardware.accelerator import Accelerator
from capplan.units import GIB, MIB

NAME = "sglang"
NEWEST = "0.5.23"
OLDEST = "0.4.6"
"""Before it the default fraction followed other rules."""

_ARCHITECTURES = frozenset({"cdna3", "cdna4"})
_MIN_COMPUTE_CAPABILITY = (7, 5)

# Free memory before the weights: 287.18 of 287.99 GiB on one MI355X (sglang pull 18263), 137.9 of 139.7 on eight H200
# (InferenceX issue 2128), 77.6 of 79.2 on four H100 (vllm issue 21348: 16.46 GiB of KV at 0.93).
_MEMORY = MemoryRule(
    budget=BudgetRule.OF_FREE_BEFORE_LOAD,
    sampler_logit_copies=0.0,
    forward_share=1.0,
    graphs=GraphRule(base_bytes=int(0.3 * GIB), layer_bytes=20 * MIB),
    graphs_in_budget=True,
    runtime_bytes=int(0.6 * GIB),
    peer_bytes=int(1.1 * GIB),
    pcie_peer_bytes=int(0.4 * GIB),
    block_tokens=1,
    windows=WindowRule.NONE,
    states=StateRule.POOL_SHARE,
    mxfp4_width_multiple=64,
)

_MAX_RUNNING_REQUESTS = 2048
_LARGEST_FALLBACK = 0.88
_MULTIMODAL_SHARE = 0.95
_TP_TABLE = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))
"""0.4.6, devices of at most 80 GiB: fraction by tensor parallelism."""


def version_of(choice: EngineChoice) -> Version:
    """The version asked for, or the newest.

    Raises:
        InvalidInputError: no version, or one that is not modelled.
    """
    version = parse_version(choice.version or NEWEST, NEWEST)
    newest = parse_version(NEWEST, NEWEST)
    if version[:2] == newest[:2] and choice.version is not None and choice.version.count(".") == 1:
        version = newest
    if not parse_version(OLDEST, NEWEST) <= version <= newest:
        raise InvalidInputError.single(
            f"{ENGINE_FIELD}.version", f"SGLang {choice.version} is not modelled; accepted: {OLDEST} to {NEWEST}"
        )
    return version


def label(version: Version) -> str:
    """The version as ``major.minor.patch``."""
    return ".".join(str(part) for part in version)


def refusal(accelerator: Accelerator) -> str | None:
    """Why SGLang does not run on an accelerator, or ``None`` when it does."""
    if accelerator.vendor == "nvidia" and accelerator.compute_capability is not None:
        major, minor = (int(part) for part in accelerator.compute_capability.split("."))
        if (major, minor) < _MIN_COMPUTE_CAPABILITY:
            return f"SGLang needs compute capability 7.5 or higher, this device has {accelerator.compute_capability}"
        return None
    if accelerator.architecture in _ARCHITECTURES:
        return None
    return (
        f"SGLang on {accelerator.vendor} {accelerator.architecture} is not modelled; "
        "it is modelled on NVIDIA GPUs and AMD Instinct from MI300 on"
    )


def _tier(gib: float, tiers: Sequence[tuple[float, int]], last: int) -> int:
    return next((value for below, value in tiers if gib < below), last)


def _chunk_tokens(version: Version, gib: float) -> int:
    if version < (0, 5, 3):
        return _tier(gib, ((35, 2048), (160, 8192)), 16384)
    low = 35 if version < (0, 5, 23) else 20
    return _tier(gib, ((low, 2048), (60, 4096), (160, 8192)), 16384)


def _graph_batch(version: Version, gib: float, tensor_parallel: int) -> int:
    """Largest captured batch by device memory."""
    wide = tensor_parallel >= 4
    small = 48 if version < (0, 5, 3) or version >= (0, 5, 23) else 24
    tiers = ((20, 8), (35, 160 if wide else small), (60, 160 if wide else 32), (160, 512 if wide else 256))
    return _tier(gib, tiers, 512)


def _prefill_graph_sizes(chunk: int) -> int:
    """Prefill sizes captured from 0.5.23 on: 58 at a chunk of 8,192, with steps that double from 4 to 512."""
    spans = ((4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256), (4608, 8192, 512))
    return sum(len(range(low, min(high, chunk) + 1, step)) for low, high, step in spans)


def _default_fraction(version: Version, total_mib: float, chunk: int, graph_batch: int, ranks: int) -> float:
    gib = total_mib / 1024
    if version < (0, 4, 10):
        if gib <= 80:
            return next(fraction for least, fraction in _TP_TABLE if ranks >= least)
        return round((total_mib - 13312) / total_mib, 3)
    if version < (0, 5, 3):
        reserve: float = _tier(
            gib, ((35, 2867 + 102 * ranks), (90, 9728 + 512 * ranks), (160, 12288 + 512 * ranks)), 32768
        )
    else:
        reserve = 512 + 1.5 * max(chunk, 2048) + 2 * graph_batch + 128 * ranks
        if version >= (0, 5, 23):
            reserve += 8 * _prefill_graph_sizes(chunk)
        if gib > 60:
            reserve = max(reserve, 10240)
    if reserve >= total_mib:
        return _LARGEST_FALLBACK
    return round((total_mib - reserve) / total_mib, 3)


def resolve(
    choice: EngineChoice, accelerator: Accelerator, device_bytes: int, ranks: int, context_tokens: int | None
) -> EngineSettings:
    """Fills in what SGLang would default to on a device.

    Args:
        choice: what the caller pinned.
        accelerator: the whole device.
        device_bytes: memory one rank sees.
        ranks: ranks of one replica; the reserve grows with them.
        context_tokens: not used, SGLang's defaults do not turn on it.

    Raises:
        InvalidInputError: the version is not modelled.
    """
    del context_tokens
    version = version_of(choice)
    total = accelerator.memory_bytes or device_bytes
    if device_bytes < 0.9 * total:
        total = device_bytes  # a slice; the driver's figure for the whole device does not apply
    gib = total / GIB
    chunk = choice.max_num_batched_tokens or _chunk_tokens(version, gib)
    sequences = choice.max_num_seqs or _MAX_RUNNING_REQUESTS
    graph_batch = _graph_batch(version, gib, ranks)
    fraction = choice.mem_fraction_static or _default_fraction(version, total / MIB, chunk, graph_batch, ranks)
    return EngineSettings(
        name=NAME,
        version=label(version),
        memory_fraction=fraction,
        max_num_seqs=sequences,
        max_num_batched_tokens=chunk,
        graph_sizes=0 if choice.enforce_eager else capture_sizes(min(graph_batch, sequences)),
        memory=_MEMORY,
        multimodal_share=1.0 if choice.mem_fraction_static else _MULTIMODAL_SHARE,
    )
