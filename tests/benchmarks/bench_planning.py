"""Time of planning over the whole shipped catalogue: cold questions, and each candidate of a sweep.

    PYTHONPATH=service:. python tests/benchmarks/bench_planning.py [--rounds 9] [--profile]

Every question is over every accelerator with every layout and MIG slice, whatever it costs, and none is like another:
the workload differs, so that nothing but what depends on the catalogue alone is remembered from one to the next, as in
a server. The first of a process finds nothing remembered at all. Printed are the whole plan's time, by model, and the
amortised time per configuration of a sweep that only solves; medians of the rounds, and the least. ``--profile`` adds
where the plans' time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from itertools import count

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.modeling.costs import model_costs
from capplan.planning.planner import plan
from capplan.planning.query import (
    Constraints,
    LatencyLimit,
    LatencyMetric,
    MigPolicy,
    Objective,
    PlacementQuery,
    Target,
    TargetKind,
    Workload,
)
from capplan.planning.solver import solve
from capplan.server.application import Application
from capplan.settings import Settings

MODELS = (
    ("meta-llama/Llama-3.1-8B-Instruct", "bf16"),
    ("meta-llama/Llama-3.3-70B-Instruct", "fp8"),
    ("Qwen/Qwen3-30B-A3B", "bf16"),
    ("openai/gpt-oss-120b", "mxfp4"),
    ("deepseek-ai/DeepSeek-V3", "fp8"),
)


def shipped_catalogue() -> CatalogSnapshot:
    """The shipped catalogue, from a database in memory."""
    application = Application.from_settings(Settings(database_url="sqlite://"))
    try:
        return application.snapshot
    finally:
        application.close()


def questions(snapshot: CatalogSnapshot, name: str, weights: str) -> Callable[[], PlacementQuery]:
    """Questions no two of which are alike, with limits on both latencies."""
    model = model_costs(snapshot.resolve_model(name).architecture, weights)
    supply, numbers = snapshot.supply(), count()

    def another() -> PlacementQuery:
        number = next(numbers)
        return PlacementQuery(
            model=model,
            target=Target(TargetKind.OUTPUT_TOKENS_PER_S, 20_000.0 + number),
            workload=Workload(1_000.0 + number, 250.0, 8_192),
            limits=(LatencyLimit(LatencyMetric.TTFT, 2_000.0), LatencyLimit(LatencyMetric.ITL, 50.0)),
            constraints=Constraints(mig=MigPolicy.ALLOWED),
            objective=Objective.COST,
            supply=supply,
            max_placements=5,
            coefficients=snapshot.coefficients,
        )

    return another


def plan_ms(query: PlacementQuery) -> float:
    """Wall time of a plan."""
    begin = time.perf_counter()
    plan(query)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    snapshot = shipped_catalogue()
    asked = {name: questions(snapshot, name, weights) for name, weights in MODELS}
    first = next(iter(asked.values()))()
    print(f"first plan of the process: {plan_ms(first):.1f} ms")
    print(f"{'plan':40} {'evaluated':>10} {'median ms':>10} {'least ms':>10}")
    for name, another in asked.items():
        evaluated = plan(another()).evaluated_candidates
        times = [plan_ms(another()) for _ in range(arguments.rounds)]
        print(f"{name:40} {evaluated:10} {statistics.median(times):10.1f} {min(times):10.1f}")
    per_candidate = []
    for _ in range(arguments.rounds):
        sweep = [another() for another in asked.values()]
        begin = time.perf_counter()
        candidates = sum(solve(query).evaluated for query in sweep)
        per_candidate.append((time.perf_counter() - begin) / candidates * 1e6)
    print(f"sweep: {statistics.median(per_candidate):.1f} us per candidate, least {min(per_candidate):.1f}")
    if arguments.profile:
        profile = cProfile.Profile()
        for _ in range(arguments.rounds):
            for another in asked.values():
                profile.runcall(plan, another())
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
