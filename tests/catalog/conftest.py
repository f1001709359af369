"""A migrated database, and one with the shipped facts in it; each is made once and copied for every test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from capplan.catalog.loader import load_catalog
from capplan.catalog.shipped import ShippedCatalog, read_shipped
from capplan.catalog.snapshot import CatalogSnapshot, load_snapshot
from capplan.database import open_engine, session_scope, upgrade


@pytest.fixture(scope="session")
def shipped() -> ShippedCatalog:
    return read_shipped()


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalog") / "empty.sqlite3"
    engine = open_engine(f"sqlite:///{path}")
    upgrade(engine)
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def loaded_file(empty_file: Path) -> Path:
    path = empty_file.with_name("loaded.sqlite3")
    shutil.copy(empty_file, path)
    engine = open_engine(f"sqlite:///{path}")
    with session_scope(engine) as session:
        load_catalog(session)
    engine.dispose()
    return path


def _copy(file: Path, tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{shutil.copy(file, tmp_path / 'catalog.sqlite3')}")
    yield engine
    engine.dispose()


@pytest.fixture
def empty(empty_file: Path, tmp_path: Path) -> Iterator[Engine]:
    """A database with the schema and no facts."""
    yield from _copy(empty_file, tmp_path)


@pytest.fixture
def loaded(loaded_file: Path, tmp_path: Path) -> Iterator[Engine]:
    """A database with the shipped facts."""
    yield from _copy(loaded_file, tmp_path)


@pytest.fixture(scope="session")
def snapshot(loaded_file: Path) -> Iterator[CatalogSnapshot]:
    engine = open_engine(f"sqlite:///{loaded_file}")
    with session_scope(engine) as session:
        yield load_snapshot(session)
    engine.dispose()
