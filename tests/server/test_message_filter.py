"""Filters name fields as the listed messages do, and a fact that is unknown matches nothing."""

from __future__ import annotations

import pytest

from capplan.catalog.filtering import parse_filter
from capplan.errors import InvalidInputError
from capplan.server.message_filter import filter_fields
from capplan.v1 import catalog_pb2

FIELDS = filter_fields(catalog_pb2.Accelerator.DESCRIPTOR, map_keys=("bf16", "fp8"))
PROFILE_FIELDS = filter_fields(catalog_pb2.MigProfile.DESCRIPTOR, zero_is_a_value={"profile_id"})


@pytest.fixture
def known() -> catalog_pb2.Accelerator:
    return catalog_pb2.Accelerator(
        name="accelerators/x",
        vendor="nvidia",
        memory_bytes=80 * 10**9,
        peak_flop_per_s={"bf16": 1e15},
        aliases=["X 80GB", "x"],
        source=catalog_pb2.FactSource(confidence="high", edited=True),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vendor = nvidia",
        "name = accelerators/x AND vendor != amd",
        "memory_bytes >= 80000000000",
        "peak_flop_per_s.bf16 > 9.9e14",
        'aliases:"x 80gb"',
        "source.edited = true AND source.confidence = high",
    ],
)
def test_a_row_matches_what_it_says(known: catalog_pb2.Accelerator, text: str) -> None:
    assert parse_filter(text, FIELDS).matches(known)


@pytest.mark.parametrize("comparison", ["= 0", "!= 5", "< 5", "> -1"])
def test_an_unknown_figure_matches_nothing(known: catalog_pb2.Accelerator, comparison: str) -> None:
    assert not parse_filter(f"board_power_w {comparison}", FIELDS).matches(known)
    assert not parse_filter(f"peak_flop_per_s.fp8 {comparison}", FIELDS).matches(known)


def test_looking_for_a_peak_that_is_not_there_adds_none(known: catalog_pb2.Accelerator) -> None:
    parse_filter("peak_flop_per_s.fp8 > 1", FIELDS).matches(known)
    assert dict(known.peak_flop_per_s) == {"bf16": 1e15}


def test_profile_id_zero_is_an_id() -> None:
    profile = catalog_pb2.MigProfile(profile="7g.40gb", profile_id=0)
    assert parse_filter("profile_id = 0", PROFILE_FIELDS).matches(profile)
    assert not parse_filter("memory_bytes = 0", PROFILE_FIELDS).matches(profile)


@pytest.mark.parametrize("field", ["sku", "peak_flop_per_s", "peak_flop_per_s.fp3", "source", "Vendor"])
def test_a_field_the_message_has_not_is_refused_with_those_it_has(field: str) -> None:
    with pytest.raises(InvalidInputError, match="accepted fields: aliases, architecture"):
        parse_filter(f"{field} = 1", FIELDS)
