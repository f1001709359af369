"""What devices achieve of their peaks, before anything is fitted to measurements: priors by product and generation.

Two kinds of figures, each with its source:

* Operator tables measured on silicon (aiconfigurator, commit 095f58a, "AIC" below): medians over matrix shapes with
  n, k in 2k-16k, best framework per cell, as short bursts; weight reads are GEMV on matrices of 128 MB and more; KV
  reads are vLLM decode attention over 0.5 GB and more.
* Best-shape searches ("MAMF", ml-engineering commit 744d01e and mag-/gpu_benchmark): the mean of 100 iterations at the
  best shape found, for products nobody swept. They are brought to the scale of the medians, see `_MEDIAN_OF_BEST`.

**Ramp.** With m tokens in a product, the achieved share of peak is modelled as ``compute_fraction * m / (m + h)`` with
``h = half_rate_tokens``. Both numbers follow from two medians, s over m = 128-512 and l over m = 4k-16k, taken at the
geometric centres m = 256 and m = 8192::

    s = f * 256 / (256 + h),   l = f * 8192 / (8192 + h),   r = s / l
    h = 8192 * (1 - r) / (32 * r - 1),   f = l * (1 + h / 8192)

e.g. H100 BF16: r = .452 / .810 = .558, so h = 8192 * .442 / 16.86 = 215 and f = .810 * 1.026 = .831. At m = 256 the
weights' read time is part of the measured time; under a fourth-power roofline that is 3 % on H100 and 8 % on L40S, and
is left in.

**Sustained.** Runs long enough to meet the power cap lose 10-20 % against bursts: `sustained_share`, measured as the
ratio of sustained to burst medians (H200 BF16 .685 / .789, B200 .585 / .693, GB200 .566 / .716; FP4 B200 .356 / .447,
GB200 .343 / .433).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median
from types import MappingProxyType
from typing import Final

from capplan.hardware.accelerator import Accelerator

_AIC: Final = "aiconfigurator@095f58a operator tables"
_MAMF: Final = "best-shape search (ml-engineering@744d01e, mag-/gpu_benchmark), scaled to a median"

_SMALL_M: Final = 256.0  # geometric centre of m = 128-512
_LARGE_M: Final = 8192.0  # geometric centre of m = 4k-16k

_MEDIAN_OF_BEST: Final = MappingProxyType({"bf16": 0.974, "fp8": 0.812})
"""Burst median over best-shape result, the median over products with both.

BF16: A100 .839/.869, H100 .810/.803, B200 .693/.776, B300 .754/.786, GB200 .716/.729, L40S .714/.696 -> .974.
FP8: H100 .634/.709, H200 .629/.734, B200 .552/.763, B300 .605/.745, GB200 .521/.723 -> .812.
"""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved shares of a device's peaks in one arithmetic.

    Attributes:
        memory_fraction: of peak bandwidth, reading weights for few tokens.
        kv_memory_fraction: of peak bandwidth, reading a 16-bit KV cache.
        kv_fp8_memory_fraction: of peak bandwidth, reading an FP8 KV cache (Hopper kernels are far from the limit).
        compute_fraction: of dense peak as the tokens per product grow without bound; GeForce parts may exceed 1, since
            their clock exceeds the nominal one.
        half_rate_tokens: tokens at which half of that is reached; the share at m tokens is
            ``compute_fraction * m / (m + half_rate_tokens)``.
        sustained_share: factor on ``compute_fraction`` for work long enough to meet the power cap (prefill-heavy).
        source: where the compute figure comes from; ``default`` when nothing of the generation was measured.
    """

    memory_fraction: float
    kv_memory_fraction: float
    kv_fp8_memory_fraction: float
    compute_fraction: float
    half_rate_tokens: float
    sustained_share: float
    source: str


@dataclass(frozen=True, slots=True)
class _Gemm:
    """Medians of achieved over peak FLOP at m = 128-512 and m = 4k-16k."""

    small: float
    large: float

    @property
    def half_rate_tokens(self) -> float:
        ratio = self.small / self.large
        return _LARGE_M * (1.0 - ratio) / (_LARGE_M / _SMALL_M * ratio - 1.0)

    @property
    def compute_fraction(self) -> float:
        return self.large * (1.0 + self.half_rate_tokens / _LARGE_M)


@dataclass(frozen=True, slots=True)
class _Measured:
    """One product in the AIC tables; ``None`` where it was not measured."""

    architecture: str
    weights: float | None
    kv_bf16: float | None
    kv_fp8: float | None
    gemm: Mapping[str, _Gemm]


_MEASURED: Final[Mapping[str, _Measured]] = MappingProxyType(
    {
        "a100-sxm4-80gb": _Measured("ampere", 0.788, 0.738, None, {"bf16": _Gemm(0.519, 0.839)}),
        "h100-sxm-80gb": _Measured(
            "hopper", 0.882, 0.866, 0.705, {"bf16": _Gemm(0.452, 0.810), "fp8": _Gemm(0.291, 0.634)}
        ),
        "h200-sxm-141gb": _Measured(
            "hopper", 0.838, 0.815, 0.516, {"bf16": _Gemm(0.529, 0.789), "fp8": _Gemm(0.301, 0.629)}
        ),
        "b200-180gb": _Measured(
            "blackwell",
            0.769,
            0.841,
            0.820,
            {"bf16": _Gemm(0.310, 0.693), "fp8": _Gemm(0.173, 0.552), "fp4": _Gemm(0.112, 0.447)},
        ),
        "gb200-186gb": _Measured(
            "blackwell",
            0.78,
            0.863,
            0.839,
            {"bf16": _Gemm(0.313, 0.716), "fp8": _Gemm(0.161, 0.521), "fp4": _Gemm(0.116, 0.433)},
        ),
        "b300-288gb": _Measured(
            "blackwell-ultra",
            0.765,
            0.823,
            0.813,
            {"bf16": _Gemm(0.316, 0.754), "fp8": _Gemm(0.180, 0.605), "fp4": _Gemm(0.073, 0.276)},
        ),
        "gb300-279gb": _Measured(
            "blackwell-ultra",
            0.772,
            0.831,
            0.824,
            {"bf16": _Gemm(0.288, 0.771), "fp8": _Gemm(0.165, 0.596), "fp4": _Gemm(0.068, 0.264)},
        ),
        "l40s-48gb": _Measured("ada", 0.833, 0.811, 0.807, {"bf16": _Gemm(0.370, 0.714), "fp8": _Gemm(0.281, 0.484)}),
        "rtx-pro-6000-server-96gb": _Measured(
            "blackwell-rtx",
            0.931,
            0.913,
            0.908,
            {"bf16": _Gemm(0.436, 0.849), "fp8": _Gemm(0.309, 0.722), "fp4": _Gemm(0.230, 0.620)},
        ),
        "arc-pro-b60-24gb": _Measured("xe2", 0.841, None, None, {"bf16": _Gemm(0.757, 0.958)}),
    }
)

_BEST_SHAPE: Final[Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        ("v100-sxm2-16gb", "fp16"): 0.769,
        ("v100-sxm2-32gb", "fp16"): 0.752,
        ("a10g-24gb", "bf16"): 0.996,
        ("rtx-3090-24gb", "bf16"): 1.096,
        ("rtx-a6000-48gb", "bf16"): 0.848,
        ("a100-pcie-80gb", "bf16"): 0.811,
        ("l4-24gb", "bf16"): 0.755,
        ("l40-48gb", "bf16"): 0.941,
        ("rtx-4090-24gb", "bf16"): 1.082,
        ("rtx-6000-ada-48gb", "bf16"): 0.765,
        ("h100-pcie-80gb", "bf16"): 0.660,
        ("h100-nvl-94gb", "bf16"): 0.585,
        ("gh200-96gb", "bf16"): 0.862,
        ("gh200-144gb", "bf16"): 0.837,
        ("gh200-144gb", "fp8"): 0.776,
        ("mi210-64gb", "bf16"): 0.789,
        ("mi300x-192gb", "bf16"): 0.557,  # between 0.511 and 0.603, two searches
        ("mi325x-256gb", "bf16"): 0.600,
        ("mi355x-288gb", "bf16"): 0.622,
        ("gaudi2-96gb", "bf16"): 0.969,
        ("gaudi2-96gb", "fp8"): 0.955,
        ("gaudi3-128gb", "bf16"): 0.741,
        ("gaudi3-128gb", "fp8"): 0.769,
    }
)
"""Achieved over dense peak at the best shape. V100's were printed as BF16, but only FP16 tensor cores reach them."""

_BEST_SHAPE_GENERATION: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "volta": ("v100-sxm2-16gb", "v100-sxm2-32gb"),
        "ampere-8.6": ("rtx-a6000-48gb",),  # A10G and RTX 3090 run at half tensor rate and say nothing of the others
        "cdna2": ("mi210-64gb",),
        "cdna3": ("mi300x-192gb", "mi325x-256gb"),
        "cdna4": ("mi355x-288gb",),
        "gaudi2": ("gaudi2-96gb",),
        "gaudi3": ("gaudi3-128gb",),
    }
)
"""Generations known through best-shape searches only."""

_STREAM_GENERATION: Final[Mapping[str, float]] = MappingProxyType(
    {"volta": 0.904, "ampere-8.6": 0.940, "cdna2": 0.762, "cdna3": 0.810}
)
"""STREAM triad over peak (V100, A40, MI210: gpu-benches@1c36d50; MI300X: BabelStream, published as 81 % of peak)."""

_WEIGHT_READ_OF_STREAM: Final = 0.925
"""Weight read over STREAM triad where both are known: A100 .788/.863 = .913, L40S/L40 .833/.889 = .937; the mean."""

_SUSTAINED: Final[Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        ("hopper", "bf16"): 0.868,  # H200 .685 / .789
        ("blackwell", "bf16"): 0.817,  # mean of B200 .844 and GB200 .791
        ("blackwell", "fp4"): 0.794,  # mean of B200 .796 and GB200 .792
    }
)
_DEFAULT_SUSTAINED: Final = 0.875  # long runs lose 10-15 %

_DEFAULT_MEMORY: Final = 0.80  # AIC's own analytic fallback; also what a CPU reaches of its DRAM peak
_DEFAULT_KV_FP8_OF_KV: Final = 0.80  # between Hopper's 0.72 (cache widened in the kernel) and the others' 0.98
_DEFAULT_COMPUTE: Final[Mapping[str, float]] = MappingProxyType({"fp8": 0.60, "int8": 0.60, "fp4": 0.40})
_DEFAULT_COMPUTE_OTHER: Final = 0.65
_CPU_ARCHITECTURES: Final = frozenset({"sapphire-rapids", "granite-rapids", "zen4-genoa", "zen5-turin", "neoverse-v2"})
_CPU_COMPUTE: Final = 0.55  # 50-60 % of the matrix engine's peak


def efficiency(accelerator: Accelerator, arithmetic: str) -> Efficiency:
    """The prior for one device and one arithmetic (a key of ``Accelerator.peak_flop_per_s``).

    Looked up for the product, then for its generation (the mean of its measured products), then a default. FP16 shares
    BF16's figures, INT8 shares FP8's (the same tensor-core rate); TF32 and FP32 share BF16's, as nobody swept them.
    """
    generation = accelerator.architecture
    if generation == "ampere" and accelerator.compute_capability == "8.6":
        generation = "ampere-8.6"  # GA10x parts have little in common with A100 and A30
    return _efficiency(accelerator.sku, generation, arithmetic)


@lru_cache(maxsize=1024)
def _efficiency(sku: str, generation: str, arithmetic: str) -> Efficiency:
    key = {"fp16": "bf16", "tf32": "bf16", "fp32": "bf16", "int8": "fp8"}.get(arithmetic, arithmetic)
    compute, half_rate, source = _compute(sku, generation, arithmetic, key)
    return Efficiency(
        memory_fraction=_memory(sku, generation, "weights"),
        kv_memory_fraction=_memory(sku, generation, "kv_bf16"),
        kv_fp8_memory_fraction=_memory(sku, generation, "kv_fp8"),
        compute_fraction=compute,
        half_rate_tokens=half_rate,
        sustained_share=_SUSTAINED.get((generation, key), _DEFAULT_SUSTAINED),
        source=source,
    )


def _generation_gemm(generation: str, key: str) -> _Gemm | None:
    """Mean of the generation's swept products in one arithmetic."""
    found = [m.gemm[key] for m in _MEASURED.values() if m.architecture == generation and key in m.gemm]
    if not found:
        return None
    return _Gemm(fmean(gemm.small for gemm in found), fmean(gemm.large for gemm in found))


def _default_half_rate(key: str) -> float:
    """Median over every swept product in the arithmetic, over all arithmetics when none was swept in it."""
    gemms = [m.gemm[key] for m in _MEASURED.values() if key in m.gemm]
    return median(gemm.half_rate_tokens for gemm in gemms or [g for m in _MEASURED.values() for g in m.gemm.values()])


def _compute(sku: str, generation: str, arithmetic: str, key: str) -> tuple[float, float, str]:
    """Compute fraction, half-rate tokens and their source."""
    product = _MEASURED.get(sku)
    if product is not None and key in product.gemm:
        gemm = product.gemm[key]
        return gemm.compute_fraction, gemm.half_rate_tokens, f"{sku}: {_AIC}"
    pooled = _generation_gemm(generation, key)
    half_rate = _default_half_rate(key) if pooled is None else pooled.half_rate_tokens
    tail = 1.0 + half_rate / _LARGE_M
    for name in (arithmetic, key):
        best = _BEST_SHAPE.get((sku, name))
        if best is not None:
            return best * _MEDIAN_OF_BEST[key] * tail, half_rate, f"{sku}: {_MAMF}"
    if pooled is not None:
        capped = _power_capped_share(sku, generation)
        return pooled.compute_fraction * capped, half_rate, f"mean of {generation}: {_AIC}"
    relatives = [
        _BEST_SHAPE[relative, name]
        for relative in _BEST_SHAPE_GENERATION.get(generation, ())
        for name in dict.fromkeys((arithmetic, key))
        if (relative, name) in _BEST_SHAPE
    ]
    if relatives:
        return fmean(relatives) * _MEDIAN_OF_BEST[key] * tail, half_rate, f"mean of {generation}: {_MAMF}"
    if generation in _CPU_ARCHITECTURES:
        return _CPU_COMPUTE, half_rate, "default"
    return _DEFAULT_COMPUTE.get(key, _DEFAULT_COMPUTE_OTHER), half_rate, "default"


def _power_capped_share(sku: str, generation: str) -> float:
    """How far a product's BF16 result lies below its generation's, at most 1.

    A lower power cap or clock (H100 PCIe and NVL) holds back the arithmetics nobody measured there by as much.
    """
    own, pooled = _BEST_SHAPE.get((sku, "bf16")), _generation_gemm(generation, "bf16")
    return 1.0 if own is None or pooled is None else min(1.0, own * _MEDIAN_OF_BEST["bf16"] / pooled.large)


def _memory(sku: str, generation: str, what: str) -> float:
    """Achieved share of bandwidth, reading ``weights``, ``kv_bf16`` or ``kv_fp8``: product, generation, default."""
    product = _MEASURED.get(sku)
    own: float | None = getattr(product, what, None)
    if own is not None:
        return own
    relatives = [
        value
        for measured in _MEASURED.values()
        if measured.architecture == generation and (value := getattr(measured, what)) is not None
    ]
    if relatives:
        return fmean(relatives)
    if what == "kv_fp8":
        return _DEFAULT_KV_FP8_OF_KV * _memory(sku, generation, "kv_bf16")
    stream = _STREAM_GENERATION.get(generation)
    return _DEFAULT_MEMORY if stream is None else stream * _WEIGHT_READ_OF_STREAM
