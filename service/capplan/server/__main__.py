"""``python -m capplan.server``: the server alone, set up by the environment."""

from __future__ import annotations

import sys

from capplan.errors import CapplanError
from capplan.server.runtime import run
from capplan.settings import Settings

if __name__ == "__main__":
    try:
        run(Settings())
    except CapplanError as error:
        sys.exit(f"capplan: {error}")
