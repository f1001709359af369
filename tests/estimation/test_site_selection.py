"""Which compared rows become sites, and with what signs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from capplan.estimation.coefficients import UNFITTED
from capplan.estimation.kriging import Kriging, points_of
from capplan.estimation.observation import Observation, batches, running, settle
from capplan.estimation.site_selection import select_sites, yielding
from capplan.estimation.sites import Figures, Kind
from tests.estimation.measurements import measurement, observed

TIME = measurement(metric="tpot_ms")
RATE = measurement(metric="output_tokens_per_s")
FIRST = measurement(metric="ttft_ms")


def rows(*measurements) -> list[Observation]:
    return [observed(m) for m in measurements]


def selected(observations: list[Observation], logs: list[float]):
    groups = batches(observations)
    settle(groups, UNFITTED)
    return select_sites(observations, np.array(logs), running(groups, len(observations)))


def test_a_site_says_by_how_much_times_were_longer_than_predicted() -> None:
    # Times are predicted 1.2 times too long, so those measured are 1 / 1.2 of them; a rate too high hides longer times.
    chosen = selected(rows(TIME, RATE, FIRST), [math.log(1.2)] * 3)
    found = {(s.figures, s.kind): s.log_time for s in chosen.sites}
    assert found == {
        (Figures.PER_TOKEN, Kind.LATENCY): pytest.approx(-math.log(1.2)),
        (Figures.PER_TOKEN, Kind.RATE): pytest.approx(math.log(1.2)),
        (Figures.FIRST_TOKEN, Kind.LATENCY): pytest.approx(-math.log(1.2)),
    }


def test_rows_point_back_to_their_observations() -> None:
    observations = rows(TIME, RATE, FIRST)
    chosen = selected(observations, [0.1, 0.2, 0.3])
    assert sorted(chosen.rows.tolist()) == [0, 1, 2]
    for site, row in zip(chosen.sites, chosen.rows, strict=True):
        assert abs(site.log_time) == pytest.approx([0.1, 0.2, 0.3][row])


@pytest.mark.parametrize(("trust", "kept"), [("A", 1), ("B", 1), ("B-", 0), ("C", 0)])
def test_what_is_little_trusted_corrects_nothing(trust: str, kept: int) -> None:
    assert len(selected(rows(replace(TIME, trust=trust)), [0.1]).sites) == kept


OWN = replace(TIME, trust="own", own=True, key="own")


@pytest.mark.parametrize("row", [OWN, replace(OWN, metric="ttft_ms")], ids=["per token", "first token"])
@pytest.mark.parametrize("factor", [0.5, 0.71, 1.4, 2.0])
def test_one_own_row_is_believed_almost_whole(row, factor: float) -> None:
    # Measured so many times what is predicted, and nothing else is known.
    (site,) = selected(rows(row), [-math.log(factor)]).sites
    (log,) = Kriging(site.figures, [site]).mean(points_of([site]))
    assert log == pytest.approx(math.log(factor), rel=0.1)


@pytest.mark.parametrize("metric", ["tpot_ms", "ttft_ms"])
def test_an_own_row_outweighs_published_ones_that_contradict_it(metric: str) -> None:
    published = [replace(TIME, metric=metric, source=f"source {n}", key=str(n)) for n in range(6)]
    logs = [-math.log(1.4), *[math.log(1.2)] * 6]
    chosen = selected(rows(replace(OWN, metric=metric), *published), logs)
    (own,) = (site for site, row in zip(chosen.sites, chosen.rows, strict=True) if row == 0)
    (log,) = Kriging(own.figures, chosen.sites).mean(points_of([own]))
    assert math.exp(log) == pytest.approx(1.4, rel=0.1)


def test_published_sites_yield_beside_own_ones_of_the_same_configuration_only() -> None:
    (own,) = selected(rows(OWN), [0.1]).sites
    here = selected(rows(TIME), [0.1]).sites[0]
    far, other = replace(here, running=here.running * 2.0**40), replace(here, figures=Figures.FIRST_TOKEN)
    elsewhere = replace(here, situation=replace(here.situation, sku="another"))
    near = replace(here, running=here.running * 2.0)
    weaker, less, *same = yielding([here, near, far, other, elsewhere], [own])
    assert weaker.noise > 1_000 * here.noise
    assert here.noise < less.noise < weaker.noise
    assert same == [far, other, elsewhere]
    assert yielding([here, near], []) == (here, near)


def test_own_rows_do_not_make_each_other_doubtful() -> None:
    # Of published rows, the one that six others contradict loses weight; a fleet's own are taken as they are.
    many = [replace(TIME, key=str(n), load_value=16.0 + n) for n in range(6)]
    for own in (False, True):
        found = selected(rows(*(replace(m, own=own, source=m.key) for m in many)), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]).sites
        assert (len({site.noise for site in found}) == 1) is own


@pytest.mark.parametrize("log", [math.nan, math.inf, 1.6, -1.6])
def test_a_row_that_cannot_be_what_it_says_corrects_nothing(log: float) -> None:
    assert not selected(rows(TIME), [log]).sites


def test_many_rows_of_one_run_make_few_sites_over_its_whole_range() -> None:
    loads = [float(n) for n in range(1, 101)]
    observations = rows(*(replace(TIME, load_value=n, key=f"{n:03.0f}") for n in loads))
    chosen = selected(observations, [0.1] * len(loads))
    picked = sorted(observations[row].in_flight for row in chosen.rows)
    assert len(picked) == 6
    assert (picked[0], picked[-1]) == (1.0, 100.0)


def test_every_own_row_is_a_site() -> None:
    observations = rows(*(replace(TIME, load_value=float(n), key=str(n), own=True, trust="own") for n in range(1, 31)))
    assert len(selected(observations, [0.1] * 30).sites) == 30


def test_own_rows_beyond_what_can_be_solved_for_in_time_are_thinned_evenly() -> None:
    (row,) = rows(OWN)
    many = [replace(row, in_flight=float(n), measurement=replace(OWN, key=f"{n:04}")) for n in range(1, 4_001)]
    chosen = select_sites(many, np.full(4_000, 0.1), np.arange(1.0, 4_001.0))
    picked = np.sort(chosen.rows)
    assert (len(picked), picked[0], picked[-1]) == (2_000, 0, 3_999)
    assert np.diff(picked).max() <= 3


def test_the_order_of_rows_does_not_matter() -> None:
    loads = [float(n) for n in range(1, 21)]
    observations = rows(*(replace(TIME, load_value=n, key=f"{n:03.0f}") for n in loads))
    logs = [0.01 * n for n in loads]
    assert selected(observations, logs).sites == selected(observations[::-1], logs[::-1]).sites


def test_sequences_are_those_that_decode() -> None:
    # 64 requests in flight decode for less than all of their stay; a fixed batch decodes as a whole.
    closed, fixed = rows(replace(TIME, load_value=64.0), replace(TIME, load_value=64.0, load_kind="batch"))
    in_loop, whole = (s.running for o in (closed, fixed) for s in selected([o], [0.0]).sites)
    assert 32.0 < in_loop < 64.0
    assert whole == 64.0
