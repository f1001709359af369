"""Weight formats that an engine does not run on a device although another engine does.

:mod:`capplan.hardware.arithmetic` says what vLLM's kernels run; SGLang and TensorRT-LLM run less. A format they are not
known to run is refused rather than hoped for. Sources: SGLang 0.5.3 refuses FP8 E4M3 below compute capability 8.9
(GLM-4.6-FP8 on A100, which vLLM serves weight-only: gpustack performance lab); TensorRT-LLM's support matrix
(https://nvidia.github.io/TensorRT-LLM/reference/support-matrix.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from capplan.estimation.engines import sglang, tensorrt_llm
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.arithmetic import compute_capability

_NEVER: Final = float("inf")

_LEAST_COMPUTE_CAPABILITY: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        sglang.NAME: {"fp8": 8.9, "mxfp8": 10.0, "mxfp4": 9.0, "nvfp4": 10.0, "awq": 8.0, "gptq": 8.0},
        tensorrt_llm.NAME: {
            "fp8": 8.9,
            "fp8_block": 9.0,
            "mxfp4": 9.0,
            "nvfp4": 10.0,
            "mxfp8": _NEVER,
            "gptq": _NEVER,
            "bnb": _NEVER,
            "bitsandbytes": _NEVER,
            "gguf": _NEVER,
        },
    }
)
"""Least NVIDIA compute capability by engine and format; formats are matched by their longest prefix here."""


def format_refusal(engine: str, storage: str, accelerator: Accelerator) -> str | None:
    """Why an engine does not run a weight format on a device, or ``None`` when nothing beyond the device forbids it.

    Args:
        engine: canonical engine name.
        storage: storage format of the weights, e.g. ``fp8_block``.
        accelerator: the device.
    """
    limits = _LEAST_COMPUTE_CAPABILITY.get(engine)
    capability = compute_capability(accelerator)
    if limits is None or capability is None:
        return None
    prefix = max((name for name in limits if storage.startswith(name)), key=len, default=None)
    if prefix is None or capability >= limits[prefix]:
        return None
    if limits[prefix] == _NEVER:
        return f"{storage} is not run by {engine}"
    return (
        f"{storage} needs compute capability {limits[prefix]} in {engine}, {accelerator.product_name} has {capability}"
    )
