"""Shipped accelerator figures, against the vendors' and measured figures retyped here."""

from __future__ import annotations

import pytest

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.hardware.checks import check_accelerator

MIB = 1 << 20
GIB = 1 << 30


def test_all_sixty_six_accelerators_are_there(snapshot: CatalogSnapshot) -> None:
    assert len(snapshot.accelerators) == 66


# What the driver's tool prints, in MiB (nvidia-smi and amd-smi captures).
@pytest.mark.parametrize(
    ("sku", "reported_mib"),
    [
        ("b200-180gb", 183359),
        ("b300-288gb", 275040),
        ("h200-sxm-141gb", 143771),
        ("h100-sxm-80gb", 81559),
        ("h100-nvl-94gb", 95830),
        ("a100-sxm4-80gb", 81920),
        ("l40s-48gb", 46068),
        ("a10g-24gb", 23028),
        ("t4-16gb", 15360),
        ("mi300x-192gb", 196592),
        ("gb200-186gb", 189471),
        ("rtx-pro-6000-server-96gb", 97887),
    ],
)
def test_memory_is_what_the_driver_reports(snapshot: CatalogSnapshot, sku: str, reported_mib: int) -> None:
    record = snapshot.accelerators[sku]
    assert record.accelerator.memory_bytes == reported_mib * MIB
    assert record.memory_basis == "driver"


def test_memory_without_a_capture_is_the_data_sheets(snapshot: CatalogSnapshot) -> None:
    tpu = snapshot.accelerators["tpu-v5e-16gb"]
    assert (tpu.accelerator.memory_bytes, tpu.memory_basis) == (16_000_000_000, "vendor")
    # AMD's sizes are binary: its tool shows 65520 MiB for the 64 GB of an MI210, more than 64e9 bytes.
    assert snapshot.accelerators["mi250-gcd-64gb"].accelerator.memory_bytes == 64 * GIB
    assert snapshot.accelerators["epyc-9654"].accelerator.memory_bytes is None


# Bandwidth in GB/s: vendor data sheets; where sources disagree, the one that measurements bear out.
@pytest.mark.parametrize(
    ("sku", "gb_per_s"),
    [
        ("h100-sxm-80gb", 3350),
        ("h100-pcie-80gb", 2000),
        ("h100-nvl-94gb", 3938),
        ("h200-sxm-141gb", 4800),
        ("b200-180gb", 8000),  # one HGX sheet says 7.7 TB/s
        ("a100-pcie-80gb", 1935),  # often swapped with the SXM figure
        ("a100-sxm4-80gb", 2039),
        ("rtx-pro-6000-server-96gb", 1597),  # 1792 is the workstation edition
        ("rtx-pro-6000-workstation-96gb", 1792),
        ("mi300x-192gb", 5325),  # a public table says 10300
        ("tpu-v5e-16gb", 819),
    ],
)
def test_bandwidth(snapshot: CatalogSnapshot, sku: str, gb_per_s: float) -> None:
    assert snapshot.accelerators[sku].accelerator.memory_bandwidth_bytes_per_s == gb_per_s * 1e9


# Dense peaks in TFLOP/s: data sheets, halved where the sheet counts sparsity.
@pytest.mark.parametrize(
    ("sku", "number_format", "tera"),
    [
        ("h100-sxm-80gb", "bf16", 989.4),
        ("h100-sxm-80gb", "fp8", 1978.9),
        ("h100-pcie-80gb", "bf16", 756.5),
        ("h200-sxm-141gb", "bf16", 989.4),
        ("a100-sxm4-80gb", "bf16", 312),
        ("l40s-48gb", "bf16", 362.05),
        ("l40-48gb", "bf16", 181.05),
        ("a10g-24gb", "bf16", 70),
        ("l4-24gb", "bf16", 121),
        ("b200-180gb", "fp4", 9000),
        ("b200-180gb", "fp64", 37),
        ("b300-288gb", "fp4", 13500),
        ("b300-288gb", "int8", 153.5),
        ("gb300-279gb", "int8", 165),
        ("gaudi3-128gb", "bf16", 1677),
        ("mi355x-288gb", "fp8", 5033.2),
        ("tpu-v5e-16gb", "int8", 394),
        ("trainium1-32gb", "int8", 380),
        ("mi250-gcd-64gb", "bf16", 362.1 / 2),  # the sheet's figure is for both dies
    ],
)
def test_dense_peak(snapshot: CatalogSnapshot, sku: str, number_format: str, tera: float) -> None:
    peak = snapshot.accelerators[sku].accelerator.peak_flop_per_s[number_format]
    assert peak == pytest.approx(tera * 1e12, rel=1e-12)


@pytest.mark.parametrize(
    ("sku", "number_format"),
    [("a100-sxm4-80gb", "fp8"), ("h100-sxm-80gb", "int4"), ("b200-180gb", "int4"), ("v100-sxm2-16gb", "bf16")],
)
def test_a_format_that_is_not_native_has_no_peak(snapshot: CatalogSnapshot, sku: str, number_format: str) -> None:
    assert number_format not in snapshot.accelerators[sku].accelerator.peak_flop_per_s


# One direction, GB/s: half of the sheets' NVLink figures.
@pytest.mark.parametrize(
    ("sku", "gb_per_s", "domain"),
    [("h100-sxm-80gb", 450, 8), ("b200-180gb", 900, 8), ("gb200-186gb", 900, 72), ("h800-sxm-80gb", 200, 8)],
)
def test_links_count_one_direction(snapshot: CatalogSnapshot, sku: str, gb_per_s: float, domain: int) -> None:
    accelerator = snapshot.accelerators[sku].accelerator
    assert accelerator.link_bytes_per_s == gb_per_s * 1e9
    assert accelerator.link_domain_size == domain


def test_a_device_on_the_host_bus_only_has_no_link(snapshot: CatalogSnapshot) -> None:
    l40s = snapshot.accelerators["l40s-48gb"].accelerator
    assert (l40s.interconnect, l40s.link_bytes_per_s, l40s.link_domain_size) == ("pcie", None, 1)


def test_sheet_figures_with_sparsity_can_be_restored(snapshot: CatalogSnapshot) -> None:
    # Blackwell Ultra prints 18 PFLOP/s sparse for its 13.5 dense: 18 / 13.5 = 1.33.
    assert snapshot.accelerators["b300-288gb"].sparsity_multiplier == 1.33
    assert snapshot.accelerators["h100-sxm-80gb"].sparsity_multiplier == 2.0


def test_every_row_is_plausible_and_says_where_it_comes_from(snapshot: CatalogSnapshot) -> None:
    for record in snapshot.accelerators.values():
        assert check_accelerator(record.accelerator, record.boost_clock_mhz) == ()
        assert record.provenance.source.startswith("https://")
        assert not record.provenance.edited


def test_every_board_an_accelerator_names_exists_and_can_be_placed(snapshot: CatalogSnapshot) -> None:
    capable = {sku: record.accelerator.mig_board for sku, record in snapshot.accelerators.items()}
    # Boards by the MIG user guide; the A800 and the H800 share the A100's and the H100's die.
    assert sorted(sku for sku, board in capable.items() if board) == [
        "a100-pcie-40gb",
        "a100-pcie-80gb",
        "a100-sxm4-40gb",
        "a100-sxm4-80gb",
        "a30-24gb",
        "a800-pcie-80gb",
        "a800-sxm4-80gb",
        "b200-180gb",
        "b300-288gb",
        "gb200-186gb",
        "gb300-279gb",
        "gh200-144gb",
        "gh200-96gb",
        "h100-nvl-94gb",
        "h100-pcie-80gb",
        "h100-sxm-80gb",
        "h20-96gb",
        "h200-nvl-141gb",
        "h200-sxm-141gb",
        "h800-sxm-80gb",
        "rtx-pro-6000-server-96gb",
        "rtx-pro-6000-workstation-96gb",
    ]
    for record in snapshot.accelerators.values():
        if record.accelerator.mig_board:
            assert snapshot.mig_board_of(record.accelerator) is not None


def test_a_whole_gpu_instance_never_has_more_than_the_gpu(snapshot: CatalogSnapshot) -> None:
    for record in snapshot.accelerators.values():
        board = snapshot.mig_board_of(record.accelerator)
        whole = board.whole_gpu_profile if board else None
        if whole is None:
            continue
        if whole.sm_count is not None:
            assert record.accelerator.sm_count is not None
            assert whole.sm_count <= record.accelerator.sm_count
        if whole.memory_bytes is not None:
            assert record.accelerator.memory_bytes is not None
            assert whole.memory_bytes < record.accelerator.memory_bytes


# Dollars per device hour, medians over clouds, 2026-05 to 2026-10.
@pytest.mark.parametrize(
    ("sku", "term", "market", "usd_per_h"),
    [
        ("h100-sxm-80gb", "on_demand", "typical", 3.995),
        ("h100-sxm-80gb", "on_demand", "hyperscaler", 10.67),
        ("h100-sxm-80gb", "on_demand", "neocloud", 3.945),
        ("h100-sxm-80gb", "spot", "typical", 3.466),
        ("b200-180gb", "on_demand", "typical", 7.99),
        ("l4-24gb", "spot", "typical", 0.48),
    ],
)
def test_prices(snapshot: CatalogSnapshot, sku: str, term: str, market: str, usd_per_h: float) -> None:
    price = snapshot.price(sku, term, market)
    assert price is not None
    assert (price.usd_per_h, price.term) == (usd_per_h, term)
    assert price.as_of == "2026-05-24..2026-10-10"


def test_a_device_nobody_rents_out_has_no_price(snapshot: CatalogSnapshot) -> None:
    assert snapshot.price("h20-96gb", "on_demand") is None


def test_cloud_shapes(snapshot: CatalogSnapshot) -> None:
    shapes = {(shape.cloud, shape.instance_type): shape for shape in snapshot.instances}
    p5 = shapes["aws", "p5.48xlarge"]
    # The price list of 2026-07-20: 55.04 for eight, after the cut from 98.32.
    assert (p5.sku, p5.accelerator_count, p5.on_demand_usd_per_h) == ("h100-sxm-80gb", 8, 55.04)
    assert p5.host_memory_bytes == 2048 * GIB
    eighth = shapes["aws", "g6f.xlarge"]
    assert (eighth.accelerator_count, eighth.accelerator_share) == (1, 0.125)
    sixth = shapes["azure", "Standard_NV6ads_A10_v5"]
    assert (sixth.accelerator_count, sixth.accelerator_share) == (1, 1 / 6)
