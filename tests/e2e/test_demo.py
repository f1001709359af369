"""``capplan demo`` as a user runs it: a process that starts the real server as another one."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
    # Settings of the user's own service do not reach the demonstration.
    environment |= {"CAPPLAN_DATABASE_URL": "postgresql+psycopg://nowhere/none", "CAPPLAN_PORT": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "capplan", "demo"],
        capture_output=True, text=True, check=False, env=environment, cwd=folder, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    return done.stdout, folder


def test_it_leaves_nothing_behind(demo):
    _, folder = demo
    assert list(folder.iterdir()) == []


def test_it_fits_a_terminal_and_has_no_traceback(demo):
    out, _ = demo
    assert max(map(len, out.splitlines())) <= 80
    assert "Traceback" not in out
    assert "\x1b" not in out


def test_each_question_is_shown_with_its_answer(demo):
    out, _ = demo
    text = re.sub(r"\s+", " ", out)
    questions = ("Llama-3.1-70B in fp8", "DeepSeek-V3 from its config.json", "gpt-oss-120b as published",
                 "So a plan that allows one H100", "Qwen3-4B in bf16", "A model nobody knows",
                 "A config.json of")  # fmt: skip
    for question in questions:
        assert question in text
    assert text.count("Placements, best first") == 4
    assert re.search(r"DOES NOT START: openai/gpt-oss-120b .* it misses \d+\.\d\d GiB per device", text)
    assert "Smallest changes that would make it feasible" in text
    assert re.search(r"nvidia\.com/mig-\dg\.\d+gb \(mixed strategy\)", text)
    assert "did you mean Qwen/Qwen3-32B" in text
    assert "'acme_liquid'" in text


def test_the_metrics_count_the_questions(demo):
    text = re.sub(r"\s+", " ", demo[0])
    # Four questions with placements, one without, two refused; one estimate.
    assert "capplan_plans_total feasible 4 " in text
    assert "capplan_plans_total infeasible 1 " in text
    assert "grpc_server_handled_total OK PlanPlacement 5 " in text
    assert "grpc_server_handled_total NOT_FOUND PlanPlacement 1 " in text
    assert "grpc_server_handled_total INVALID_ARGUMENT PlanPlacement 1 " in text
    assert "grpc_server_handled_total OK EstimateDeployment 1 " in text


def test_the_server_stops_cleanly_at_the_end(demo):
    assert re.search(r"The server stopped cleanly in [\d.]+ s\.\nEverything shown in [\d.]+ s\.\n$", demo[0])
