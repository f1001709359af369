"""One MIG instance seen as a device of its own: what it holds, how fast it reads, how fast it multiplies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from capplan.errors import FieldViolation, InvalidInputError
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """One instance of one profile on one board.

    Attributes:
        parent: the whole device.
        profile: the instance's profile.
        memory_bytes: usable bytes, as the driver lists them (not a share of the whole).
        bandwidth_bytes_per_s: memory bandwidth; the split by memory units is clean (A30 1g measured 196 of 786 GB/s).
        sm_count: streaming multiprocessors of a full compute instance; the double-memory 1g profile can also be given
            a smaller one, which some tools create.
        compute_share: SM count over that of the whole device (A100's 7g has 98 of 108).
        peak_flop_per_s: dense peak by arithmetic, times the compute share.
        power_share: share of the board's power an instance is accounted for, by compute slices. Power is not
            partitioned: neighbours share one cap (about 5 % throttling was seen).
    """

    parent: Accelerator
    profile: MigProfile
    memory_bytes: int
    bandwidth_bytes_per_s: float
    sm_count: int
    compute_share: float
    peak_flop_per_s: Mapping[str, float]
    power_share: float

    def as_accelerator(self) -> Accelerator:
        """The instance in the shape of an accelerator, for code that prices devices.

        It has no peer link: instances cannot reach each other on any path, same GPU or not, so tensor parallelism over
        them is out. Its host link is its share of the one the GPU has (25.2 GB/s fell to 6.3 with four busy slices).
        """
        parent = self.parent
        share = self.bandwidth_bytes_per_s / parent.memory_bandwidth_bytes_per_s
        return replace(
            parent,
            product_name=f"{parent.product_name} MIG {self.profile.name}",
            memory_bytes=self.memory_bytes,
            memory_bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            sm_count=self.sm_count,
            peak_flop_per_s=self.peak_flop_per_s,
            interconnect="none",
            link_bytes_per_s=None,
            link_domain_size=1,
            pcie_bytes_per_s=None if parent.pcie_bytes_per_s is None else parent.pcie_bytes_per_s * share,
            board_power_w=None if parent.board_power_w is None else parent.board_power_w * self.power_share,
            idle_power_w=None if parent.idle_power_w is None else parent.idle_power_w * self.power_share,
            mig_board=None,
        )


def slice_device(accelerator: Accelerator, board: MigBoard, profile: MigProfile) -> SliceDevice:
    """One instance of one of the board's profiles as a device.

    Raises:
        NotFoundError: the board has no such profile.
        InvalidInputError: the board's tables are not this accelerator's, or the profile's usable memory or SM count
            (or the device's own SM count) was never published; supplying the measured value makes it plannable.
    """
    if accelerator.mig_board != board.board:
        raise InvalidInputError.single(
            "mig_board", f"{accelerator.sku} has MIG tables {accelerator.mig_board or 'of no board'}, not {board.board}"
        )
    if board.profile(profile.profile_id) != profile:
        raise InvalidInputError.single("mig_profile", f"{profile.name} is not what {board.board} has under this id")
    missing = [
        FieldViolation(field, f"{what} of {profile.name} on {board.display_name} was not published; supply it measured")
        for field, what, value in (
            ("memory_bytes", "usable memory", profile.memory_bytes),
            ("sm_count", "SM count", profile.sm_count),
        )
        if value is None
    ]
    if accelerator.sm_count is None:
        missing.append(FieldViolation("sm_count", f"SM count of {accelerator.sku} was not published; supply it"))
    if missing or profile.memory_bytes is None or profile.sm_count is None or accelerator.sm_count is None:
        raise InvalidInputError(missing)
    share = profile.sm_count / accelerator.sm_count
    return SliceDevice(
        parent=accelerator,
        profile=profile,
        memory_bytes=profile.memory_bytes,
        bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s * profile.memory_slices / board.grid_units,
        sm_count=profile.sm_count,
        compute_share=share,
        peak_flop_per_s=MappingProxyType({key: peak * share for key, peak in accelerator.peak_flop_per_s.items()}),
        power_share=profile.compute_slices / board.compute_slices,
    )
