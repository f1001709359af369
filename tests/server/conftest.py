"""One application for all unit tests of the server; nothing they do changes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from capplan.server.application import Application
from tests.server.catalogue import make_application


@pytest.fixture(scope="session")
def application() -> Iterator[Application]:
    application = make_application(page_token_key=b"a key for the tests")
    yield application
    application.close()
