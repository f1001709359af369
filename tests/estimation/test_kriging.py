"""Kriging against the textbook formula, written out with plain loops, and against two cases worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.hyperparameters import HYPERPARAMETERS, Hyperparameters
from capplan.estimation.kriging import Kriging, covariance, discounted, points, points_of
from capplan.estimation.sites import Figures, Kind, Site
from tests.estimation.measured import LLAMA, UNLIKE, site

H = HYPERPARAMETERS[Figures.PER_TOKEN]
JITTER = 1e-6
DEGREES = 4.0
COMMON_VARIANCE = sum(
    part**2
    for part in (
        H.base, H.model, H.shape, H.engine, H.weights, H.sku, H.generation, H.spread, H.kind, H.configuration
    )
)  # fmt: skip
"""What two measurements of one configuration at one load have in common, apart from their source."""

VARIED = (
    site(log_time=0.3),
    site(log_time=0.25, running=64.0, source="another"),
    site(replace(LLAMA, sku="a100-sxm4-80gb", generation="ampere"), -0.1, kind=Kind.RATE, input_tokens=4096.0),
    site(replace(LLAMA, engine="sglang", weights="fp8"), 0.05, noise=4.0, output_tokens=1024.0),
    site(replace(UNLIKE, engine="vllm"), 0.6, running=256.0, noise=0.5),
    site(replace(UNLIKE, spread="experts", devices=16), 0.4, kind=Kind.OFFLINE, source="a third"),
    site(replace(LLAMA, model="3072x128256:dense", shape=(math.log2(3072), 0.0, 0.0)), 0.2),
)
"""Every pair has something else in common."""


def by_hand(h: Hyperparameters, a: Site, b: Site) -> float:
    """The covariance as the module says it in words."""
    one, two = a.situation, b.situation
    generation = one.generation == two.generation
    pairs = [(max(getattr(a, n), 1.0), max(getattr(b, n), 1.0)) for n in ("running", "input_tokens", "output_tokens")]
    pairs.append((one.devices, two.devices))
    apart = sum((math.log2(x / y) / length) ** 2 for (x, y), length in zip(pairs, h.octaves, strict=True))
    alike = sum(((x - y) / o) ** 2 for x, y, o in zip(one.shape, two.shape, h.shape_octaves, strict=True))
    wide = h.base**2 + h.shape**2 * math.exp(-alike / 2)
    wide += h.model**2 if one.model == two.model else 0.0
    wide += h.sku**2 if one.sku == two.sku else 0.0
    wide += h.generation**2 if generation else 0.0
    wide += h.engine**2 if generation and one.engine == two.engine else 0.0
    wide += h.weights**2 if generation and one.weights == two.weights else 0.0
    wide += h.spread**2 if one.spread == two.spread and (one.shape[2] > 0) == (two.shape[2] > 0) else 0.0
    wide += h.kind**2 if a.kind == b.kind else 0.0
    very_same = all(getattr(one, n) == getattr(two, n) for n in ("model", "sku", "engine", "weights", "spread"))
    short = h.configuration**2 if very_same else 0.0
    return wide * math.exp(-apart / 2) + short * math.exp(-4 * apart / 2)


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss-Jordan elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(len(rows)):
        pivot = max(range(column, len(rows)), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for r in range(len(rows)):
            if r != column:
                factor = rows[r][column]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[column], strict=True)]
    return [row[-1] for row in rows]


def textbook(h: Hyperparameters, sites: Sequence[Site], noise: Sequence[float], at: Site) -> tuple[float, float]:
    """Mean, and variance without noise: Rasmussen and Williams equations 2.25 and 2.26."""
    matrix = [
        [
            by_hand(h, a, b) + (h.source**2 if a.source == b.source else 0.0) + (noise[i] + JITTER if i == j else 0.0)
            for j, b in enumerate(sites)
        ]
        for i, a in enumerate(sites)
    ]
    shared = [by_hand(h, at, a) for a in sites]
    mean = sum(k * w for k, w in zip(shared, solve(matrix, [a.log_time for a in sites]), strict=True))
    explained = sum(k * w for k, w in zip(shared, solve(matrix, shared), strict=True))
    return mean, by_hand(h, at, at) - explained


def left_out(h: Hyperparameters, sites: Sequence[Site], noise: Sequence[float], index: int) -> tuple[float, float]:
    """What the others leave unexplained of a site, and its variance without noise, by really leaving it out.

    Unlike a new configuration, the site has its source in common with others of it.
    """
    rest = [i for i in range(len(sites)) if i != index]

    def shared(i: int, j: int) -> float:
        return by_hand(h, sites[i], sites[j]) + (h.source**2 if sites[i].source == sites[j].source else 0.0)

    matrix = [[shared(i, j) + (noise[i] + JITTER if i == j else 0.0) for j in rest] for i in rest]
    own = [shared(index, i) for i in rest]
    weights = solve(matrix, own)
    mean = sum(w * sites[i].log_time for w, i in zip(weights, rest, strict=True))
    explained = sum(w * k for w, k in zip(weights, own, strict=True))
    return sites[index].log_time - mean, shared(index, index) - explained


def robust_noise(h: Hyperparameters, sites: Sequence[Site]) -> list[float]:
    """Three rounds in which each site's noise is weighed as under a Student's t with four degrees of freedom."""
    noise = [h.noise**2 * one.noise for one in sites]
    inflated = noise
    for _ in range(3):
        scores = []
        for index, own in enumerate(noise):
            residual, variance = left_out(h, sites, inflated, index)
            scores.append(residual**2 / (variance + own + JITTER))
        inflated = [own * (DEGREES + score) / (DEGREES + 1.0) for own, score in zip(noise, scores, strict=True)]
    return inflated


@pytest.mark.parametrize("figures", list(Figures))
def test_the_covariance_is_what_its_description_says(figures: Figures) -> None:
    h = HYPERPARAMETERS[figures]
    found = covariance(h, points_of(VARIED), points_of(VARIED))
    for (i, a), (j, b) in itertools.product(enumerate(VARIED), repeat=2):
        assert found[i, j] == pytest.approx(by_hand(h, a, b), rel=1e-12)


@pytest.mark.parametrize("figures", list(Figures))
def test_means_and_deviations_are_the_textbooks(figures: Figures) -> None:
    h = HYPERPARAMETERS[figures]
    sites = [replace(one, figures=figures) for one in VARIED]
    solved = Kriging(figures, sites)
    asked = [*sites, replace(sites[0], running=33.0), replace(sites[4], kind=Kind.BATCH, situation=LLAMA)]
    means, deviations = solved.mean_and_deviation(points_of(asked))
    assert solved.mean(points_of(asked)) == pytest.approx(means, abs=1e-12)
    noise = [h.noise**2 * one.noise for one in sites]
    for at, mean, deviation in zip(asked, means, deviations, strict=True):
        expected, variance = textbook(h, sites, noise, at)
        assert mean == pytest.approx(expected, rel=1e-8)
        # a new measurement has noise and a source of its own
        assert deviation**2 == pytest.approx(variance + h.source**2 + h.noise**2, rel=1e-8)


def test_one_site_by_hand() -> None:
    # At the site itself the covariance is v, the variance of what was measured v + s^2 + n + jitter.
    y, noise = 0.3, H.noise**2
    variance = COMMON_VARIANCE + H.source**2 + noise + JITTER
    (mean,), (deviation,) = Kriging(Figures.PER_TOKEN, [site(log_time=y)]).mean_and_deviation(points_of([site()]))
    assert mean == pytest.approx(y * COMMON_VARIANCE / variance)
    prior = COMMON_VARIANCE + H.source**2 + noise
    assert deviation**2 == pytest.approx(prior - COMMON_VARIANCE**2 / variance)


@pytest.mark.parametrize("sources", [1, 4, 16])
def test_many_sources_of_one_figure_have_the_mean_come_up_to_it(sources: int) -> None:
    # n equal sites of different sources weigh like one with an n-th of their own variance
    y = 0.3
    sites = [site(log_time=y, noise=1e-3, source=str(number)) for number in range(sources)]
    (mean,) = Kriging(Figures.PER_TOKEN, sites).mean(points_of([site()]))
    assert mean == pytest.approx(y * COMMON_VARIANCE / (COMMON_VARIANCE + H.source**2 / sources), rel=2e-3)


@pytest.mark.parametrize("figures", list(Figures))
def test_sites_are_discounted_as_under_a_students_t(figures: Figures) -> None:
    h = HYPERPARAMETERS[figures]
    sites = [replace(one, figures=figures) for one in VARIED]
    found = discounted(figures, sites)
    assert [replace(one, noise=1.0) for one in found] == [replace(one, noise=1.0) for one in sites]
    assert [h.noise**2 * one.noise for one in found] == pytest.approx(robust_noise(h, sites), rel=1e-8)


def test_one_site_alone_is_discounted_by_hand() -> None:
    # n' = n (4 + z^2) / 5 from z^2 = y^2 / (v + s^2 + n + jitter) in every round, as no other site says more
    y, noise = 0.3, H.noise**2
    score = y**2 / (COMMON_VARIANCE + H.source**2 + noise + JITTER)
    (found,) = discounted(Figures.PER_TOKEN, [site(log_time=y)])
    assert found.noise == pytest.approx((4 + score) / 5)


def test_an_outlier_among_agreeing_sites_is_discounted() -> None:
    agreeing = [site(log_time=0.1, running=float(load), source=str(load)) for load in (8, 12, 16, 24, 32)]
    sites = [*agreeing, site(log_time=2.0, running=20.0, source="odd")]
    at = site(running=18.0)
    (mean,) = Kriging(Figures.PER_TOKEN, discounted(Figures.PER_TOKEN, sites)).mean(points_of([at]))
    without, _ = textbook(H, agreeing, [H.noise**2] * 5, at)
    taken_in_full, _ = textbook(H, sites, [H.noise**2] * 6, at)
    assert abs(mean - without) < 0.25 * abs(taken_in_full - without)


def test_far_from_all_sites_nothing_is_known() -> None:
    far = [2.0 ** (8 * length) for length in H.octaves]
    at = points(
        [replace(UNLIKE, devices=int(far[3]))], [Kind.LATENCY], *(np.array([1.0 + length]) for length in far[:3])
    )
    (mean,), (deviation,) = Kriging(
        Figures.PER_TOKEN, [site(log_time=1.0, running=1.0, input_tokens=1.0, output_tokens=1.0)]
    ).mean_and_deviation(at)
    assert abs(mean) < 1e-9
    assert deviation**2 == pytest.approx(COMMON_VARIANCE + H.source**2 + H.noise**2)


def test_a_figure_measured_again_and_again_is_never_surer_than_its_noise() -> None:
    sites = [site(noise=1e-3, source=str(number)) for number in range(50)]
    _, (deviation,) = Kriging(Figures.PER_TOKEN, sites).mean_and_deviation(points_of([site()]))
    assert deviation >= H.noise


def test_less_than_one_sequence_or_token_counts_as_one() -> None:
    low = points_of([site(running=0.25, input_tokens=0.5, output_tokens=1e-6)])
    assert (low.octaves == points_of([site(running=1.0, input_tokens=1.0, output_tokens=1.0)]).octaves).all()


@given(st.permutations(VARIED))
def test_the_order_of_sites_does_not_matter(sites: list[Site]) -> None:
    at = points_of([site(running=5.0), site(UNLIKE)])
    one, other = Kriging(Figures.PER_TOKEN, VARIED), Kriging(Figures.PER_TOKEN, sites)
    assert [column.tolist() for column in one.mean_and_deviation(at)] == [
        column.tolist() for column in other.mean_and_deviation(at)
    ]


def test_more_rows_than_a_chunk_are_answered_as_each_alone() -> None:
    solved = Kriging(Figures.PER_TOKEN, VARIED)
    asked = [site(running=1.0 + row, situation=LLAMA if row % 3 else UNLIKE) for row in range(600)]
    means, deviations = solved.mean_and_deviation(points_of(asked))
    for row in (0, 255, 256, 511, 512, 599):
        (mean,), (deviation,) = solved.mean_and_deviation(points_of([asked[row]]))
        assert means[row] == pytest.approx(mean, abs=1e-12)
        assert deviations[row] == pytest.approx(deviation, abs=1e-12)
    assert means == pytest.approx(solved.mean(points_of(asked)), abs=1e-12)


@pytest.mark.parametrize("gone", [(), (0,), (1, 4), (6, 0, 2, 3), (0, 1, 2, 3, 4, 5)])
def test_what_is_left_out_says_nothing_and_the_others_what_they_would_alone(gone: tuple[int, ...]) -> None:
    values = [0.1 * (index - 2) for index in range(len(VARIED))]
    left_out = np.array([index in gone for index in range(len(VARIED))])
    asked = [*VARIED, site(running=33.0)]
    means, deviations = Kriging(Figures.PER_TOKEN, VARIED).without(left_out, np.array(values), points_of(asked))
    noise = [H.noise**2 * one.noise for one in VARIED]
    kept = [index for index in range(len(VARIED)) if index not in gone]
    sites = [replace(VARIED[index], log_time=values[index]) for index in kept]
    for at, mean, deviation in zip(asked, means, deviations, strict=True):
        expected, variance = textbook(H, sites, [noise[index] for index in kept], at)
        assert mean == pytest.approx(expected, rel=1e-8, abs=1e-12)
        assert deviation**2 == pytest.approx(variance + H.source**2 + H.noise**2, rel=1e-8)


@given(st.permutations(range(len(VARIED))))
def test_what_is_left_out_is_told_in_the_order_sites_were_given(order: list[int]) -> None:
    left_out = np.array([True, False, True, False, False, False, True])
    values = np.arange(7.0)
    at = points_of([site(running=5.0), site(UNLIKE)])
    one = Kriging(Figures.PER_TOKEN, VARIED).without(left_out, values, at)
    other = Kriging(Figures.PER_TOKEN, [VARIED[i] for i in order]).without(left_out[order], values[order], at)
    assert [column.tolist() for column in one] == [column.tolist() for column in other]
