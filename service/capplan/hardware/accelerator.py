"""What an accelerator is: its memory, its rates, its links, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator as the operating system sees it. Peaks are dense; a missing fact is ``None``, never a guess.

    Attributes:
        sku: catalogue identifier, e.g. ``h100-sxm-80gb``.
        vendor: ``nvidia``, ``amd``, ``intel``, ``google``, ``aws``, ``apple`` ...
        product_name: what the vendor calls it.
        architecture: generation name, e.g. ``hopper``; the key of efficiency and arithmetic tables.
        compute_capability: NVIDIA's ``9.0`` or AMD's ``gfx942``; ``None`` elsewhere.
        memory_bytes: memory the driver reports, in bytes; ``None`` when not published (CPUs).
        memory_bandwidth_bytes_per_s: vendor peak, bytes per second.
        sm_count: streaming multiprocessors (compute units, cores).
        peak_flop_per_s: dense peak by arithmetic format (``fp64 fp32 tf32 fp16 bf16 fp8 int8 int4 fp6 fp4``).
        interconnect: kind of peer link (``nvlink4-nvswitch``, ``pcie`` ...).
        link_bytes_per_s: peer link, one direction, per device; ``None`` when there is none but PCIe.
        link_domain_size: devices that reach each other over that link.
        pcie_bytes_per_s: host link, one direction.
        board_power_w: power cap of one device.
        idle_power_w: power of one idle device.
        mig_board: key of the board's MIG tables; ``None`` when the device has no MIG.
        kubernetes_product_label: value of the node label that names this product.
        confidence: ``high``, ``medium`` or ``low``, as the facts say.
    """

    sku: str
    vendor: str
    product_name: str
    architecture: str
    compute_capability: str | None
    memory_bytes: int | None
    memory_bandwidth_bytes_per_s: float
    sm_count: int | None
    peak_flop_per_s: Mapping[str, float]
    interconnect: str
    link_bytes_per_s: float | None
    link_domain_size: int
    pcie_bytes_per_s: float | None
    board_power_w: float | None
    idle_power_w: float | None
    mig_board: str | None
    kubernetes_product_label: str | None
    confidence: str
