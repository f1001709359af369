"""Accelerators that published start-up logs and verdicts are about, beside those of ``tests.hardware.devices``."""

from __future__ import annotations

from dataclasses import replace

from tests.hardware.devices import A100, accelerator

RTX_3090 = accelerator(
    "rtx-3090-24gb",
    "ampere",
    "8.6",
    {"fp16": 142, "bf16": 71, "int8": 284},
    product="GeForce RTX 3090",
    mib=24576,
    gb_per_s=936,
    sm=82,
    interconnect="nvlink3-bridge",
    link_gb_per_s=56.25,
    domain=2,
)
RTX_4090 = accelerator(
    "rtx-4090-24gb",
    "ada",
    "8.9",
    {"fp16": 165.2, "bf16": 165.2, "fp8": 330.3, "int8": 660.6},
    product="GeForce RTX 4090",
    mib=24564,
    gb_per_s=1008,
    sm=128,
)
A10G = accelerator("a10g-24gb", "ampere", "8.6", {"fp16": 70, "bf16": 70, "int8": 140}, product="A10G", mib=23028)
A100_40GB = replace(A100, sku="a100-sxm4-40gb", product_name="A100 SXM4 40GB", memory_bytes=40960 << 20)
RTX_PRO_6000 = accelerator(
    "rtx-pro-6000-server-96gb",
    "blackwell-rtx",
    "12.0",
    {"fp16": 503.8, "bf16": 503.8, "fp8": 1007.6, "fp4": 2015.2},
    product="RTX PRO 6000 Blackwell Server Edition",
    mib=97887,
    gb_per_s=1597,
    sm=188,
)
GB10 = accelerator(
    "gb10-dgx-spark-128gb",
    "blackwell-rtx",
    "12.1",
    {"fp16": 125, "bf16": 125, "fp8": 250, "fp4": 500},
    product="GB10 (DGX Spark)",
    mib=122070,
    gb_per_s=273,
    sm=48,
)
