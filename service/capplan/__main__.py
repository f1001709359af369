"""``python -m capplan``: the ``capplan`` command."""

from __future__ import annotations

from capplan.cli.main import app

if __name__ == "__main__":
    app(prog_name="capplan")
