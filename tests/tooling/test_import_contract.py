"""Imports go one way, and the contract that says so notices when they do not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout / "service")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_keeps_every_contract():
    result = lint_imports(CHECKOUT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("hardware/intruder.py", "import capplan.planning", "Imports go one way"),
        ("modeling/intruder.py", "import capplan.hardware", "Imports go one way"),
        ("server/intruder.py", "import capplan.cli", "Imports go one way"),
        ("planning/intruder.py", "import time", "The core knows no transport, database, clock, process or file"),
        ("estimation/intruder.py", "import google.protobuf", "The core knows no transport"),
        ("catalog/intruder.py", "import capplan.v1", "The catalogue knows nothing of gRPC"),
        ("units.py", "import capplan.hardware", "Errors and units are below everything"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path, module, line, broken):
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    shutil.copytree(CHECKOUT / "service", tmp_path / "service", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "service/capplan" / module).open("a") as file:
        file.write(f"\n{line}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(row.startswith(broken) and row.endswith("BROKEN") for row in result.stdout.splitlines()), result.stdout
