"""Time of an all-reduce inside one node or link domain: measured points where they exist, scaled ones elsewhere.

**Measured products** are interpolated between their points in log-log space. No single latency-bandwidth line fits:
kernels switch protocol between 0.5 and 16 MiB, and a line is off by up to half there. Beyond the points the time goes
on linearly at the bandwidth of the last one.

**Relatives** take the curve of the nearest measured product, split into latency (the time of an empty message) and
transfer (the rest). Transfer scales with the link's one-way rate and the wire factor 2(n-1)/n; latency with the number
of ranks as in NCCL's own cost model for a small ring on NVLink, 6.6 + 1.2 (n-1) us (NCCL src/graph/tuning.cc, within
15 % of H100 and H200 measurements; Blackwell takes 1.5 times that). Engines' fused kernels, whose curves these are, end
at 8 ranks; beyond, the latency is NCCL's.

**Other fabrics** have no measured curve: t = latency + bytes * 2(n-1)/n / bus bandwidth, with that latency times 1.4
(the factor by which A100 exceeds the model) and a bandwidth per kind of fabric. In a full mesh (xGMI, Gaudi's RoCE)
each pair owns one link, so few ranks get few links: MI300X measured 47.7 GB/s over 2 ranks and 313 over 8.

A PCIe figure holds for a host with peer access and a good topology; it is an attribute of the node pool, and GeForce
cards, whose driver has no peer access, can only be slower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.errors import InvalidInputError
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.collective_points import MEASURED, MEASURED_BYTES, MEASURED_OVER_BYTES_PER_S
from capplan.units import GB

FloatArray = NDArray[np.float64]

_PCIE_RANKS_PER_NODE: Final = 8
_UNMEASURED_LATENCY: Final = 1.4
_FUSED_RANKS: Final = 8  # engines' own kernels reach no further: NCCL beyond, which only Blackwell's racks allow
_BLACKWELL_LATENCY: Final = 1.5  # NCCL on Blackwell over its own model, middle of 1.3-1.7
_RING_SHARE: Final = 0.80  # of one-way link rate, what all-gather and reduce-scatter reach on large payloads
_MESH_SHARE: Final[Mapping[str, float]] = MappingProxyType(
    {
        "xgmi-mesh": 0.72,  # of a pair's link: 47.7 of 64 GB/s over 2 ranks, 313 of 448 over 8
        "roce 24x100GbE": 0.63,  # the same share of the 21 ports in 24 that stay inside the node
        "roce 24x200GbE": 0.63,
    }
)


_NVLINK_REFERENCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "volta": "a100-sxm4-80gb",
        "ampere": "a100-sxm4-80gb",
        "hopper": "h100-sxm-80gb",
        "blackwell": "b200-180gb",
        "blackwell-ultra": "b300-288gb",
    }
)
_PCIE_GEN4: Final = "l40s-48gb"
_PCIE_GEN5: Final = "rtx-pro-6000-server-96gb"
_PCIE_GEN5_FROM_BYTES_PER_S: Final = 48 * GB  # between 31.5 (Gen4) and 63 (Gen5)


@dataclass(frozen=True, slots=True)
class _Path:
    """What the ranks talk over.

    Attributes:
        bytes_per_s: one-way rate per device.
        reference: sku of the measured product to scale from; ``None`` for fabrics nobody measured.
    """

    bytes_per_s: float
    reference: str | None


def all_reduce_ranks_limit(accelerator: Accelerator) -> int:
    """Most devices an all-reduce can span inside one node or link domain; 1 when devices cannot reach each other."""
    linked = accelerator.link_domain_size if accelerator.link_bytes_per_s else 1
    return max(linked, _PCIE_RANKS_PER_NODE if _has_pcie_peers(accelerator) else 1)


def _has_pcie_peers(accelerator: Accelerator) -> bool:
    """Whether a node holds several of the device: not so for superchips (one per node) and MIG instances (no path)."""
    alone = accelerator.interconnect == "none" or accelerator.interconnect.startswith("nvlink-c2c")
    return accelerator.pcie_bytes_per_s is not None and not alone


def all_reduce_s(accelerator: Accelerator, ranks: int, message_bytes: FloatArray) -> FloatArray:
    """Seconds of one all-reduce over ``ranks`` devices of one kind.

    Args:
        accelerator: the device.
        ranks: devices taking part; 1 costs nothing.
        message_bytes: payload per device, any shape, bytes.

    Returns:
        Seconds, in the shape of ``message_bytes``; never falls as a message grows; 0 for an empty message.

    Raises:
        InvalidInputError: no ranks, more ranks than the node or link domain has, or a negative message.
    """
    size = np.asarray(message_bytes, dtype=np.float64)
    if ranks < 1:
        raise InvalidInputError.single("ranks", f"{ranks} devices; at least 1 is needed")
    if np.any(size < 0):
        raise InvalidInputError.single("message_bytes", "a message has a negative size")
    if ranks == 1:
        return np.zeros_like(size)
    path = _path(accelerator, ranks)
    if path.reference is None:
        seconds = _fabric_s(accelerator, ranks, path.bytes_per_s, size)
    else:
        seconds = _scaled_s(accelerator.sku, path, path.reference, ranks, size)
    return np.where(size > 0, seconds, 0.0)


def _path(accelerator: Accelerator, ranks: int) -> _Path:
    link, pcie = accelerator.link_bytes_per_s, accelerator.pcie_bytes_per_s
    if link is not None and ranks <= accelerator.link_domain_size:
        nvlink = accelerator.interconnect.startswith("nvlink")
        reference = _NVLINK_REFERENCE.get(accelerator.architecture) if nvlink else None
        return _Path(link, reference)
    if pcie is not None and _has_pcie_peers(accelerator) and ranks <= _PCIE_RANKS_PER_NODE:
        return _Path(pcie, _PCIE_GEN5 if pcie >= _PCIE_GEN5_FROM_BYTES_PER_S else _PCIE_GEN4)
    limit = all_reduce_ranks_limit(accelerator)
    raise InvalidInputError.single(
        "ranks", f"{ranks} devices of {accelerator.sku} cannot reach each other; at most {limit} can"
    )


def _wire(ranks: int) -> float:
    """Bytes each link carries per payload byte in a ring all-reduce."""
    return 2.0 * (ranks - 1) / ranks


def _ring_latency_us(ranks: int) -> float:
    return 6.6 + 2.0 * 0.6 * (ranks - 1)


def _scaled_s(sku: str, path: _Path, reference: str, ranks: int, size: FloatArray) -> FloatArray:
    """The curve of the nearest measured product, brought to this link and number of ranks."""
    names = {reference}
    if MEASURED_OVER_BYTES_PER_S.get(sku) == path.bytes_per_s:  # its own curve was timed over this very link
        names.add(sku)
    curves = [(abs(math.log(n / ranks)), name != sku, name, n) for name, n in MEASURED if name in names]
    _, _, nearest_sku, nearest = min(curves)
    curve = _Interpolation.of(nearest_sku, nearest)
    latency, transfer = curve.latency_s, curve.seconds(size) - curve.latency_s
    if ranks > _FUSED_RANKS:
        latency = _BLACKWELL_LATENCY * _ring_latency_us(ranks) * 1e-6
    elif ranks != nearest:
        latency *= _ring_latency_us(ranks) / _ring_latency_us(nearest)
    link = MEASURED_OVER_BYTES_PER_S[nearest_sku] / path.bytes_per_s
    return latency + transfer * link * (_wire(ranks) / _wire(nearest))


def _fabric_s(accelerator: Accelerator, ranks: int, link_bytes_per_s: float, size: FloatArray) -> FloatArray:
    """Latency and bandwidth of a fabric without measured points."""
    mesh_share = _MESH_SHARE.get(accelerator.interconnect)
    if mesh_share is None:
        bus_bytes_per_s = _RING_SHARE * link_bytes_per_s
    else:
        pair_bytes_per_s = link_bytes_per_s / (accelerator.link_domain_size - 1)
        bus_bytes_per_s = mesh_share * pair_bytes_per_s * (ranks - 1)
    return _UNMEASURED_LATENCY * _ring_latency_us(ranks) * 1e-6 + size * _wire(ranks) / bus_bytes_per_s


@dataclass(frozen=True, slots=True, eq=False)
class _Interpolation:
    """One measured curve, made non-decreasing by a running maximum.

    Attributes:
        log_bytes: log of the measured sizes.
        log_s: log of the times in seconds.
        s_per_byte: slope beyond the measured sizes, at the bandwidth of the largest.
        latency_s: time of an empty message.
    """

    log_bytes: FloatArray
    log_s: FloatArray
    s_per_byte: float
    latency_s: float

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, sku: str, ranks: int) -> _Interpolation:
        size = np.array(MEASURED_BYTES, dtype=np.float64)
        seconds = np.maximum.accumulate(np.array(MEASURED[sku, ranks].microseconds)) * 1e-6
        slope = float((seconds[-1] - seconds[0]) / (size[-1] - size[0]))
        return cls(np.log(size), np.log(seconds), slope, float(seconds[0] - slope * size[0]))

    def seconds(self, size: FloatArray) -> FloatArray:
        """Time at any size: log-interpolated inside the measured range, linear outside it."""
        first, last = MEASURED_BYTES[0], MEASURED_BYTES[-1]
        inside = np.exp(np.interp(np.log(np.clip(size, first, last)), self.log_bytes, self.log_s))
        return np.asarray(inside + self.s_per_byte * (size - np.clip(size, first, last)))
