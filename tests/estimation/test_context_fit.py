"""What devices hold of a model, against the planner's own answer for each layout and counting up."""

from __future__ import annotations

import pytest

from capplan.estimation.context_fit import ContextFit, context_fits
from capplan.estimation.engine import EngineChoice
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.planning.deployment import DeploymentEstimate, DeploymentQuery, estimate_deployment
from capplan.planning.query import SupplyItem, Workload
from tests.estimation.configs import LLAMA_3_1_8B, LLAMA_3_1_70B, QWEN3_32B
from tests.hardware.devices import A100, H100, L4, MI300X, RTX_5090, TPU_V6E, XEON


def costs_of(config: dict, weights: str = "bf16") -> ModelCosts:
    return model_costs(read_config(config), weights)


def fit_of(model: ModelCosts, device: Accelerator, tokens: int | None = None) -> ContextFit:
    (fit,) = context_fits(model, [device], tokens or model.max_context_tokens, EngineChoice())
    return fit


def planned(model: ModelCosts, device: Accelerator, ranks: int, tokens: int) -> DeploymentEstimate:
    """The planner's answer for one layout that must hold so many tokens."""
    workload = Workload(input_tokens=1, output_tokens=1, max_context_tokens=tokens)
    item = SupplyItem(accelerator=device, mig_board=None, price=None)
    return estimate_deployment(DeploymentQuery(model, item, None, ranks, 1, workload, EngineChoice(), None))


@pytest.mark.parametrize(
    ("config", "device"),
    [(LLAMA_3_1_8B, L4), (LLAMA_3_1_8B, RTX_5090), (QWEN3_32B, H100), (LLAMA_3_1_70B, MI300X), (LLAMA_3_1_8B, H100)],
    ids=["8B on L4", "8B on RTX 5090", "32B on H100", "70B on MI300X", "8B on H100"],
)
def test_the_longest_context_is_the_longest_the_planner_starts(config: dict, device: Accelerator) -> None:
    model = costs_of(config)
    longest = fit_of(model, device).longest_context_tokens
    assert longest > 2
    assert planned(model, device, 1, longest).starts
    if longest < model.max_context_tokens:
        refused = planned(model, device, 1, longest + 1)
        assert [fault.reason for fault in refused.faults] == ["CONTEXT_DOES_NOT_FIT"]


@pytest.mark.parametrize(
    ("config", "device"),
    [(LLAMA_3_1_8B, L4), (LLAMA_3_1_70B, H100), (LLAMA_3_1_70B, A100), (QWEN3_32B, RTX_5090), (LLAMA_3_1_8B, H100)],
    ids=["8B on L4", "70B on H100", "70B on A100", "32B on RTX 5090", "8B on H100"],
)
def test_the_fewest_devices_are_the_first_that_the_planner_starts(config: dict, device: Accelerator) -> None:
    model = costs_of(config)
    full = model.max_context_tokens
    starts = [ranks for ranks in range(1, 17) if planned(model, device, ranks, full).starts]
    assert fit_of(model, device).full_context_tensor_parallel == (starts[0] if starts else None)


def test_weights_that_do_not_fit_leave_no_context_and_the_largest_replica_tells_why() -> None:
    # 141 GB of weights are more than 8 GPUs of 24 GB can take beside a full context, and more than one holds at all.
    fit = fit_of(costs_of(LLAMA_3_1_70B), L4)
    assert fit.longest_context_tokens == 0
    assert fit.full_context_tensor_parallel is None
    assert fit.fault.reason in ("WEIGHTS_DO_NOT_FIT", "CONTEXT_DOES_NOT_FIT")


def test_no_longer_context_than_asked_is_looked_for() -> None:
    assert fit_of(costs_of(LLAMA_3_1_8B), H100, 4096).longest_context_tokens == 4096


@pytest.mark.parametrize("device", [TPU_V6E, XEON], ids=lambda device: device.sku)
def test_where_nothing_starts_the_reason_is_the_planners(device: Accelerator) -> None:
    model = costs_of(LLAMA_3_1_8B)
    fit = fit_of(model, device)
    assert (fit.longest_context_tokens, fit.full_context_tensor_parallel, fit.engine) == (0, None, "")
    assert fit.fault.reason == "ENGINE_UNSUPPORTED"


def test_less_cache_for_a_token_never_holds_less() -> None:
    for device in (L4, H100, MI300X):
        wide, narrow = (fit_of(model_costs(read_config(LLAMA_3_1_8B), "bf16", kv), device) for kv in ("bf16", "fp8"))
        if narrow.fault is None:
            assert narrow.longest_context_tokens >= wide.longest_context_tokens
