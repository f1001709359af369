"""What tells configurations apart, and what does not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.device import mig_rank_device, whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.situation import SPREADS, Situation, situation_of
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from tests.estimation.configs import LLAMA_3_1_8B, QWEN3_30B_A3B
from tests.hardware.boards import seven_slice
from tests.hardware.devices import H100


def replica(*parallelism: int) -> Replica:
    device = whole_device(H100)
    settings = resolve_settings(EngineChoice(), H100, device.memory_bytes)
    return Replica(device, Parallelism(*parallelism), settings)


def situation(config: dict[str, Any] = LLAMA_3_1_8B, weights: str = "bf16", *parallelism: int) -> Situation:
    return situation_of(model_costs(read_config(config), weights), replica(*parallelism))


def test_a_dense_model_is_known_by_its_widths() -> None:
    # hidden size 4,096 = 2^12, vocabulary 128,256
    assert situation() == Situation(
        model="4096x128256:dense",
        shape=(12.0, 0.0, 0.0),
        weights="bf16",
        sku=H100.sku,
        generation="hopper",
        engine="vllm-v1",
        spread="plain",
        devices=1,
    )
    assert not situation().has_experts


def test_a_model_with_experts_is_known_by_them_as_well() -> None:
    # 128 experts, 8 of them active; gate and up are 768 wide, down 2,048: (768 + 768 + 2,048) / 3 = 1,194.67
    found = situation(QWEN3_30B_A3B)
    assert found.model == "2048x151936:128x8x1195"
    assert found.shape == (11.0, math.log2(128 / 8), 7.0)
    assert found.has_experts


@pytest.mark.parametrize("config", [LLAMA_3_1_8B, QWEN3_30B_A3B])
@given(layers=st.integers(1, 200))
def test_the_number_of_layers_does_not_matter(config: dict[str, Any], layers: int) -> None:
    assert situation(config | {"num_hidden_layers": layers}) == situation(config)


@pytest.mark.parametrize("change", [{"hidden_size": 8192}, {"vocab_size": 32000}])
def test_other_widths_are_another_model(change: dict[str, int]) -> None:
    assert situation(LLAMA_3_1_8B | change).model != situation().model


@pytest.mark.parametrize(
    "change", [{"num_experts": 64}, {"num_experts_per_tok": 4}, {"moe_intermediate_size": 1536}, {"hidden_size": 4096}]
)
def test_other_experts_are_another_model(change: dict[str, int]) -> None:
    assert situation(QWEN3_30B_A3B | change).model != situation(QWEN3_30B_A3B).model


def test_a_build_in_another_format_is_the_same_model() -> None:
    costs = model_costs(read_config(QWEN3_30B_A3B), "bf16")
    (routed,) = [gemm for gemm in costs.gemms if gemm.experts]
    others = tuple(gemm for gemm in costs.gemms if not gemm.experts)
    # gate and up in one format, down in another: 2 matrices of width 768 and 1 of 2,048 in each of 48 layers, 8 active
    narrow = replace(routed, storage="fp8", matrices_per_token=2.0 * 48 * 8, output_features=768.0)
    wide = replace(routed, matrices_per_token=1.0 * 48 * 8, output_features=2048.0)
    for gemms in ((narrow, wide), (wide, narrow)):
        mixed = replace(costs, gemms=(*others, *gemms))
        assert situation_of(mixed, replica()).model == situation(QWEN3_30B_A3B).model
    fp8 = situation(QWEN3_30B_A3B, "fp8")
    assert (fp8.model, fp8.shape) == (situation(QWEN3_30B_A3B).model, situation(QWEN3_30B_A3B).shape)
    assert fp8.weights == "fp8"


@pytest.mark.parametrize(
    ("parallelism", "spread", "devices"),
    [
        ((4, 2, 1, 1), "plain", 8),
        ((8, 1, 8, 1), "experts", 8),
        ((2, 1, 1, 4), "attention", 8),
        ((1, 1, 16, 16), "experts+attention", 16),
    ],
)
def test_what_is_dealt_out_over_ranks(parallelism: tuple[int, ...], spread: str, devices: int) -> None:
    found = situation(QWEN3_30B_A3B, "bf16", *parallelism)
    assert (found.spread, found.devices) == (spread, devices)
    assert found.spread in SPREADS


def test_a_slice_is_a_device_of_its_own_of_the_same_generation() -> None:
    costs = model_costs(read_config(LLAMA_3_1_8B), "bf16")
    board = seven_slice(board="h100-80gb-sxm5")
    (profile,) = [profile for profile in board.profiles if profile.name == "3g.40gb"]
    slice_of_h100 = replace(replica(), device=mig_rank_device(H100, board, profile))
    found = situation_of(costs, slice_of_h100)
    assert found == replace(situation(), sku=f"{H100.sku}/3g.40gb")
