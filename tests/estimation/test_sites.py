"""Measured sites as JSON: what is written is read back, and what is none is refused by its place."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import InvalidInputError
from capplan.estimation.sites import Figures, Kind, Site, sites_from_json, sites_to_json
from capplan.estimation.situation import SPREADS, Situation
from tests.estimation.measured import LLAMA, UNLIKE, site

NAMES = st.text(min_size=1, max_size=8)
SITUATIONS = st.builds(
    Situation,
    model=NAMES,
    shape=st.tuples(*[st.sampled_from([0.0, 5.0, 12.5])] * 3),
    weights=NAMES,
    sku=NAMES,
    generation=NAMES,
    engine=NAMES,
    spread=st.sampled_from(SPREADS),
    devices=st.integers(1, 10_000),
)
# quarters below 1,000 have at most six significant digits
QUARTERS = st.integers(1, 3_999).map(lambda count: count / 4)
SITES = st.builds(
    Site,
    situation=SITUATIONS,
    figures=st.sampled_from(Figures),
    kind=st.sampled_from(Kind),
    running=QUARTERS,
    input_tokens=QUARTERS,
    output_tokens=QUARTERS,
    log_time=st.sampled_from([-1.25, 0.0, 0.5]),
    noise=QUARTERS,
    source=st.text(max_size=8),
    engine_version=st.text(max_size=8),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def through_json(sites: tuple[Site, ...]) -> tuple[Site, ...]:
    return sites_from_json(json.loads(json.dumps(sites_to_json(sites))))


def refused(values: object) -> str:
    with pytest.raises(InvalidInputError) as caught:
        sites_from_json(values)
    (violation,) = caught.value.violations
    return violation.field


def faults(values: object) -> list[str]:
    """Fields at fault; what is no fault must be sites with finite numbers."""
    try:
        found = sites_from_json(values)
    except InvalidInputError as error:
        return [violation.field for violation in error.violations]
    for one in found:
        assert isinstance(one, Site)
        numbers = (one.running, one.input_tokens, one.output_tokens, one.log_time, one.noise, *one.situation.shape)
        assert all(math.isfinite(number) for number in numbers)
    return []


class TestRoundTrip:
    @given(st.lists(SITES, max_size=6).map(tuple))
    def test_sites_are_read_back_in_their_order(self, sites: tuple[Site, ...]) -> None:
        assert through_json(sites) == sites

    def test_numbers_have_six_significant_digits(self) -> None:
        (found,) = through_json((site(log_time=1 / 3, input_tokens=1_048_576.0),))
        assert found.log_time == 0.333333
        assert found.input_tokens == 1_048_580.0

    @given(st.lists(SITES, max_size=4).map(tuple))
    def test_what_was_rounded_once_stays_as_it_is(self, sites: tuple[Site, ...]) -> None:
        assert sites_to_json(through_json(sites)) == sites_to_json(sites)

    def test_what_a_run_has_in_common_is_written_once(self) -> None:
        sites = (site(), site(log_time=0.2), site(UNLIKE), site(UNLIKE, engine_version=""))
        assert [len(run["rows"]) for run in sites_to_json(sites)] == [2, 1, 1]

    def test_two_thousand_sites_are_small(self) -> None:
        """Sweeps of five figures each, with names as long as published ones."""
        random = np.random.default_rng(5)
        sites = tuple(
            site(
                replace(UNLIKE, devices=1 + run % 16, sku=f"accelerator-{run}-sxm-80gb"),
                float(random.normal()),
                running=float(random.uniform(1, 512)),
                input_tokens=float(random.uniform(10, 9_000)),
                source="A published benchmark with a rather long title (of somebody)",
            )
            for run in range(400)
            for _ in range(5)
        )
        assert len(json.dumps(sites_to_json(sites))) < 500_000


class TestRefused:
    def change(self, **change: Any) -> list[dict[str, Any]]:
        first, second = sites_to_json(
            (
                site(),
                site(UNLIKE),
            )
        )
        return [first, second | change]

    @pytest.mark.parametrize("values", [None, {}, "sites", 1])
    def test_no_list(self, values: object) -> None:
        assert refused(values) == "sites"

    @pytest.mark.parametrize("value", [None, [], "text", {}, {"rows": []}])
    def test_no_run(self, value: object) -> None:
        assert refused([value]) == "sites[0]"

    def test_an_unknown_key(self) -> None:
        assert refused(self.change(more=1)) == "sites[1]"

    @pytest.mark.parametrize("name", ["model", "weights", "sku", "generation", "engine"])
    @pytest.mark.parametrize("value", ["", None, 3, ["vllm"]])
    def test_no_name(self, name: str, value: object) -> None:
        assert refused(self.change(**{name: value})) == f"sites[1].{name}"

    @pytest.mark.parametrize("name", ["source", "engine_version"])
    def test_what_may_be_empty_is_text_still(self, name: str) -> None:
        assert sites_from_json(self.change(**{name: ""}))
        assert refused(self.change(**{name: None})) == f"sites[1].{name}"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("spread", "tensor"),
            ("spread", ["plain"]),
            ("devices", 0),
            ("devices", 1.0),
            ("devices", True),
            ("devices", 10**400),
            ("shape", [12.0, 0.0]),
            ("shape", "123"),
            ("rows", {}),
        ],
    )
    def test_no_situation(self, name: str, value: object) -> None:
        assert refused(self.change(**{name: value})) == f"sites[1].{name}"

    @pytest.mark.parametrize("value", [None, "12", True, -1.0, math.nan, math.inf, 10**400])
    def test_no_shape(self, value: object) -> None:
        assert refused(self.change(shape=[12.0, value, 0.0])) == "sites[1].shape"

    @pytest.mark.parametrize("row", [None, [], ["per_token", "latency", 1, 1, 1, 0], "per_tok"])
    def test_no_row(self, row: object) -> None:
        good = ["per_token", "latency", 1, 1, 1, 0, 1]
        assert refused(self.change(rows=[good, row])) == "sites[1].rows[1]"

    @pytest.mark.parametrize(
        ("place", "name", "value"),
        [
            (0, "figures", "tpot"),
            (0, "figures", ["per_token"]),
            (1, "kind", None),
            (2, "running", 0),
            (2, "running", math.inf),
            (3, "input_tokens", -1),
            (4, "output_tokens", "128"),
            (5, "log_time", math.nan),
            (5, "log_time", 11),
            (5, "log_time", -(10**400)),
            (6, "noise", 0),
            (6, "noise", True),
        ],
    )
    def test_no_cell(self, place: int, name: str, value: object) -> None:
        row: list[Any] = ["per_token", "latency", 1, 1, 1, 0, 1]
        row[place] = value
        assert refused(self.change(rows=[row])) == f"sites[1].rows[0].{name}"

    @given(JSON)
    def test_whatever_json_holds_is_read_or_refused(self, value: Any) -> None:
        for values in (value, [value], self.change(rows=value), self.change(shape=value), self.change(devices=value)):
            assert all(field.startswith("sites") for field in faults(values))

    @given(st.integers(0, 6), JSON)
    def test_whatever_a_cell_holds_is_read_or_refused(self, place: int, value: Any) -> None:
        row: list[Any] = ["per_token", "latency", 1, 1, 1, 0, 1]
        row[place] = value
        assert all(field.startswith("sites[1].rows[0].") for field in faults(self.change(rows=[row])))


UNLIKE_EACH_OTHER = [site(), site(log_time=0.2), site(UNLIKE), site(replace(LLAMA, devices=2)), site(kind=Kind.RATE)]


@given(st.permutations(UNLIKE_EACH_OTHER))
def test_sites_have_one_order(sites: list[Site]) -> None:
    assert sorted(sites) == sorted(UNLIKE_EACH_OTHER)
