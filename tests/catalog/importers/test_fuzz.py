"""Whatever a file holds, an importer answers with rows, with reasons, or with a typed refusal."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from capplan.catalog.importers.formats import PARSERS, parse
from capplan.catalog.importers.landing import ImportReport, import_measurements
from capplan.catalog.importers.runs import Facts, Parsed
from capplan.database import open_engine
from capplan.errors import InvalidInputError
from tests.catalog.importers.test_aiperf import CSV as AIPERF_CSV
from tests.catalog.importers.test_aiperf import EXPORT
from tests.catalog.importers.test_guidellm import new
from tests.catalog.importers.test_inferencex import ROW as INFERENCEX_ROW
from tests.catalog.importers.test_table import ROW as TABLE_ROW
from tests.catalog.importers.test_table import table
from tests.catalog.importers.test_vllm import RESULT

NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
GIVEN = Facts(model="qwen3-8b", accelerator="h100-sxm-80gb", weights="fp8", engine="vllm", tensor_parallel=1)

DOCUMENTS = {
    "vllm": RESULT,
    "guidellm": {"benchmarks": [new({"type_": "concurrent", "streams": 4})]},
    "aiperf": EXPORT,
    "inferencex": INFERENCEX_ROW,
}

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**310),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(["inf", "1e9999", "\ud800", "\x00", "9" * 30, "-0", ""]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def engine(loaded_file: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{loaded_file}")
    yield engine
    engine.dispose()


def explained(call: Callable[[], Parsed | ImportReport]) -> bool:
    """Whether a call answers, with a reason for what it could not use, or refuses the file; no other error passes."""
    try:
        answer = call()
    except InvalidInputError as refusal:
        return [violation.field for violation in refusal.violations] == ["file"]
    return all(rejection.place and rejection.reason for rejection in answer.rejections)


def attempt(engine: Engine, content: bytes, format_: str) -> None:
    """Import and roll back; the database must accept every row that the importer let through."""
    with Session(engine) as session:
        assert explained(lambda: import_measurements(session, content, format_, "fuzz", GIVEN, NOW))
        session.rollback()


def replaced(draw: st.DrawFn, value: object, chance: int = 4) -> object:
    """The document with some of its values replaced."""
    if draw(st.integers(0, chance)) == 0:
        return draw(VALUES)
    if isinstance(value, dict):
        return {key: replaced(draw, item, chance) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(draw, item, chance) for item in value]
    return value


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, bytes]:
    format_ = draw(st.sampled_from(sorted(DOCUMENTS)))
    document = DOCUMENTS[format_]
    return format_, json.dumps({key: replaced(draw, item, 12) for key, item in document.items()}).encode()


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    cells = st.one_of(
        st.text(alphabet=st.characters(codec="utf-8"), max_size=12),
        st.sampled_from(["", "0", "-1", "1e12", "1e300", "65537", "true", "nan", "\x00", "fp8", "qps"]),
    )
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(TABLE_ROW)
    for _ in range(draw(st.integers(1, 3))):
        writer.writerow([draw(cells) if draw(st.integers(0, 5)) == 0 else cell for cell in TABLE_ROW.values()])
    return text.getvalue().encode()


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@settings(max_examples=100)
@pytest.mark.parametrize("format_", sorted(PARSERS))
def test_any_bytes_are_read_or_refused(format_: str, content: bytes) -> None:
    assert explained(lambda: parse(content, format_))


@given(case=documents())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_a_document_with_anything_in_it_lands_or_is_explained(engine: Engine, case: tuple[str, bytes]) -> None:
    format_, content = case
    attempt(engine, content, format_)


@given(content=tables())
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_a_table_with_anything_in_it_lands_or_is_explained(engine: Engine, content: bytes) -> None:
    attempt(engine, content, "csv")


@given(data=st.data())
@settings(max_examples=100)
def test_a_damaged_export_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([AIPERF_CSV, table(TABLE_ROW), json.dumps(EXPORT), json.dumps(RESULT)]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    damaged = text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    content = damaged.encode("utf-8", "replace")
    for format_ in PARSERS:
        assert explained(partial(parse, content, format_))
