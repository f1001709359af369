"""The shipped model profiles: every total and cache figure is what the architecture facts compute to."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from capplan.modeling.costs import model_costs
from capplan.modeling.facts import architecture_from_facts
from capplan.modeling.parameters import total_parameters
from capplan.modeling.precision import native_precision
from tests.modeling.report_counts import (
    cache_bytes_per_token,
    count,
    counted_beside,
    shipped_profiles,
    state_bytes_per_sequence,
    summary,
)

PROFILES = shipped_profiles()


def by_name(profile: dict[str, Any]) -> str:
    return str(profile["name"])


def test_there_are_at_least_150_profiles_sorted_by_name() -> None:
    names = [by_name(profile) for profile in PROFILES]
    assert len(names) >= 150
    assert names == sorted(names)


def test_a_spelling_belongs_to_one_profile() -> None:
    spellings = [s.casefold() for profile in PROFILES for s in (profile["name"], *profile["aliases"])]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("profile", PROFILES, ids=by_name)
def test_the_facts_compute_to_the_published_total(profile: dict[str, Any]) -> None:
    assert total_parameters(architecture_from_facts(profile["facts"])) == profile["total_parameters"]


@pytest.mark.parametrize("profile", PROFILES, ids=by_name)
def test_the_facts_compute_to_the_published_cache_and_state(profile: dict[str, Any]) -> None:
    architecture = architecture_from_facts(profile["facts"])
    assert cache_bytes_per_token(architecture) == profile["cache_bytes_per_token_16bit"]
    assert state_bytes_per_sequence(architecture) == profile["state_bytes_per_sequence"]


def test_the_table_of_counts_has_no_wrong_row() -> None:
    rows = list(count(PROFILES))
    assert len(rows) == len(PROFILES)
    assert [row.name for row in rows if row.verdict == "wrong"] == []
    assert summary(rows).endswith(" 0 wrong")


def test_a_profile_off_by_one_would_be_wrong_in_the_table() -> None:
    for key in ("total_parameters", "cache_bytes_per_token_16bit", "state_bytes_per_sequence"):
        profile = copy.deepcopy(PROFILES[0])
        profile[key] += 1
        assert summary(count([profile])) == "0 exact, 0 explained, 1 wrong"


def test_what_a_source_counts_beside_the_parameters_is_read_from_its_words() -> None:
    assert counted_beside("safetensors index less 82432 router score corrections, which are buffers") == 82_432
    assert counted_beside("safetensors index less the multi-token prediction layer (210790400)") == 210_790_400
    assert counted_beside("instantiated with transformers 5.24 on the meta device") == 0
    # Index totals: Kimi-K3 2,779,931,837,184, GLM-4-9B 9,399,951,392, MiMo-7B 7,833,409,536.
    published = {row.name: row.published_parameters for row in count(PROFILES) if row.verdict == "explained"}
    assert published["moonshotai/Kimi-K3"] == 2_779_931_837_184
    assert published["zai-org/glm-4-9b"] == 9_399_951_392
    assert published["XiaomiMiMo/MiMo-7B-Base"] == 7_833_409_536


@pytest.mark.parametrize("profile", PROFILES, ids=by_name)
def test_every_profile_can_be_costed_as_published(profile: dict[str, Any]) -> None:
    architecture = architecture_from_facts(profile["facts"])
    costs = model_costs(architecture, native_precision(architecture))
    assert costs.model == profile["name"]
    assert costs.weight_bytes > 0.5 * profile["total_parameters"]
    assert profile["source"]
    assert profile["parameters_source"]
    assert profile["confidence"] in ("high", "medium", "low")
