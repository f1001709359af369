"""Engines, sessions, and what happens on a database whose schema is missing, old or too new."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

import capplan.database
from capplan.database import (
    SchemaVersionError,
    current_revision,
    downgrade,
    head_revision,
    migrations_path,
    open_engine,
    require_current_schema,
    session_scope,
    upgrade,
)
from capplan.errors import InvalidInputError
from capplan.settings import Settings


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'file.sqlite3'}", busy_timeout_ms=1234)
    yield engine
    engine.dispose()


def pragma(engine: Engine, name: str) -> object:
    with engine.connect() as connection:
        return connection.execute(text(f"PRAGMA {name}")).scalar_one()


def test_sqlite_connections_are_set_up(engine: Engine) -> None:
    assert pragma(engine, "journal_mode") == "wal"
    assert pragma(engine, "synchronous") == 1  # NORMAL
    assert pragma(engine, "foreign_keys") == 1
    assert pragma(engine, "busy_timeout") == 1234


def test_a_database_in_memory_is_one_for_all_threads() -> None:
    engine = open_engine("sqlite://")
    upgrade(engine)
    seen: list[str | None] = []
    thread = threading.Thread(target=lambda: seen.append(current_revision(engine)))
    thread.start()
    thread.join()
    assert seen == [head_revision()]
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "not a database URL"),
        ("nonsense", "not a database URL"),
        ("mysql://host/name", "'mysql' is not supported"),
        ("sqlite+nothing:///x", "driver of 'sqlite+nothing' is not installed"),
        ("postgresql+nothing://host/name", "driver of 'postgresql+nothing' is not installed"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_engine(url)
    (violation,) = caught.value.violations
    assert violation.field == "database_url"
    assert says in violation.description
    assert "sqlite:///path" in violation.description


def test_a_password_is_not_repeated_in_a_refusal() -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_engine("mysql://user:secret@host/name")
    assert "secret" not in str(caught.value)


def test_a_session_commits_or_rolls_back_whole(engine: Engine) -> None:
    upgrade(engine)
    with session_scope(engine) as session:
        session.execute(text("UPDATE catalog_revision SET revision = 5"))
    statements = [text("UPDATE catalog_revision SET revision = 6"), text("UPDATE catalog_revision SET revision = -1")]
    with pytest.raises(IntegrityError), session_scope(engine) as session:
        [session.execute(statement) for statement in statements]
    with session_scope(engine) as session:
        assert session.execute(text("SELECT revision FROM catalog_revision")).scalar_one() == 5


def test_a_writer_waits_no_longer_than_the_busy_timeout(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'busy.sqlite3'}"
    first, second = open_engine(url), open_engine(url, busy_timeout_ms=10)
    upgrade(first)
    with session_scope(first) as session:
        session.execute(text("UPDATE catalog_revision SET revision = 1"))
        with pytest.raises(OperationalError, match="locked"), session_scope(second) as other:
            other.execute(text("UPDATE catalog_revision SET revision = 2"))
    first.dispose()
    second.dispose()


def test_a_database_without_a_schema_is_named_with_the_remedy(engine: Engine) -> None:
    with pytest.raises(SchemaVersionError, match=r"has no schema.*capplan db upgrade") as caught:
        require_current_schema(engine)
    assert (caught.value.found, caught.value.expected) == (None, head_revision())


def test_the_newest_schema_is_accepted(engine: Engine) -> None:
    upgrade(engine)
    require_current_schema(engine)


def test_a_newer_schema_is_refused_and_left_alone(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'from-the-future'"))
    for act in (lambda: upgrade(engine), lambda: downgrade(engine, "base"), lambda: require_current_schema(engine)):
        with pytest.raises(SchemaVersionError, match="made by a newer capplan"):
            act()
    assert current_revision(engine) == "from-the-future"
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM catalog_revision")).scalar_one() == 1


def test_migrations_are_found_in_a_checkout_and_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert migrations_path() == Path(__file__).parents[2] / "migrations"
    package = tmp_path / "site-packages" / "capplan"
    (package / "_migrations").mkdir(parents=True)
    monkeypatch.setattr(capplan.database, "__file__", str(package / "database.py"))
    with pytest.raises(FileNotFoundError, match="migrations are missing"):
        migrations_path()
    (package / "_migrations" / "env.py").touch()
    assert migrations_path() == package / "_migrations"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().database_url == "sqlite:///capplan.sqlite3"
    monkeypatch.setenv("CAPPLAN_DATABASE_URL", "sqlite:///elsewhere.sqlite3")
    monkeypatch.setenv("CAPPLAN_PAGE_TOKEN_KEY", "0123456789abcdef")
    settings = Settings()
    assert settings.database_url == "sqlite:///elsewhere.sqlite3"
    assert settings.page_token_key is not None
    assert "0123456789abcdef" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"), [("CAPPLAN_PAGE_TOKEN_KEY", "short"), ("CAPPLAN_DATABASE_BUSY_TIMEOUT_MS", "-1")]
)
def test_a_bad_setting_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError):
        Settings()
