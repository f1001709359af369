"""What is built holds all that an installed capplan needs, and nothing of the workshop."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "service/capplan"


def build(kind: str, output: Path, source: Path = CHECKOUT) -> Path:
    """Build a distribution without the network and return its file."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", output], cwd=source, check=True)
    (built,) = output.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel as an installer would get it: built from the source distribution."""
    archive = build("sdist", tmp_path_factory.mktemp("sdist"))
    unpacked = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xf", archive, "-C", unpacked], check=True)
    (source,) = unpacked.iterdir()
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"), source)) as built:
        yield built


def tracked(*paths: str) -> set[str]:
    """Files under version control, relative to the checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", *paths], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return set(filter(None, listing.stdout.split("\0")))


def test_the_wheel_holds_the_package_with_its_data_stubs_and_type_marker(wheel):
    names = set(wheel.namelist())
    expected = {name.removeprefix("service/") for name in tracked("service/capplan") if (CHECKOUT / name).exists()}
    assert {"capplan/py.typed", "capplan/v1/planner_service_pb2.pyi"} <= expected
    assert any(name.startswith("capplan/catalog/data/") and name.endswith(".csv") for name in expected)
    assert expected - names == set()


def test_the_wheel_holds_the_migrations(wheel):
    expected = {"capplan/_" + name for name in tracked("migrations") if (CHECKOUT / name).exists()}
    assert "capplan/_migrations/env.py" in expected
    assert expected - set(wheel.namelist()) == set()


def test_the_wheel_holds_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    (metadata,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {"capplan", metadata}
    assert f"{metadata}/licenses/LICENSE" in wheel.namelist()
    assert not any("__pycache__" in name or name.endswith((".sqlite3", ".pyc")) for name in wheel.namelist())


def test_the_wheel_makes_the_command(wheel):
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "capplan = capplan.cli.main:app" in wheel.read(entry_points).decode()


def test_an_installed_wheel_finds_its_own_migrations(wheel, tmp_path):
    wheel.extractall(tmp_path)
    program = "from capplan import database; print(database.migrations_path()); print(database.head_revision())"
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    path, head = found.stdout.split()
    assert Path(path) == tmp_path / "capplan/_migrations"
    assert any(head in file.name for file in (CHECKOUT / "migrations/versions").iterdir())
