"""The estimator's interface: what an outsider has to write, and that whatever they write does no harm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.estimation.coefficients import UNFITTED
from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.estimate import Figure, Provenance, ReplicaEstimate, StepPart, estimate_replicas
from capplan.estimation.estimator import ANALYTIC, Estimator, Refusal, StepModel, from_latencies
from capplan.estimation.opinion import ask
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import Request
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from tests.estimation.configs import LLAMA_3_1_8B
from tests.hardware.devices import H100

MODEL = model_costs(read_config(LLAMA_3_1_8B), "bf16")
REQUEST = Request(1_000.0, 250.0)
DEVICE = whole_device(H100)
SETTINGS = resolve_settings(EngineChoice(), H100, DEVICE.memory_bytes)
REPLICAS = tuple(Replica(DEVICE, Parallelism(tensor_parallel), SETTINGS) for tensor_parallel in (1, 2))


class Answering:
    """An estimator that does what a test says."""

    name = "theirs"

    def __init__(self, answer: Callable[[Sequence[float]], Any]) -> None:
        self._answer = answer

    def estimate(self, model: Any, replicas: Any, request: Any, batches: Sequence[float]) -> Any:
        return self._answer(batches)


def estimated(batch: float) -> ReplicaEstimate:
    """20 ms a token and 100 ms to the first one."""
    return from_latencies(
        REQUEST, batch, itl_ms=20.0, ttft_ms=100.0, ttft_unloaded_ms=80.0, provenance=Provenance.MEASURED
    )


def answers(estimator: Estimator, batches: Sequence[float] = (8.0, 16.0)) -> list[ReplicaEstimate | Refusal]:
    opinions = ask(estimator, estimator.name, MODEL, REPLICAS[: len(batches)], REQUEST, batches)
    assert {opinion.estimator for opinion in opinions} == {estimator.name}
    return [opinion.answer for opinion in opinions]


def test_the_built_in_estimator_is_the_step_model() -> None:
    expected = estimate_replicas(MODEL, REPLICAS, REQUEST, [8.0, 16.0], UNFITTED)
    assert tuple(answers(ANALYTIC)) == tuple(answers(StepModel("mine", UNFITTED))) == expected


def test_latencies_imply_the_rates() -> None:
    estimate = estimated(8.0)
    # 8 sequences, a token each 20 ms; 250 tokens a request; 100 ms and 249 more tokens until it ends
    assert estimate.output_tokens_per_s.value == pytest.approx(400.0)
    assert estimate.requests_per_s.value == pytest.approx(1.6)
    assert estimate.e2e_ms.value == pytest.approx(5_080.0)
    assert estimate.requests_in_flight == pytest.approx(1.6 * 5.08)


def test_the_step_models_latencies_imply_its_own_rates() -> None:
    (ours,) = estimate_replicas(MODEL, REPLICAS[:1], REQUEST, [8.0])
    implied = from_latencies(
        REQUEST,
        8.0,
        itl_ms=ours.itl_ms.value,
        ttft_ms=ours.ttft_ms.value,
        ttft_unloaded_ms=ours.ttft_unloaded_ms.value,
        provenance=ours.provenance,
    )
    for field in ("output_tokens_per_s", "requests_per_s", "e2e_ms"):
        assert getattr(implied, field).value == pytest.approx(getattr(ours, field).value)
    assert implied.requests_in_flight == pytest.approx(ours.requests_in_flight)


def test_estimates_and_refusals_arrive_as_they_are() -> None:
    theirs = [estimated(8.0), Refusal("H100 was never measured")]
    assert answers(Answering(lambda batches: theirs)) == theirs
    assert answers(Answering(lambda batches: iter(theirs))) == theirs


def test_an_interval_and_step_parts_arrive_too() -> None:
    full = replace(
        estimated(8.0),
        itl_ms=Figure(20.0, 15.0, 30.0),
        prefill_step_share=0.25,
        bottleneck="compute",
        parts=(StepPart("mlp", 12.0, "compute"),),
        distance=0.5,
        engine_versions="vllm 0.8.5 to 0.11.0",
    )
    assert answers(Answering(lambda batches: [full]), (8.0,)) == [full]


@pytest.mark.parametrize("distance", [0, 0.0, np.float64(2.5), None])
def test_a_distance_from_zero_on_is_one_and_so_is_none(distance: Any) -> None:
    theirs = replace(estimated(8.0), distance=distance)
    assert answers(Answering(lambda batches: [theirs]), (8.0,)) == [theirs]


def test_an_estimate_of_latencies_alone_claims_no_measurement_nearby() -> None:
    assert (estimated(8.0).distance, estimated(8.0).engine_versions) == (None, "")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("h100"), "KeyError: 'h100'"),
        (SystemExit(3), "SystemExit: 3"),
        (RecursionError(), "RecursionError"),
        (UnspeakableError(), "UnspeakableError"),
        (ValueError("\ud800" + "x" * 10_000), "ValueError: \\ud800xxx"),
    ],
)
def test_one_that_raises_refuses_every_replica_by_its_name(error: BaseException, told: str) -> None:
    def fail(batches: Sequence[float]) -> None:
        raise error

    for answer in answers(Answering(fail)):
        assert isinstance(answer, Refusal)
        assert answer.reason.startswith(f"the estimator theirs failed: {told}")
        assert len(answer.reason.encode()) <= 510


@pytest.mark.parametrize("wrong", [None, 7, [], ["x"], "ab?", {}])
def test_one_that_gives_no_answer_for_each_replica_refuses(wrong: object) -> None:
    for answer in answers(Answering(lambda batches: wrong)):
        assert isinstance(answer, Refusal)
        assert "the estimator theirs failed" in answer.reason


@pytest.mark.parametrize("wrong", [None, 20.0, {"itl_ms": 20.0}, ReplicaEstimate])
def test_an_answer_of_another_kind_is_refused_and_the_others_stand(wrong: object) -> None:
    first, second = answers(Answering(lambda batches: [wrong, estimated(16.0)]))
    assert isinstance(first, Refusal)
    assert "theirs answered with a" in first.reason
    assert second == estimated(16.0)


def _any(value: Any) -> Any:
    """What the types would not allow."""
    return value


GARBAGE: list[tuple[dict[str, Any], str]] = [
    *(({"itl_ms": Figure(_any(value))}, "itl_ms is") for value in (math.nan, math.inf, -1.0, 0.0, True)),
    ({"itl_ms": Figure(10**400)}, "OverflowError"),
    ({"ttft_ms": 100.0}, "ttft_ms is a float, not a Figure"),
    ({"output_tokens_per_s": Figure(_any("400"))}, "output_tokens_per_s is '400'"),
    ({"output_tokens_per_s": Figure(_any(np.ones(3)))}, "output_tokens_per_s is array"),
    ({"e2e_ms": Figure(5_080.0, 6_000.0, 7_000.0)}, "the interval of e2e_ms"),
    ({"e2e_ms": Figure(5_080.0, None, 7_000.0)}, "the interval of e2e_ms"),
    ({"e2e_ms": Figure(5_080.0, -1.0, 7_000.0)}, "the interval of e2e_ms"),
    ({"e2e_ms": Figure(5_080.0, 1.0, math.inf)}, "the interval of e2e_ms"),
    ({"batch": 9.0}, "a batch of 9.0, asked was 8.0"),
    ({"requests_in_flight": -1.0}, "requests_in_flight"),
    ({"prefill_step_share": 1.5}, "prefill_step_share"),
    ({"provenance": "measured by me"}, "provenance"),
    *(({"bottleneck": value}, "bottleneck is no text") for value in (None, "\udcff", "x" * 501)),
    *(({"distance": value}, "distance is") for value in (math.nan, math.inf, -0.1, True, "near", [0.5])),
    ({"distance": 10**400}, "OverflowError"),
    *(({"engine_versions": value}, "engine_versions is no text") for value in (None, ("0.8",), "\udcff", "x" * 501)),
    ({"parts": (StepPart("mlp", -1.0, "compute"),)}, "is no part of a step"),
    ({"parts": ("mlp",)}, "is no part of a step"),
    ({"parts": (StepPart("mlp", 1.0, None),)}, "no name or limit that is a text"),
    ({"parts": None}, "TypeError"),
]


@pytest.mark.parametrize(("changes", "told"), GARBAGE, ids=[told for _, told in GARBAGE])
def test_figures_that_are_none_become_a_refusal_that_says_which(changes: dict[str, Any], told: str) -> None:
    first, second = answers(Answering(lambda batches: [replace(estimated(8.0), **changes), estimated(16.0)]))
    assert isinstance(first, Refusal)
    assert first.reason.startswith("the estimator theirs gave no valid figures: ")
    assert told in first.reason
    assert second == estimated(16.0)


@pytest.mark.parametrize("reason", ["", "  ", None, 7])
def test_a_refusal_without_a_reason_is_told_as_one(reason: Any) -> None:
    first, _ = answers(Answering(lambda batches: [Refusal(reason), Refusal("no table")]))
    assert first == Refusal("the estimator theirs gave no figures and no reason")


def test_a_numpy_float_is_a_number() -> None:
    theirs = replace(estimated(8.0), itl_ms=Figure(np.float64(20.0)))
    assert answers(Answering(lambda batches: [theirs]), (8.0,)) == [theirs]
