"""Settings of the whole suite."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# No deadline: the suite shares two cores with itself, so the time of one example says nothing. In CI the same examples
# come every time; elsewhere new ones are sought.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("developer", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


@pytest.fixture(autouse=True, scope="module")
def logs_left_as_found() -> Iterator[None]:
    """Undo what a module set up for its logs: the next one in the same process may look at standard error."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configured, configuration = structlog.is_configured(), structlog.get_config()
    yield
    if configured:
        structlog.configure(**configuration)
    else:
        structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
