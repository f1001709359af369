from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.hardware.efficiency import efficiency
from tests.hardware.devices import (
    A30,
    A40,
    A100,
    A800,
    B200,
    GB200,
    H20,
    H100,
    H100_PCIE,
    H200,
    L40S,
    MI300X,
    MI355X,
    RTX_5090,
    T4,
    TPU_V6E,
    V100,
    XEON,
)

DEVICES = (
    A30,
    A40,
    A100,
    B200,
    GB200,
    H20,
    H100,
    H100_PCIE,
    H200,
    L40S,
    MI300X,
    RTX_5090,
    T4,
    TPU_V6E,
    V100,
    XEON,
)


@pytest.mark.parametrize(
    ("device", "arithmetic", "small", "large"),
    [
        # aiconfigurator@095f58a, medians over n, k in 2k-16k, TFLOP/s at m = 128-512 and m = 4k-16k.
        (A100, "bf16", 162.0, 261.7),
        (H100, "bf16", 447.6, 801.7),
        (H100, "fp8", 575.9, 1254.9),
        (H200, "bf16", 523.3, 780.7),
        (B200, "bf16", 696.9, 1558.9),
        (B200, "fp4", 1010.1, 4019.7),
        (L40S, "fp8", 205.8, 354.9),
    ],
)
def test_ramp_gives_back_both_measured_medians(device, arithmetic, small, large):
    prior = efficiency(device, arithmetic)
    peak = device.peak_flop_per_s[arithmetic] / 1e12

    def achieved(tokens: float) -> float:
        return float(peak * prior.compute_fraction * tokens / (tokens + prior.half_rate_tokens))

    # The geometric centres of the two ranges: sqrt(128 * 512) = 256 and sqrt(4096 * 16384) = 8192.
    assert achieved(256) == pytest.approx(small, rel=0.005)
    assert achieved(8192) == pytest.approx(large, rel=0.005)


def test_half_rate_of_h100_by_hand():
    # r = .452 / .810 = .5580; h = 8192 * .4420 / (32 * .5580 - 1) = 214.8; f = .810 * (1 + 214.8 / 8192) = .8312.
    prior = efficiency(H100, "bf16")
    assert prior.half_rate_tokens == pytest.approx(214.8, abs=0.5)
    assert prior.compute_fraction == pytest.approx(0.8312, abs=5e-4)


@pytest.mark.parametrize(
    ("device", "weights", "kv", "kv_fp8"),
    [
        # GB/s over the data sheet's peak, same source.
        (H100, 2955 / 3350, 2901 / 3350, 2362 / 3350),
        (H200, 4024 / 4800, 3914 / 4800, 2475 / 4800),
        (B200, 6156 / 8000, 6728 / 8000, 6556 / 8000),
        (L40S, 720 / 864, 701 / 864, 697 / 864),
    ],
)
def test_memory_fractions_are_the_measured_ones(device, weights, kv, kv_fp8):
    prior = efficiency(device, "bf16")
    assert prior.memory_fraction == pytest.approx(weights, abs=0.001)
    assert prior.kv_memory_fraction == pytest.approx(kv, abs=0.001)
    assert prior.kv_fp8_memory_fraction == pytest.approx(kv_fp8, abs=0.001)


@pytest.mark.parametrize("device", [H100, B200])
def test_weights_are_read_alike_in_every_format(device):
    # Measured low-bit products of few tokens read slower, by what one launch takes; the step model counts launches.
    fractions = {efficiency(device, arithmetic).memory_fraction for arithmetic in device.peak_flop_per_s}
    assert fractions == {efficiency(device, "bf16").memory_fraction}


def test_unmeasured_product_takes_its_generation():
    # A800 is an A100 with a narrower link; H20 takes the mean of H100 and H200.
    assert efficiency(A800, "bf16").compute_fraction == efficiency(A100, "bf16").compute_fraction
    low, high = sorted(efficiency(device, "bf16").compute_fraction for device in (H100, H200))
    assert low < efficiency(H20, "bf16").compute_fraction < high
    assert efficiency(H20, "bf16").source.startswith("mean of hopper")


def test_power_capped_card_is_held_back_in_every_arithmetic():
    # Best BF16 product measured on H100 PCIe: 499.5 of 756.5 TFLOP/s, against .81 at the median on SXM.
    assert efficiency(H100_PCIE, "bf16").compute_fraction == pytest.approx(0.66, abs=0.02)
    # FP8 was not measured there: Hopper's .632 at m = 8192, times .660 * .974 over Hopper's .800 in BF16.
    prior = efficiency(H100_PCIE, "fp8")
    at_8192 = prior.compute_fraction * 8192 / (8192 + prior.half_rate_tokens)
    assert at_8192 == pytest.approx(0.632 * 0.660 * 0.974 / 0.800, rel=0.005)


@pytest.mark.parametrize(
    ("device", "arithmetic", "best"),
    # Best-shape searches: MI300X .511 and .603, MI355X .622 of peak, RTX A6000 .848 for its generation.
    [(MI300X, "bf16", (0.511 + 0.603) / 2), (MI355X, "bf16", 0.622), (A40, "bf16", 0.848), (V100, "fp16", 0.752)],
)
def test_best_shape_results_are_scaled_to_a_median(device, arithmetic, best):
    # .974 is the median of burst median over best shape; the asymptote lies 3 % above the median at m = 8192.
    assert efficiency(device, arithmetic).compute_fraction == pytest.approx(0.974 * best * 1.03, rel=0.01)


@pytest.mark.parametrize("device", [T4, TPU_V6E, XEON], ids=lambda device: device.sku)
def test_unmeasured_generation_is_marked_default(device):
    arithmetic = "fp16" if device is T4 else "bf16"
    prior = efficiency(device, arithmetic)
    assert prior.source == "default"
    assert prior.memory_fraction == 0.80


def test_gpu_parts_of_one_generation_name_are_kept_apart():
    assert efficiency(A40, "bf16").memory_fraction != efficiency(A30, "bf16").memory_fraction
    assert efficiency(A30, "bf16").memory_fraction == efficiency(A100, "bf16").memory_fraction


def test_sustained_share_is_the_measured_loss_under_the_power_cap():
    assert efficiency(H200, "bf16").sustained_share == pytest.approx(678 / 780.7, abs=0.002)
    # B200 1317 / 1558.9 = .845, GB200 1415 / 1789.7 = .791.
    assert efficiency(B200, "bf16").sustained_share == pytest.approx((0.845 + 0.791) / 2, abs=0.002)
    assert 0.85 <= efficiency(A100, "bf16").sustained_share <= 0.90


def test_related_arithmetics_share_figures():
    assert efficiency(A100, "fp16") == efficiency(A100, "bf16")
    assert efficiency(H100, "int8") == efficiency(H100, "fp8")


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.sku)
def test_priors_are_plausible_everywhere(device):
    for arithmetic in device.peak_flop_per_s:
        prior = efficiency(device, arithmetic)
        assert 0.5 < prior.memory_fraction < 1
        assert 0.5 < prior.kv_fp8_memory_fraction <= prior.kv_memory_fraction < 1
        assert 0.25 < prior.compute_fraction < 1.15
        assert 50 < prior.half_rate_tokens < 1000
        assert 0.75 < prior.sustained_share < 1
        assert prior.source


def test_unknown_product_of_a_known_generation_is_no_default():
    assert efficiency(replace(H100, sku="h100-of-the-future"), "fp8").source.startswith("mean of hopper")
