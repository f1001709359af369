"""Logs: structured lines on standard error, those of libraries in the same form."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, Literal, TextIO

import structlog

SERVER_LOGGER: Final = "capplan.server"

_SHARED: Final[list[Any]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
]


def configure_logs(log_format: Literal["json", "console"], level: str, stream: TextIO | None = None) -> None:
    """Send every log of the process to a stream, one entry a line.

    Args:
        log_format: ``json`` or ``console``.
        level: least level, in lower case.
        stream: where to; standard error when not given.
    """
    rendering: list[Any]
    if log_format == "json":
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        rendering = [structlog.dev.ConsoleRenderer(colors=False)]
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def server_logger() -> structlog.stdlib.BoundLogger:
    """The server's logger."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(SERVER_LOGGER)
    return logger
