"""Calibrations stored before there were corrections get none, and keep what else they say, there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from capplan.database import alembic_config, open_engine

BEFORE, AFTER = "0003", "0004"
STORED: dict[str, Any] = {
    "created_at": "2026-11-30 12:00:00.000000",
    "measurement_revision": 7,
    "generations": '["hopper"]',
    "engines": '["vllm"]',
    "coefficients": '{"weight_read": 0.875}',
    "residuals": "{}",
    "source": "own",
    "active": 1,
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A database with one calibration, at the schema before."""
    engine = open_engine(f"sqlite:///{tmp_path / 'before.sqlite3'}")
    command.upgrade(alembic_config(engine), BEFORE)
    insert(engine, STORED)
    yield engine
    engine.dispose()


def insert(engine: Engine, values: dict[str, Any]) -> None:
    names = ", ".join(values)
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO calibrations ({names}) VALUES (:{', :'.join(values)})"), values)


def rows(engine: Engine) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(text("SELECT * FROM calibrations")).mappings()]


def test_a_stored_calibration_gets_empty_corrections(engine: Engine) -> None:
    before = rows(engine)
    command.upgrade(alembic_config(engine), AFTER)
    (after,) = rows(engine)
    assert [json.loads(after.pop(name)) for name in ("sites", "reach")] == [[], []]
    assert [after] == before


def test_it_is_the_same_after_a_way_back(engine: Engine) -> None:
    before = rows(engine)
    command.upgrade(alembic_config(engine), AFTER)
    command.downgrade(alembic_config(engine), BEFORE)
    assert rows(engine) == before


@pytest.mark.parametrize("name", ["sites", "reach"])
def test_a_calibration_without_them_cannot_be_stored(engine: Engine, name: str) -> None:
    command.upgrade(alembic_config(engine), AFTER)
    with pytest.raises(IntegrityError, match=name):
        insert(engine, STORED | {"active": 0, name: None})


def test_rules_and_the_index_of_the_active_one_hold_there_and_back(engine: Engine) -> None:
    for revision in (AFTER, BEFORE):
        move = command.upgrade if revision == AFTER else command.downgrade
        move(alembic_config(engine), revision)
        assert [index["name"] for index in inspect(engine).get_indexes("calibrations")] == [
            "uq_calibrations_only_active"
        ]
        for change in ({}, {"active": 0, "source": "hearsay"}, {"active": 0, "measurement_revision": -1}):
            with pytest.raises(IntegrityError):
                insert(engine, STORED | change)
