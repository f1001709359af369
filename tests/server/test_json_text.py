"""JSON from callers: what the standard allows is read, everything that would surprise a reader is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import InvalidInputError
from capplan.server.json_text import MAX_JSON_BYTES, MAX_JSON_DEPTH, parse_json_object

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4), st.booleans())
def test_an_object_is_read_as_the_standard_library_reads_it(value, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_json_object(text, "config") == json.loads(text)


def nested(levels: int) -> str:
    """An object with so many levels of brackets, itself included."""
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("{'a': 1}", "is not JSON"),
        ('{"a": 1,}', "is not JSON"),
        ('{"a": 1} x', "is not JSON"),
        ('{"a": "\x01"}', "is not JSON"),
        ("[]", "holds a list"),
        ("null", "holds null"),
        ("true", "holds a truth value"),
        ("3", "holds a number"),
        ('"a"', "holds a string"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "the key 'c' twice"),
        (nested(MAX_JSON_DEPTH + 2), "deeper than"),
        ('{"a":' + "[" * 100_000, "deeper than"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
        (json.dumps({"a": "x" * MAX_JSON_BYTES}), "bytes, more than"),
    ],
)
def test_what_is_no_plain_object_is_refused_with_the_field(text: str, says: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_json_object(text, "model.config_json")
    (violation,) = refusal.value.violations
    assert violation.field == "model.config_json"
    assert says in violation.description
    assert violation.description.endswith("expected the text of one JSON object")


def test_the_deepest_accepted_object_is_read() -> None:
    text = nested(MAX_JSON_DEPTH)
    assert parse_json_object(text, "config") == json.loads(text)


def test_the_longest_accepted_text_is_read() -> None:
    padding = MAX_JSON_BYTES - len('{"a": ""}')
    assert parse_json_object(json.dumps({"a": "x" * padding}), "config")["a"] == "x" * padding


def test_an_open_limit_is_read_as_infinity() -> None:
    # published Mamba2 configs say "time_step_limit": [0.0, Infinity]
    assert parse_json_object('{"time_step_limit": [0.0, Infinity]}', "field") == {
        "time_step_limit": [0.0, float("inf")]
    }
