"""The command as processes: ``capplan serve``, and questions to it over gRPC."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CAPPLAN_")}
ENVIRONMENT |= {"PYTHONPATH": os.pathsep.join(sys.path), "CAPPLAN_DRAIN_DELAY_S": "0"}
CAPPLAN = [sys.executable, "-m", "capplan"]
FREE = "127.0.0.1:0"


def capplan(*arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CAPPLAN, *arguments], capture_output=True, text=True, check=False, env=ENVIRONMENT, input=input, timeout=90
    )


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """The server's process and its first three lines."""
    folder = tmp_path_factory.mktemp("serve")
    command = [*CAPPLAN, "serve", "--address", FREE, "--metrics-address", FREE, "--log-format", "json",
               "--database-url", f"sqlite:///{folder}/facts.sqlite3"]  # fmt: skip
    log = folder / "log"
    with (
        log.open("w") as log_file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log_file, text=True, env=ENVIRONMENT) as process,
    ):
        lines = [process.stdout.readline().rstrip() for _ in range(3)]
        yield process, lines, log
        if process.poll() is None:
            process.kill()


@pytest.fixture
def address(serving):
    return serving[1][0].removeprefix("capplan listens on ").split()[0]


def test_it_prints_where_it_listens_and_a_question_to_paste(serving):
    _, (listens, metrics, sample), _ = serving
    assert listens.startswith("capplan listens on 127.0.0.1:")
    assert metrics.startswith("metrics at http://127.0.0.1:")
    assert sample == "try:"


def test_the_readable_question_is_answered_over_grpc(address):
    question = ["plan", "Qwen/Qwen3-32B", "--precision", "fp8", "--output-tokens-per-s", "5000", "--input-tokens",
                "1000", "--output-tokens", "300", "--ttft-ms", "1000", "--itl-ms", "40"]  # fmt: skip
    remote = capplan(*question, "--address", address)
    assert remote.returncode == 0, remote.stderr
    assert "Placements, best first" in remote.stdout
    assert max(map(len, remote.stdout.splitlines())) <= 80
    # The same catalogue in this process gives the same answer.
    assert capplan(*question, "--local").stdout == remote.stdout


def test_a_refusal_over_grpc_reads_as_one_in_the_process(address):
    question = ["plan", "Qwen/Qwen3-23B", "--requests-per-s", "1", "--input-tokens", "9", "--output-tokens", "9"]
    remote, local = capplan(*question, "--address", address), capplan(*question, "--local")
    assert remote.returncode == local.returncode == 1
    assert remote.stderr == local.stderr
    assert "did you mean Qwen/Qwen3-32B" in remote.stderr


def test_many_estimates_go_through_a_pipe(address):
    line = {
        "model": {"name": "Qwen/Qwen3-4B"},
        "workload": {"input_tokens": 100, "output_tokens": 100},
        "deployment": {"accelerator": "h100-sxm-80gb"},
    }
    done = capplan("estimate", "--requests", "-", "--address", address, input=f"{json.dumps(line)}\nnonsense\n")
    assert done.returncode == 1
    first, second = (json.loads(text) for text in done.stdout.splitlines())
    assert first["starts"] is True
    assert second["error"]["line"] == 2


def test_metrics_are_served(serving):
    url = serving[1][1].removeprefix("metrics at ")
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert b"grpc_server_handled_total" in answer.read()


def test_a_second_server_on_the_same_address_says_what_is_wrong(address, tmp_path):
    done = capplan(
        "serve", "--address", address, "--metrics-address", FREE, "--database-url", f"sqlite:///{tmp_path}/x.sqlite3"
    )
    assert done.returncode == 1
    assert address in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_without_a_server_the_message_says_how_to_start_one():
    # Port 1 is reserved (tcpmux) and nothing listens there.
    done = capplan("catalog", "models", "--address", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "127.0.0.1:1" in done.stderr
    assert "capplan serve" in done.stderr
    assert "--local" in done.stderr


def test_a_reader_that_leaves_is_no_traceback():
    command = " ".join([*CAPPLAN, "catalog", "models", "--local", "--all", "|", "head", "-1"])
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=90
    )
    assert "Traceback" not in done.stderr


def test_sigterm_ends_it_with_0_and_json_lines_in_the_log(serving):
    process, _, log = serving
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert entries
