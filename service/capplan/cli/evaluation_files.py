"""What the evaluations share: reading the file, the catalogue to evaluate with, writing the predictions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.cli.failures import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine


@contextmanager
def opened_catalog(url: str | None) -> Iterator[Engine]:
    """A database with a catalogue: one that was named, else the shipped one in memory."""
    from capplan.catalog.loader import load_catalog
    from capplan.cli.local import opened_database, read_settings
    from capplan.database import require_current_schema, session_scope, upgrade

    named = "database_url" in read_settings(database_url=url).model_fields_set
    # Evaluating must not leave a database file behind in the working directory, so the default file is not used here.
    with opened_database(url if named else "sqlite://") as engine:
        if named:
            require_current_schema(engine)
        else:
            upgrade(engine)
            with session_scope(engine) as session:
                load_catalog(session)
        yield engine


def read_bytes(path: str) -> bytes:
    """The bytes of a file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path!r} is no path: {error}") from None


def write_text(path: str, text: str) -> None:
    """Writes a file as it is given, line ends included.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path!r} is no path: {error}") from None
