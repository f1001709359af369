"""A server over the test catalogue, shared by every test that leaves it as it is."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from capplan.server.application import Application
from capplan.server.logs import configure_logs
from tests.server.catalogue import make_application
from tests.server.running_server import RunningServer, running


@pytest.fixture(scope="session")
def application() -> Iterator[Application]:
    application = make_application(page_token_key=b"a key for the tests")
    yield application
    application.close()


@pytest.fixture(scope="session")
def server(application: Application) -> Iterator[RunningServer]:
    configure_logs("json", "error", io.StringIO())
    with running(application) as server:
        yield server
