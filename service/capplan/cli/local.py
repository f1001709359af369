"""The service's own parts in this process: settings, the application for ``--local``, a database to work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from capplan.cli.failures import UsageError
from capplan.database import open_engine
from capplan.server.application import Application, DatabaseUnavailableError
from capplan.settings import Settings

_IN_MEMORY = "sqlite://"


def read_settings(**overrides: Any) -> Settings:
    """The settings of the environment, with flags over them.

    Args:
        overrides: settings by name; ``None`` leaves the environment's.

    Raises:
        UsageError: a setting is not valid.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        # Arguments win over the environment.
        return Settings(**given)
    except ValidationError as error:
        raise UsageError(_faults(error)) from None


def _faults(error: ValidationError) -> str:
    return "; ".join(
        f"setting {'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()
    )


@contextmanager
def open_application() -> Iterator[Application]:
    """An application over the database that the environment names, else over the shipped catalogue in memory.

    A question must not leave a database file behind in the working directory, so the default file is not used here.
    """
    settings = read_settings()
    if "database_url" not in settings.model_fields_set:
        settings = settings.model_copy(update={"database_url": _IN_MEMORY})
    application = Application.from_settings(settings)
    try:
        yield application
    finally:
        application.close()


@contextmanager
def opened_database(url: str | None) -> Iterator[Engine]:
    """An engine on the database of a flag, of the environment or of the default.

    Raises:
        UsageError: a setting is not valid.
        DatabaseUnavailableError: the database cannot be opened, read or written.
    """
    settings = read_settings(database_url=url)
    engine = open_engine(settings.database_url, busy_timeout_ms=settings.database_busy_timeout_ms)
    try:
        yield engine
    except SQLAlchemyError as error:
        raise DatabaseUnavailableError(engine, error) from error
    finally:
        engine.dispose()
