"""Logs: structured lines on standard error, those of libraries in the same form."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, Literal, TextIO

import structlog

SERVER_LOGGER: Final = "capplan.server"

_COMMON: Final[tuple[Any, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
)


class _StandardError:
    """Standard error as it is when an entry is written: what stood there at the start may be closed by then."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(log_format: Literal["json", "console"], level: str, stream: TextIO | None = None) -> None:
    """Send every log of the process to a stream, one entry a line.

    The server's own entries are written straight to the stream: by way of the standard library's logging each takes
    three times as long, and there is one for every call.

    Args:
        log_format: ``json`` or ``console``.
        level: least level, in lower case.
        stream: where to; standard error when not given.
    """
    output: Any = stream if stream is not None else _StandardError()
    rendering: tuple[Any, ...]
    if log_format == "json":
        rendering = (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
    else:
        rendering = (structlog.dev.ConsoleRenderer(colors=False),)
    structlog.configure(
        processors=[*_COMMON, _add_server_name, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=output),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_COMMON, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def server_logger() -> structlog.typing.FilteringBoundLogger:
    """The server's logger."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger


def _add_server_name(_logger: Any, _method: str, entry: Any) -> Any:
    entry["logger"] = SERVER_LOGGER
    return entry
