"""Amounts, money, power, and the order of placements. All arrays have shape (C,)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.hardware.accelerator import Accelerator
from capplan.planning.candidates import Candidate
from capplan.planning.mig_layout import instances_per_gpu
from capplan.planning.query import Objective

_IDLE_SHARE = 0.12
"""Idle over board power where no idle capture exists: H100 SXM 70/700, H200 75/700, B200 140/1000, MI355X 237/1400."""
_SERVING_SHARE = 0.7
"""Share of the range between idle and cap that serving draws: 0.6 in weight-bound decode, 0.92-0.97 in prefill products
(published medians of sampled board power on H200, B200 and GB200). A constant, so that energy stays monotone."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Packing:
    """How replicas of each candidate take up physical devices.

    Attributes:
        devices_per_replica: physical devices of one replica; 1 for slices.
        replicas_per_device: instances one physical device holds; 1 for whole devices.
    """

    devices_per_replica: Values
    replicas_per_device: Values

    def devices(self, replicas: Values) -> Values:
        """Physical devices of so many replicas."""
        whole: Values = np.ceil(replicas / self.replicas_per_device) * self.devices_per_replica
        return whole

    def replicas(self, devices: Values) -> Values:
        """Most replicas on so many physical devices."""
        most: Values = np.floor(devices / self.devices_per_replica) * self.replicas_per_device
        return most


def packing(candidates: Sequence[Candidate]) -> Packing:
    """Devices and slices per candidate."""
    per_device = []
    for candidate in candidates:
        device = candidate.replica.device
        if device.board is not None and device.profile is not None:
            per_device.append(instances_per_gpu(device.board, device.profile))
        else:
            per_device.append(1)
    return Packing(
        devices_per_replica=np.array([float(c.replica.parallelism.devices) for c in candidates]),
        replicas_per_device=np.array(per_device, dtype=np.float64),
    )


def serving_power_w(accelerator: Accelerator) -> float | None:
    """Power of one serving device: idle plus a fixed share of the range to the cap; ``None`` without a known cap."""
    cap = accelerator.board_power_w
    if cap is None:
        return None
    idle = accelerator.idle_power_w if accelerator.idle_power_w is not None else _IDLE_SHARE * cap
    return idle + (cap - idle) * _SERVING_SHARE


def objective_values(objective: Objective, candidates: Sequence[Candidate], devices: Values, e2e_ms: Values) -> Values:
    """What the ranking compares, lower is better; infinite where the objective cannot be told (no price, no power)."""
    match objective:
        case Objective.COST:
            unit = [c.item.price.usd_per_h if c.item.price else np.inf for c in candidates]
            cost: Values = devices * np.array(unit)
            return cost
        case Objective.DEVICES:
            return devices
        case Objective.ENERGY:
            power = [serving_power_w(c.item.accelerator) for c in candidates]
            watts: Values = devices * np.array([np.inf if w is None else w for w in power])
            return watts
        case Objective.LATENCY:
            return e2e_ms


def order(
    candidates: Sequence[Candidate], objective: Values, devices: Values, replicas: Values, e2e_ms: Values
) -> list[int]:
    """Indices best first.

    Ties go to the lower cost, fewer devices, whole devices before slices, slices that leave more of the device free,
    lower latency, and at last the name.
    """

    def key(index: int) -> tuple[float, float, float, float, float, str, int, str]:
        candidate = candidates[index]
        price, profile = candidate.item.price, candidate.replica.device.profile
        return (
            float(objective[index]),
            float(devices[index]) * price.usd_per_h if price else np.inf,
            float(devices[index]),
            float(replicas[index]) * profile.memory_slices if profile else 0.0,
            float(e2e_ms[index]),
            candidate.item.accelerator.sku,
            candidate.replica.parallelism.tensor_parallel,
            candidate.configuration,
        )

    return sorted(range(len(candidates)), key=key)
