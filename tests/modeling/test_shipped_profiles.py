"""The shipped model profiles: every total and cache figure is what the architecture facts compute to."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from capplan.modeling.architecture import AttentionMixer, ModelArchitecture, RecurrentMixer
from capplan.modeling.costs import model_costs
from capplan.modeling.facts import architecture_from_facts
from capplan.modeling.parameters import total_parameters
from capplan.modeling.precision import native_precision

PROFILES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (files("capplan.catalog") / "data" / "model_profiles.jsonl").read_text("utf-8").splitlines()
]


def by_name(profile: dict[str, Any]) -> str:
    return str(profile["name"])


def cache_elements(architecture: ModelArchitecture) -> float:
    return sum(
        mixer.cache_elements_per_token * run.count
        for run in architecture.layers
        for mixer in run.block.mixers
        if isinstance(mixer, AttentionMixer)
    )


def test_there_are_at_least_120_profiles_sorted_by_name() -> None:
    names = [by_name(profile) for profile in PROFILES]
    assert len(names) >= 120
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
    assert 2 * cache_elements(architecture) == profile["cache_bytes_per_token_16bit"]
    state = sum(
        (2 * mixer.convolution_state_elements + 4 * mixer.recurrent_state_elements) * run.count
        for run in architecture.layers
        for mixer in run.block.mixers
        if isinstance(mixer, RecurrentMixer)
    )
    assert state == profile["state_bytes_per_sequence"]


@pytest.mark.parametrize("profile", PROFILES, ids=by_name)
def test_every_profile_can_be_costed_as_published(profile: dict[str, Any]) -> None:
    architecture = architecture_from_facts(profile["facts"])
    costs = model_costs(architecture, native_precision(architecture))
    assert costs.model == profile["name"]
    assert costs.weight_bytes > 0.5 * profile["total_parameters"]
    assert profile["source"]
    assert profile["parameters_source"]
    assert profile["confidence"] in ("high", "medium", "low")
