"""In which arithmetic a storage format's matrix products run on a device: one table for everyone who asks.

A format that a device has no tensor path for may still be served: its weights are widened to 16 bit inside the kernel,
which saves memory traffic but no FLOP. Or a kernel may be missing altogether; that is refused with the reason.

Sources: vLLM's quantization pages (fp8, int8, supported-hardware table as of v0.14,
https://docs.vllm.ai/en/v0.14.0/features/quantization/), vLLM pull request 48199 (weight-only NVFP4 runs on Marlin),
vLLM's gpt-oss notes (MXFP4 activations by generation). Which peaks a device lists comes from the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from capplan.errors import UnsupportedPrecisionError
from capplan.hardware.accelerator import Accelerator


class ArithmeticMode(StrEnum):
    """How a storage format is computed with."""

    NATIVE = "native"
    """In the format's own arithmetic."""
    CONVERTED = "converted"
    """In another 16-bit format that stands in for it (bf16 weights served as fp16)."""
    WEIGHT_ONLY = "weight_only"
    """Weights widened to 16 bit in the kernel: fewer bytes, FLOP at the 16-bit rate."""
    STORAGE_ONLY = "storage_only"
    """KV cache only: stored in the format, attention computed in 16 bit."""
    UNSUPPORTED = "unsupported"
    """No kernel, or no peak published."""


@dataclass(frozen=True, slots=True)
class ArithmeticSupport:
    """Answer for one storage format on one device.

    Attributes:
        mode: how it is computed with.
        arithmetic: key of ``Accelerator.peak_flop_per_s`` whose peak applies; empty when unsupported.
        reason: a sentence; empty when the format simply runs natively at full speed.
    """

    mode: ArithmeticMode
    arithmetic: str
    reason: str

    @property
    def supported(self) -> bool:
        """Whether the format can be served at all."""
        return self.mode is not ArithmeticMode.UNSUPPORTED


_SIXTEEN_BIT: Final = "16-bit"  # resolved per device: bf16, or fp16 where bf16 has no tensor path
_ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One row: devices (family, and for NVIDIA a compute-capability range, high exclusive) and what they do."""

    family: str
    arithmetic: str
    mode: ArithmeticMode = ArithmeticMode.NATIVE
    reason: str = ""
    low: float = 0.0
    high: float = float("inf")

    def covers(self, family: str, capability: float | None) -> bool:
        if self.family == _ANY:
            return True
        if self.family != family:
            return False
        return capability is None or self.low <= capability < self.high


def _weight_only(family: str, reason: str, low: float = 0.0, high: float = float("inf")) -> _Rule:
    return _Rule(family, _SIXTEEN_BIT, ArithmeticMode.WEIGHT_ONLY, reason, low, high)


def _no_kernel(family: str, reason: str, low: float = 0.0, high: float = float("inf")) -> _Rule:
    return _Rule(family, "", ArithmeticMode.UNSUPPORTED, reason, low, high)


_IN_KERNEL = "weights are dequantised in the kernel and multiplied in 16 bit"
_MARLIN = "no tensor path of its own here: Marlin widens the weights and multiplies in 16 bit"

_RULES: Final[Mapping[str, tuple[_Rule, ...]]] = MappingProxyType(
    {
        "fp32": (_Rule(_ANY, "fp32"),),
        "tf32": (_Rule(_ANY, "tf32"),),
        "fp16": (_Rule(_ANY, "fp16"),),
        "bf16": (
            _Rule(
                "nvidia",
                "fp16",
                ArithmeticMode.CONVERTED,
                "bf16 has no tensor path below compute capability 8.0: served as fp16 (engine dtype half)",
                high=8.0,
            ),
            _Rule(_ANY, "bf16"),
        ),
        "fp8": (
            _Rule("nvidia", "fp8", low=8.9),
            _weight_only("nvidia", _MARLIN, low=7.5, high=8.9),
            _Rule("cdna3", "fp8"),
            _Rule("cdna4", "fp8"),
            _Rule("gaudi", "fp8"),
            _Rule("tpu", "fp8"),
            _Rule("neuron", "fp8"),
        ),
        "fp8_block": (
            _Rule("nvidia", "fp8", low=9.0),
            _Rule("nvidia", "fp8", reason="block-scaled FP8 kernels reach full speed only from Hopper on", low=8.9),
            _weight_only("nvidia", _MARLIN, low=7.5, high=8.9),
            _Rule("cdna3", "fp8"),
            _Rule("cdna4", "fp8"),
        ),
        "mxfp8": (
            _Rule("nvidia", "fp8", low=10.0),
            _weight_only("nvidia", _MARLIN, low=8.0, high=10.0),  # MiniMax-M3-MXFP8 is served on 8 H100 (InferenceX)
            _Rule("cdna4", "fp8"),
        ),
        "int8": (
            _no_kernel("nvidia", "vLLM has no INT8 W8A8 kernel for compute capability 10.0 and later", low=10.0),
            _Rule("nvidia", "int8", low=7.5),
            _Rule("x86", "int8"),
            _Rule("tpu", "int8"),
            _Rule("neuron", "int8"),
        ),
        "awq": (
            _weight_only("nvidia", _IN_KERNEL, low=7.5),
            _weight_only("xe", _IN_KERNEL),
            _weight_only("x86", _IN_KERNEL),
        ),
        "gptq": (
            _weight_only("nvidia", _IN_KERNEL, low=7.0),
            _weight_only("xe", _IN_KERNEL),
            _weight_only("x86", _IN_KERNEL),
        ),
        "w4a16": (_weight_only("nvidia", _IN_KERNEL, low=8.0),),
        "bitsandbytes": (_weight_only("nvidia", _IN_KERNEL, low=7.0),),
        "gguf": (
            _weight_only("nvidia", _IN_KERNEL, low=7.0),
            *(_weight_only(family, _IN_KERNEL) for family in ("cdna2", "cdna3", "cdna4")),
        ),
        "nvfp4": (
            _Rule("nvidia", "fp4", low=10.0),
            _weight_only("nvidia", _MARLIN, low=8.0, high=10.0),
        ),
        "nvfp4_w4a16": (_weight_only("nvidia", _IN_KERNEL, low=8.0),),
        "mxfp4": (
            _Rule("nvidia", "fp8", reason="activations are MXFP8, so products run at the FP8 rate", low=10.0),
            _weight_only("nvidia", "no FP4 tensor path: weights are widened and multiplied in 16 bit", 8.0, 10.0),
            _Rule("cdna4", "fp4"),
        ),
    }
)

_KV_RULES: Final[Mapping[str, tuple[_Rule, ...]]] = MappingProxyType(
    {
        "fp32": _RULES["fp32"],
        "fp16": _RULES["fp16"],
        "bf16": _RULES["bf16"],
        "fp8": (
            _Rule("nvidia", "fp8", low=8.9),
            _Rule(
                "nvidia",
                _SIXTEEN_BIT,
                ArithmeticMode.STORAGE_ONLY,
                "the cache is stored in FP8, attention is computed in 16 bit below compute capability 8.9",
                low=8.0,
            ),
            _Rule("cdna3", "fp8"),
            _Rule("cdna4", "fp8"),
        ),
    }
)

_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fp8_tensor": "fp8",
        "fp8_tensor_static": "fp8",
        "fp8_channel": "fp8",
        "int8_channel": "int8",
        "awq_int4_g128": "awq",
        "gptq_int4_g128": "gptq",
        "gptq_int8_g128": "gptq",
        "w4a16_g128": "w4a16",
        "w4a16_g32": "w4a16",
        "bnb_nf4": "bitsandbytes",
        "bnb_nf4_double": "bitsandbytes",
        "bnb_int8": "bitsandbytes",
        **dict.fromkeys(
            (
                "gguf_q2_k",
                "gguf_q3_k",
                "gguf_q4_0",
                "gguf_q4_k",
                "gguf_q5_0",
                "gguf_q5_1",
                "gguf_q5_k",
                "gguf_q6_k",
                "gguf_q8_0",
                "gguf_iq4_nl",
                "gguf_iq4_xs",
            ),
            "gguf",
        ),
    }
)
"""Storage formats that differ in scales and groups only, by the kernel family that runs them."""

STORAGE_FORMATS: Final[tuple[str, ...]] = tuple(sorted({*_RULES, *_ALIASES}))
"""Every storage format the table knows, by the names :func:`arithmetic_support` accepts."""

_X86 = frozenset({"sapphire-rapids", "granite-rapids", "zen4-genoa", "zen5-turin"})


def compute_capability(accelerator: Accelerator) -> float | None:
    """NVIDIA's compute capability as a number (8.9), ``None`` for anything else."""
    if accelerator.vendor != "nvidia" or accelerator.compute_capability is None:
        return None
    return float(accelerator.compute_capability)


def _family(accelerator: Accelerator) -> str:
    architecture = accelerator.architecture
    if compute_capability(accelerator) is not None:
        return "nvidia"
    if architecture in _X86:
        return "x86"
    if accelerator.vendor == "google":
        return "tpu"
    if architecture.startswith("neuroncore"):
        return "neuron"
    if architecture.startswith("gaudi"):
        return "gaudi"
    if architecture.startswith("xe"):
        return "xe"
    return architecture


def sixteen_bit_arithmetic(accelerator: Accelerator) -> str | None:
    """The 16-bit format a device multiplies in: bf16, or fp16 where only that has a tensor path; ``None`` without."""
    capability = compute_capability(accelerator)
    order = ("fp16",) if capability is not None and capability < 8.0 else ("bf16", "fp16")
    return next((name for name in order if accelerator.peak_flop_per_s.get(name)), None)


def arithmetic_support(accelerator: Accelerator, storage_or_format: str) -> ArithmeticSupport:
    """How matrix products with weights in a storage format run on a device.

    Args:
        accelerator: the device.
        storage_or_format: one of :data:`STORAGE_FORMATS`, e.g. ``bf16``, ``fp8_block``, ``awq``.

    Raises:
        UnsupportedPrecisionError: the format is not in the table. A known format that the device cannot serve is no
            error but an answer with mode ``unsupported``.
    """
    return _answer(accelerator, storage_or_format, _RULES, "precision")


def kv_cache_support(accelerator: Accelerator, kv_format: str) -> ArithmeticSupport:
    """How a KV cache in a format is attended to on a device.

    FP8 can be stored from Ampere on, but attention math runs in FP8 only from compute capability 8.9.

    Raises:
        UnsupportedPrecisionError: the format is no KV-cache format of the table.
    """
    return _answer(accelerator, kv_format, _KV_RULES, "kv_precision")


def _answer(
    accelerator: Accelerator, name: str, table: Mapping[str, tuple[_Rule, ...]], field: str
) -> ArithmeticSupport:
    rules = table.get(_ALIASES.get(name, name))
    if rules is None:
        known = sorted(STORAGE_FORMATS if table is _RULES else table)
        raise UnsupportedPrecisionError.single(field, f"{name!r} is unknown; known formats: {', '.join(known)}")
    family, capability = _family(accelerator), compute_capability(accelerator)
    rule = next((rule for rule in rules if rule.covers(family, capability)), None)
    if rule is None:
        return _unsupported(accelerator, name, "no known kernel runs it there")
    if rule.mode is ArithmeticMode.UNSUPPORTED:
        return _unsupported(accelerator, name, rule.reason)
    arithmetic = sixteen_bit_arithmetic(accelerator) if rule.arithmetic == _SIXTEEN_BIT else rule.arithmetic
    if arithmetic is None or not accelerator.peak_flop_per_s.get(arithmetic):
        listed = ", ".join(sorted(key for key, peak in accelerator.peak_flop_per_s.items() if peak)) or "none"
        return _unsupported(
            accelerator, name, f"it needs a {arithmetic or '16-bit'} peak, and the catalogue lists: {listed}"
        )
    return ArithmeticSupport(rule.mode, arithmetic, rule.reason)


def _unsupported(accelerator: Accelerator, name: str, why: str) -> ArithmeticSupport:
    generation = " ".join(filter(None, (accelerator.architecture, accelerator.compute_capability)))
    return ArithmeticSupport(
        ArithmeticMode.UNSUPPORTED, "", f"{name} on {accelerator.product_name} ({generation}): {why}"
    )
