"""Runs the schema's history: on an engine or connection handed over by the program, else on the configured database."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import JSON, Column, Connection, Engine

# Importing a room's tables registers them on the metadata that autogenerate compares with.
import capplan.catalog.tables  # noqa: F401
from capplan.database import Base, open_engine
from capplan.settings import Settings


def run_offline() -> None:
    """Print the SQL instead of running it (`alembic upgrade head --sql`)."""
    context.configure(
        url=context.config.get_main_option("sqlalchemy.url") or Settings().database_url,
        target_metadata=Base.metadata,
        literal_binds=True,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def compare_server_default(
    _context: Any, inspected: Column[Any], _of_metadata: Column[Any], *_defaults: Any
) -> bool | None:
    """Whether a column's default differs from that of the program's tables: ``None`` leaves it to Alembic.

    Alembic asks PostgreSQL itself whether two defaults are equal, but that has no equality of ``json``. Those of JSON
    columns are taken to be the same.
    """
    return False if isinstance(inspected.type, JSON) else None


def run_on(connection: Connection) -> None:
    """Run the history on one connection."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,  # SQLite alters a table by copying it
        compare_type=True,
        compare_server_default=compare_server_default,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Find the database and run."""
    given = context.config.attributes.get("connection")
    if isinstance(given, Connection):
        run_on(given)
        return
    if isinstance(given, Engine):
        with given.connect() as connection:
            run_on(connection)
        return
    settings = Settings()
    engine = open_engine(
        context.config.get_main_option("sqlalchemy.url") or settings.database_url,
        busy_timeout_ms=settings.database_busy_timeout_ms,
    )
    with engine.connect() as connection:
        run_on(connection)
    engine.dispose()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
