"""Logs are one line an entry, in JSON a machine reads, and those of libraries look the same."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from capplan.server.interceptors import _write
from capplan.server.logs import configure_logs, server_logger


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_entries_are_one_line_each_with_time_level_and_fields() -> None:
    stream = io.StringIO()
    configure_logs("json", "info", stream)
    server_logger().info("rpc", method="/m", note="two\nlines")
    logging.getLogger("library").warning("careful %s", "now")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["method"]) == ("rpc", "info", "/m")
    assert first["timestamp"].endswith("Z")
    assert (second["event"], second["logger"], second["level"]) == ("careful now", "library", "warning")


def test_less_than_the_level_is_not_written() -> None:
    stream = io.StringIO()
    configure_logs("json", "warning", stream)
    server_logger().info("quiet")
    server_logger().warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_a_traceback_stays_in_one_line_of_json() -> None:
    stream = io.StringIO()
    configure_logs("json", "info", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        server_logger().exception("unexpected error")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_the_console_format_is_for_people() -> None:
    stream = io.StringIO()
    configure_logs("console", "info", stream)
    server_logger().info("listening", address="127.0.0.1:1")
    assert "listening" in stream.getvalue()
    assert "address=127.0.0.1:1" in stream.getvalue()


def test_a_log_that_cannot_be_written_fails_no_call() -> None:
    stream = io.StringIO()
    configure_logs("json", "info", stream)
    stream.close()
    with pytest.raises(ValueError, match="closed file"):
        server_logger().info("rpc")
    _write(server_logger().info, "rpc", method="/m")


def test_standard_error_is_looked_up_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    configure_logs("json", "info")
    monkeypatch.setattr("sys.stderr", second)
    first.close()
    server_logger().info("rpc")
    logging.getLogger("library").warning("careful")
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["rpc", "careful"]
