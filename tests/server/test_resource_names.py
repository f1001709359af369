"""Resource names are written and read by one module, and what it writes it reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import InvalidInputError
from capplan.server import resource_names as names

SEGMENT = st.text(
    st.characters(codec="ascii", categories=["L", "N"], include_characters="-._"), min_size=1, max_size=20
)


def test_names_are_spelled_as_the_contract_says() -> None:
    assert names.accelerator_name("h100-sxm-80gb") == "accelerators/h100-sxm-80gb"
    assert names.mig_profile_name("a100-40gb", 19) == "migBoards/a100-40gb/profiles/19"
    assert names.model_name("Qwen/Qwen3-32B") == "models/Qwen--Qwen3-32B"
    assert names.price_name("aws", "p5.48xlarge", "us-east-1", "spot") == "prices/aws~p5.48xlarge~us-east-1~spot"


@given(SEGMENT)
def test_an_accelerator_name_reads_back(sku: str) -> None:
    assert names.parse_accelerator(names.accelerator_name(sku), "name") == sku


# The hub refuses ids with "--" or ".." and ids whose parts begin or end with "-" or ".".
HUB_PART = SEGMENT.filter(lambda part: "--" not in part and part.strip("-.") == part)


@given(HUB_PART, HUB_PART)
def test_a_model_name_reads_back(organisation: str, model: str) -> None:
    hub_id = f"{organisation}/{model}"
    assert names.parse_model(names.model_name(hub_id), "name") == hub_id


@given(SEGMENT, st.integers(0, 255))
def test_a_mig_profile_name_reads_back(board: str, profile_id: int) -> None:
    assert names.parse_mig_profile(names.mig_profile_name(board, profile_id), "name") == (board, profile_id)


@given(st.lists(st.text(max_size=8), min_size=2, max_size=4), st.lists(st.text(max_size=8), min_size=2, max_size=4))
def test_different_prices_have_different_names(one: list[str], other: list[str]) -> None:
    assert (names.price_name(*one) == names.price_name(*other)) == (one == other)


def test_text_without_a_collection_is_an_alias() -> None:
    assert names.parse_accelerator("NVIDIA H100 80GB HBM3", "name") == "NVIDIA H100 80GB HBM3"
    assert names.parse_model("Qwen/Qwen3-32B", "name") == "Qwen/Qwen3-32B"


@pytest.mark.parametrize("text", ["", "migBoards/-"])
def test_no_board_and_the_wildcard_mean_every_board(text: str) -> None:
    assert names.parse_mig_parent(text, "parent") is None


@pytest.mark.parametrize("text", ["migBoards", "migBoards/", "a100-40gb", "migBoards/a/b", "accelerators/a100-40gb"])
def test_a_parent_that_is_no_board_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        names.parse_mig_parent(text, "parent")
    assert refusal.value.violations[0].field == "parent"
    assert "migBoards/{board}" in refusal.value.violations[0].description


@pytest.mark.parametrize(
    "text",
    [
        "migBoards/a100-40gb",
        "migBoards/a100-40gb/profiles/",
        "migBoards/a100-40gb/profiles/-1",
        "migBoards/a100-40gb/profiles/1g.5gb",
        "migBoards/a100-40gb/profiles/٣",  # a digit, but not of the ones a number is written in here
        "migBoards/a100-40gb/profiles/" + "9" * 5000,
        "migBoards//profiles/19",
        "migBoards/a100-40gb/profiles/19/",
    ],
)
def test_a_mig_profile_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="migBoards"):
        names.parse_mig_profile(text, "name")


@pytest.mark.parametrize(
    ("parse", "text"),
    [(names.parse_accelerator, "accelerators/"), (names.parse_model, "models/"), (names.parse_price, "prices/")],
)
def test_a_collection_without_an_id_is_refused(parse, text: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse(text, "name")
    assert refusal.value.violations[0].field == "name"
