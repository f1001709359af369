"""Which compared rows become sites, and with what signs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from capplan.estimation.coefficients import UNFITTED
from capplan.estimation.observation import Observation, batches, running, settle
from capplan.estimation.site_selection import select_sites
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


def test_own_rows_count_whatever_their_trust_and_weigh_more() -> None:
    own = replace(TIME, trust="own", own=True)
    (site,) = selected(rows(own), [0.1]).sites
    (published,) = selected(rows(TIME), [0.1]).sites
    assert site.noise < published.noise


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
