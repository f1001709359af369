"""Names fold to one spelling, and a name that is not there is answered with those that could be meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.catalog.names import MAX_NEAR_NAMES, NameIndex, fold_accelerator_name, fold_model_name
from capplan.errors import NotFoundError

INDEX = NameIndex.build(
    "accelerator",
    fold_accelerator_name,
    [("x100-pcie-40gb", "x100-pcie-40gb"), ("x100-sxm-80gb", "x100-sxm-80gb"), ("Maker X100 Deluxe", "x100-sxm-80gb")],
)


@pytest.mark.parametrize("name", ["RTX 4090", "rtx-4090", "RTX4090", " Rtx_4090 ", "(RTX) 4090"])
def test_device_names_fold_without_separators(name: str) -> None:
    assert fold_accelerator_name(name) == "rtx4090"


def test_model_names_keep_their_separators() -> None:
    assert fold_model_name("Meta-Llama/Llama_3.1 8B") == "meta-llama-llama-3.1-8b"
    assert fold_model_name("llama-3-18b") != fold_model_name("llama-31-8b")


def test_a_name_and_its_spellings_resolve() -> None:
    assert INDEX.resolve("X100 SXM 80GB") == "x100-sxm-80gb"
    assert INDEX.resolve("maker_x100_deluxe") == "x100-sxm-80gb"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("x100", ("x100-pcie-40gb", "x100-sxm-80gb")),  # both have the word: ambiguous
        ("80gb x100", ("x100-sxm-80gb",)),  # words in another order
        ("x100pcie", ("x100-pcie-40gb",)),  # a part of one
        ("x100-sxm-90gb", ("x100-sxm-80gb", "x100-pcie-40gb")),  # alike, the closer one first
        ("delux", ("x100-sxm-80gb",)),  # a part of a spelling
        ("pcei", ("x100-pcie-40gb",)),  # like a word of one
        ("", ()),
        ("---", ()),
        ("?", ()),
        ("y" * 1000, ()),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(name: str, near: tuple[str, ...]) -> None:
    with pytest.raises(NotFoundError) as caught:
        INDEX.resolve(name)
    assert caught.value.near == near
    assert (caught.value.kind, caught.value.name) == ("accelerator", name)


def test_an_entry_with_the_word_in_its_own_name_comes_before_one_with_an_alias_that_has_it() -> None:
    pairs = [("a/distilled", "a/distilled"), ("z/deep-1", "z/deep-1"), ("z/deep-distilled", "a/distilled")]
    index = NameIndex.build("model", fold_model_name, pairs)
    assert index.near("deep") == ("z/deep-1", "a/distilled")


@given(st.text())
def test_any_text_resolves_or_is_refused(name: str) -> None:
    try:
        assert INDEX.resolve(name) in {"x100-pcie-40gb", "x100-sxm-80gb"}
    except NotFoundError as error:
        assert len(error.near) <= MAX_NEAR_NAMES  # noqa: PT017


@given(st.text(), st.sampled_from([fold_accelerator_name, fold_model_name]))
def test_folding_twice_is_folding_once(name: str, fold: object) -> None:
    assert callable(fold)
    assert fold(fold(name)) == fold(name)
