"""The device one tensor-parallel rank runs on: a whole accelerator or one MIG instance, seen alike."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.hardware.mig_device import slice_device

_RESERVED_SHARE = 0.0055
_RESERVED_MIN_BYTES = int(0.4 * (1 << 30))
# CUDA sees less than the driver tool prints: 79.18 of 79.65 GiB on H100-80GB, 23.58 of 24.0 on RTX 3090, 139.72 of
# 140.4 on H20-141GB (device totals in published vLLM start-up logs).


@dataclass(frozen=True, slots=True)
class RankDevice:
    """What one rank has to itself.

    Attributes:
        accelerator: the physical device.
        board: MIG tables when this is a slice.
        profile: GPU instance profile when this is a slice.
        memory_bytes: bytes the engine sees as the device's total.
        bandwidth_bytes_per_s: peak memory bandwidth of the device or slice.
        compute_share: share of the accelerator's peak arithmetic rate.
        sm_count: streaming multiprocessors, ``None`` when unknown.
    """

    accelerator: Accelerator
    board: MigBoard | None
    profile: MigProfile | None
    memory_bytes: int
    bandwidth_bytes_per_s: float
    compute_share: float
    sm_count: int | None

    @property
    def label(self) -> str:
        """The configuration in a word: the profile name, or ``whole device``."""
        return f"MIG {self.profile.name}" if self.profile else "whole device"


def whole_device(accelerator: Accelerator) -> RankDevice | None:
    """The whole accelerator as one rank's device; ``None`` when its memory size is not known."""
    if accelerator.memory_bytes is None:
        return None
    reserved = max(_RESERVED_MIN_BYTES, int(accelerator.memory_bytes * _RESERVED_SHARE))
    return RankDevice(
        accelerator=accelerator,
        board=None,
        profile=None,
        memory_bytes=accelerator.memory_bytes - reserved,
        bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
        compute_share=1.0,
        sm_count=accelerator.sm_count,
    )


def mig_rank_device(accelerator: Accelerator, board: MigBoard, profile: MigProfile) -> RankDevice:
    """One MIG instance as one rank's device.

    Raises:
        InvalidInputError: memory or SM count of the profile was never published.
    """
    part = slice_device(accelerator, board, profile)
    return RankDevice(
        accelerator=accelerator,
        board=board,
        profile=profile,
        memory_bytes=int(part.memory_bytes * (1 - _RESERVED_SHARE)),
        bandwidth_bytes_per_s=part.bandwidth_bytes_per_s,
        compute_share=part.compute_share,
        sm_count=part.sm_count,
    )
