"""The search for a layout: what is tried, what is refused for which reason, and which figure is the best."""

from __future__ import annotations

import dataclasses
import math

import pytest

from capplan.catalog.layout_search import best, is_searched, layouts
from capplan.estimation.measurement import Measurement
from capplan.estimation.observation import Observation, observe
from capplan.modeling.costs import model_costs

MEASURED = Measurement(
    key="",
    source="made up",
    source_url="",
    as_of="",
    engine="vllm",
    engine_version="",
    model="meta-llama/Meta-Llama-3.1-70B",
    weights="bf16",
    kv_cache="auto",
    sku="h100-sxm-80gb",
    mig_profile="",
    devices=8,
    tensor_parallel=None,
    pipeline_parallel=1,
    expert_parallel=1,
    attention_data_parallel=1,
    input_tokens=1000.0,
    output_tokens=200.0,
    load_kind="concurrency",
    load_value=16.0,
    metric="tpot_ms",
    statistic="mean",
    value=8.0,
    trust="A",
    flags=(),
)


@pytest.fixture(scope="module")
def search(snapshot):
    def place(measurement: Measurement) -> Observation | str:
        costs = model_costs(snapshot.models[measurement.model].architecture, measurement.weights, measurement.kv_cache)
        return observe(measurement, costs, snapshot.accelerators[measurement.sku].accelerator)

    return lambda **changes: layouts(dataclasses.replace(MEASURED, **changes), place)


def sizes(found) -> dict[int, float]:
    """Replicas by tensor parallelism."""
    return {layout.replica.parallelism.tensor_parallel: layout.replicas for layout in found}


def test_only_layouts_whose_memory_holds_weights_and_load_are_tried(search):
    # 70.6e9 parameters of two bytes are 131 GiB: more than one device of 80 GB has, less than 0.92 of two's 159 GiB.
    assert sizes(search()) == {2: 4, 4: 2, 8: 1}
    # A token takes 320 KiB of cache in all ranks: 50 requests of 1,100 tokens 16.8 GiB, where two devices have at most
    # 146 - 131 = 15 GiB left; 100 of them 33.6 GiB, where four have 292 - 131 = 161 GiB less what activations take.
    assert sizes(search(load_value=200.0)) == {4: 2, 8: 1}


def test_what_a_device_holds_is_tried_alone_and_split(search):
    assert sizes(search(model="meta-llama/Meta-Llama-3.1-8B")) == {1: 8, 2: 4, 4: 2, 8: 1}


def test_replicas_leave_no_device_over(search):
    assert sizes(search(model="meta-llama/Meta-Llama-3.1-8B", devices=6)) == {1: 6, 2: 3}


def test_stated_widths_stay_as_they_are(search):
    # Two stages: a replica of two ranks a stage takes four devices.
    found = search(model="meta-llama/Meta-Llama-3.1-8B", devices=4, pipeline_parallel=2)
    assert sizes(found) == {1: 2, 2: 1}


def test_what_starts_nowhere_is_refused_for_the_reason_of_the_closest_layout(search):
    # 405e9 parameters of two bytes are 755 GiB; eight devices have 596.
    reason = search(model="meta-llama/Meta-Llama-3.1-405B")
    assert reason.startswith("no layout holds the load; the closest, tensor parallel 8: weights (")
    assert "exceed the budget" in reason


def test_a_load_that_memory_does_not_hold_is_the_reason_where_it_starts(search):
    # 80 layers of 8 heads of 128 in bf16: 320 KiB a token; 4,000 requests of 1,100 tokens take 1,343 GiB of 596.
    reason = search(load_value=4000.0)
    assert reason.startswith("no layout holds the load; the closest, tensor parallel 8: memory holds ")
    assert reason.endswith("of the 4000 requests in flight in a replica")


def test_an_offline_maximum_takes_two_requests_at_once(search):
    # 32 layers of 8 heads of 128 in bf16 are 128 KiB a token: a request of 250,100 tokens takes 30.5 GiB, two take 61,
    # and 0.92 of an H100's 79.2 GiB less the weights' 15 are 58.
    eight = {"model": "meta-llama/Meta-Llama-3.1-8B", "devices": 1, "input_tokens": 250_000.0}
    offline = {"load_kind": "offline_max", "load_value": None, "metric": "output_tokens_per_s"}
    assert search(**eight, **offline) == "memory holds 1 of the 2 requests in flight in a replica"
    assert sizes(search(**eight, load_value=1.0)) == {1: 1}


def test_a_reason_that_no_layout_changes_is_given_as_it_is(search):
    assert search(flags=("disaggregated",)) == "disaggregated deployments are not predicted"
    assert search(input_tokens=None) == "the lengths are not stated"


@pytest.mark.parametrize(
    ("load_kind", "tensor_parallel", "searched"),
    [
        ("concurrency", None, True),
        ("offline_max", None, True),
        ("concurrency", 2, False),
        ("batch", None, False),
        ("qps", None, False),
    ],
)
def test_only_loads_that_layouts_are_tuned_to_are_searched(load_kind, tensor_parallel, searched):
    row = dataclasses.replace(MEASURED, load_kind=load_kind, tensor_parallel=tensor_parallel)
    assert is_searched(row) is searched


@pytest.mark.parametrize(
    ("metric", "values", "position"),
    [
        ("tpot_ms", [3.0, 2.0, 2.0], 1),
        ("ttft_ms", [math.nan, 9.0], 1),
        ("output_tokens_per_s", [3.0, 5.0, 4.0], 1),
        ("total_tokens_per_s", [math.inf, 1.0], 1),
        ("requests_per_s", [0.0, math.nan], None),
    ],
)
def test_the_best_figure_is_the_lowest_latency_or_the_highest_rate(metric, values, position):
    assert best(values, metric) == position
