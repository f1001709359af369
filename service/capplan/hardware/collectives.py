"""Time of an all-reduce inside one node or link domain: measured points where they exist, scaled ones elsewhere.

**Measured products** are interpolated between their points in log-log space. No single latency-bandwidth line fits:
kernels switch protocol between 0.5 and 16 MiB, and a line is off by up to half there. Beyond the points the time goes
on linearly at the bandwidth of the last one.

**Relatives** take the curve of the nearest measured product, split into latency (the time of an empty message) and
transfer (the rest). Transfer scales with the link's one-way rate and the wire factor 2(n-1)/n; latency with the number
of ranks as in NCCL's own cost model for a small ring on NVLink, 6.6 + 1.2 (n-1) us (NCCL src/graph/tuning.cc, within
15 % of H100 and H200 measurements).

**Other fabrics** have no measured curve: t = latency + bytes * 2(n-1)/n / bus bandwidth, with that latency times 1.4
(the factor by which A100 exceeds the model) and a bandwidth per kind of fabric. In a full mesh (xGMI, Gaudi's RoCE)
each pair owns one link, so few ranks get few links: MI300X measured 47.7 GB/s over 2 ranks and 313 over 8.

A PCIe figure holds for a host with peer access and a good topology; it is an attribute of the node pool, and GeForce
cards, whose driver has no peer access, can only be slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.errors import InvalidInputError
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.collective_points import MEASURED, MEASURED_BYTES
from capplan.units import GB

FloatArray = NDArray[np.float64]

_PCIE_RANKS_PER_NODE: Final = 8
_UNMEASURED_LATENCY: Final = 1.4
_RING_SHARE: Final = 0.80  # of one-way link rate, what all-gather and reduce-scatter reach on large payloads
_MESH_SHARE: Final[Mapping[str, float]] = MappingProxyType(
    {
        "xgmi-mesh": 0.72,  # of a pair's link: 47.7 of 64 GB/s over 2 ranks, 313 of 448 over 8
        "roce 24x100GbE": 0.63,  # the same share of the 21 ports in 24 that stay inside the node
        "roce 24x200GbE": 0.63,
    }
)


@dataclass(frozen=True, slots=True)
class _Reference:
    """A measured product and the one-way rate of the link it was measured over."""

    sku: str
    bytes_per_s: float


_NVLINK: Final[Mapping[str, _Reference]] = MappingProxyType(
    {
        "volta": _Reference("a100-sxm4-80gb", 300 * GB),
        "ampere": _Reference("a100-sxm4-80gb", 300 * GB),
        "hopper": _Reference("h100-sxm-80gb", 450 * GB),
        "blackwell": _Reference("b200-180gb", 900 * GB),
        "blackwell-ultra": _Reference("b300-288gb", 900 * GB),
    }
)
_PCIE_GEN4: Final = _Reference("l40s-48gb", 31.5 * GB)
_PCIE_GEN5: Final = _Reference("rtx-pro-6000-server-96gb", 63 * GB)


@dataclass(frozen=True, slots=True)
class _Path:
    """What the ranks talk over.

    Attributes:
        bytes_per_s: one-way rate per device.
        reference: measured product to scale from; ``None`` for fabrics nobody measured.
    """

    bytes_per_s: float
    reference: _Reference | None


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
        reference = _NVLINK.get(accelerator.architecture) if accelerator.interconnect.startswith("nvlink") else None
        return _Path(link, reference)
    if pcie is not None and _has_pcie_peers(accelerator) and ranks <= _PCIE_RANKS_PER_NODE:
        return _Path(pcie, _PCIE_GEN4 if pcie < 0.75 * _PCIE_GEN5.bytes_per_s else _PCIE_GEN5)
    limit = all_reduce_ranks_limit(accelerator)
    raise InvalidInputError.single(
        "ranks", f"{ranks} devices of {accelerator.sku} cannot reach each other; at most {limit} can"
    )


def _wire(ranks: int) -> float:
    """Bytes each link carries per payload byte in a ring all-reduce."""
    return 2.0 * (ranks - 1) / ranks


def _ring_latency_us(ranks: int) -> float:
    return 6.6 + 2.0 * 0.6 * (ranks - 1)


def _scaled_s(sku: str, path: _Path, reference: _Reference, ranks: int, size: FloatArray) -> FloatArray:
    """The curve of the nearest measured product, brought to this link and number of ranks."""
    own = sorted(n for name, n in MEASURED if name == sku)
    if ranks in own:
        return _Interpolation.of(sku, ranks).seconds(size)
    theirs = sorted(n for name, n in MEASURED if name == reference.sku)
    if own and ranks not in theirs:
        curve_sku, measured_ranks, rate = sku, own, path.bytes_per_s
    else:
        curve_sku, measured_ranks, rate = reference.sku, theirs, reference.bytes_per_s
    nearest = min(measured_ranks, key=lambda n: (abs(np.log(n / ranks)), n))
    curve = _Interpolation.of(curve_sku, nearest)
    latency = curve.latency_s * _ring_latency_us(ranks) / _ring_latency_us(nearest)
    transfer = (curve.seconds(size) - curve.latency_s) * (rate / path.bytes_per_s) * (_wire(ranks) / _wire(nearest))
    return latency + transfer


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
