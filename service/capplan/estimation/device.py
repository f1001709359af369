"""The device one tensor-parallel rank runs on: a whole accelerator or one MIG instance, seen alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from capplan.estimation.identity import Same
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.hardware.mig_device import slice_device
from capplan.units import GIB

_RESERVED_SHARE = 0.0055
_RESERVED_MIN_BYTES = int(0.4 * GIB)
# CUDA sees less than the driver tool prints: 79.18 of 79.65 GiB on H100-80GB, 23.58 of 24.0 on RTX 3090, 139.72 of
# 140.4 on H20-141GB (device totals in published vLLM start-up logs); 31.36 of 31.84 on RTX 5090, 178.35 of 179.06 on
# B200, 44.53 of 44.99 on L40S, 14.58 of 15.0 on T4 ("total capacity" in public out-of-memory messages of PyTorch).

_VISIBLE_GIB = {
    "a100-pcie-40gb": 39.39,  # TensorRT-LLM issue 2268, vLLM issue 16570
    "a100-sxm4-40gb": 39.39,
    "a100-pcie-80gb": 79.15,  # 64.75 GiB of KV are 0.9 of what is free beside 7.2: TensorRT-LLM issue 1400
    "a100-sxm4-80gb": 79.15,
    "a800-pcie-80gb": 79.15,
    "a800-sxm4-80gb": 79.15,
    "gb10-dgx-spark-128gb": 121.63,  # DeepSeek-v4-Flash-One-DGX-Spark issue 4: unified memory, the vendor's 128 are GiB
}
"""Devices whose reserve is not the usual one, GiB that CUDA sees."""

_REMEMBERED = 4096
"""Devices and slices that are remembered: every plan asks for all of a catalogue's."""

_SHARED_MEMORY = frozenset({"gb10-dgx-spark-128gb"})
_HOST_SHARE_BYTES = int(10.25 * GIB)
# A GB10's host keeps part of the one memory: 0.92 of it cannot be had, 0.85 can (vllm recipes pull 632), and the pools
# of MiniMax-M2.7 on two of them fall short of the sum of the parts by as much (spark-vllm-docker issue 396).


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
        occupied_bytes: what others than the engine hold of that memory, on devices that share it with their host.
    """

    accelerator: Accelerator
    board: MigBoard | None
    profile: MigProfile | None
    memory_bytes: int
    bandwidth_bytes_per_s: float
    compute_share: float
    sm_count: int | None
    occupied_bytes: int = 0

    @property
    def label(self) -> str:
        """The configuration in a word: the profile name, or ``whole device``."""
        return f"MIG {self.profile.name}" if self.profile else "whole device"


def _visible_bytes(accelerator: Accelerator, listed_bytes: int) -> int:
    if accelerator.sku in _VISIBLE_GIB:
        return int(_VISIBLE_GIB[accelerator.sku] * GIB)
    if accelerator.vendor == "amd":
        return listed_bytes  # HIP hides nothing: 287.2 of 287.99 GiB free on an idle MI355X (sglang pull 18263)
    return listed_bytes - max(_RESERVED_MIN_BYTES, int(listed_bytes * _RESERVED_SHARE))


def whole_device(accelerator: Accelerator) -> RankDevice | None:
    """The whole accelerator as one rank's device; ``None`` when its memory size is not known."""
    return _whole_device(Same(accelerator))


@lru_cache(maxsize=_REMEMBERED)
def _whole_device(same: Same[Accelerator]) -> RankDevice | None:
    accelerator = same.value
    if accelerator.memory_bytes is None:
        return None
    return RankDevice(
        accelerator=accelerator,
        board=None,
        profile=None,
        memory_bytes=_visible_bytes(accelerator, accelerator.memory_bytes),
        bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
        compute_share=1.0,
        sm_count=accelerator.sm_count,
        occupied_bytes=_HOST_SHARE_BYTES if accelerator.sku in _SHARED_MEMORY else 0,
    )


def mig_rank_device(accelerator: Accelerator, board: MigBoard, profile: MigProfile) -> RankDevice:
    """One MIG instance as one rank's device.

    Raises:
        InvalidInputError: memory or SM count of the profile was never published.
    """
    return _mig_rank_device(Same(accelerator), Same(board), Same(profile))


@lru_cache(maxsize=_REMEMBERED)
def _mig_rank_device(
    same_accelerator: Same[Accelerator], same_board: Same[MigBoard], same_profile: Same[MigProfile]
) -> RankDevice:
    accelerator, board, profile = same_accelerator.value, same_board.value, same_profile.value
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
