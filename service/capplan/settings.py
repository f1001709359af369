"""What an operator sets from outside: environment variables with the prefix ``CAPPLAN_``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The service's settings, read once at start.

    Attributes:
        database_url: SQLAlchemy URL, ``sqlite:///path`` or ``postgresql+psycopg://user@host/name``.
        database_busy_timeout_ms: how long a SQLite writer waits for another one before it gives up.
        page_token_key: key that signs page tokens; replicas behind one address must share it. Without it every process
            draws its own, and a token is good only with the process that gave it.
        host: address the gRPC server listens on.
        port: its port; 0 takes a free one, which the log names.
        metrics_host: address the metrics are served on over HTTP.
        metrics_port: its port; 0 takes a free one.
        log_format: ``json``, one object a line, or ``console`` for people.
        log_level: least level that is logged.
        reflection: whether clients may list the services and their messages.
        max_receive_message_bytes: largest request.
        max_concurrent_rpcs: calls in progress or waiting over all connections; beyond it calls are refused at once.
        max_connection_age_s: connections are closed gracefully after about this long, so that clients behind a
            balancer spread over new replicas.
        planning_workers: threads that plan; more than there are cores gain nothing.
        planning_queue: most planning calls that wait for a thread.
        reading_workers: threads for calls that only read the catalogue.
        reading_queue: most such calls that wait for a thread.
        deadline_reserve_ms: a call whose deadline is nearer than this is refused instead of begun.
        answer_cache_bytes: memory for answers given before; 0 keeps none.
        catalog_refresh_s: how often the catalogue's revision is looked at; 0 never looks.
        drain_delay_s: on a stop signal, how long calls are still taken while health says NOT_SERVING, so that
            balancers can go elsewhere.
        stop_grace_s: how long calls in progress may go on after that.
    """

    model_config = SettingsConfigDict(env_prefix="CAPPLAN_", frozen=True)

    database_url: str = "sqlite:///capplan.sqlite3"
    database_busy_timeout_ms: int = Field(default=5_000, ge=0)
    page_token_key: SecretStr | None = Field(default=None, min_length=16)

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=50_051, ge=0, le=65_535)
    metrics_host: str = Field(default="127.0.0.1", min_length=1)
    metrics_port: int = Field(default=9_464, ge=0, le=65_535)
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    reflection: bool = True
    max_receive_message_bytes: int = Field(default=4 << 20, ge=1 << 10, le=1 << 30)
    max_concurrent_rpcs: int = Field(default=1_024, ge=1)
    max_connection_age_s: float = Field(default=600.0, gt=0, le=1e6)
    planning_workers: int = Field(default=2, ge=1, le=256)
    planning_queue: int = Field(default=64, ge=0)
    reading_workers: int = Field(default=2, ge=1, le=256)
    reading_queue: int = Field(default=256, ge=0)
    deadline_reserve_ms: float = Field(default=10.0, ge=0, le=60_000)
    answer_cache_bytes: int = Field(default=32 << 20, ge=0)
    catalog_refresh_s: float = Field(default=5.0, ge=0, le=86_400)
    drain_delay_s: float = Field(default=5.0, ge=0, le=3_600)
    stop_grace_s: float = Field(default=20.0, ge=0, le=3_600)
