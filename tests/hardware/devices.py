"""A few accelerators retyped for tests from vendors' data sheets (dense peaks) and driver listings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.hardware.accelerator import Accelerator
from capplan.units import GB, MIB, TERA


def accelerator(
    sku: str,
    architecture: str,
    compute_capability: str | None,
    peaks: Mapping[str, float],
    *,
    vendor: str = "nvidia",
    product: str | None = None,
    mib: int | None = None,
    gb_per_s: float = 1000.0,
    sm: int | None = None,
    interconnect: str = "pcie",
    link_gb_per_s: float | None = None,
    domain: int = 1,
    pcie_gb_per_s: float | None = 31.5,
    mig_board: str | None = None,
) -> Accelerator:
    return Accelerator(
        sku=sku,
        vendor=vendor,
        product_name=product or sku,
        architecture=architecture,
        compute_capability=compute_capability,
        memory_bytes=None if mib is None else mib * MIB,
        memory_bandwidth_bytes_per_s=gb_per_s * GB,
        sm_count=sm,
        peak_flop_per_s={name: tera * TERA for name, tera in peaks.items()},
        interconnect=interconnect,
        link_bytes_per_s=None if link_gb_per_s is None else link_gb_per_s * GB,
        link_domain_size=domain,
        pcie_bytes_per_s=None if pcie_gb_per_s is None else pcie_gb_per_s * GB,
        board_power_w=700.0,
        idle_power_w=70.0,
        mig_board=mig_board,
        kubernetes_product_label=None,
        confidence="high",
    )


T4 = accelerator(
    "t4-16gb",
    "turing",
    "7.5",
    {"fp32": 8.1, "fp16": 65, "int8": 130},
    product="T4",
    mib=15360,
    gb_per_s=320,
    sm=40,
    pcie_gb_per_s=15.75,
)
V100 = accelerator(
    "v100-sxm2-32gb",
    "volta",
    "7.0",
    {"fp32": 15.7, "fp16": 125},
    product="V100 SXM2 32GB",
    mib=32768,
    gb_per_s=900,
    sm=80,
    interconnect="nvlink2",
    link_gb_per_s=150,
    domain=8,
    pcie_gb_per_s=15.75,
)
A100 = accelerator(
    "a100-sxm4-80gb",
    "ampere",
    "8.0",
    {"fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312, "int8": 624},
    product="A100 SXM4 80GB",
    mib=81920,
    gb_per_s=2039,
    sm=108,
    interconnect="nvlink3-nvswitch",
    link_gb_per_s=300,
    domain=8,
    mig_board="a100-80gb",
)
A800 = replace(A100, sku="a800-sxm4-80gb", product_name="A800 SXM4 80GB", link_bytes_per_s=200 * GB)
A30 = accelerator(
    "a30-24gb",
    "ampere",
    "8.0",
    {"tf32": 82, "fp16": 165, "bf16": 165, "int8": 330},
    product="A30",
    mib=24576,
    gb_per_s=933,
    sm=56,
    interconnect="nvlink3-bridge",
    link_gb_per_s=100,
    domain=2,
    mig_board="a30-24gb",
)
A40 = accelerator("a40-48gb", "ampere", "8.6", {"tf32": 74.8, "fp16": 149.7, "bf16": 149.7, "int8": 299.3}, mib=46068)
L4 = accelerator(
    "l4-24gb",
    "ada",
    "8.9",
    {"tf32": 60.5, "fp16": 121, "bf16": 121, "fp8": 242.5, "int8": 242.5},
    product="L4",
    mib=23034,
    gb_per_s=300,
    sm=58,
)
L40S = accelerator(
    "l40s-48gb",
    "ada",
    "8.9",
    {"tf32": 183, "fp16": 362.05, "bf16": 362.05, "fp8": 733, "int8": 733},
    product="L40S",
    mib=46068,
    gb_per_s=864,
    sm=142,
)
H100 = accelerator(
    "h100-sxm-80gb",
    "hopper",
    "9.0",
    {"fp32": 67, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "fp8": 1978.9, "int8": 1978.9},
    product="H100 SXM5 80GB",
    mib=81559,
    gb_per_s=3350,
    sm=132,
    interconnect="nvlink4-nvswitch",
    link_gb_per_s=450,
    domain=8,
    pcie_gb_per_s=63,
    mig_board="h100-80gb-sxm5",
)
H800 = replace(H100, sku="h800-sxm-80gb", product_name="H800 SXM5", link_bytes_per_s=200 * GB)
H100_PCIE = accelerator(
    "h100-pcie-80gb",
    "hopper",
    "9.0",
    {"tf32": 378, "fp16": 756.5, "bf16": 756.5, "fp8": 1513},
    product="H100 PCIe",
    mib=81559,
    gb_per_s=2000,
    sm=114,
    interconnect="nvlink4-bridge",
    link_gb_per_s=300,
    domain=2,
    pcie_gb_per_s=63,
)
H20 = accelerator(
    "h20-96gb",
    "hopper",
    "9.0",
    {"tf32": 74, "fp16": 148, "bf16": 148, "fp8": 296},
    product="H20",
    mib=97871,
    gb_per_s=4000,
    sm=78,
)
H200 = replace(H100, sku="h200-sxm-141gb", product_name="H200 SXM", memory_bytes=143771 * MIB)
GH200 = replace(H100, sku="gh200-96gb", interconnect="nvlink-c2c+nvlink4", link_domain_size=1)
B200 = accelerator(
    "b200-180gb",
    "blackwell",
    "10.0",
    {"tf32": 1125, "fp16": 2250, "bf16": 2250, "fp8": 4500, "int8": 4500, "fp4": 9000},
    product="B200 SXM",
    mib=183359,
    gb_per_s=8000,
    sm=148,
    interconnect="nvlink5-nvswitch",
    link_gb_per_s=900,
    domain=8,
    pcie_gb_per_s=63,
)
GB200 = replace(B200, sku="gb200-186gb", memory_bytes=189471 * MIB, link_domain_size=72)
RTX_5090 = accelerator(
    "rtx-5090-32gb",
    "blackwell-rtx",
    "12.0",
    {"tf32": 104.8, "fp16": 209.5, "bf16": 209.5, "fp8": 419, "int8": 838, "fp4": 1676},
    product="GeForce RTX 5090",
    mib=32607,
    gb_per_s=1792,
    sm=170,
    pcie_gb_per_s=63,
)
MI210 = accelerator(
    "mi210-64gb", "cdna2", "gfx90a", {"fp32": 22.6, "fp16": 181, "bf16": 181, "int8": 181}, vendor="amd", mib=65520
)
MI300X = accelerator(
    "mi300x-192gb",
    "cdna3",
    "gfx942",
    {"tf32": 653.7, "fp16": 1307.4, "bf16": 1307.4, "fp8": 2614.9, "int8": 2614.9},
    vendor="amd",
    mib=196592,
    gb_per_s=5325,
    sm=304,
    interconnect="xgmi-mesh",
    link_gb_per_s=448,
    domain=8,
    pcie_gb_per_s=63,
)
MI355X = accelerator(
    "mi355x-288gb",
    "cdna4",
    "gfx950",
    {"fp16": 2516.6, "bf16": 2516.6, "fp8": 5033.2, "fp4": 10066.3},
    vendor="amd",
    mib=294896,
    gb_per_s=8000,
)
GAUDI3 = accelerator("gaudi3-128gb", "gaudi3", None, {"bf16": 1677, "fp8": 1677}, vendor="intel", mib=131072)
TPU_V6E = accelerator(
    "tpu-v6e-32gb", "v6e", None, {"bf16": 918, "fp8": 918, "int8": 1836}, vendor="google", pcie_gb_per_s=None
)
XEON = accelerator(
    "xeon-6980p",
    "granite-rapids",
    None,
    {"fp32": 16.4, "bf16": 524.3, "int8": 1048.6},
    vendor="intel",
    pcie_gb_per_s=None,
)
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
A100_40GB = replace(A100, sku="a100-sxm4-40gb", product_name="A100 SXM4 40GB", memory_bytes=40960 * MIB)
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
