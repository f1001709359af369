"""Filters over rows in memory: what they select, and how every bad one is refused."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.catalog.filtering import FieldKind, FilterField, parse_filter
from capplan.errors import InvalidInputError

Row = dict[str, Any]

FIELDS: dict[str, FilterField[Row]] = {
    "name": FilterField(FieldKind.TEXT, lambda row: row.get("name")),
    "tags": FilterField(FieldKind.TEXTS, lambda row: row.get("tags")),
    "size": FilterField(FieldKind.NUMBER, lambda row: row.get("size")),
    "on": FilterField(FieldKind.BOOLEAN, lambda row: row.get("on")),
    "day": FilterField(FieldKind.DATE, lambda row: row.get("day")),
}

ROWS: list[Row] = [
    {"id": 1, "name": "H100 SXM", "tags": ("a", "Big one"), "size": 80, "on": True, "day": datetime.date(2026, 1, 31)},
    {"id": 2, "name": 'L4 "small"', "tags": (), "size": 24, "on": False, "day": datetime.date(2026, 2, 1)},
    {"id": 3, "name": "B200\\x", "tags": ("b",), "size": 179.06, "on": True, "day": datetime.date(2025, 12, 31)},
    {"id": 4},
]


def select(text: str) -> list[int]:
    return [row["id"] for row in parse_filter(text, FIELDS).apply(ROWS)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", [1, 2, 3, 4]),
        ("   ", [1, 2, 3, 4]),
        ('name = "H100 SXM"', [1]),
        ('name="H100 SXM"', [1]),
        ('name = "h100 sxm"', []),  # equality minds the case
        ("name : h100", [1]),  # containment does not
        ("name:200", [3]),
        (r'name = "L4 \"small\""', [2]),
        (r'name = "B200\\x"', [3]),
        ('name != "H100 SXM"', [2, 3]),  # a row without a name matches nothing
        ("name < C", [3]),
        ('name : ""', [1, 2, 3]),
        ("tags : a", [1]),
        ('tags : "big ONE"', [1]),
        ("tags : big", []),  # a whole element
        ("size = 80", [1]),
        ("size = 80.0", [1]),
        ("size >= 80", [1, 3]),
        ("size < 8e1", [2]),
        ("size > 179", [3]),
        ("size != 24", [1, 3]),
        ("size > -1", [1, 2, 3]),
        ("on = true", [1, 3]),
        ("on != true", [2]),
        ("day >= 2026-01-31", [1, 2]),
        ("day < 2026-01-01", [3]),
        ("size > 20 AND on = true AND name : h", [1]),
        ("size>20 AND on=true", [1, 3]),
    ],
)
def test_a_filter_selects(text: str, ids: list[int]) -> None:
    assert select(text) == ids


def test_a_bare_value_may_hold_colons() -> None:
    field: dict[str, FilterField[str]] = {"url": FilterField(FieldKind.TEXT, lambda row: row)}
    assert parse_filter("url = a:b:c", field).matches("a:b:c")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour = red", "there is no field 'colour'; accepted fields: day, name, on, size, tags"),
        ("NAME = x", "there is no field 'NAME'"),
        ("name", "must be followed by an operator, one of = != < <= > >= :"),
        ("name x", "must be followed by an operator"),
        ("name =", "a value is missing after name ="),
        ("name = = x", "a value is missing"),
        ("= x", "there is no field '='"),
        ('"name" = x', "there is no field 'name'"),
        ("size = many", "size is a number, 'many' is none"),
        ("size = 1_000", "size is a number"),
        ("size = 1e999", "size is a number"),
        ("size = nan", "size is a number"),
        ("size = ١", "size is a number"),  # noqa: RUF001 - an Arabic digit one
        ("size : 8", "size is a number, which : cannot compare"),
        ("tags = a", "tags is a list of texts, which = cannot compare; one of : can"),
        ("on = 1", "on is a true or false, '1' is none"),
        ("on < true", "cannot compare"),
        ("day = 2026-02-30", "day is a date"),
        ("day = 20260130", "day is a date"),
        ("day : 2026", "cannot compare"),
        ("name = x OR name = y", "joined by AND, not by 'OR'"),
        ("name = x name = y", "joined by AND, not by 'name'"),
        ("name = x and name = y", "joined by AND, not by 'and'"),
        ("NOT name = x", "NOT is not supported"),
        ("name = x AND", "a condition is missing after AND"),
        ("AND name = x", "there is no field 'AND'"),
        ("(name = x)", "brackets and functions are not supported"),
        ("name = f(x)", "brackets and functions are not supported"),
        ("name = H1*", "wildcards are not supported"),
        ("tags : *", "wildcards are not supported"),
        ('name = "x', "a quote left open"),
        ("name ! x", "cannot read"),
        ("name = " + "x" * 2000, "at most 2000"),
        (" AND ".join(["size > 1"] * 33), "33 conditions, at most 32"),
    ],
)
def test_a_bad_filter_is_refused_on_its_field(text: str, says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_filter(text, FIELDS)
    (violation,) = caught.value.violations
    assert violation.field == "filter"
    assert says in violation.description


SIGNS = ("=", "!=", "<", "<=", ">", ">=", ":", "!", "(", ")", '"', "\\", "*", " ", "\x00")
LITERALS = ("80", "-1.5e3", "true", "2026-01-31", "H100", '"H100 SXM"', "\ud800", "é", "９")  # noqa: RUF001
PIECES = st.sampled_from((*FIELDS, "AND", "OR", "NOT", *SIGNS, *LITERALS))


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES, max_size=12).map(" ".join)))
def test_any_text_selects_rows_or_is_refused(text: str) -> None:
    try:
        assert set(select(text)) <= {1, 2, 3, 4}
    except InvalidInputError as error:
        assert [violation.field for violation in error.violations] == ["filter"]  # noqa: PT017


@given(st.text(alphabet=st.characters(exclude_characters="*")))
def test_a_quoted_text_is_compared_as_it_is(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    field: dict[str, FilterField[str]] = {"name": FilterField(FieldKind.TEXT, lambda row: row)}
    chosen = parse_filter(f'name = "{quoted}"', field)
    assert chosen.matches(text)
    assert not chosen.matches(text + "x")
