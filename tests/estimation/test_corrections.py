"""Corrections: what they are, what they do not depend on, and what is said of where they come from."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import capplan.estimation.corrections
from capplan.errors import InvalidInputError
from capplan.estimation.coefficients import UNFITTED, Coefficients, checked_coefficients
from capplan.estimation.corrections import (
    FACTOR_OCTAVES,
    NO_CORRECTIONS,
    Corrections,
    Judgement,
    Nearness,
    Novelty,
    points_at,
    reach_from_json,
    reach_to_json,
)
from capplan.estimation.hyperparameters import HYPERPARAMETERS
from capplan.estimation.kriging import Kriging, Points, points_of, prior_variance
from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import Situation, situation_of
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from tests.estimation.configs import QWEN3_30B_A3B
from tests.estimation.measured import LLAMA, UNLIKE, site
from tests.estimation.test_situation import replica

H = HYPERPARAMETERS[Figures.PER_TOKEN]
SITES = (
    site(log_time=0.3),
    site(log_time=0.25, running=64.0, source="another"),
    site(replace(LLAMA, sku="a100-sxm4-80gb", generation="ampere"), -0.1, kind=Kind.RATE, input_tokens=4096.0),
    site(replace(LLAMA, engine="sglang", weights="fp8"), 0.05, noise=4.0, output_tokens=1024.0),
    site(replace(UNLIKE, engine="vllm"), 0.6, running=256.0, noise=0.5),
    site(UNLIKE, -0.4, figures=Figures.FIRST_TOKEN),
    site(LLAMA, 0.7, figures=Figures.FIRST_TOKEN, running=4.0),
)
CANDIDATES = [
    replace(where, weights=weights, sku=sku, devices=devices)
    for where, weights, sku, devices in product(
        (LLAMA, UNLIKE, replace(UNLIKE, engine="vllm", spread="plain")),
        ("bf16", "int4"),
        ("h100-sxm-80gb", "never-seen"),
        (1, 4, 16),
    )
]
FAR_TOKENS = 1024.0 * 2.0 ** (8.0 * H.octaves[1])
"""A prompt eight lengths away from the usual one."""


def at(*sites: Site) -> Points:
    return points_of(sites)


def judged(corrections: Corrections, one: Site, figures: Figures = Figures.PER_TOKEN) -> Judgement:
    (found,) = corrections.judge(figures, at(one))
    return found


class TestFactors:
    def test_without_sites_every_factor_is_one(self) -> None:
        assert (NO_CORRECTIONS.log_factors(CANDIDATES, 1000, 100) == np.zeros((len(CANDIDATES), 13))).all()
        assert (NO_CORRECTIONS.first_token_log_factors(CANDIDATES, 1000, 100) == np.zeros(len(CANDIDATES))).all()

    def test_no_candidates_have_no_factors(self) -> None:
        assert Corrections(SITES).log_factors([], 1000, 100).shape == (0, 13)
        assert Corrections(SITES).first_token_log_factors([], 1000, 100).shape == (0,)

    @pytest.mark.parametrize("lengths", [(1024.0, 128.0), (0.5, 40_000.0)])
    def test_they_are_the_means_of_kriging_under_latency(self, lengths: tuple[float, float]) -> None:
        solved = Kriging(Figures.PER_TOKEN, [one for one in SITES if one.figures is Figures.PER_TOKEN])
        found = Corrections(SITES).log_factors(CANDIDATES, *lengths)
        for column, octave in enumerate(FACTOR_OCTAVES):
            loads = np.full(len(CANDIDATES), 2.0**octave)
            expected = solved.mean(points_at(CANDIDATES, Kind.LATENCY, loads, *lengths))
            assert found[:, column] == pytest.approx(expected, abs=0.51e-6)

    def test_those_of_the_first_token_are_means_over_four_loads(self) -> None:
        solved = Kriging(Figures.FIRST_TOKEN, [one for one in SITES if one.figures is Figures.FIRST_TOKEN])
        loads = [
            solved.mean(points_at(CANDIDATES, Kind.LATENCY, np.full(len(CANDIDATES), load), 1024.0, 128.0))
            for load in (2.0, 8.0, 32.0, 128.0)
        ]
        found = Corrections(SITES).first_token_log_factors(CANDIDATES, 1024.0, 128.0)
        assert found == pytest.approx(np.mean(loads, axis=0), abs=1.1e-6)

    def test_a_precise_site_is_approached(self) -> None:
        sites = tuple(site(log_time=0.3, noise=1e-3, source=str(number)) for number in range(12))
        found = Corrections(sites).log_factors([LLAMA], 1024.0, 128.0)[0, 4]  # 2^4 = 16 sequences, as measured
        assert found == pytest.approx(0.3, rel=0.02)

    def test_far_from_all_sites_it_is_one(self) -> None:
        found = Corrections(SITES).log_factors([LLAMA, UNLIKE], FAR_TOKENS, 128.0)
        assert np.abs(found).max() < 1e-5

    def test_what_was_measured_of_one_figure_does_not_move_the_other(self) -> None:
        only = tuple(one for one in SITES if one.figures is Figures.PER_TOKEN)
        expected = Corrections(only).log_factors(CANDIDATES, 1024.0, 128.0)
        assert (Corrections(SITES).log_factors(CANDIDATES, 1024.0, 128.0) == expected).all()
        assert (Corrections(only).first_token_log_factors(CANDIDATES, 1024.0, 128.0) == 0.0).all()

    @given(st.permutations(SITES), st.permutations(range(len(CANDIDATES))))
    def test_neither_order_of_sites_nor_of_candidates_matters(self, sites: list[Site], order: list[int]) -> None:
        expected = Corrections(SITES), Corrections(tuple(sites))
        candidates = [CANDIDATES[index] for index in order]
        for ask in (Corrections.log_factors, Corrections.first_token_log_factors):
            one, other = ask(expected[0], CANDIDATES, 900.0, 90.0), ask(expected[1], candidates, 900.0, 90.0)
            assert one[order].tolist() == other.tolist()

    @given(st.lists(st.sampled_from(CANDIDATES), min_size=1, max_size=8))
    def test_a_candidate_has_the_same_factors_whatever_it_is_asked_with(self, candidates: list[Situation]) -> None:
        corrections = Corrections(SITES)
        together = corrections.log_factors(candidates, 700.0, 70.0)
        alone = [corrections.log_factors([one], 700.0, 70.0)[0] for one in candidates]
        assert together.tolist() == [row.tolist() for row in alone]

    def test_they_are_rounded(self) -> None:
        found = Corrections(SITES).log_factors(CANDIDATES, 1024.0, 128.0)
        assert (found == np.round(found, 6)).all()
        assert not np.signbit(found[found == 0.0]).any()

    def test_a_model_with_more_layers_has_the_same(self) -> None:
        def factors(layers: int) -> Any:
            costs = model_costs(read_config(QWEN3_30B_A3B | {"num_hidden_layers": layers}), "bf16")
            return Corrections(SITES).log_factors([situation_of(costs, replica(2))], 1024.0, 128.0).tolist()

        assert factors(24) == factors(48) == factors(96)
        assert factors(24) != [[0.0] * 13]


class TestJudged:
    def test_without_sites_nothing_is_known(self) -> None:
        assert judged(NO_CORRECTIONS, site()) == Judgement(0.0, None, Nearness.FAR, math.inf, ())

    def test_its_factor_is_the_plans_factor(self) -> None:
        corrections = Corrections(SITES)
        expected = corrections.log_factors([LLAMA], 1024.0, 128.0)[0]
        for octave in range(13):
            assert judged(corrections, site(running=2.0**octave)).log_factor == pytest.approx(
                expected[octave], abs=1.1e-6
            )

    @pytest.mark.parametrize("column", ["running", "input_tokens", "output_tokens"])
    def test_within_a_quarter_octave_it_is_measured(self, column: str) -> None:
        corrections = Corrections((site(),))
        usual = getattr(site(), column)
        for octaves, nearness in ((0.0, "measured"), (0.24, "measured"), (-0.24, "measured"), (0.26, "interpolated")):
            assert judged(corrections, site(**{column: usual * 2.0**octaves})).nearness == nearness

    @pytest.mark.parametrize(("column", "place"), [("running", 0), ("input_tokens", 1), ("output_tokens", 2)])
    @pytest.mark.parametrize(("lengths", "nearness"), [(0.9, "interpolated"), (1.1, "far")])
    def test_distance_is_in_lengths_of_the_correlation(
        self, column: str, place: int, lengths: float, nearness: str
    ) -> None:
        moved = getattr(site(), column) * 2.0 ** (lengths * H.octaves[place])
        found = judged(Corrections((site(),)), site(**{column: moved}))
        assert found.distance == pytest.approx(lengths)
        assert found.nearness == nearness

    def test_twice_the_devices_are_another_distance(self) -> None:
        found = judged(Corrections((site(),)), site(replace(LLAMA, devices=2)))
        assert found.distance == pytest.approx(1.0 / H.octaves[3])
        assert found.nearness == "interpolated"

    @pytest.mark.parametrize("change", ["model", "weights", "sku", "engine", "spread"])
    def test_another_configuration_is_far_however_near_its_load(self, change: str) -> None:
        another: dict[str, Any] = {change: "experts"}
        found = judged(Corrections((site(),)), site(replace(LLAMA, **another)))
        assert (found.nearness, found.distance) == (Nearness.FAR, math.inf)

    def test_the_nearest_one_counts(self) -> None:
        sites = (site(running=1.0), site(running=64.0), site(UNLIKE, running=16.0))
        assert judged(Corrections(sites), site(running=32.0)).distance == pytest.approx(1.0 / H.octaves[0])

    def test_engine_versions_are_those_of_what_is_near(self) -> None:
        far = 16.0 * 2.0 ** (1.5 * H.octaves[0])
        sites = (
            *(site(engine_version=version) for version in ("0.11.0", "0.8.5", "", "0.8.5.post1", "0.11.0")),
            site(engine_version="0.6.0", running=far),
            site(UNLIKE, engine_version="0.5.0"),
        )
        assert judged(Corrections(sites), site()).engine_versions == ("0.8.5", "0.8.5.post1", "0.11.0")
        assert judged(Corrections(sites), site(replace(LLAMA, sku="another"))).engine_versions == ()

    def test_the_other_figure_is_not_near(self) -> None:
        assert judged(Corrections((site(),)), site(), Figures.FIRST_TOKEN).distance == math.inf

    @pytest.mark.parametrize(
        ("where", "novelty"),
        [
            (LLAMA, Novelty.SEEN),
            (replace(LLAMA, sku="another"), Novelty.GPU_UNSEEN),
            (replace(LLAMA, model="another"), Novelty.MODEL_UNSEEN),
            (replace(LLAMA, sku="another", model="another"), Novelty.BOTH_UNSEEN),
        ],
    )
    def test_the_interval_spans_as_many_deviations_as_its_novelty_needs(
        self, where: Situation, novelty: Novelty
    ) -> None:
        reach = {(Figures.PER_TOKEN, each): 1.0 + index for index, each in enumerate(Novelty)}
        sites = (site(),)
        _, (deviation,) = Kriging(Figures.PER_TOKEN, sites).mean_and_deviation(at(site(where)))
        found = judged(Corrections(sites, reach), site(where))
        assert found.log_reach == pytest.approx(reach[Figures.PER_TOKEN, novelty] * deviation, abs=1e-6)
        assert judged(Corrections(sites, reach), site(where), Figures.FIRST_TOKEN).log_reach is None

    def test_without_sites_the_interval_is_the_whole_prior(self) -> None:
        reach = {(Figures.PER_TOKEN, Novelty.BOTH_UNSEEN): 2.0}
        found = judged(Corrections((), reach), site())
        assert found.log_reach == pytest.approx(2.0 * math.sqrt(prior_variance(H)), abs=1e-6)

    def test_many_rows_are_judged_as_each_alone(self) -> None:
        reach = {(Figures.PER_TOKEN, each): 1.6 for each in Novelty}
        corrections = Corrections(SITES, reach)
        asked = [site(CANDIDATES[row % len(CANDIDATES)], running=1.0 + row) for row in range(530)]
        together = corrections.judge(Figures.PER_TOKEN, at(*asked))
        assert len(together) == 530
        for row in (0, 255, 256, 529):
            assert together[row] == judged(corrections, asked[row])

    def test_nothing_to_judge_is_nothing(self) -> None:
        assert Corrections(SITES).judge(Figures.PER_TOKEN, at()) == []

    def test_many_rows_need_no_matrix_of_all_of_them(self) -> None:
        sites = tuple(site(running=1.0 + number / 7) for number in range(300))
        asked = at(*[site(running=1.0 + row) for row in range(5_000)])
        corrections = Corrections(sites)
        tracemalloc.start()
        corrections.judge(Figures.PER_TOKEN, asked)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # one matrix of all rows would have 5,000 * 300 * 8 bytes = 12 MB, and a covariance is made of several
        assert peak < 12e6


class TestSolvedLazily:
    @pytest.fixture
    def solved(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Numbers of sites of each regression that is solved."""
        counts: list[int] = []

        class Counted(Kriging):
            def __init__(self, figures: Figures, sites: Sequence[Site]) -> None:
                counts.append(len(sites))
                super().__init__(figures, sites)

        monkeypatch.setattr(capplan.estimation.corrections, "Kriging", Counted)
        return counts

    def test_only_when_asked_and_only_once(self, solved: list[int]) -> None:
        corrections = Corrections(tuple(site(log_time=0.01 * number) for number in range(3)))
        assert solved == []
        for length in (100.0, 200.0):
            corrections.log_factors([LLAMA], length, 10.0)
            corrections.judge(Figures.PER_TOKEN, at(site()))
        replace(corrections, reach={(Figures.PER_TOKEN, Novelty.SEEN): 1.0}).judge(Figures.PER_TOKEN, at(site()))
        assert solved == [3]

    def test_more_sites_are_solved_once_as_well(self, solved: list[int]) -> None:
        corrections = Corrections(tuple(site(log_time=0.02 * number) for number in range(3)))
        own = (site(log_time=0.5, source="own"), site(log_time=0.6, source="own"))
        for _ in range(3):
            corrections.with_sites(own).log_factors([LLAMA], 100.0, 10.0)
        assert solved == [5]


class TestMoreSites:
    def test_they_count_like_the_others(self) -> None:
        reach = {(Figures.PER_TOKEN, Novelty.SEEN): 1.5}
        more = Corrections(SITES[:3], reach).with_sites(SITES[3:])
        assert more == Corrections(SITES, reach)
        expected = Corrections(SITES, reach).log_factors(CANDIDATES, 1024.0, 128.0)
        assert (more.log_factors(CANDIDATES, 1024.0, 128.0) == expected).all()

    def test_none_more_change_nothing(self) -> None:
        corrections = Corrections(SITES)
        assert corrections.with_sites(()) is corrections


class TestOfCoefficients:
    def test_there_are_none_unless_given(self) -> None:
        assert UNFITTED.corrections is NO_CORRECTIONS
        assert checked_coefficients({}) == UNFITTED
        assert checked_coefficients({}, corrections=Corrections(SITES)).corrections.sites is SITES

    def test_they_tell_coefficients_apart(self) -> None:
        assert Coefficients(corrections=Corrections(SITES)) == Coefficients(corrections=Corrections((*SITES,)))
        assert Coefficients(corrections=Corrections(SITES)) != UNFITTED
        assert Coefficients(corrections=Corrections((), {(Figures.PER_TOKEN, Novelty.SEEN): 1.0})) != UNFITTED

    def test_they_do_not_get_in_the_way_of_a_hash(self) -> None:
        values: Any = frozenset()  # a mapping's stand-in that can be hashed
        assert hash(Coefficients(values, corrections=Corrections(SITES))) == hash(Coefficients(values))
        assert hash(Corrections(SITES)) == hash(Corrections((*SITES,), {(Figures.PER_TOKEN, Novelty.SEEN): 1.0}))


REACHES = st.dictionaries(
    st.tuples(st.sampled_from(Figures), st.sampled_from(Novelty)),
    st.integers(0, 99_999).map(lambda number: number / 100),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["per_token", "gpu_unseen", "figures"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["figures", "novelty", "deviations"]), inner, max_size=3)
    ),
    max_leaves=8,
)


class TestReach:
    @given(REACHES)
    def test_what_is_written_is_read_back(self, reach: dict[tuple[Figures, Novelty], float]) -> None:
        assert reach_from_json(json.loads(json.dumps(reach_to_json(reach)))) == reach

    def test_the_same_is_written_in_whatever_order_it_came(self) -> None:
        pairs = [((figures, novelty), 1.5) for figures, novelty in product(Figures, Novelty)]
        assert reach_to_json(dict(pairs)) == reach_to_json(dict(pairs[::-1]))

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"figures": "tpot"}, "reach[1].figures"),
            ({"novelty": None}, "reach[1].novelty"),
            ({"deviations": -1.0}, "reach[1].deviations"),
            ({"deviations": math.nan}, "reach[1].deviations"),
            ({"deviations": math.inf}, "reach[1].deviations"),
            ({"deviations": True}, "reach[1].deviations"),
            ({"more": 1}, "reach[1]"),
            ({"figures": "first_token"}, "reach[1]"),  # what the first says already
        ],
    )
    def test_a_fault_is_named_by_its_place(self, change: dict[str, Any], field: str) -> None:
        good = {"figures": "first_token", "novelty": "gpu_unseen", "deviations": 1.7}
        with pytest.raises(InvalidInputError) as caught:
            reach_from_json([good, good | {"figures": "per_token"} | change])
        assert [violation.field for violation in caught.value.violations] == [field]

    @given(JSON)
    def test_whatever_json_holds_is_read_or_refused(self, value: Any) -> None:
        for values in (value, [value], [{"figures": "per_token", "novelty": "gpu_unseen", "deviations": value}]):
            try:
                found = reach_from_json(values)
            except InvalidInputError as error:
                fields = [violation.field for violation in error.violations]
            else:
                assert all(math.isfinite(deviations) for deviations in found.values())
                fields = []
            assert all(field.startswith("reach") for field in fields)
