from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import InvalidInputError
from capplan.hardware.collectives import all_reduce_ranks_limit, all_reduce_s
from capplan.units import KIB, MIB
from tests.hardware.devices import (
    A30,
    A40,
    A100,
    A800,
    B200,
    GB200,
    GH200,
    H100,
    H100_PCIE,
    H800,
    L4,
    L40S,
    MI210,
    MI300X,
    RTX_5090,
    T4,
    TPU_V6E,
    V100,
    XEON,
)

DEVICES = (A30, A40, A100, A800, B200, GB200, H100, H100_PCIE, H800, L4, L40S, MI300X, RTX_5090, T4, V100)


def one(device, ranks: int, size: float) -> float:
    return float(all_reduce_s(device, ranks, np.array([size]))[0])


@pytest.mark.parametrize(
    ("device", "ranks", "size", "microseconds"),
    [
        # aiconfigurator@095f58a: vLLM 0.24 custom kernel on H100 and B200, 0.14 on A100; SGLang 0.5.12 on L40S.
        (H100, 2, 8 * KIB, 4.4),
        (H100, 8, MIB, 15.0),
        (H100, 8, 256 * MIB, 1091.0),
        (A100, 4, 16 * MIB, 182.5),
        (B200, 4, 64 * KIB, 7.4),
        (L40S, 8, 4 * MIB, 440.7),
        (GB200, 2, 64 * MIB, 147.2),
    ],
)
def test_measured_points_are_given_back(device, ranks, size, microseconds):
    assert one(device, ranks, size) * 1e6 == pytest.approx(microseconds, rel=1e-9)


def test_between_points_time_is_straight_in_log_log():
    # H100 over 8: 6.4 us at 64 KiB, 10.8 at 256 KiB; the geometric middle is 128 KiB and sqrt(6.4 * 10.8).
    assert one(H100, 8, 128 * KIB) * 1e6 == pytest.approx((6.4 * 10.8) ** 0.5)


def test_beyond_the_points_bandwidth_stays_that_of_the_largest():
    # 1091.0 us at 256 MiB less 5.1 us at 8 KiB give 4.046 us per MiB: 1 GiB adds 768 MiB of it.
    assert one(H100, 8, 1024 * MIB) * 1e6 == pytest.approx(1091.0 + 768 * (1091.0 - 5.1) / (256 - 1 / 128))


def test_a_dip_in_a_measured_curve_is_no_discount():
    # B200 over 8 ranks was timed at 25.8 us for 256 KiB and 17.2 for 1 MiB.
    assert one(B200, 8, MIB) * 1e6 == pytest.approx(25.8)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(("relative", "measured", "slower"), [(H800, H100, 450 / 200), (A800, A100, 300 / 200)])
def test_export_variant_moves_the_same_bytes_over_a_narrower_link(relative, measured, slower, ranks):
    # Only the link differs: equal latency, transfer in inverse proportion to the link's rate.
    latency = one(measured, ranks, 1)
    assert one(relative, ranks, 1) == pytest.approx(latency, rel=0.01)
    for size in (MIB, 64 * MIB):
        transfer = one(measured, ranks, size) - latency
        assert one(relative, ranks, size) - latency == pytest.approx(slower * transfer, rel=0.01)


def test_unmeasured_rank_counts_follow_wire_and_ring_latency():
    # Three H100 from the measured four: latency (6.6 + 2.4) over (6.6 + 3.6), wire 2 * 2/3 over 2 * 3/4.
    three, four = one(H100, 3, 1), one(H100, 4, 1)
    assert three == pytest.approx(four * 9.0 / 10.2, rel=1e-3)
    large = 256 * MIB
    assert one(H100, 3, large) - three == pytest.approx((one(H100, 4, large) - four) * (2 / 3) / (3 / 4), rel=1e-3)


def test_rack_beyond_fused_kernels_has_nccl_latency():
    # 16 of GB200's 72: 1.5 * (6.6 + 15 * 1.2) = 36.9 us (NCCL measured 27.0 over 8), bytes as on B200's eight.
    assert all_reduce_ranks_limit(GB200) == 72
    assert one(GB200, 16, 1) * 1e6 == pytest.approx(36.9, rel=1e-3)
    large = 256 * MIB
    transfer = one(B200, 8, large) - one(B200, 8, 1)
    assert one(GB200, 16, large) - one(GB200, 16, 1) == pytest.approx(transfer * (15 / 16) / (7 / 8), rel=1e-3)


def test_product_without_the_link_it_was_measured_over_is_not_given_its_curve():
    unlinked = replace(H100, interconnect="pcie", link_bytes_per_s=None, link_domain_size=1)
    assert one(unlinked, 4, MIB) == one(H100_PCIE, 4, MIB)
    halved = replace(H100, link_bytes_per_s=225e9)
    latency = one(H100, 8, 1)
    assert one(halved, 8, 64 * MIB) - latency == pytest.approx(2 * (one(H100, 8, 64 * MIB) - latency), rel=1e-3)


def test_bridge_joins_two_and_pcie_the_rest():
    assert one(H100_PCIE, 2, 64 * MIB) < 0.2 * one(H100_PCIE, 4, 64 * MIB)
    # Over PCIe Gen5 it behaves like the RTX PRO 6000 that was measured: 87.7 us for 1 MiB over 4.
    assert one(H100_PCIE, 4, MIB) * 1e6 == pytest.approx(87.7)


def test_older_pcie_is_slower_in_proportion():
    latency = one(L4, 4, 1)
    assert one(L4, 4, 64 * MIB) == pytest.approx(one(L40S, 4, 64 * MIB))
    assert one(T4, 4, 64 * MIB) - latency == pytest.approx(2 * (one(L4, 4, 64 * MIB) - latency), rel=0.01)


@pytest.mark.parametrize(("ranks", "gb_per_s"), [(2, 47.7), (8, 313)])
def test_full_mesh_gives_few_ranks_few_links(ranks, gb_per_s):
    # AMD's measurements on MI300X: bus bandwidth over 2 and over 8 devices.
    size = 1024 * MIB
    bus = size * 2 * (ranks - 1) / ranks / one(MI300X, ranks, size)
    assert bus / 1e9 == pytest.approx(gb_per_s, rel=0.05)


def test_torus_reaches_a_ring_share_of_its_link():
    torus = replace(TPU_V6E, interconnect="ici-torus", link_bytes_per_s=400e9, link_domain_size=256)
    size = 1024 * MIB
    assert size * 1.5 / one(torus, 4, size) / 400e9 == pytest.approx(0.80, rel=0.01)


def test_small_ring_latency_is_within_15_percent_of_nccl_on_h100():
    # NCCL 2.29.2 at 8 KiB: 6.8, 10.0 and 16.0 us over 2, 4 and 8; other fabrics are modelled at 1.4 times NVLink.
    torus = replace(TPU_V6E, interconnect="ici-torus", link_bytes_per_s=400e9, link_domain_size=256)
    for ranks, measured in ((2, 6.8), (4, 10.0), (8, 16.0)):
        assert one(torus, ranks, 1) / 1.4 * 1e6 == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("device", [*DEVICES, XEON], ids=lambda device: device.sku)
def test_one_rank_costs_nothing(device):
    assert not all_reduce_s(device, 1, np.array([[1.0, 1e9]])).any()


@given(
    st.sampled_from(DEVICES),
    st.integers(2, 16),
    st.lists(st.floats(0, 1e11), min_size=2, max_size=20),
)
def test_time_never_falls_as_a_message_grows(device, ranks, sizes):
    ranks = min(ranks, all_reduce_ranks_limit(device))
    seconds = all_reduce_s(device, ranks, np.sort(np.array(sizes)))
    assert np.all(np.diff(seconds) >= 0)
    assert np.all(seconds[np.sort(sizes) > 0] > 0)
    assert np.all(np.isfinite(seconds))


def test_shape_is_kept_and_an_empty_message_is_free():
    sizes = np.array([[0.0, 1.0, 8192.0], [1e6, 1e8, 1e10]])
    seconds = all_reduce_s(H100, 4, sizes)
    assert seconds.shape == (2, 3)
    assert seconds[0, 0] == 0
    assert seconds[1, 1] == one(H100, 4, 1e8)


@pytest.mark.parametrize(
    ("device", "limit"),
    [(H100, 8), (H100_PCIE, 8), (GB200, 72), (GH200, 1), (XEON, 1), (TPU_V6E, 1), (A30, 8), (MI210, 8)],
)
def test_limit_is_the_node_or_the_link_domain(device, limit):
    assert all_reduce_ranks_limit(device) == limit


@pytest.mark.parametrize(("device", "ranks"), [(H100, 9), (GH200, 2), (XEON, 2), (L4, 16)])
def test_ranks_beyond_reach_are_refused(device, ranks):
    with pytest.raises(InvalidInputError, match=f"at most {all_reduce_ranks_limit(device)} can"):
        one(device, ranks, 1e6)


@pytest.mark.parametrize(
    ("ranks", "size", "field"), [(0, 1.0, "ranks"), (-1, 1.0, "ranks"), (2, -1.0, "message_bytes")]
)
def test_nonsense_is_refused_by_field(ranks, size, field):
    with pytest.raises(InvalidInputError) as refusal:
        one(H100, ranks, size)
    assert refusal.value.violations[0].field == field
