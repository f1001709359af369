"""The database: declarative base, engines, sessions and the schema's version.

SQLite (a file in WAL mode) serves one machine, PostgreSQL a cluster; one Alembic history makes the schema of both. Each
room owns its own tables and inherits :class:`Base`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker
from sqlalchemy.pool import StaticPool

from capplan.errors import CapplanError, InvalidInputError

DEFAULT_BUSY_TIMEOUT_MS: Final = 5_000

_ACCEPTED_URLS: Final = (
    "'sqlite:///path', 'sqlite://' (in memory) and 'postgresql+psycopg://user@host/name' are accepted"
)


class Base(DeclarativeBase):
    """Base of every table. Constraints are named by rule, so that a migration can name the one it changes."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class SchemaVersionError(CapplanError):
    """The database's schema is not the one this program was written for.

    Attributes:
        found: the database's revision, ``None`` when it has no schema.
        expected: the newest revision this program knows.
    """

    reason = "SCHEMA_VERSION"

    def __init__(self, found: str | None, expected: str, remedy: str) -> None:
        self.found = found
        self.expected = expected
        state = f"is at revision {found!r}" if found else "has no schema"
        super().__init__(f"the database {state}, this program needs revision {expected!r}: {remedy}")


def open_engine(url: str | URL, *, busy_timeout_ms: int = DEFAULT_BUSY_TIMEOUT_MS) -> Engine:
    """An engine for a database URL; connects to nothing yet.

    SQLite connections use write-ahead logging, ``synchronous=NORMAL`` (a power cut may lose the last commits, never the
    file), enforced foreign keys and a busy timeout.

    Args:
        url: SQLAlchemy URL.
        busy_timeout_ms: how long a SQLite connection waits for a lock.

    Raises:
        InvalidInputError: the URL is malformed, of another kind of database, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidInputError.single("database_url", f"not a database URL; {_ACCEPTED_URLS}") from None
    backend = parsed.drivername.partition("+")[0]
    if backend not in {"sqlite", "postgresql"}:
        raise InvalidInputError.single("database_url", f"{backend!r} is not supported; {_ACCEPTED_URLS}")
    options: dict[str, Any] = {}
    if _is_sqlite_memory(parsed):
        # One connection for all threads: a second one would see an empty database of its own.
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    try:
        engine = create_engine(parsed, **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise InvalidInputError.single(
            "database_url", f"the driver of {parsed.drivername!r} is not installed ({error}); {_ACCEPTED_URLS}"
        ) from None
    if backend == "sqlite":
        event.listen(engine, "connect", _sqlite_pragmas(busy_timeout_ms))
    return engine


def _is_sqlite_memory(url: URL) -> bool:
    return url.drivername.startswith("sqlite") and url.database in {None, "", ":memory:"}


def _sqlite_pragmas(busy_timeout_ms: int) -> Callable[[Any, Any], None]:
    def set_pragmas(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        # The timeout comes first: switching to write-ahead logging takes a lock itself.
        cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout_ms)}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    return set_pragmas


@contextmanager
def session_scope(engine: Engine) -> Iterator[Session]:
    """A session that commits when its block ends and rolls back when it raises."""
    with sessionmaker(engine, expire_on_commit=False).begin() as session:
        yield session


def migrations_path() -> Path:
    """Where the Alembic scripts lie: inside the installed package, or at the top of a checkout.

    Raises:
        FileNotFoundError: neither place has them; the installation is broken.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "_migrations", package.parents[1] / "migrations"):
        if (candidate / "env.py").is_file():
            return candidate
    raise FileNotFoundError(f"the database migrations are missing from {package}")


def alembic_config(engine: Engine | None = None) -> Config:
    """Alembic's configuration; with an engine, its commands work on that database."""
    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if engine is not None:
        config.attributes["connection"] = engine
    return config


def head_revision() -> str:
    """The newest schema revision this program knows."""
    head = ScriptDirectory.from_config(alembic_config()).get_current_head()
    if head is None:
        raise FileNotFoundError(f"no migration in {migrations_path()}")
    return head


def current_revision(engine: Engine) -> str | None:
    """The database's schema revision; ``None`` for a database without a schema."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine) -> str:
    """Bring the database to the newest schema and return its revision; does nothing when it is there already.

    Raises:
        SchemaVersionError: the database was made by a newer program.
    """
    _refuse_unknown(current_revision(engine))
    command.upgrade(alembic_config(engine), "head")
    return head_revision()


def downgrade(engine: Engine, revision: str) -> None:
    """Bring the database back to an older schema; ``base`` removes it whole.

    Raises:
        SchemaVersionError: the database was made by a newer program.
    """
    _refuse_unknown(current_revision(engine))
    command.downgrade(alembic_config(engine), revision)


def require_current_schema(engine: Engine) -> None:
    """Refuse to work on a schema that is missing, old or too new.

    Raises:
        SchemaVersionError: it is; the message says what to do.
    """
    found = current_revision(engine)
    _refuse_unknown(found)
    if found != head_revision():
        raise SchemaVersionError(found, head_revision(), "run `capplan db upgrade`")


def _refuse_unknown(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaVersionError(
            found, head_revision(), "it was made by a newer capplan; install that version, nothing was changed"
        )
