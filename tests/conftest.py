"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline: the suite shares two cores with itself, so the time of one example says nothing. In CI the same examples
# come every time; elsewhere new ones are sought.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("developer", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "developer")
