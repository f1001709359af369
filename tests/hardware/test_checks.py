from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.hardware.checks import check_accelerator
from capplan.units import GB, GIB, TERA
from tests.hardware.devices import (
    A30,
    A40,
    A100,
    B200,
    H20,
    H100,
    H100_PCIE,
    L4,
    L40S,
    MI300X,
    RTX_5090,
    T4,
    V100,
    XEON,
)

CLOCKS_MHZ = (
    (T4, 1590),
    (V100, 1530),
    (A30, 1440),
    (A40, 1740),
    (A100, 1410),
    (L4, 2040),
    (L40S, 2520),
    (H100, 1980),
    (H100_PCIE, 1755),
    (H20, 1980),
    (B200, 1965),
    (RTX_5090, 2407),
    (MI300X, 2100),
    (XEON, None),
)


def with_peaks(device, **tera: float):
    return replace(device, peak_flop_per_s={**device.peak_flop_per_s, **{k: v * TERA for k, v in tera.items()}})


@pytest.mark.parametrize(("device", "clock_mhz"), CLOCKS_MHZ, ids=lambda value: getattr(value, "sku", str(value)))
def test_data_sheets_pass(device, clock_mhz):
    assert check_accelerator(device, clock_mhz) == ()


@pytest.mark.parametrize(
    ("device", "clock_mhz", "finding"),
    [
        # The sheet's with-sparsity pair for H100 SXM is 1979 / 3958.
        (with_peaks(H100, bf16=1979, fp8=3958, tf32=989), 1980, "7572 dense 16-bit FLOP per clock per SM"),
        (with_peaks(H100, fp8=3958), 1980, "fp8 is 4.00 times bf16, not 2"),
        (with_peaks(A100, tf32=312), 1410, "bf16 is 1.00 times tf32, not 2"),
        # L40 has half the tensor rate of L40S on the same die: 362 quoted as dense is L40S's figure.
        (with_peaks(replace(L40S, product_name="L40"), bf16=362, fp8=724, tf32=181), 2490, "where ada does 512"),
        # A spec site gives H100 an FP16 peak of 133.
        (with_peaks(H100, bf16=133, fp8=266, tf32=66.5), 1980, "509 dense 16-bit FLOP per clock per SM"),
        (replace(L4, sm_count=116), 2040, "SM count"),
    ],
)
def test_wrong_peaks_are_found(device, clock_mhz, finding):
    found = check_accelerator(device, clock_mhz)
    assert any(finding in text for text in found), found
    assert all(text.startswith(f"{device.sku}: ") for text in found)


@pytest.mark.parametrize(
    ("size_bytes", "plausible"),
    [
        (80 * GB, True),
        (80 * GIB, True),
        (81559 * 2**20, True),
        (81559 * 10**6, True),
        (80 * GIB * 2**10 // 10**3, False),
        (81559 * 2**10, False),
        (94 * GB, False),
        (40 * GIB, False),
    ],
)
def test_memory_must_be_a_reading_of_the_label(size_bytes, plausible):
    found = check_accelerator(replace(H100, memory_bytes=size_bytes), 1980)
    assert (found == ()) == plausible


def test_export_limited_part_is_exempt_by_name_only():
    renamed = replace(H20, product_name="H21")
    assert any("dense 16-bit FLOP" in finding for finding in check_accelerator(renamed, 1980))


def test_malformed_compute_capability_is_found():
    assert any("'sm_90'" in finding for finding in check_accelerator(replace(H100, compute_capability="sm_90"), 1980))


def test_without_a_clock_the_ratios_are_still_checked():
    assert check_accelerator(H100, None) == ()
    assert check_accelerator(with_peaks(H100, fp8=3958), None)
