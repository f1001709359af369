"""vLLM by version: default settings and memory accounting.

Sources: release tags of https://github.com/vllm-project/vllm (``vllm/engine/arg_utils.py``, ``vllm/config``, the V0
engine's ``vllm/worker/worker.py``, V1's ``vllm/v1/worker/gpu_worker.py`` and ``vllm/v1/core/kv_cache_utils.py``) and
published start-up logs; each constant says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

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

NAME = "vllm"
NEWEST = "0.33"
OLDEST = "0.4"
"""Older releases profile memory in ways that are not modelled."""

_ARCHITECTURES = frozenset({"cdna2", "cdna3", "cdna4"})
_MIN_COMPUTE_CAPABILITY = (7, 0)
"""vLLM's documented minimum for NVIDIA GPUs."""

# Sampler copies: published activation peaks divided by max_num_seqs * vocabulary * 4 bytes. Sorting for top-p takes
# 9.6-9.7 of them up to 0.16: on H100 with 1,024 sequences Qwen3-14B 5.64, Llama-3.1-8B 4.76, gpt-oss-120b 7.38 GiB
# (llm-d-planner, empirical memory results); gpt-oss-120b leaves -2.14 GiB at 0.10 and 1.71 at 0.11 (vLLM issues 23278,
# 27508); with 256 sequences Qwen2.5-7B 1.42 GiB and DeepSeek-R1-Distill-Qwen-14B 1.42 on its driver at 0.7 (issues
# 13882, 13061). 0.6 shows no such peak when it chunks (issue 10517: 0.06 GiB), for then it samples nothing. From 0.17
# on 3.85: Qwen3-14B 2.23, at 0.19 Llama-3.1-8B 1.89 GiB.
# Non-torch memory on H100: 0.13/0.55 GiB (TP 1/2) before 0.17, 0.25/2.07/2.13 GiB (TP 1/2/4) at 0.19 (llm-d-planner);
# over PCIe 0.33 GiB on two RTX 5090 at 0.8 and 0.25 on two RTX 4090 at 0.7 (issues 14452, 13061); V0 on one RTX 3090
# 0.35 GiB (issue 10517), on 16 H20 2.53 GiB (issue 13074).
# A tower's profile: dropping it from Qwen3.8-27B gives 1.58 GiB back, 0.85 of them weights (vllm recipes, Qwen3.8-27B);
# gemma-4-26B-A4B leaves 0.4 GiB less than its text part would (0.19 on A100, myoceane.fr).
_SORTED_COPIES, _COPIES = 9.65, 3.85
_ENCODER = int(0.6 * GIB)
_V0_RUNTIME = int(0.35 * GIB)
_RUNTIME, _PEERS = int(0.14 * GIB), int(0.42 * GIB)
_RUNTIME_17, _PEERS_17 = int(0.25 * GIB), int(1.85 * GIB)
_PCIE_PEERS = int(0.25 * GIB)

# Captured graphs, measured: 0.43 GiB with 28 layers, 0.65 with 34 (gemma-3-4b on B200), 1.03 with 36 (gpt-oss-120b on
# H100), 1.3 with 48 (Llama 4 Maverick), 1.5-1.9 with 88 (Mistral-Medium class).
CAPTURED = GraphRule(base_bytes=int(0.3 * GIB), layer_bytes=20 * MIB)
# What 0.20 and later *estimate* and subtract is another figure: 0.36 GiB for 16 sizes (gpustack/runner pull 251), 5.1
# for 51 sizes of a 62-layer mixture of experts (MiniMax-M2.7 at 0.29, spark-vllm-docker issue 396), about 9 for 51
# sizes of Qwen3.8-27B with 48 recurrent layers of 64 (1,024 sequences, vllm recipes pull 831).
_ESTIMATED = GraphRule(
    base_bytes=int(0.1 * GIB),
    dense_bytes_per_size=int(0.45 * MIB),
    expert_bytes_per_size=int(1.5 * MIB),
    recurrent_bytes_per_size=int(3.0 * MIB),
)


@dataclass(frozen=True, slots=True)
class _Release:
    """Defaults and memory accounting from one version on."""

    since: tuple[int, int]
    gpu_memory_utilization: float
    memory: MemoryRule


def _v0(copies: float, *, forward_share: float = 1.0, caches_latents: bool = True) -> MemoryRule:
    return MemoryRule(
        budget=BudgetRule.OF_TOTAL,
        sampler_logit_copies=copies,
        forward_share=forward_share,
        graphs=CAPTURED,
        graphs_in_budget=False,
        runtime_bytes=_V0_RUNTIME,
        peer_bytes=_PEERS_17,
        pcie_peer_bytes=0,
        block_tokens=16,
        windows=WindowRule.NONE,
        states=StateRule.PAGES,
        mxfp4_width_multiple=128,
        start_checks_free=False,
        caches_latents=caches_latents,
    )


def _v1(copies: float, runtime: int, peers: int, windows: WindowRule, mxfp4_width_multiple: int) -> MemoryRule:
    return MemoryRule(
        budget=BudgetRule.OF_TOTAL,
        sampler_logit_copies=copies,
        forward_share=1.0,
        graphs=CAPTURED,
        graphs_in_budget=False,
        runtime_bytes=runtime,
        peer_bytes=peers,
        pcie_peer_bytes=_PCIE_PEERS,
        block_tokens=16,
        windows=windows,
        states=StateRule.PAGES,
        mxfp4_width_multiple=mxfp4_width_multiple,
        encoder_bytes=_ENCODER,
    )


_BEFORE_ESTIMATE = _v1(_COPIES, _RUNTIME_17, _PEERS_17, WindowRule.ALL, 64)
_WITHOUT_ESTIMATE = replace(
    _BEFORE_ESTIMATE, state_blocks=2, state_blocks_bound_sequences=True, tokens_from_concurrency=True
)
# From 0.20 on: prefix caching holds two blocks of state per request (Qwen3.6-35B-A3B at 0.24: 5.98 GiB are 4.33
# requests of 131,072 tokens, 69 blocks each; club-3090 issue 612), and a pool with fewer blocks than max_num_seqs
# refuses graphs.
_WITH_ESTIMATE = replace(_WITHOUT_ESTIMATE, graphs=_ESTIMATED, graphs_in_budget=True)

# At 0.4 an unchunked prefill peaks higher than at 0.6: Mistral-7B leaves 203,760 tokens on an RTX A6000 (vLLM pull
# 4454), which is 133 KB for each of 32,768 tokens, where 0.6 has 111.
_OLD_FORWARD_SHARE = 1.2

# Windowed layers keep their window only since the hybrid KV cache manager (0.10); before, the whole context is charged.
# The width of mxfp4 experts was padded to 128 at first: gpt-oss-120b takes 65.97 GiB at 0.10 and 64.38 later.
_RELEASES = (
    _Release((0, 4), 0.90, _v0(_SORTED_COPIES, forward_share=_OLD_FORWARD_SHARE, caches_latents=False)),
    _Release((0, 6), 0.90, _v0(_SORTED_COPIES, caches_latents=False)),
    _Release((0, 7), 0.90, _v0(_SORTED_COPIES)),
    _Release((0, 8), 0.90, _v1(_SORTED_COPIES, _RUNTIME, _PEERS, WindowRule.UNIFORM, 128)),
    _Release((0, 10), 0.90, _v1(_SORTED_COPIES, _RUNTIME, _PEERS, WindowRule.ALL, 128)),
    _Release((0, 12), 0.90, _v1(_SORTED_COPIES, _RUNTIME, _PEERS, WindowRule.ALL, 64)),
    _Release((0, 17), 0.90, _BEFORE_ESTIMATE),
    _Release((0, 20), 0.92, _WITH_ESTIMATE),
)

_V0_CHUNKED = _v0(0.0, caches_latents=False)
_V0_7_0 = _v0(_SORTED_COPIES, caches_latents=False)
# The first release with multi-head latent attention is 0.7.1 (vLLM pull 12601; issue 12890).
_V0_CHUNKS_ABOVE_TOKENS = 32_768
_V0_CHUNKS_SINCE = (0, 5, 4)
_SAMPLES_WHEN_CHUNKED_SINCE = (0, 7)
_V0_NOTE = (
    "vLLM before 0.8 runs the V0 engine: its memory and overheads are modelled, its scheduling is taken to be V1's."
)


def version_of(choice: EngineChoice) -> Version:
    """The version asked for, or the newest.

    Raises:
        InvalidInputError: no version, or one that is not modelled.
    """
    version = parse_version(choice.version or NEWEST, NEWEST)
    if not parse_version(OLDEST, NEWEST)[:2] <= version[:2] <= parse_version(NEWEST, NEWEST)[:2]:
        raise InvalidInputError.single(
            f"{ENGINE_FIELD}.version", f"vLLM {choice.version} is not modelled; accepted: {OLDEST} to {NEWEST}"
        )
    return version


def label(version: Version) -> str:
    """The version as ``major.minor``."""
    return f"{version[0]}.{version[1]}"


def notes(version: Version) -> tuple[str, ...]:
    """What is assumed about a version, one sentence each."""
    return (_V0_NOTE,) if version[:2] < (0, 8) else ()


def refusal(accelerator: Accelerator) -> str | None:
    """Why vLLM does not run on an accelerator, or ``None`` when it does."""
    if accelerator.vendor == "nvidia" and accelerator.compute_capability is not None:
        major, minor = (int(part) for part in accelerator.compute_capability.split("."))
        if (major, minor) < _MIN_COMPUTE_CAPABILITY:
            return f"vLLM needs compute capability 7.0 or higher, this device has {accelerator.compute_capability}"
        return None
    if accelerator.architecture in _ARCHITECTURES:
        return None
    return (
        f"serving on {accelerator.vendor} {accelerator.architecture} is not modelled yet; "
        "vLLM is modelled on NVIDIA GPUs and AMD Instinct"
    )


def _caps(version: Version, accelerator: Accelerator, device_bytes: int, context: int | None) -> tuple[int, int]:
    """API-server defaults of ``max_num_seqs`` and ``max_num_batched_tokens``.

    1,024 sequences and 8,192 tokens from 70 GiB on (16,384 tokens from 160 GiB on since 0.28), else 256 and 2,048;
    before 0.8.5 1,024 sequences everywhere. An A100 counts as small from 0.9 on, a GB10 at 0.33. The V0 engine takes
    256 sequences and one unchunked prefill of the whole context; above 32,768 tokens it chunks by 2,048 from 0.5.4 on
    (vLLM pull 6666).
    """
    minor = version[:2]
    if minor < (0, 8):
        return 256, 2048 if context is None or _v0_chunks(version, context) else max(context, 2048)
    small = (minor >= (0, 9) and "a100" in accelerator.sku) or (minor >= (0, 33) and "gb10" in accelerator.sku)
    if small or device_bytes < 70 * GIB:
        return (1024 if version < (0, 8, 5) else 256), 2048
    return 1024, 16384 if device_bytes >= 160 * GIB and minor >= (0, 28) else 8192


@lru_cache(maxsize=256)
def uses_context(choice: EngineChoice) -> bool:
    """Whether the defaults of the version turn on the context it is started with, as the V0 engine's do.

    Raises:
        InvalidInputError: the version is not modelled.
    """
    return version_of(choice)[:2] < (0, 8)


def _v0_chunks(version: Version, context: int) -> bool:
    return context > _V0_CHUNKS_ABOVE_TOKENS and version >= _V0_CHUNKS_SINCE


def resolve(
    choice: EngineChoice, accelerator: Accelerator, device_bytes: int, ranks: int, context_tokens: int | None
) -> EngineSettings:
    """Fills in what vLLM would default to on a device; the number of ranks changes nothing.

    Raises:
        InvalidInputError: the version is not modelled, or a step has fewer tokens than sequences.
    """
    del ranks
    version = version_of(choice)
    minor = version[:2]
    release = max((r for r in _RELEASES if r.since <= minor), key=lambda r: r.since)
    sequences, tokens = _caps(version, accelerator, device_bytes, context_tokens)
    sequences, tokens = choice.max_num_seqs or sequences, choice.max_num_batched_tokens or tokens
    if tokens < sequences:
        raise InvalidInputError.single(
            f"{ENGINE_FIELD}.max_num_batched_tokens",
            f"{tokens} is below the {sequences} sequences of a step, which vLLM refuses to start with; "
            f"accepted: {sequences} or more, or a smaller max_num_seqs",
        )
    largest = min(2 * sequences, 1024 if _captures_1024(minor, accelerator) else 512, tokens)
    memory = release.memory
    if minor < _SAMPLES_WHEN_CHUNKED_SINCE and (context_tokens is None or _v0_chunks(version, context_tokens)):
        memory = _V0_CHUNKED
    elif version == (0, 7, 0):
        memory = _V0_7_0
    if accelerator.vendor == "amd" and memory.graphs_in_budget and minor < (0, 33):
        memory = _WITHOUT_ESTIMATE  # ROCm was left out of it at first
    return EngineSettings(
        name=NAME,
        version=label(version),
        memory_fraction=choice.gpu_memory_utilization or release.gpu_memory_utilization,
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        graph_sizes=0 if choice.enforce_eager else capture_sizes(largest),
        memory=memory,
    )


def _captures_1024(version: tuple[int, int], accelerator: Accelerator) -> bool:
    return version >= (0, 28) and (accelerator.compute_capability or "").startswith("10.")
