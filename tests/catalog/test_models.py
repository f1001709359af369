"""Model profiles: read from lines of JSON, found by name, and built only when asked for."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from capplan.catalog import records as catalog_records
from capplan.catalog.loader import load_catalog
from capplan.catalog.shipped import ShippedCatalog, parse_model_profiles
from capplan.catalog.snapshot import CatalogSnapshot, load_snapshot
from capplan.database import session_scope
from capplan.errors import InvalidInputError, NotFoundError
from capplan.modeling.parameters import total_parameters


def line(name: str, **values: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": name,
        "family": "llama",
        "aliases": [],
        "source": "a config",
        "as_of": "2026-11-30",
    }
    record |= {"total_parameters": 8_030_261_248, "parameters_source": "counted", "confidence": "high"}
    return record | {"facts": {}, "cache_bytes_per_token_16bit": 131_072, "state_bytes_per_sequence": 0} | values


def loaded_with(engine: Engine, shipped: ShippedCatalog, records: Sequence[dict[str, Any]]) -> CatalogSnapshot:
    profiles, aliases = parse_model_profiles("\n".join(json.dumps(record) for record in records))
    with session_scope(engine) as session:
        facts = dataclasses.replace(shipped, model_profiles=profiles, model_aliases=aliases, measurements=())
        load_catalog(session, facts)
        return load_snapshot(session)


def test_a_line_becomes_a_profile(empty: Engine, shipped: ShippedCatalog) -> None:
    snapshot = loaded_with(empty, shipped, [line("meta-llama/Llama-3.1-8B", aliases=["llama3.1:8b", "L31"])])
    model = snapshot.models["meta-llama/Llama-3.1-8B"]
    assert (model.family, model.total_parameters, model.cache_bytes_per_token_16bit) == ("llama", 8030261248, 131072)
    assert set(model.aliases) == {"llama3.1:8b", "L31"}
    assert model.provenance.as_of == datetime.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("META_LLAMA/llama 3.1 8b", "meta-llama/Llama-3.1-8B"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),  # one organisation has it
        ("Llama3.1:8B", "meta-llama/Llama-3.1-8B"),  # alias
        ("one/same", "one/same"),
    ],
)
def test_a_name_finds_its_model(empty: Engine, shipped: ShippedCatalog, name: str, found: str) -> None:
    records = [line("meta-llama/Llama-3.1-8B", aliases=["llama3.1:8b"]), line("one/same"), line("two/same")]
    assert loaded_with(empty, shipped, records).resolve_model(name).name == found


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("same", ("one/same", "two/same")),  # two organisations have it
        ("llama", ("meta-llama/Llama-3.1-8B",)),
        ("meta-llama/Llama-3.1-9B", ("meta-llama/Llama-3.1-8B",)),
    ],
)
def test_an_unclear_name_is_refused_with_near_ones(
    empty: Engine, shipped: ShippedCatalog, name: str, near: tuple[str, ...]
) -> None:
    records = [line("meta-llama/Llama-3.1-8B"), line("one/same"), line("two/same")]
    with pytest.raises(NotFoundError) as caught:
        loaded_with(empty, shipped, records).resolve_model(name)
    assert (caught.value.kind, caught.value.near) == ("model", near)


def test_the_architecture_is_built_once_and_only_when_asked_for(
    empty: Engine, shipped: ShippedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []

    def build(facts: Any) -> Any:
        built.append(dict(facts))
        return object()

    monkeypatch.setattr(catalog_records, "architecture_from_facts", build)
    model = loaded_with(empty, shipped, [line("one/m", facts={"layers": 2})]).resolve_model("one/m")
    assert built == []
    assert model.architecture is model.architecture
    assert built == [{"layers": 2}]


def test_facts_that_cannot_be_read_are_refused_when_asked_for(empty: Engine, shipped: ShippedCatalog) -> None:
    model = loaded_with(empty, shipped, [line("one/m", facts={"schema": -1})]).resolve_model("one/m")
    with pytest.raises(InvalidInputError, match="schema"):
        _ = model.architecture


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1"),
        ("[]", "line 1"),
        (json.dumps({"name": "x"}), "line 1: 'source' is missing"),
        (json.dumps(line("x")) + "\n" + json.dumps(line("y", as_of="soon")), "line 2: .*soon"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_model_profiles(text)


@pytest.mark.parametrize("aliases", [["two/m"], ["both"]])
def test_a_name_of_two_models_is_refused(empty: Engine, shipped: ShippedCatalog, aliases: list[str]) -> None:
    with pytest.raises(InvalidInputError, match=r"model_aliases\[(two/m|both)\]"):
        loaded_with(empty, shipped, [line("one/m", aliases=aliases), line("two/m", aliases=["both"])])


def test_every_shipped_model_has_the_parameters_its_source_counts(snapshot: CatalogSnapshot) -> None:
    """The totals come from instantiated models and published checkpoints, the architecture from configs."""
    assert len(snapshot.models) >= 120
    for model in snapshot.models.values():
        assert total_parameters(model.architecture) == model.total_parameters, model.name


# Parameters in published checkpoints (safetensors metadata on the hub).
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("HuggingFaceTB/SmolLM-1.7B", 1_711_376_384),
        ("LGAI-EXAONE/EXAONE-4.0-32B", 32_003_216_384),
        ("allenai/Olmo-3.1-32B-Instruct", 32_233_522_176),
        ("ai21labs/AI21-Jamba-1.5-Mini", 51_570_323_328),
    ],
)
def test_totals_of_published_checkpoints(snapshot: CatalogSnapshot, name: str, parameters: int) -> None:
    assert snapshot.resolve_model(name).total_parameters == parameters


def test_every_name_and_alias_of_a_model_resolves_to_it(snapshot: CatalogSnapshot) -> None:
    for name, model in snapshot.models.items():
        assert snapshot.resolve_model(name.upper().replace("-", "_")).name == name
        for alias in model.aliases:
            assert snapshot.resolve_model(alias).name == name
