"""The lock files are complete, hashed, free of addresses, and agree with the project's metadata."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
RUNTIME = PROJECT["project"]["dependencies"]
DEVELOPMENT = PROJECT["dependency-groups"]["dev"]
EXTRAS = [requirement for extra in PROJECT["project"]["optional-dependencies"].values() for requirement in extra]


def locked(name: str) -> dict[str, list[tuple[Requirement, str]]]:
    """Requirements of a lock file by distribution, each with the text that follows it."""
    blocks = re.split(r"^(?=[a-z0-9])", (CHECKOUT / "requirements" / name).read_text(), flags=re.MULTILINE)
    pins: dict[str, list[tuple[Requirement, str]]] = {}
    for block in filter(str.strip, blocks):
        requirement = Requirement(block.split("\\", 1)[0].strip())
        pins.setdefault(canonicalize_name(requirement.name), []).append((requirement, block))
    return pins


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt"])
def test_a_lock_names_no_address_and_no_index(name):
    text = (CHECKOUT / "requirements" / name).read_text()
    assert "://" not in text
    assert not re.search(r"--(extra-)?index-url|--find-links|@ ", text)


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt"])
def test_every_locked_requirement_is_pinned_and_hashed(name):
    for pins in locked(name).values():
        for requirement, block in pins:
            assert [s.operator for s in requirement.specifier] == ["=="], requirement
            assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", block), requirement


@pytest.mark.parametrize(
    ("name", "declared"),
    [("runtime.txt", RUNTIME), ("dev.txt", RUNTIME + DEVELOPMENT + EXTRAS)],
    ids=["runtime", "dev"],
)
def test_a_lock_satisfies_what_the_project_declares(name, declared):
    pins = locked(name)
    for requirement in map(Requirement, declared):
        for pin, _ in pins[canonicalize_name(requirement.name)]:
            version = next(iter(pin.specifier)).version
            assert requirement.specifier.contains(version), f"{pin} does not satisfy {requirement}"


def test_what_is_optional_is_not_locked_for_running():
    assert EXTRAS
    assert not {canonicalize_name(Requirement(extra).name) for extra in EXTRAS} & locked("runtime.txt").keys()


def test_development_runs_on_the_locked_runtime():
    development = {name: [str(pin) for pin, _ in pins] for name, pins in locked("dev.txt").items()}
    runtime = {name: [str(pin) for pin, _ in pins] for name, pins in locked("runtime.txt").items()}
    assert {name: development.get(name) for name in runtime} == runtime
