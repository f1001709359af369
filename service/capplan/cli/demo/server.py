"""The real server as a process of its own, on free ports, for as long as a block runs."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from capplan.cli.demo.failure import DemoError
from capplan.cli.serve import LISTENING, METRICS

_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_LOG_LINES_SHOWN: Final = 20


@dataclass(slots=True)
class RunningServer:
    """A server process.

    Attributes:
        address: where it takes calls.
        metrics_url: where its metrics are.
    """

    address: str
    metrics_url: str
    _process: subprocess.Popen[str]
    _log: Path

    def stop(self) -> float:
        """Sends SIGTERM and waits for the process to end.

        Returns:
            Seconds it took.

        Raises:
            DemoError: it did not end in time, or not with exit code 0.
        """
        begin = time.monotonic()
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the server did not stop within {_STOP_TIMEOUT_S:g} s of SIGTERM") from None
        if code != 0:
            raise DemoError(f"the server ended with exit code {code}\n{_last_lines(self._log)}")
        return time.monotonic() - begin


@contextmanager
def running_server(database_url: str, log: Path) -> Iterator[RunningServer]:
    """Starts ``capplan serve`` and waits until it listens; kills what a failed block leaves running.

    Args:
        database_url: its database.
        log: file for its log.

    Raises:
        DemoError: it does not start.
    """
    command = [sys.executable, "-m", "capplan", "serve", "--address", "127.0.0.1:0"]
    command += ["--metrics-address", "127.0.0.1:0", "--database-url", database_url]
    # Settings of the user's own service must not reach this one; nobody balances over it, so it need not drain.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CAPPLAN_")}
    environment["CAPPLAN_DRAIN_DELAY_S"] = "0"
    with (
        log.open("w") as log_file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log_file, text=True, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            address, metrics_url = _addresses(process.stdout, log)
            yield RunningServer(address, metrics_url, process, log)
        finally:
            if process.poll() is None:
                process.kill()


def _addresses(output: IO[str], log: Path) -> tuple[str, str]:
    """The addresses from what the server prints once it listens."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in output:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, name="server-output", daemon=True).start()
    found: dict[str, str] = {}
    deadline = time.monotonic() + _START_TIMEOUT_S
    while len(found) < 2:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise DemoError(f"the server did not listen within {_START_TIMEOUT_S:g} s\n{_last_lines(log)}") from None
        if not line:
            raise DemoError(f"the server ended before it listened\n{_last_lines(log)}")
        for prefix in (LISTENING, METRICS):
            if line.startswith(prefix):
                found[prefix] = line.removeprefix(prefix).split()[0]
    return found[LISTENING], f"http://{found[METRICS]}"


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])
