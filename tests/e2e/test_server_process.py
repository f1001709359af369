"""The server as it is deployed: a process of its own, asked over its sockets, stopped by signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from capplan.v1 import catalog_service_pb2, catalog_service_pb2_grpc, planner_service_pb2_grpc
from tests.server.requests import plan_request

LIMIT_S = 90.0

pytestmark = pytest.mark.timeout(300)  # a start takes seconds, and many of them when the machine is busy
SERVICE = Path(__file__).parents[2] / "service"


@dataclass
class Process:
    """A running server.

    Attributes:
        address: where it takes calls.
        metrics: where it serves metrics.
    """

    popen: subprocess.Popen[str]
    address: str
    metrics: str

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Exit code and log after a signal."""
        self.popen.send_signal(number)
        _, log = self.popen.communicate(timeout=LIMIT_S)
        return self.popen.returncode, log


def environment(directory: Path, **settings: str) -> dict[str, str]:
    """The process's environment: nothing of ours but the settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("CAPPLAN_")}
    return {
        **own,
        "PYTHONPATH": str(SERVICE),
        "CAPPLAN_DATABASE_URL": f"sqlite:///{directory / 'catalogue.sqlite3'}",
        "CAPPLAN_PORT": "0",
        "CAPPLAN_METRICS_PORT": "0",
        "CAPPLAN_DRAIN_DELAY_S": "0",
        **settings,
    }


@contextmanager
def serving(directory: Path, **settings: str) -> Iterator[Process]:
    """A process that has said where it listens; killed at the end when a test did not stop it."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "capplan", "serve"],
        env=environment(directory, **settings),
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(LIMIT_S, popen.kill)
    watchdog.start()
    try:
        assert popen.stdout is not None
        found: dict[str, str] = {}
        for line in popen.stdout:
            for name, pattern in (("address", r"capplan listens on (\S+)"), ("metrics", r"metrics at (\S+)")):
                if match := re.match(pattern, line):
                    found[name] = match.group(1)
            if len(found) == 2:
                break
        assert len(found) == 2, popen.communicate()
        yield Process(popen, found["address"], found["metrics"])
    finally:
        watchdog.cancel()
        if popen.poll() is None:
            popen.kill()
            popen.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_starts_answers_and_stops_with_a_clean_exit(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as process:
        with grpc.insecure_channel(process.address) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            status = health.Check(health_pb2.HealthCheckRequest(), timeout=LIMIT_S).status
            assert status == health_pb2.HealthCheckResponse.SERVING
            catalog = catalog_service_pb2_grpc.CatalogServiceStub(channel)
            listed = catalog.ListModelProfiles(catalog_service_pb2.ListModelProfilesRequest(), timeout=LIMIT_S)
            hub_id = "Qwen/Qwen3-32B"
            planner = planner_service_pb2_grpc.PlannerServiceStub(channel)
            plan = planner.PlanPlacement(plan_request(hub_id), timeout=LIMIT_S)
        assert listed.model_profiles
        assert plan.model == hub_id
        assert plan.placements
        with urllib.request.urlopen(process.metrics, timeout=LIMIT_S) as answer:
            assert b'capplan_plans_total{outcome="feasible"} 1.0' in answer.read()
        exit_code, log = process.stop(number)
    assert exit_code == 0
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events.count("listening") == 1
    assert events[-2:] == ["draining", "stopped"]
    assert events.count("rpc") == 2, "one for each call but the probe"


def test_a_second_signal_ends_a_long_drain(tmp_path: Path) -> None:
    with serving(tmp_path, CAPPLAN_DRAIN_DELAY_S="3000") as process:
        process.popen.send_signal(signal.SIGTERM)
        with grpc.insecure_channel(process.address) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=LIMIT_S)
            assert any(response.status == health_pb2.HealthCheckResponse.NOT_SERVING for response in watch)
        exit_code, _ = process.stop(signal.SIGTERM)
    assert exit_code == 0


def test_a_restart_finds_its_catalogue_again(tmp_path: Path) -> None:
    revisions = []
    for _ in range(2):
        with serving(tmp_path) as process:
            with grpc.insecure_channel(process.address) as channel:
                planner = planner_service_pb2_grpc.PlannerServiceStub(channel)
                request = plan_request("Qwen/Qwen3-32B")
                revisions.append(planner.PlanPlacement(request, timeout=LIMIT_S).catalog_revision)
            assert process.stop(signal.SIGTERM)[0] == 0
    assert revisions[0] == revisions[1]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"CAPPLAN_DATABASE_URL": "mysql://nowhere/nothing"}, "'mysql' is not supported"),
        ({"CAPPLAN_DATABASE_URL": "sqlite:////nowhere/at/all.sqlite3"}, "cannot be used"),
        ({"CAPPLAN_HOST": "203.0.113.1"}, "cannot listen"),
        ({"CAPPLAN_PORT": "70000"}, "port"),
    ],
)
def test_a_start_that_cannot_be_says_why_without_a_traceback(
    tmp_path: Path, settings: dict[str, str], says: str
) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "capplan", "serve"],
        env=environment(tmp_path, **settings),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert finished.returncode not in {0, -signal.SIGKILL}
    assert says in finished.stderr
    assert "Traceback" not in finished.stderr
