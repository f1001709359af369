from __future__ import annotations

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from tests.cli.answers import FakeBackend
from tests.cli.few_measurements import database, database_file

__all__ = ["backend", "database", "database_file", "run"]


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def run(backend, monkeypatch):
    """Runs the command line against the fake backend; an exception that is not an exit fails the test."""
    for name in ("CAPPLAN_ADDRESS", "CAPPLAN_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments: str, input: str | None = None):
        return CliRunner().invoke(app, list(arguments), obj=backend.connect, input=input, catch_exceptions=False)

    return invoke
