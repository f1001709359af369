from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from capplan.cli.main import app
from tests.cli.answers import FakeBackend

VALUES = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", "-", "--", "-1", "1e999", "nan", "\udcff", "\x00", "{}", "/", "1g.10gb", "fp8", "cost"]),
)


def flags_of(command: str) -> list[str]:
    """Flags a user could give, read from the help."""
    help_text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}).stdout
    found = {word for word in help_text.split() if word.startswith("--") and word[2:].replace("-", "").isalnum()}
    return sorted(found - {"--local", "--help"})


@pytest.mark.parametrize("command", ["plan", "estimate", "describe-model"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_command_line_ends_in_a_traceback(command, data):
    arguments = data.draw(st.lists(VALUES, max_size=3))
    valid = ["m", "--input-tokens", "5", "--output-tokens", "5", "--requests-per-s", "1"]
    if data.draw(st.booleans()):
        arguments += valid
    for flag in data.draw(st.lists(st.sampled_from(flags_of_cached(command)), max_size=5)):
        arguments += [flag, data.draw(VALUES)]
    result = CliRunner().invoke(app, [command, *arguments], obj=FakeBackend().connect, input="{}")
    assert result.exit_code in {0, 1, 2, 3}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


_FLAGS: dict[str, list[str]] = {}


def flags_of_cached(command: str) -> list[str]:
    if command not in _FLAGS:
        _FLAGS[command] = flags_of(command)
    assert len(_FLAGS[command]) >= 5
    return _FLAGS[command]
