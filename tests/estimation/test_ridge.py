"""Where rooflines bend: peaks over bandwidth from data sheets, and batches found by counting up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.estimation.ridge import main_storage, ridge
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.token_costs import decode_intensity
from tests.estimation.configs import GPT_OSS_120B, LLAMA_3_1_8B, QWEN3_30B_A3B
from tests.hardware.devices import A100, B200, H100, MI300X, T4, XEON

H100_BF16 = 989.4e12 / 3.35e12


def costs_of(config: dict, weights: str = "bf16") -> ModelCosts:
    return model_costs(read_config(config), weights)


def test_the_ridge_is_peak_over_bandwidth() -> None:
    bend = ridge(costs_of(LLAMA_3_1_8B), H100)
    assert bend.arithmetic == "bf16"
    assert bend.flop_per_byte == pytest.approx(H100_BF16, rel=1e-3)


def test_a_dense_models_batch_is_the_ridge_in_16_bit() -> None:
    # Two FLOP and two bytes a weight: as many sequences as FLOP per byte; norms are read beside (0.0035 %).
    assert ridge(costs_of(LLAMA_3_1_8B), H100).batch_size == 296


@pytest.mark.parametrize(
    ("device", "arithmetic"),
    [(H100, "fp8"), (A100, "bf16"), (MI300X, "fp8")],
    ids=lambda value: getattr(value, "sku", value),
)
def test_fp8_bends_where_the_device_computes_it(device: Accelerator, arithmetic: str) -> None:
    bend = ridge(costs_of(LLAMA_3_1_8B, "fp8"), device)
    assert bend.arithmetic == arithmetic
    peak = device.peak_flop_per_s[arithmetic]
    assert bend.flop_per_byte == peak / device.memory_bandwidth_bytes_per_s


def test_bf16_is_served_as_fp16_where_only_that_has_a_tensor_path() -> None:
    bend = ridge(costs_of(LLAMA_3_1_8B), T4)
    assert bend.arithmetic == "fp16"
    assert bend.flop_per_byte == 65e12 / 320e9


def test_the_format_of_most_weights_decides() -> None:
    # gpt-oss: experts in mxfp4, attention in bf16. Blackwell multiplies mxfp4 at the fp8 rate, Hopper in 16 bit.
    costs = costs_of(GPT_OSS_120B, "mxfp4")
    assert main_storage(costs) == "mxfp4"
    assert (ridge(costs, H100).arithmetic, ridge(costs, B200).arithmetic) == ("bf16", "fp8")


@pytest.mark.parametrize("bytes_per_s", [1e12, 3.35e12, 20e12, 1e15])
@pytest.mark.parametrize("config", [LLAMA_3_1_8B, QWEN3_30B_A3B], ids=["dense", "mixture"])
def test_the_batch_is_the_first_that_reaches_the_ridge(config: dict, bytes_per_s: float) -> None:
    costs = costs_of(config)
    bend = ridge(costs, replace(H100, memory_bandwidth_bytes_per_s=bytes_per_s))
    counted = next(batch for batch in range(1, 100_000) if decode_intensity(costs, batch) >= bend.flop_per_byte)
    assert bend.batch_size == counted
    assert bend.binds(decode_intensity(costs, counted)) == "compute"
    if counted > 1:
        assert bend.binds(decode_intensity(costs, counted - 1)) == "memory_bandwidth"


def test_a_mixture_needs_larger_batches() -> None:
    # 128 experts of which 8 are visited: far more weights are read for the same FLOP.
    assert ridge(costs_of(QWEN3_30B_A3B), H100).batch_size > 5 * H100_BF16


def test_a_device_without_the_arithmetic_has_no_ridge() -> None:
    assert ridge(costs_of(LLAMA_3_1_8B, "fp8"), XEON) is None
