"""The committed stubs are what the contract generates, and the contract's own checks find what they are for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from proto import check, generate

CHECKOUT = Path(__file__).resolve().parents[2]
SAMPLE = Path("capplan/v1/catalog.proto")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The stubs that the contract generates now."""
    output = tmp_path_factory.mktemp("generated")
    generate.generate(output)
    return generate.generated_files(output)


@pytest.fixture
def workspace(tmp_path):
    """A copy of the contract that a test may spoil."""
    check.stage(tmp_path)
    return tmp_path


def spoil(workspace: Path, old: str, new: str) -> None:
    path = workspace / check.MODULE / SAMPLE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_committed_stubs_are_what_the_contract_generates(fresh):
    assert generate.stale_files(generate.generated_files(CHECKOUT / "service"), fresh) == []


def test_every_source_has_message_code_grpc_code_and_type_stubs_of_both(fresh):
    expected = {
        source.with_name(source.stem + suffix)
        for source in generate.contract_files()
        for suffix in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
    }
    assert set(fresh) == expected


def test_a_changed_a_missing_and_a_left_over_stub_are_each_stale():
    same, changed, missing, left_over = (Path(name) for name in ("same", "changed", "missing", "left_over"))
    committed = {same: b"1", changed: b"1", left_over: b"1"}
    assert generate.stale_files(committed, {same: b"1", changed: b"2", missing: b"1"}) == [changed, left_over, missing]


def test_the_declared_runtimes_are_no_older_than_the_generators_of_the_stubs():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    bounds = {
        requirement.name: Version(next(s.version for s in requirement.specifier if s.operator == ">="))
        for requirement in map(Requirement, project["dependencies"])
    }
    stubs = CHECKOUT / "service/capplan/v1"
    messages = re.search(r"Protobuf Python Version: (\S+)", (stubs / "catalog_pb2.py").read_text())
    services = re.search(r"GRPC_GENERATED_VERSION = '(\S+)'", (stubs / "catalog_service_pb2_grpc.py").read_text())
    assert messages
    assert services
    assert bounds["protobuf"] >= Version(messages[1])
    assert bounds["grpcio"] >= Version(services[1])


def test_the_contract_passes_its_own_checks(workspace):
    assert check.check(workspace) == 0


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('  // Vendor, e.g. "nvidia".\n', "", "should have a non-empty comment"),
        ("string vendor = 2;", "string  vendor = 2;", "-  string  vendor = 2;"),
        ("string vendor = 2;", "int64 vendor = 2;", "changed type"),
    ],
    ids=["uncommented", "misformatted", "broken"],
)
def test_a_spoilt_contract_is_found(workspace, capfd, old, new, finding):
    spoil(workspace, old, new)
    assert check.check(workspace) == 1
    assert finding in "".join(capfd.readouterr())
