from __future__ import annotations

import os
import subprocess
import sys

import pytest

from capplan import __version__
from capplan.cli.failures import ExitCode, UsageError, describe, exit_code_of
from capplan.cli.fields import FLAGS, flag_of
from capplan.client import DeadlineError, UnreachableError
from capplan.errors import (
    FieldViolation,
    InvalidInputError,
    NotFoundError,
    UnsupportedModelError,
    UnsupportedPrecisionError,
)
from capplan.v1 import planner_service_pb2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), ExitCode.USAGE),
        (InvalidInputError.single("f", "d"), ExitCode.USAGE),
        (UnsupportedModelError.single("f", "d"), ExitCode.USAGE),
        (UnsupportedPrecisionError.single("f", "d"), ExitCode.USAGE),
        (NotFoundError("model", "m"), ExitCode.FAILED),
        (UnreachableError("a:1", "refused"), ExitCode.FAILED),
        (DeadlineError("a:1", 3.0), ExitCode.FAILED),
    ],
)
def test_what_the_caller_must_change_is_2_and_the_rest_is_1(error, code):
    assert exit_code_of(error) is code


def test_every_violation_is_a_line():
    error = InvalidInputError([FieldViolation("target", "missing"), FieldViolation("odd", "wrong")])
    first, second = describe(error)
    assert first.startswith("target (--output-tokens-per-s")
    assert second == "odd: wrong"


def test_a_deadline_says_which_flag_allows_more():
    assert "--timeout-s" in describe(DeadlineError("a:1", 3.0))[1]


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("workload.input_tokens", "--input-tokens"),
        ("constraints.engine.version", "--engine-version"),
        ("deployment.engine.version", "--engine-version"),
        ("constraints.tensor_parallel_sizes[1]", "--tensor-parallel"),
        ("latency_limits[2].percentile", "--ttft-ms, --itl-ms or --e2e-ms"),
        ("model.config_json.num_experts", "--config"),
        ("model.name", "MODEL"),
        ("", ""),
        ("nothing.such", ""),
    ],
)
def test_a_field_leads_to_its_flag(field, flag):
    assert flag_of(field) == flag


def test_every_field_with_a_flag_is_a_field_of_a_request():
    requests = (
        planner_service_pb2.PlanPlacementRequest,
        planner_service_pb2.EstimateDeploymentRequest,
        planner_service_pb2.DescribeModelRequest,
    )
    listings = {"filter", "page_size", "page_token"}
    settings = {"database_url"}
    for path in FLAGS.keys() - listings - settings:
        assert any(has_field(request.DESCRIPTOR, path) for request in requests), path


def has_field(descriptor, path: str) -> bool:
    for name in path.split("."):
        if descriptor is None or name not in descriptor.fields_by_name:
            return False
        descriptor = descriptor.fields_by_name[name].message_type
    return True


def test_the_version_is_the_packages(run):
    assert run("--version").stdout == run("version").stdout == f"capplan {__version__}\n"


@pytest.mark.parametrize(
    "command", ["plan", "estimate", "describe-model", "serve", "demo", "catalog", "db", "catalog load"]
)
def test_every_command_has_help(run, command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_asking_for_the_version_loads_neither_database_nor_server():
    code = (
        "import sys; from capplan.cli.main import app\n"
        "try: app(['--version'])\n"
        "except SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'grpc', 'numpy', 'prometheus_client', 'capplan.server'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
