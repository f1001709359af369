"""Pages: together they are the listing, and a token is good for the listing it was made for only."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.catalog.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page, Paginator
from capplan.errors import InvalidInputError

PAGINATOR = Paginator(b"a key of the tests")


def page(
    rows: Sequence[str],
    size: int = 0,
    token: str = "",
    collection: str = "things",
    filter_text: str = "",
    paginator: Paginator = PAGINATOR,
) -> Page[str]:
    return paginator.page(
        rows,
        key=lambda row: (row,),
        collection=collection,
        filter_text=filter_text,
        page_size=size,
        page_token=token,
    )


@given(st.sets(st.text(max_size=5), max_size=40), st.integers(1, 12))
def test_the_pages_together_are_the_listing_in_order(rows: set[str], size: int) -> None:
    seen: list[str] = []
    token = ""
    while True:
        got = page(sorted(rows, reverse=True), size, token)
        assert got.total_size == len(rows)
        assert len(got.items) == size or not got.next_page_token
        seen += got.items
        token = got.next_page_token
        if not token:
            break
    assert seen == sorted(rows)


ROWS = [f"row-{number:04}" for number in range(1200)]


@pytest.mark.parametrize(
    ("asked", "given_"), [(0, DEFAULT_PAGE_SIZE), (7, 7), (500, 500), (501, MAX_PAGE_SIZE), (2**31 - 1, MAX_PAGE_SIZE)]
)
def test_the_page_size_has_a_default_and_a_cap(asked: int, given_: int) -> None:
    assert (DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE) == (50, 500)
    assert len(page(ROWS, asked).items) == given_


def test_a_negative_page_size_is_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        page(ROWS, -1)
    assert caught.value.violations[0].field == "page_size"


def test_the_last_page_has_no_token_even_when_it_is_full() -> None:
    assert page(ROWS[:50]).next_page_token == ""
    assert page([]).items == ()


def test_rows_that_come_or_go_neither_repeat_nor_hide_others() -> None:
    first = page(["b", "d", "f", "h"], 2)
    assert first.items == ("b", "d")
    # `d`, where the next page goes on, is gone; `a` and `e` are new.
    second = page(["a", "b", "e", "f", "h"], 2, first.next_page_token)
    assert second.items == ("e", "f")
    assert page(["a", "b"], 2, first.next_page_token).items == ()


TOKEN = page(ROWS, 5).next_page_token


@pytest.mark.parametrize(
    "token",
    [
        page(ROWS, 5, collection="others").next_page_token,
        page(ROWS, 5, filter_text="name = x").next_page_token,
        page(ROWS, 5, paginator=Paginator(b"another key, of another process")).next_page_token,
        page(ROWS, 5, paginator=Paginator()).next_page_token,
        TOKEN[:-1],
        TOKEN + "A",
        TOKEN + "=",
        " " + TOKEN,
        TOKEN.upper(),
        base64.urlsafe_b64encode(b"\x00" * 16 + b'["row-0004"]').decode().rstrip("="),
        "A",
        "é",
        "\ud800",
        "A" * 100_000,
    ],
    ids=range(14),
)
def test_a_token_of_anything_else_is_refused(token: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        page(ROWS, 5, token)
    assert [violation.field for violation in caught.value.violations] == ["page_token"]


@given(st.integers(0, len(TOKEN) - 1), st.characters())
def test_a_token_with_one_other_character_is_refused(position: int, character: str) -> None:
    forged = TOKEN[:position] + character + TOKEN[position + 1 :]
    if forged != TOKEN:
        with pytest.raises(InvalidInputError, match="page_token"):
            page(ROWS, 5, forged)


@given(st.text(min_size=1), st.integers())
def test_any_token_and_size_is_refused_or_gives_a_page(token: str, size: int) -> None:
    with pytest.raises(InvalidInputError):
        page(ROWS, size, token)


def test_replicas_that_share_a_key_accept_each_others_tokens() -> None:
    other = Paginator(b"a key of the tests")
    assert page(ROWS, 5, TOKEN, paginator=other).items == tuple(ROWS[5:10])
