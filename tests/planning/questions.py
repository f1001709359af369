"""A small fleet to choose from, and questions about it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.planning.query import (
    Constraints,
    DevicePrice,
    LatencyLimit,
    LatencyMetric,
    Objective,
    PlacementQuery,
    SupplyItem,
    Target,
    TargetKind,
    Workload,
)
from tests.estimation import configs
from tests.hardware.boards import DOUBLE, seven_slice
from tests.hardware.devices import A100, B200, GAUDI3, H100, H200, L4, MI300X, T4, V100


def price(usd_per_h: float) -> DevicePrice:
    return DevicePrice(usd_per_h, "on_demand", "made up for tests", "2026-01")


SUPPLY = (
    SupplyItem(T4, None, price(0.5)),
    SupplyItem(L4, None, price(0.8)),
    SupplyItem(V100, None, price(1.2)),
    SupplyItem(A100, seven_slice(DOUBLE, board="a100-80gb"), price(2.7)),
    SupplyItem(H100, seven_slice(DOUBLE, board="h100-80gb-sxm5"), price(4.0)),
    SupplyItem(H200, None, price(5.3)),
    SupplyItem(B200, None, price(8.0)),
    SupplyItem(MI300X, None, None),
    SupplyItem(GAUDI3, None, price(1.0)),
)


@lru_cache(maxsize=64)
def costs(name: str, weights: str, layers: int | None = None) -> ModelCosts:
    """One of the models of :mod:`tests.estimation.configs`, with another number of layers when asked."""
    config: dict[str, Any] = dict(getattr(configs, name))
    if layers is not None:
        config["num_hidden_layers"] = layers
    return model_costs(read_config(config), weights)


def question(
    model: ModelCosts | None = None,
    *,
    tokens_per_s: float = 5_000.0,
    ttft_ms: float | None = None,
    itl_ms: float | None = None,
    objective: Objective = Objective.COST,
    workload: Workload | None = None,
    constraints: Constraints | None = None,
    supply: tuple[SupplyItem, ...] = SUPPLY,
    max_placements: int = 5,
) -> PlacementQuery:
    """A question with usual values for what a test does not care about."""
    limits = []
    if ttft_ms is not None:
        limits.append(LatencyLimit(LatencyMetric.TTFT, ttft_ms))
    if itl_ms is not None:
        limits.append(LatencyLimit(LatencyMetric.ITL, itl_ms))
    return PlacementQuery(
        model=model or costs("LLAMA_3_1_8B", "bf16"),
        target=Target(TargetKind.OUTPUT_TOKENS_PER_S, tokens_per_s),
        workload=workload or Workload(1_000.0, 250.0, 8_192),
        limits=tuple(limits),
        constraints=constraints or Constraints(),
        objective=objective,
        supply=supply,
        max_placements=max_placements,
    )
