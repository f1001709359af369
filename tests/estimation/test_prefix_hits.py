"""Prefix-cache hits: what they take off a prompt's work, and what stays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.estimate import estimate_replicas
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import Request, prefill_mix, steady_state, step_load
from capplan.estimation.step import GroupTime, StepLoad, group_times, step_s
from capplan.estimation.table import ReplicaTable, build_table
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from tests.estimation.configs import GPT_OSS_120B, LLAMA_3_1_8B, QWEN3_30B_A3B
from tests.hardware.devices import H100

BUDGET = 2_048


@lru_cache
def table(name: str = "llama") -> ReplicaTable:
    """One replica whose steps take 2,048 tokens."""
    config, weights = {
        "llama": (LLAMA_3_1_8B, "bf16"),
        "qwen": (QWEN3_30B_A3B, "bf16"),
        "gpt-oss": (GPT_OSS_120B, "mxfp4"),
    }[name]
    device = whole_device(H100)
    settings = resolve_settings(EngineChoice(max_num_batched_tokens=BUDGET), H100, device.memory_bytes, ranks=2)
    return build_table(model_costs(read_config(config), weights), [Replica(device, Parallelism(2), settings)])


def figures(request: Request, batch: float, name: str = "llama") -> dict[str, float]:
    state = steady_state(table(name), request, np.array([[batch]]))
    return {
        field: float(getattr(state, field)[0, 0])
        for field in ("itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms", "requests_per_s", "prefill_budget_share")
    }


def attention(load: StepLoad) -> GroupTime:
    """The prefill attention of a step."""
    (group,) = (group for group in group_times(table(), load) if group.name == "prefill_attention")
    return group


def test_only_the_tokens_that_miss_are_computed() -> None:
    request = Request(1_000.0, 250.0, 0.75)
    assert request.prefill_tokens == 250.0
    # as many prompts arrive for each decoded token as before, each with a quarter of its tokens
    for batch in (0.5, 10.0, 400.0):
        mix = prefill_mix(table(), request, np.array([[batch]]))
        assert (mix.step_share * mix.chunk)[0, 0] == pytest.approx(batch * 250 / 250)
        assert mix.budget_share[0, 0] == pytest.approx(batch * 250 / 250 / BUDGET)


def test_the_live_cache_holds_the_whole_prompt_of_every_request() -> None:
    assert Request(1_000.0, 250.0, 0.9).live_tokens == Request(1_000.0, 250.0).live_tokens == 1_125.0


@pytest.mark.parametrize("share", [0.9999, 0.99999999, 1.0 - 2.0**-53])
def test_the_last_prompt_token_is_computed_whatever_is_cached(share: float) -> None:
    assert Request(1_000.0, 250.0, share).prefill_tokens == 1.0


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9])
def test_tokens_that_miss_attend_to_the_cached_ones_before_them(share: float) -> None:
    # the tokens at positions 1,000 * share + 1 to 1,000 attend to as many as their position says; a prompt without
    # hits that is n long attends to n / 2 on average (the step model drops the half that a token is to itself)
    first = round(1_000 * share) + 1
    mean = sum(range(first, 1_001)) / (1_001 - first)
    request = Request(1_000.0, 250.0, share)
    cached, uncached = (
        attention(step_load(request, np.zeros((1, 1)), np.full((1, 1), request.prefill_tokens))),
        attention(StepLoad(np.zeros((1, 1)), np.full((1, 1), request.prefill_tokens), 1.0, 2.0 * (mean - 0.5))),
    )
    assert float(cached.compute_s[0, 0]) == pytest.approx(float(uncached.compute_s[0, 0]))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_the_keys_and_values_of_the_whole_prompt_are_read(share: float) -> None:
    # Llama-3.1-8B has 2 * 8 heads * 128 * 2 B * 32 layers = 131,072 B a token, half of it on each of two ranks
    request = Request(1_000.0, 250.0, share)
    load = step_load(request, np.zeros((1, 1)), np.full((1, 1), request.prefill_tokens))
    rate = float(np.ravel(table().kv_memory_rate)[0])
    assert float(attention(load).memory_s[0, 0]) == pytest.approx(1_000 * 131_072 / 2 / rate)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_the_head_is_run_once_for_each_prompt(share: float) -> None:
    # ten prompts in a step, whatever of them is cached
    request = Request(1_000.0, 250.0, share)
    load = step_load(request, np.zeros((1, 1)), np.full((1, 1), 10 * request.prefill_tokens))
    whole = step_load(Request(1_000.0, 250.0), np.zeros((1, 1)), np.full((1, 1), 10_000.0))
    (head,), (whole_head,) = (
        [group for group in group_times(table(), one) if group.name == "lm_head"] for one in (load, whole)
    )
    assert float(head.compute_s[0, 0]) == pytest.approx(float(whole_head.compute_s[0, 0]))


@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_the_parts_of_the_step_add_up_to_the_inter_token_latency(share: float) -> None:
    model = model_costs(read_config(LLAMA_3_1_8B), "bf16")
    device = whole_device(H100)
    replica = Replica(device, Parallelism(), resolve_settings(EngineChoice(), H100, device.memory_bytes))
    (estimate,) = estimate_replicas(model, [replica], Request(6_000.0, 250.0, share), [16.0])
    assert sum(part.time_ms for part in estimate.parts) == pytest.approx(estimate.itl_ms.value)


@pytest.mark.parametrize(
    ("share", "steps", "mean_context"),
    [
        (0.0, 4, 4_096.0),  # all of the prompt: half of it on average
        (0.5, 2, 6_144.0),  # its second half, 4,096 to 8,192
        (0.7, 2, 6_144.0),  # 2,458 tokens take two steps, counted as full
        (0.75, 1, 7_168.0),  # its last quarter, 6,144 to 8,192
    ],
)
def test_a_long_prompt_takes_the_steps_that_its_misses_take(share: float, steps: int, mean_context: float) -> None:
    rows = table()
    computed_share = steps * BUDGET / 8_192  # its last tokens, as whole steps
    assert 8_192 * (1.0 - computed_share / 2.0) == mean_context
    load = StepLoad(np.zeros((1, 1)), np.full((1, 1), float(BUDGET)), 1.0, 8_192.0, computed_share)
    expected_s = float(rows.request_s[0, 0]) + steps * float(step_s(rows, load)[0, 0])
    unloaded_ms = figures(Request(8_192.0, 250.0, share), 1.0)["ttft_unloaded_ms"]
    assert unloaded_ms == pytest.approx(expected_s * 1e3)


def test_without_hits_nothing_changes() -> None:
    assert figures(Request(5_000.0, 250.0, 0.0), 16.0) == figures(Request(5_000.0, 250.0), 16.0)


@given(
    name=st.sampled_from(["llama", "qwen", "gpt-oss"]),
    input_tokens=st.floats(1.0, 60_000.0),
    output_tokens=st.floats(1.0, 4_000.0),
    used=st.floats(1e-4, 1.0),
    shares=st.lists(st.floats(0.0, 0.9999), min_size=2, max_size=2).map(sorted),
)
def test_more_hits_never_make_a_replica_slower(
    name: str, input_tokens: float, output_tokens: float, used: float, shares: list[float]
) -> None:
    # a batch that both can sustain: 95 % of the budget for the prompts of the one with fewer hits
    few, many = (Request(input_tokens, output_tokens, share) for share in shares)
    batch = used * min(256.0, 0.95 * BUDGET * output_tokens / few.prefill_tokens)
    slow, fast = figures(few, batch, name), figures(many, batch, name)
    for field in ("itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms", "prefill_budget_share"):
        assert fast[field] <= slow[field] * (1 + 1e-9), field
    assert fast["requests_per_s"] >= slow["requests_per_s"] * (1 - 1e-9)
