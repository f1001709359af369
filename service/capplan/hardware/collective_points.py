"""Measured all-reduce times: the points, and nothing else.

Source: aiconfigurator, commit 095f58a (Apache-2.0), its collective tables. Each row is the engine's own kernel inside a
CUDA graph (vLLM's, which falls back to NCCL for large messages), or oneCCL where that was all there was. GB200 over two
ranks is vLLM's kernel up to 4 MiB and NCCL above: the host it was timed on was capped at 206 GB/s, which shows from
16 MiB on only (114.7 us there against 55.0 on GB300).

PCIe figures differ tenfold with the host's topology (two L40S hosts reached 2 and 21 GB/s over eight ranks). The L40S
rows are from the host with the good one (SGLang's kernel); a host with a poor topology is slower than planned here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from capplan.units import GB, KIB, MIB

MEASURED_BYTES: Final = (8 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
"""Message sizes of every curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """All-reduce time over message size for one product and number of ranks.

    Attributes:
        collected_with: software and version that was timed.
        microseconds: time per message, at :data:`MEASURED_BYTES`.
    """

    collected_with: str
    microseconds: tuple[float, ...]


_RTX_PRO_6000: Final = "rtx-pro-6000-server-96gb"

MEASURED: Final[Mapping[tuple[str, int], Curve]] = MappingProxyType(
    {
        ("a100-sxm4-80gb", 2): Curve("vllm/0.14.0", (5.3, 5.5, 6.6, 10.7, 25.2, 126.3, 388.5, 1427.6)),
        ("a100-sxm4-80gb", 4): Curve("vllm/0.14.0", (5.5, 6.6, 9.9, 18.3, 41.5, 182.5, 540.0, 1920.7)),
        ("a100-sxm4-80gb", 8): Curve("vllm/0.14.0", (6.3, 8.4, 17.1, 21.7, 45.4, 214.2, 594.2, 2170.2)),
        ("h100-sxm-80gb", 2): Curve("vllm/0.24.0", (4.4, 4.5, 5.2, 8.3, 20.2, 81.4, 306.7, 885.4)),
        ("h100-sxm-80gb", 4): Curve("vllm/0.24.0", (4.8, 5.2, 7.2, 12.8, 30.2, 98.8, 329.9, 1180.4)),
        ("h100-sxm-80gb", 8): Curve("vllm/0.24.0", (5.1, 6.4, 10.8, 15.0, 30.8, 92.4, 344.0, 1091.0)),
        ("h200-sxm-141gb", 2): Curve("vllm/0.24.0", (4.6, 4.8, 5.2, 8.4, 20.5, 76.6, 280.6, 887.3)),
        ("h200-sxm-141gb", 4): Curve("vllm/0.24.0", (4.8, 5.4, 7.0, 12.1, 29.8, 93.8, 320.2, 1181.6)),
        ("h200-sxm-141gb", 8): Curve("vllm/0.24.0", (5.1, 6.6, 10.1, 14.1, 28.4, 87.2, 323.3, 1052.4)),
        ("b200-180gb", 2): Curve("vllm/0.24.0", (7.0, 7.1, 7.7, 13.1, 33.7, 57.4, 155.1, 528.6)),
        ("b200-180gb", 4): Curve("vllm/0.24.0", (7.1, 7.4, 8.6, 18.4, 30.0, 68.0, 187.4, 680.6)),
        ("b200-180gb", 8): Curve("vllm/0.24.0", (7.8, 8.6, 25.8, 17.2, 26.3, 63.2, 222.8, 715.0)),
        ("b300-288gb", 2): Curve("vllm/0.24.0", (7.0, 7.0, 7.8, 13.1, 32.6, 57.0, 153.8, 524.8)),
        ("b300-288gb", 4): Curve("vllm/0.24.0", (7.1, 7.3, 8.7, 18.9, 29.5, 67.3, 188.0, 672.6)),
        ("b300-288gb", 8): Curve("vllm/0.24.0", (7.4, 8.5, 26.0, 27.1, 26.2, 62.9, 215.2, 716.3)),
        ("gb200-186gb", 2): Curve("vllm/0.24.0, nccl/2.29.2", (5.4, 5.4, 6.6, 10.1, 24.7, 53.9, 147.2, 525.6)),
        ("gb200-186gb", 4): Curve("vllm/0.24.0", (5.4, 5.6, 7.0, 12.5, 25.5, 77.6, 202.9, 770.4)),
        ("gb300-279gb", 2): Curve("vllm/0.24.0", (7.4, 7.3, 7.7, 13.3, 33.7, 55.0, 151.1, 514.5)),
        ("gb300-279gb", 4): Curve("vllm/0.24.0", (7.4, 7.4, 8.3, 20.5, 29.5, 67.1, 181.1, 673.7)),
        ("l40s-48gb", 2): Curve("sglang/0.5.12", (9.2, 15.3, 37.6, 90.6, 277.6, 1019.4, 3950.0, 15093.6)),
        ("l40s-48gb", 4): Curve("sglang/0.5.12", (14.0, 21.1, 46.4, 123.4, 344.7, 1247.4, 4846.8, 18981.1)),
        ("l40s-48gb", 8): Curve("sglang/0.5.12", (24.0, 32.9, 75.8, 193.8, 440.7, 1488.0, 5701.6, 22682.4)),
        (_RTX_PRO_6000, 2): Curve("vllm/0.24.0", (4.5, 6.2, 11.1, 30.1, 106.0, 474.9, 1843.7, 7102.8)),
        (_RTX_PRO_6000, 4): Curve("vllm/0.24.0", (13.7, 16.9, 57.3, 87.7, 246.9, 886.9, 3556.5, 13617.4)),
        (_RTX_PRO_6000, 8): Curve("vllm/0.24.0", (26.6, 31.2, 84.3, 133.5, 346.9, 1274.5, 5067.5, 19809.4)),
        ("arc-pro-b60-24gb", 2): Curve("oneccl/2021.17.2", (16.0, 17.5, 27.2, 68.7, 235.1, 929.1, 3545.0, 14172.5)),
        ("arc-pro-b60-24gb", 4): Curve("oneccl/2021.17.2", (21.4, 20.9, 33.4, 98.1, 356.6, 1414.4, 5490.2, 21951.0)),
    }
)
"""By (sku, ranks)."""

MEASURED_OVER_BYTES_PER_S: Final[Mapping[str, float]] = MappingProxyType(
    {
        "a100-sxm4-80gb": 300 * GB,
        "h100-sxm-80gb": 450 * GB,
        "h200-sxm-141gb": 450 * GB,
        "b200-180gb": 900 * GB,
        "b300-288gb": 900 * GB,
        "gb200-186gb": 900 * GB,
        "gb300-279gb": 900 * GB,
        "l40s-48gb": 31.5 * GB,
        _RTX_PRO_6000: 63 * GB,
        "arc-pro-b60-24gb": 31.5 * GB,
    }
)
"""One-way rate of the link each product was timed over."""
