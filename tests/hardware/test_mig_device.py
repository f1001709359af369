from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.errors import InvalidInputError, NotFoundError
from capplan.hardware.collectives import all_reduce_ranks_limit
from capplan.hardware.mig_device import slice_device
from capplan.units import GB, MIB, TERA
from tests.hardware.boards import DOUBLE, a30, profile, rtx_pro_6000, seven_slice
from tests.hardware.devices import A30, A100, H100

A100_BOARD = seven_slice(DOUBLE)
H100_BOARD = seven_slice(DOUBLE, board="h100-80gb-sxm5")


def test_a100_loses_ten_sm_when_mig_is_on():
    # 98 of 108 SM: 312 x 98 / 108 = 283.1 TFLOP/s, at the full memory bandwidth.
    whole = slice_device(A100, A100_BOARD, A100_BOARD.profile(0))
    assert whole.sm_count == 98
    assert whole.peak_flop_per_s["bf16"] == pytest.approx(283.111 * TERA, rel=1e-5)
    assert whole.bandwidth_bytes_per_s == 2039 * GB
    assert whole.memory_bytes == 80384 * MIB


def test_hopper_keeps_all_sm():
    assert slice_device(H100, H100_BOARD, H100_BOARD.profile(0)).compute_share == 1.0


def test_bandwidth_follows_memory_units_and_compute_follows_sm():
    # 3g on H100: 4 of 8 units, 60 of 132 SM (nearly the 64 of 4g).
    part = slice_device(H100, H100_BOARD, H100_BOARD.profile(9))
    assert part.bandwidth_bytes_per_s == 3350 * GB / 2
    assert part.compute_share == 60 / 132
    assert part.power_share == 3 / 7


def test_double_memory_slice_has_twice_the_bandwidth_and_more_sm_than_a_plain_one():
    plain, double = (slice_device(H100, H100_BOARD, H100_BOARD.profile(i)) for i in (19, 15))
    assert double.bandwidth_bytes_per_s == 2 * plain.bandwidth_bytes_per_s
    assert (plain.sm_count, double.sm_count) == (16, 26)


def test_a30_quarter_matches_the_measured_quarter():
    # Colfax: 1g reached 196 of 786 GB/s and 93 % of a quarter of the GEMM rate.
    part = slice_device(A30, a30(), a30().profile(14))
    assert part.bandwidth_bytes_per_s / (933 * GB) == pytest.approx(196 / 786, rel=0.01)
    assert part.compute_share == 14 / 56


def test_slice_as_accelerator_has_no_peers():
    view = slice_device(H100, H100_BOARD, H100_BOARD.profile(19)).as_accelerator()
    assert all_reduce_ranks_limit(view) == 1
    assert view.mig_board is None
    assert view.memory_bytes == 9984 * MIB
    assert view.architecture == "hopper"
    assert view.pcie_bytes_per_s == 63 * GB / 8
    assert view.board_power_w == 100.0


def test_unknown_memory_is_refused_not_guessed():
    unknown = replace(H100_BOARD, profiles=(profile(9, "3g.72gb", 3, 4, (0, 4), 2, sm=60),))
    with pytest.raises(InvalidInputError, match=r"usable memory of 3g\.72gb .* was not published") as refusal:
        slice_device(H100, unknown, unknown.profile(9))
    assert [v.field for v in refusal.value.violations] == ["memory_bytes"]


def test_unknown_sm_counts_are_refused_together():
    unknown = replace(H100_BOARD, profiles=(profile(9, "3g.72gb", 3, 4, (0, 4), 2),))
    with pytest.raises(InvalidInputError) as refusal:
        slice_device(replace(H100, sm_count=None), unknown, unknown.profile(9))
    assert [v.field for v in refusal.value.violations] == ["memory_bytes", "sm_count", "sm_count"]


def test_tables_of_another_board_are_refused():
    with pytest.raises(InvalidInputError, match="h100-sxm-80gb has MIG tables h100-80gb-sxm5, not rtx-pro-6000-96gb"):
        slice_device(H100, rtx_pro_6000(), rtx_pro_6000().profile(14))
    with pytest.raises(NotFoundError):
        slice_device(A30, a30(), rtx_pro_6000(variants=True).profile(66))
    with pytest.raises(InvalidInputError, match="is not what a30-24gb has under this id"):
        slice_device(A30, a30(), rtx_pro_6000().profile(14))
