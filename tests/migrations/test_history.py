"""The schema's history: one line, there and back, and equal to the tables of the program."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text
from sqlalchemy.schema import CheckConstraint

import capplan.catalog.tables  # noqa: F401 - registers the tables
from capplan.catalog.loader import load_catalog
from capplan.catalog.snapshot import load_snapshot
from capplan.database import (
    Base,
    alembic_config,
    current_revision,
    downgrade,
    head_revision,
    open_engine,
    session_scope,
    upgrade,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'history.sqlite3'}")
    yield engine
    engine.dispose()


def objects(engine: Engine) -> dict[str, str]:
    """Every table and index with its text, but SQLite's own and Alembic's version table."""
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'"
    with engine.connect() as connection:
        return {row.name: row.sql for row in connection.execute(text(query))}


def test_the_history_is_one_line() -> None:
    scripts = ScriptDirectory.from_config(alembic_config())
    assert len(scripts.get_heads()) == len(scripts.get_bases()) == 1


def test_up_down_up_ends_where_it_was(engine: Engine) -> None:
    assert current_revision(engine) is None
    assert upgrade(engine) == head_revision() == current_revision(engine)
    first = objects(engine)
    downgrade(engine, "base")
    assert current_revision(engine) is None
    assert objects(engine) == {}
    upgrade(engine)
    assert objects(engine) == first


def test_every_step_can_be_taken_back(engine: Engine) -> None:
    scripts = list(ScriptDirectory.from_config(alembic_config()).walk_revisions())
    for script in reversed(scripts):
        before = objects(engine)
        command.upgrade(alembic_config(engine), script.revision)
        after = objects(engine)
        command.downgrade(alembic_config(engine), "-1")
        assert objects(engine) == before
        command.upgrade(alembic_config(engine), script.revision)
        assert objects(engine) == after


def test_a_full_database_can_be_taken_down_and_filled_again(engine: Engine) -> None:
    upgrade(engine)
    for _ in range(2):
        with session_scope(engine) as session:
            load_catalog(session)
            assert len(load_snapshot(session).accelerators) == 66
        downgrade(engine, "base")
        upgrade(engine)


def test_the_history_makes_the_tables_of_the_program(engine: Engine) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "render_as_batch": True}
        )
        assert compare_metadata(context, Base.metadata) == []


def test_the_history_makes_the_rules_of_the_program(engine: Engine) -> None:
    """Alembic does not compare check constraints, so they are compared here."""
    upgrade(engine)
    reflected = inspect(engine)
    for table in Base.metadata.sorted_tables:
        made = {check["name"]: check["sqltext"] for check in reflected.get_check_constraints(table.name)}
        assert made == {
            str(constraint.name): str(constraint.sqltext)
            for constraint in table.constraints
            if isinstance(constraint, CheckConstraint)
        }


def test_a_new_database_is_at_revision_zero_of_the_catalogue(engine: Engine) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id, revision FROM catalog_revision")).all() == [(1, 0)]


def test_upgrading_twice_does_nothing(engine: Engine) -> None:
    upgrade(engine)
    with session_scope(engine) as session:
        load_catalog(session)
    upgrade(engine)
    with session_scope(engine) as session:
        assert load_snapshot(session).revision == 1


def test_a_connection_serves_as_well_as_an_engine(engine: Engine) -> None:
    config = alembic_config()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    assert current_revision(engine) == head_revision()


@pytest.mark.parametrize("url", ["sqlite://", "postgresql://"])
def test_the_history_can_be_printed_for_either_database(url: str) -> None:
    config = alembic_config()
    config.set_main_option("sqlalchemy.url", url)
    config.output_buffer = io.StringIO()
    command.upgrade(config, "head", sql=True)
    printed = config.output_buffer.getvalue()
    for table in Base.metadata.sorted_tables:
        assert f"CREATE TABLE {table.name} " in printed
    assert "INSERT INTO catalog_revision" in printed


def test_names_fit_postgresql() -> None:
    """PostgreSQL cuts a name after 63 characters; two cut names may then be the same."""
    for table in Base.metadata.sorted_tables:
        for constraint in table.constraints:
            assert constraint.name is not None
            assert len(str(constraint.name)) <= 63
