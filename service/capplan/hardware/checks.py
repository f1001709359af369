"""Checks that catch wrong hardware facts before anything is planned with them.

Most wrong rows in public catalogues come from three mistakes: a peak with sparsity baked in, a row that describes
another product of the family, and memory in the wrong unit. All three show as numbers the hardware cannot have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from capplan.hardware.accelerator import Accelerator
from capplan.units import GB, GIB

_FLOP_PER_CLOCK_PER_SM: Final[Mapping[str, int]] = MappingProxyType(
    {
        "volta": 1024,
        "turing": 1024,
        "ampere": 2048,
        "ampere 8.6": 1024,
        "ada": 1024,
        "hopper": 4096,
        "blackwell": 8192,
        "blackwell-ultra": 8192,
        "blackwell-rtx": 1024,
    }
)
"""Dense 16-bit tensor FLOP one SM does per clock (NVIDIA architecture papers)."""

_HALF_RATE_PRODUCTS: Final = ("GeForce", "A10G", "L40")
"""Products sold with half of that: GeForce (with FP32 accumulation), A10G, and L40 but not L40S."""

_EXPORT_LIMITED: Final = frozenset({"H20"})

_CLOCK_RANGE: Final = (0.86, 1.03)
"""Peaks hold at the tensor clock, down to 0.87 of the boost clock tools show (H100 NVL 1.55 of 1.785 GHz)."""

_RATIO_TOLERANCE: Final = 0.03  # L40S prints 362.05 and 733


def check_accelerator(accelerator: Accelerator, boost_clock_mhz: float | None) -> tuple[str, ...]:
    """Findings about one accelerator's facts, as sentences that begin with its sku; none when they are plausible.

    Args:
        accelerator: the facts.
        boost_clock_mhz: fastest clock the tools show; without it the peak cannot be checked against the clock.
    """
    found = [
        *_memory_findings(accelerator),
        *(_tensor_findings(accelerator, boost_clock_mhz) if accelerator.vendor == "nvidia" else ()),
    ]
    return tuple(f"{accelerator.sku}: {finding}" for finding in found)


def _memory_findings(accelerator: Accelerator) -> list[str]:
    """The size in the sku is a label, read as GB by some and GiB by others; the bytes must lie between the readings."""
    label = re.search(r"-(\d+)gb$", accelerator.sku)
    if label is None or accelerator.memory_bytes is None:
        return []
    size = int(label.group(1))
    lowest, highest = size * GB * 0.93, size * GIB * 1.001
    if lowest <= accelerator.memory_bytes <= highest:
        return []
    return [
        f"{accelerator.memory_bytes} bytes are {accelerator.memory_bytes / GIB:.1f} GiB, which no reading of {size} GB "
        "gives; MiB taken for MB, or another product's size?"
    ]


def _tensor_findings(accelerator: Accelerator, boost_clock_mhz: float | None) -> list[str]:
    found = []
    capability = accelerator.compute_capability
    if capability is not None and not re.fullmatch(r"\d+\.\d", capability):
        found.append(f"compute capability {capability!r} is not of the form 9.0")
    peaks = accelerator.peak_flop_per_s
    for wide, narrow in (("tf32", "bf16"), ("bf16", "fp8")):
        if peaks.get(wide) and peaks.get(narrow):
            ratio = peaks[narrow] / peaks[wide]
            if abs(ratio / 2.0 - 1.0) > _RATIO_TOLERANCE:
                found.append(
                    f"{narrow} is {ratio:.2f} times {wide}, not 2: one of them is with sparsity or another product's"
                )
    expected = _flop_per_clock_per_sm(accelerator)
    dense = peaks.get("bf16") or peaks.get("fp16")
    if expected is None or not dense or not accelerator.sm_count or not boost_clock_mhz:
        return found
    actual = dense / (accelerator.sm_count * boost_clock_mhz * 1e6)
    if not _CLOCK_RANGE[0] <= actual / expected <= _CLOCK_RANGE[1]:
        found.append(
            f"{actual:.0f} dense 16-bit FLOP per clock per SM, where {accelerator.architecture} does {expected}: "
            "sparsity baked in, or clock, SM count or peak of another product"
        )
    return found


def _flop_per_clock_per_sm(accelerator: Accelerator) -> int | None:
    product = accelerator.product_name
    if any(re.search(rf"\b{name}\b", product) for name in _EXPORT_LIMITED):
        return None
    key = f"{accelerator.architecture} {accelerator.compute_capability}"
    full = _FLOP_PER_CLOCK_PER_SM.get(key) or _FLOP_PER_CLOCK_PER_SM.get(accelerator.architecture)
    if full is None:
        return None
    return full // 2 if any(re.search(rf"\b{name}\b", product) for name in _HALF_RATE_PRODUCTS) else full
