"""Cost of calls to the server as a ratio to a server that gives back the bytes it got, measured in the same run.

    PYTHONPATH=service:. python tests/benchmarks/bench_server.py [--seconds 2] [--rounds 3]

Each server is a process of its own; the calls come from this one, a number of them at a time. Printed are calls per
second (which this client bounds, too) and the server's CPU time for each call (which it does not), both as medians of
the rounds, and their ratio to the echo of the same request and answer sizes' order.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import grpc
import grpc.aio

from capplan.v1 import catalog_service_pb2
from tests.server.requests import describe_request, plan_request

ECHO = "/bench.Echo/Echo"
IN_FLIGHT = 16
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Case:
    """What is called.

    Attributes:
        name: as printed.
        server: ``echo``, ``cached`` or ``uncached``.
        method: full name of the method.
        requests: the bytes of one request after the other.
    """

    name: str
    server: str
    method: str
    requests: Iterator[bytes]


@dataclass(frozen=True)
class Result:
    """One measurement."""

    calls_per_s: float
    cpu_us_per_call: float


def same(request: bytes) -> Iterator[bytes]:
    """The same request for ever."""
    while True:
        yield request


def different_plans() -> Iterator[bytes]:
    """Questions no two of which are alike."""
    request = plan_request("Qwen/Qwen3-32B")
    for number in count():
        request.target.output_tokens_per_s = 1_000.0 + number / 1_000
        yield request.SerializeToString()


async def echo() -> None:
    """Serve the echo and print where."""

    async def give_back(request: bytes, context: object) -> bytes:
        return request

    server = grpc.aio.server()
    handlers: Any = {"Echo": grpc.unary_unary_rpc_method_handler(give_back)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def serve(answer_cache_bytes: int) -> None:
    """Serve capplan over the shipped catalogue in memory and print where."""
    from capplan.server.runtime import run
    from capplan.settings import Settings

    settings = Settings(
        database_url="sqlite://",
        port=0,
        metrics_port=0,
        log_level="warning",
        answer_cache_bytes=answer_cache_bytes,
        drain_delay_s=0.0,
    )
    run(settings, lambda addresses: print(addresses.grpc, flush=True))


@contextmanager
def process(role: str) -> Iterator[tuple[int, str]]:
    """A server's process id and address."""
    child = subprocess.Popen([sys.executable, __file__, "--role", role], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        assert address, f"the {role} server did not start"
        yield child.pid, address
    finally:
        child.terminate()
        child.communicate()


def cpu_s(pid: int) -> float:
    """User and system time a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


async def measure(case: Case, pid: int, channel: grpc.aio.Channel, seconds: float) -> Result:
    """Calls as fast as they are answered, for so long."""
    # Without (de)serialisers bytes go through as they are.
    call: Any = channel.unary_unary(case.method)
    await call(next(case.requests))
    stop_at = time.perf_counter() + seconds
    calls = 0

    async def caller() -> None:
        nonlocal calls
        while time.perf_counter() < stop_at:
            await call(next(case.requests))
            calls += 1

    begin, cpu = time.perf_counter(), cpu_s(pid)
    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return Result(calls / (time.perf_counter() - begin), (cpu_s(pid) - cpu) / calls * 1e6)


def cases() -> list[Case]:
    """Everything that is measured; the echo comes first."""
    plan = plan_request("Qwen/Qwen3-32B").SerializeToString()
    accelerator = catalog_service_pb2.GetAcceleratorRequest(name="h100-sxm-80gb").SerializeToString()
    listing = catalog_service_pb2.ListAcceleratorsRequest(page_size=50).SerializeToString()
    describe = describe_request().SerializeToString()
    catalog, planner = "/capplan.v1.CatalogService", "/capplan.v1.PlannerService"
    return [
        Case("echo of 1 KB", "echo", ECHO, same(b"x" * 1_024)),
        Case("GetAccelerator, cached", "cached", f"{catalog}/GetAccelerator", same(accelerator)),
        Case("GetAccelerator", "uncached", f"{catalog}/GetAccelerator", same(accelerator)),
        Case("ListAccelerators, 50 rows", "uncached", f"{catalog}/ListAccelerators", same(listing)),
        Case("DescribeModel of a config", "uncached", f"{planner}/DescribeModel", same(describe)),
        Case("PlanPlacement, cached", "cached", f"{planner}/PlanPlacement", same(plan)),
        Case("PlanPlacement", "uncached", f"{planner}/PlanPlacement", different_plans()),
    ]


async def run_cases(seconds: float, rounds: int) -> None:
    """Measure every case in every round, so that a drift of the machine meets all of them."""
    measured: dict[str, list[Result]] = {}
    with ExitStack() as stack:
        servers = {role: stack.enter_context(process(role)) for role in ("echo", "cached", "uncached")}
        channels = {role: grpc.aio.insecure_channel(address) for role, (_, address) in servers.items()}
        everything = cases()
        for _ in range(rounds):
            for case in everything:
                pid = servers[case.server][0]
                result = await measure(case, pid, channels[case.server], seconds)
                measured.setdefault(case.name, []).append(result)
        for channel in channels.values():
            await channel.close()
    print(f"{'call':28} {'calls/s':>9} {'ratio':>7} {'CPU us':>9} {'ratio':>7}")
    floor: Result | None = None
    for name, results in measured.items():
        median = Result(
            statistics.median(result.calls_per_s for result in results),
            statistics.median(result.cpu_us_per_call for result in results),
        )
        floor = floor or median
        print(
            f"{name:28} {median.calls_per_s:9.0f} {median.calls_per_s / floor.calls_per_s:7.2f} "
            f"{median.cpu_us_per_call:9.0f} {median.cpu_us_per_call / floor.cpu_us_per_call:7.2f}"
        )


def main() -> None:
    """Read the command line and measure, or be one of the servers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each call")
    parser.add_argument("--role", choices=("client", "echo", "cached", "uncached"), default="client")
    arguments = parser.parse_args()
    match arguments.role:
        case "echo":
            asyncio.run(echo())
        case "cached":
            serve(32 << 20)
        case "uncached":
            serve(0)
        case _:
            asyncio.run(run_cases(arguments.seconds, arguments.rounds))


if __name__ == "__main__":
    main()
