"""Pools in columns against the breakdown of each rank on its own, which says why a rank does not start."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from capplan.estimation.demand import RankDemand, rank_demand
from capplan.estimation.device import RankDevice, mig_rank_device, whole_device
from capplan.estimation.engine import EngineChoice, EngineSettings, resolve_settings
from capplan.estimation.legality import memory_faults
from capplan.estimation.memory import place_demand, rank_footprint
from capplan.estimation.pools import Ranks
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from tests.estimation import configs
from tests.hardware.boards import DOUBLE, seven_slice
from tests.hardware.devices import A100, B200, H100, H200, L4, T4

BOARD = seven_slice(DOUBLE, board="h100-80gb-sxm5")
DEVICES = [
    *(whole_device(accelerator) for accelerator in (T4, L4, A100, H100, H200, B200)),
    *(mig_rank_device(H100, BOARD, profile) for profile in BOARD.profiles if profile.media_extension is None),
]
MODELS = (
    ("LLAMA_3_1_8B", "bf16"),
    ("LLAMA_3_1_70B", "fp8"),
    ("QWEN3_30B_A3B", "bf16"),
    ("QWEN3_5_27B", "bf16"),
    ("GPT_OSS_120B", "mxfp4"),
)
ENGINES = (
    EngineChoice(),
    EngineChoice(gpu_memory_utilization=0.999),
    EngineChoice(max_num_seqs=4_096, max_num_batched_tokens=4_096),
    EngineChoice("sglang"),
    EngineChoice("tensorrt-llm"),
)


def ranks_of(engine: EngineChoice) -> list[tuple[RankDevice, EngineSettings, int]]:
    return [
        (device, resolve_settings(engine, device.accelerator, device.memory_bytes, ranks=size), size)
        for device, size in itertools.product(DEVICES, (1, 4))
    ]


def demands_of(model: ModelCosts, ways: list[tuple[RankDevice, EngineSettings, int]]) -> list[RankDemand]:
    return [
        rank_demand(rank_footprint(model, size), settings, context_tokens=16_384, live_tokens=1_500.5)
        for _, settings, size in ways
    ]


def costs(name: str, weights: str) -> ModelCosts:
    return model_costs(read_config(getattr(configs, name)), weights)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_columns_say_of_every_rank_what_its_breakdown_says(engine: EngineChoice, model: tuple[str, str]) -> None:
    ways = ranks_of(engine)
    demands = demands_of(costs(*model), ways)
    ranks = Ranks.of([(device, settings, size > 1) for device, settings, size in ways])
    pools = ranks.pools(demands, np.arange(len(ways)))
    for row, (device, settings, size) in enumerate(ways):
        alone = place_demand(demands[row], device, settings, peers=size > 1)
        faults = memory_faults(alone, 16_384)
        assert pools.starts[row] == (not faults)
        if faults:
            assert pools.short_bytes[row] == -faults[0].shortfall
        assert pools.concurrent_requests[row] == alone.max_concurrent_requests


def test_every_reason_not_to_start_is_among_those_compared() -> None:
    found = set()
    for engine, model in itertools.product(ENGINES, MODELS):
        ways = ranks_of(engine)
        for demand, (device, settings, size) in zip(demands_of(costs(*model), ways), ways, strict=True):
            faults = memory_faults(place_demand(demand, device, settings, peers=size > 1), 16_384)
            found |= {fault.reason for fault in faults} or {""}
    assert found == {
        "",
        "WEIGHTS_DO_NOT_FIT",
        "CONTEXT_DOES_NOT_FIT",
        "DEVICE_MEMORY_EXCEEDED",
        "STATE_BLOCKS_BELOW_MAX_NUM_SEQS",
    }
