"""Estimates of one layout: what the prefix cache saves, and what other estimators are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.engine import EngineChoice
from capplan.estimation.estimator import Refusal
from capplan.planning.deployment import DeploymentQuery, estimate_deployment
from capplan.planning.query import SupplyItem, Workload
from tests.hardware.devices import H100, T4
from tests.planning.questions import costs

QUERY = DeploymentQuery(
    model=costs("LLAMA_3_1_8B", "bf16"),
    item=SupplyItem(H100, None, None),
    mig_profile=None,
    tensor_parallel=1,
    replica_count=2,
    workload=Workload(4_000.0, 100.0, 8_192),
    engine=EngineChoice(),
    concurrency=None,
)


def asking(workload: Workload, **changes: Any) -> DeploymentQuery:
    return replace(QUERY, workload=workload, **changes)


def test_hits_lift_the_bound_that_the_token_budget_sets() -> None:
    # 4,000 prompt tokens for 100 of the answer: 0.95 * 512 tokens a step sustain 12.16 sequences; with a quarter of the
    # prompt to compute four times as many, if the cache and the engine's cap held them
    budget = EngineChoice(max_num_seqs=256, max_num_batched_tokens=512)
    few = estimate_deployment(asking(Workload(4_000.0, 100.0, 8_192), engine=budget))
    many = estimate_deployment(asking(Workload(4_000.0, 100.0, 8_192, 0.75), engine=budget))
    assert few.performance.batch == pytest.approx(0.95 * 512 * 100 / 4_000)
    assert many.performance.batch == pytest.approx(4 * few.performance.batch)
    assert many.total_output_tokens_per_s.value > 2 * few.total_output_tokens_per_s.value


def test_memory_is_that_of_whole_prompts_and_the_answer_says_so() -> None:
    without, cached = (estimate_deployment(asking(Workload(4_000.0, 100.0, 8_192, share))) for share in (0.0, 0.8))
    assert cached.memory == without.memory
    added = set(cached.assumptions) - set(without.assumptions)
    (sentence,) = added
    assert "0.8 of the prompt tokens are found in the prefix cache" in sentence
    assert "memory that requests share is not counted" in sentence


@given(
    shares=st.lists(st.floats(0.0, 0.999), min_size=2, max_size=2).map(sorted),
    lengths=st.tuples(st.floats(1.0, 6_000.0), st.floats(1.0, 2_000.0)),
    engine=st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
)
def test_more_hits_never_lower_what_a_layout_can_do(
    shares: list[float], lengths: tuple[float, float], engine: str
) -> None:
    few, many = (
        estimate_deployment(asking(Workload(*lengths, 8_192, share), engine=EngineChoice(engine))) for share in shares
    )
    assert many.total_output_tokens_per_s.value >= few.total_output_tokens_per_s.value * (1 - 1e-9)
    assert many.performance.batch >= few.performance.batch


class Recording:
    """An estimator that refuses and remembers what it was asked."""

    name = "recording"

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def estimate(self, *arguments: Any) -> list[Refusal]:
        self.asked.append(arguments)
        return [Refusal("only listening")]


def test_others_are_asked_about_the_same_replica_at_the_same_load() -> None:
    recording = Recording()
    answer = estimate_deployment(
        asking(Workload(4_000.0, 100.0, 8_192, 0.5), concurrency=8.0, second_opinions={"a": recording, "b": recording})
    )
    assert [(opinion.estimator, opinion.answer) for opinion in answer.second_opinions] == [
        ("a", Refusal("only listening")),
        ("b", Refusal("only listening")),
    ]
    model, replicas, request, batches = recording.asked[0]
    assert model is QUERY.model
    assert [replica.device.accelerator for replica in replicas] == [H100]
    assert replicas[0].settings == answer.settings
    assert (request.input_tokens, request.output_tokens, request.prefix_hit_share) == (4_000.0, 100.0, 0.5)
    # 8 requests in flight over two replicas
    assert list(batches) == [4.0] == [answer.performance.batch]


def test_others_are_not_asked_about_what_does_not_start() -> None:
    recording = Recording()
    answer = estimate_deployment(replace(QUERY, item=SupplyItem(T4, None, None), second_opinions={"a": recording}))
    assert not answer.starts
    assert not recording.asked
    (opinion,) = answer.second_opinions
    assert opinion.answer == Refusal("the layout does not start, so there is nothing to estimate")
