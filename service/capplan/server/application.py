"""The service without its network: one method for each of the contract's, over a catalogue held in memory.

The gRPC server calls it in threads, the command line's ``--local`` calls it directly. Nothing in it knows of gRPC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from capplan.catalog import repository
from capplan.catalog.loader import load_catalog
from capplan.catalog.paging import Paginator
from capplan.catalog.snapshot import CatalogSnapshot, load_snapshot
from capplan.database import open_engine, require_current_schema, session_scope, upgrade
from capplan.errors import CapplanError
from capplan.server.catalog_application import CatalogApplication
from capplan.server.catalog_messages import CatalogMessages
from capplan.server.estimators import BUILT_IN, Estimators, load_estimators
from capplan.server.planner_application import PlannerApplication
from capplan.settings import Settings


class DatabaseUnavailableError(CapplanError):
    """The database cannot be opened, read or written."""

    reason = "DATABASE_UNAVAILABLE"

    def __init__(self, engine: Engine, cause: Exception) -> None:
        # SQLAlchemy's own text goes on with the statement and a link; its first line says what happened.
        what = str(cause).partition("\n")[0]
        super().__init__(f"the database {engine.url.render_as_string(hide_password=True)} cannot be used: {what}")


class EmptyCatalogError(CapplanError):
    """The database has the schema but no facts were ever loaded."""

    reason = "CATALOG_EMPTY"

    def __init__(self) -> None:
        super().__init__("the catalogue is empty: run `capplan catalog load`")


@dataclass(slots=True)
class _Holder:
    """What all parts of the application answer from; replaced whole, so that a call sees one revision."""

    messages: CatalogMessages


class Application(PlannerApplication, CatalogApplication):
    """Every method of both services."""

    def __init__(
        self,
        snapshot: CatalogSnapshot,
        paginator: Paginator,
        engine: Engine | None = None,
        estimators: Estimators = BUILT_IN,
    ) -> None:
        """Answer from a snapshot.

        Args:
            snapshot: the catalogue.
            paginator: cuts listings and signs page tokens.
            engine: where :meth:`refresh` looks for newer revisions; without one there are none.
            estimators: what can be asked for a second opinion.
        """
        self._holder = _Holder(CatalogMessages.of(snapshot))
        self._engine = engine
        PlannerApplication.__init__(self, lambda: self._holder.messages.snapshot, estimators)
        CatalogApplication.__init__(self, lambda: self._holder.messages, paginator)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Opens the database, reads the catalogue and loads the estimators that are installed.

        An embedded SQLite database is brought to the current schema and to the shipped facts first. A PostgreSQL
        database is shared, and whoever operates it does both when it suits.

        Raises:
            InvalidInputError: the database's URL is not accepted.
            SchemaVersionError: the schema is not the one this program needs.
            EmptyCatalogError: no facts were loaded.
            DatabaseUnavailableError: the database cannot be used.
        """
        engine = open_engine(settings.database_url, busy_timeout_ms=settings.database_busy_timeout_ms)
        try:
            snapshot = _read_catalog(engine)
        except BaseException:
            engine.dispose()
            raise
        key = settings.page_token_key
        paginator = Paginator(None if key is None else key.get_secret_value().encode())
        return cls(snapshot, paginator, engine, load_estimators())

    @property
    def messages(self) -> CatalogMessages:
        """The catalogue as the contract shows it now."""
        return self._holder.messages

    @property
    def snapshot(self) -> CatalogSnapshot:
        """The catalogue answers are given from now."""
        return self._holder.messages.snapshot

    @property
    def revision(self) -> int:
        """Its revision."""
        return self.snapshot.revision

    def warm(self) -> None:
        """Works out what estimates rest on, which the first of them would wait for otherwise."""
        self.snapshot.warm()

    def refresh(self) -> bool:
        """Takes up a newer revision of the catalogue, when there is one, and says whether there was.

        The revision held goes on answering until all that estimates rest on is worked out for the newer one.

        Raises:
            DatabaseUnavailableError: the database cannot be read; the catalogue held goes on answering.
            CatalogBusyError: the catalogue is being changed at this moment; likewise.
        """
        if self._engine is None:
            return False
        try:
            with session_scope(self._engine) as session:
                if repository.read_revision(session).number == self.revision:
                    return False
                snapshot = load_snapshot(session)
        except SQLAlchemyError as error:
            raise DatabaseUnavailableError(self._engine, error) from error
        snapshot = snapshot.sharing(self.snapshot)
        snapshot.warm()
        self._holder.messages = CatalogMessages.of(snapshot)
        return True

    def close(self) -> None:
        """Lets go of the database."""
        if self._engine is not None:
            self._engine.dispose()


def _read_catalog(engine: Engine) -> CatalogSnapshot:
    """The catalogue of a database, which is made ready first when it is an embedded one."""
    try:
        if engine.dialect.name == "sqlite":
            upgrade(engine)
            with session_scope(engine) as session:
                load_catalog(session)
        else:
            require_current_schema(engine)
        with session_scope(engine) as session:
            snapshot = load_snapshot(session)
    except SQLAlchemyError as error:
        raise DatabaseUnavailableError(engine, error) from error
    if not snapshot.accelerators:
        raise EmptyCatalogError
    return snapshot
