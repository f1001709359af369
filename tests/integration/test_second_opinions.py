"""An estimator that is installed as a distribution is asked over the network, and what it does wrong stays its own."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2

from capplan.catalog.paging import Paginator
from capplan.server.application import Application
from capplan.server.estimators import load_estimators
from capplan.server.logs import configure_logs
from capplan.settings import Settings
from capplan.v1 import placement_pb2, planner_service_pb2
from tests.server.distributions import install
from tests.server.requests import estimate_request
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer, details_of, running

CHECKOUT = Path(__file__).resolve().parents[2]
GUIDE = CHECKOUT / "docs" / "estimators.md"

MODULE = '''
from capplan.estimation.estimate import Provenance
from capplan.estimation.estimator import Refusal, from_latencies


class Fixed:
    """10 ms a token whatever the layout, and only on H100."""

    name = "fixed"

    def estimate(self, model, replicas, request, batches):
        return [
            from_latencies(request, batch, itl_ms=10.0, ttft_ms=50.0, ttft_unloaded_ms=40.0,
                           provenance=Provenance.MEASURED, bottleneck="tradition")
            if replica.device.accelerator.sku == "h100-sxm-80gb"
            else Refusal(f"{replica.device.accelerator.sku} was never measured")
            for replica, batch in zip(replicas, batches, strict=True)
        ]


class Raising:
    name = "raising"

    def estimate(self, model, replicas, request, batches):
        raise RuntimeError("the table is gone")


class Endless:
    name = "endless"

    def estimate(self, model, replicas, request, batches):
        return [from_latencies(request, batch, itl_ms=float("nan"), ttft_ms=1.0, ttft_unloaded_ms=1.0,
                               provenance=Provenance.MEASURED) for batch in batches]


def unlicensed():
    raise RuntimeError("no licence found")
'''
ENTRY_POINTS = """
[capplan.estimators]
fixed = estimators_for_integration:Fixed
raising = estimators_for_integration:Raising
endless = estimators_for_integration:Endless
unlicensed = estimators_for_integration:unlicensed
"""


@pytest.fixture(scope="module")
def extended(application: Application, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that was started with a distribution of estimators installed."""
    site = tmp_path_factory.mktemp("site")
    install(site, "estimators-for-integration", ENTRY_POINTS, estimators_for_integration=MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        estimators = load_estimators()
    with running(Application(application.snapshot, Paginator(None), estimators=estimators)) as server:
        yield server


def estimate(server: RunningServer, *names: str, accelerator: str = "h100-sxm-80gb", concurrency: float = 8.0):
    request = estimate_request()
    request.deployment.accelerator = accelerator
    request.concurrency = concurrency
    request.second_opinions.extend(names)
    return server.planner.EstimateDeployment(request, timeout=CALL_TIMEOUT_S)


def refusals(opinions: planner_service_pb2.EstimateDeploymentResponse) -> dict[str, str]:
    assert not any(opinion.HasField("performance") for opinion in opinions.second_opinions)
    return {opinion.estimator: opinion.reason for opinion in opinions.second_opinions}


def test_its_opinion_stands_beside_the_answer(extended: RunningServer) -> None:
    answer = estimate(extended, "fixed")
    (opinion,) = answer.second_opinions
    assert (opinion.estimator, opinion.reason) == ("fixed", "")
    theirs = opinion.performance
    # 8 sequences at 10 ms a token; requests of 200 tokens; 50 ms and 199 tokens more
    assert theirs.batch == answer.performance.batch == 8.0
    assert theirs.output_tokens_per_s.value == pytest.approx(800.0)
    assert theirs.requests_per_s.value == pytest.approx(4.0)
    assert theirs.e2e_ms.value == pytest.approx(2_040.0)
    assert theirs.bottleneck == "tradition"
    assert theirs.provenance == placement_pb2.PROVENANCE_MEASURED


def test_the_answer_itself_is_the_same_with_and_without(extended: RunningServer) -> None:
    alone, beside = estimate(extended), estimate(extended, "raising", "fixed", "endless", "analytic")
    assert [opinion.estimator for opinion in beside.second_opinions] == ["raising", "fixed", "endless", "analytic"]
    beside.ClearField("second_opinions")
    assert alone == beside


def test_one_that_does_not_know_says_why(extended: RunningServer) -> None:
    answer = estimate(extended, "fixed", accelerator="a100-sxm-80gb")
    assert refusals(answer) == {"fixed": "a100-sxm4-80gb was never measured"}
    assert answer.HasField("performance")


def test_one_that_raises_or_gives_no_numbers_is_named(extended: RunningServer) -> None:
    assert refusals(estimate(extended, "raising", "endless")) == {
        "raising": "the estimator raising failed: RuntimeError: the table is gone",
        "endless": ("the estimator endless gave no valid figures: output_tokens_per_s is nan, not a positive number"),
    }


def test_a_layout_that_does_not_start_is_not_estimated_by_anyone(extended: RunningServer) -> None:
    answer = estimate(extended, "raising", accelerator="t4-16gb")
    assert not answer.starts
    assert refusals(answer) == {"raising": "the layout does not start, so there is nothing to estimate"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody", "the estimator 'nobody' is not known; accepted: analytic, endless, fixed, raising"),
        ("unlicensed", "installed, but failed to load: RuntimeError: no licence found; accepted: analytic, endless"),
        ("", "is required: the name of an estimator"),
        ("x" * 300, "at most 256"),
        ("Fixed", "is not known"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_those_that_are(extended: RunningServer, name: str, why: str) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        estimate(extended, name)
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (violation,) = details_of(refusal.value)[error_details_pb2.BadRequest].field_violations
    assert violation.field == "second_opinions[0]"
    assert why in violation.description


def test_a_name_listed_twice_is_refused(extended: RunningServer) -> None:
    with pytest.raises(grpc.RpcError, match=r"second_opinions\[1\].*listed already"):
        estimate(extended, "fixed", "fixed")


def test_a_server_without_any_installed_still_has_the_analytic_one(server: RunningServer) -> None:
    (opinion,) = estimate(server, "analytic").second_opinions
    assert opinion.performance.provenance == placement_pb2.PROVENANCE_ANALYTIC
    assert opinion.performance.step_parts


def test_the_log_names_what_can_be_asked_and_what_failed_to_load(extended: RunningServer) -> None:
    log = io.StringIO()
    configure_logs("json", "info", log)
    with running(extended.application):
        pass
    entries = {entry["event"]: entry for entry in map(json.loads, log.getvalue().splitlines())}
    assert entries["listening"]["estimators"] == ["analytic", "endless", "fixed", "raising"]
    failed = entries["estimator not available"]
    assert (failed["estimator"], failed["level"]) == ("unlicensed", "warning")
    assert failed["error"] == "failed to load: RuntimeError: no licence found"


def blocks(language: str) -> list[str]:
    """The guide's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_guides_example_runs_as_it_stands(tmp_path: Path) -> None:
    (project,), (module,), (command,) = (blocks(language) for language in ("toml", "python", "sh"))
    described = tomllib.loads(project)
    points = described["project"]["entry-points"]["capplan.estimators"]
    assert described["tool"]["hatch"]["build"]["targets"]["wheel"]["include"] == ["our_estimators.py"]
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    install(tmp_path, described["project"]["name"], f"[capplan.estimators]\n{lines}", our_estimators=module)
    program, *arguments = shlex.split(command)
    assert program == "capplan"
    result = subprocess.run(
        [sys.executable, "-m", "capplan", *arguments, "--local", "--output", "json"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("CAPPLAN_")}
        | {"PYTHONPATH": os.pathsep.join((str(CHECKOUT / "service"), str(tmp_path)))},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    answer = json_format.Parse(result.stdout, planner_service_pb2.EstimateDeploymentResponse())
    ours, analytic = answer.second_opinions
    # the guide's table says 8.0 ms and 60.0 ms at 16 sequences, and 30.0 ms at one
    assert (ours.performance.itl_ms.value, ours.performance.ttft_ms.value) == (8.0, 60.0)
    assert ours.performance.ttft_unloaded_ms.value == 30.0
    assert ours.performance.provenance == placement_pb2.PROVENANCE_MEASURED
    assert analytic.performance.itl_ms.value > 0


def test_what_is_installed_is_loaded_with_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path, "loaded-at-start", "[capplan.estimators]\nfixed = loaded_at_start:Fixed\n", loaded_at_start=MODULE
    )
    monkeypatch.syspath_prepend(tmp_path)
    application = Application.from_settings(Settings(database_url="sqlite://"))
    try:
        assert sorted(application.estimators.available) == ["analytic", "fixed"]
    finally:
        application.close()
