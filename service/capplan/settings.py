"""What an operator sets from outside: environment variables with the prefix ``CAPPLAN_``."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The service's settings, read once at start.

    Attributes:
        database_url: SQLAlchemy URL, ``sqlite:///path`` or ``postgresql+psycopg://user@host/name``.
        database_busy_timeout_ms: how long a SQLite writer waits for another one before it gives up.
        page_token_key: key that signs page tokens; replicas behind one address must share it. Without it every process
            draws its own, and a token is good only with the process that gave it.
    """

    model_config = SettingsConfigDict(env_prefix="CAPPLAN_", frozen=True)

    database_url: str = "sqlite:///capplan.sqlite3"
    database_busy_timeout_ms: int = Field(default=5_000, ge=0)
    page_token_key: SecretStr | None = Field(default=None, min_length=16)
