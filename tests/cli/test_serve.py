from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.cli.failures import UsageError
from capplan.cli.serve import parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:50051", ("127.0.0.1", 50051)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        (None, (None, None)),
    ],
)
def test_host_and_port(text, expected):
    assert parse_address(text, "--address") == expected


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":80", "host:port", "host:65536", "host:-1", "::1:80", "h:٣", "[]:1"]
)
def test_anything_else_is_refused_with_the_flag(text):
    with pytest.raises(UsageError, match="--address"):
        parse_address(text, "--address")


@given(st.text())
def test_no_text_crashes_it(text):
    try:
        host, port = parse_address(text, "--address")
    except UsageError:
        return
    assert host
    assert 0 <= port <= 65_535


@pytest.mark.parametrize(
    "arguments",
    [
        ["--address", "nonsense"],
        ["--metrics-address", "h:99999"],
        ["--log-format", "xml"],
        ["--database-url", "mysql://h/d"],
        ["--database-url", "no url"],
    ],
)
def test_a_wrong_setting_ends_before_anything_listens(run, arguments):
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
