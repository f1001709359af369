"""Intervals, distances and versions that go with the figures of replicas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.confidence import confidences, versions_in_words
from capplan.estimation.corrections import Corrections, Nearness, Novelty
from capplan.estimation.estimate import Provenance, estimate_replicas
from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import situation_of
from tests.estimation.measurements import measurement, observed

OBSERVATION = observed(measurement())
MODEL, REPLICA, REQUEST = OBSERVATION.model, OBSERVATION.replica, OBSERVATION.request
REACH = {(figures, novelty): 2.0 for figures in Figures for novelty in Novelty}


def site(figures: Figures = Figures.PER_TOKEN, running: float = 16.0, **changes) -> Site:
    where = situation_of(MODEL, REPLICA)
    lengths = (REQUEST.input_tokens, REQUEST.output_tokens)
    made = Site(where, figures, Kind.LATENCY, running, *lengths, 0.2, 1.0, "made up", "0.19.0")
    return replace(made, **changes)


def fitted(*sites: Site) -> Coefficients:
    return Coefficients(
        generations=frozenset({"hopper"}), engines=frozenset({"vllm"}), corrections=Corrections(sites, REACH)
    )


def known(coefficients: Coefficients, *loads: float):
    return confidences(MODEL, [REPLICA], REQUEST, np.array([loads]), coefficients)[0]


def test_nothing_is_claimed_without_measurements() -> None:
    (one,) = known(Coefficients(), 16.0)
    assert (one.token_log_reach, one.distance, one.engine_versions) == (None, None, "")


def test_the_measured_load_is_measured_and_loads_further_off_less_and_less_so() -> None:
    near = known(fitted(site()), 16.0, 32.0, 64.0, 2_048.0)
    # sequences persist over 4.95 octaves: 7 octaves are more than one such length
    assert [one.nearness for one in near] == [
        Nearness.MEASURED, Nearness.INTERPOLATED, Nearness.INTERPOLATED, Nearness.FAR
    ]  # fmt: skip
    distances = [one.distance for one in near]
    assert distances == [0.0, pytest.approx(1 / 4.95), pytest.approx(2 / 4.95), pytest.approx(7 / 4.95)]
    assert [one.token_log_reach for one in near] == sorted(one.token_log_reach for one in near)


def test_times_and_rates_have_intervals_and_the_whole_stay_adds_them_up() -> None:
    coefficients = fitted(site(), site(Figures.FIRST_TOKEN))
    (estimate,) = estimate_replicas(MODEL, [REPLICA], REQUEST, [16.0], coefficients)
    (sure,) = known(coefficients, 16.0)
    assert estimate.provenance is Provenance.MEASURED
    for figure, reach in (
        (estimate.itl_ms, sure.token_log_reach),
        (estimate.output_tokens_per_s, sure.token_log_reach),
        (estimate.ttft_ms, sure.first_token_log_reach),
        (estimate.ttft_unloaded_ms, sure.first_token_log_reach),
    ):
        assert figure.lower == pytest.approx(figure.value * math.exp(-reach))
        assert figure.upper == pytest.approx(figure.value * math.exp(reach))
    # 500 output tokens: the first at the TTFT, 499 an inter-token latency apart each
    assert estimate.e2e_ms.value == pytest.approx(estimate.ttft_ms.value + 499 * estimate.itl_ms.value)
    assert estimate.e2e_ms.upper == pytest.approx(estimate.ttft_ms.upper + 499 * estimate.itl_ms.upper)
    assert estimate.e2e_ms.lower < estimate.e2e_ms.value < estimate.e2e_ms.upper


def test_a_measurement_moves_the_estimate_towards_it() -> None:
    (before,) = estimate_replicas(MODEL, [REPLICA], REQUEST, [16.0], Coefficients())
    (after,) = estimate_replicas(MODEL, [REPLICA], REQUEST, [16.0], fitted(site(noise=0.01)))
    # measured times are exp(0.2) of the step model's; the rest of the residual is put down to the source
    assert 1.12 < after.itl_ms.value / before.itl_ms.value < math.exp(0.2)
    assert after.output_tokens_per_s.value < before.output_tokens_per_s.value
    assert after.ttft_ms.value == before.ttft_ms.value


def test_versions_are_of_near_measurements_or_else_of_the_engine() -> None:
    there = site(engine_version="0.11.0")
    elsewhere = [
        site(situation=replace(there.situation, sku="another"), engine_version=version)
        for version in ("0.9.2", "0.18.0")
    ]
    (near,) = known(fitted(there, *elsewhere), 16.0)
    assert near.engine_versions == "vllm 0.11.0"
    (far,) = known(fitted(*elsewhere), 16.0)
    assert far.nearness is Nearness.FAR
    assert far.engine_versions == "vllm 0.9.2 to 0.18.0"


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ((), ""),
        (("0.8.5",), "vllm 0.8.5"),
        (("0.8.5", "0.9", "0.11.0"), "vllm 0.8.5 to 0.11.0"),
        (("nightly-5b8c30d", "0.9"), "vllm 0.9"),
        (("nightly-5b8c30d",), ""),
    ],
)
def test_versions_in_words(versions: tuple[str, ...], words: str) -> None:
    assert versions_in_words("vllm", versions) == words


def test_a_figure_of_many_replicas_has_their_interval() -> None:
    (estimate,) = estimate_replicas(MODEL, [REPLICA], REQUEST, [16.0], fitted(site()))
    total = estimate.output_tokens_per_s.times(3)
    assert total.value == pytest.approx(3 * estimate.output_tokens_per_s.value)
    assert total.upper == pytest.approx(3 * estimate.output_tokens_per_s.upper)
    assert replace(estimate.output_tokens_per_s, lower=None, upper=None).times(3).upper is None
