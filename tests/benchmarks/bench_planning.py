"""Time of planning over the whole shipped catalogue: cold questions, and each candidate of a sweep.

    PYTHONPATH=service:. python tests/benchmarks/bench_planning.py [--rounds 9] [--profile]

Every question is over every accelerator with every layout and MIG slice, whatever it costs, and none is like another:
the workload differs, so that nothing but what depends on the catalogue alone is remembered from one to the next, as in
a server. The first of a process finds nothing remembered at all. The coefficients are those that a server plans with,
the shipped calibration with its measured sites. Printed are the whole plan's time, by model, the amortised time per
configuration of a sweep that only solves, and what each stage takes of a plan; medians of the rounds, and the least.
Stages are measured in rounds of their own, and those that are part of another stand below it, further in.
``--profile`` adds where the plans' time goes.

BLAS uses as many threads as the machine has cores, unless ``OPENBLAS_NUM_THREADS`` or ``OMP_NUM_THREADS`` say
otherwise.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any
from unittest.mock import patch

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.estimation import estimate, load_curve
from capplan.estimation.corrections import Corrections
from capplan.modeling.costs import model_costs
from capplan.planning import planner, solver
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

STAGES: tuple[tuple[object, str, str], ...] = (
    (planner, "solve", "solve"),
    (solver, "enumerate_candidates", "  enumerate candidates"),
    (solver, "build_table", "  pack the table"),
    (solver, "curve_of", "  curves"),
    (load_curve, "situations_of", "    situations"),
    (Corrections, "log_factors", "    factors per token"),
    (Corrections, "first_token_log_factors", "    factors on first tokens"),
    (solver, "capacities", "  capacities"),
    (solver, "operating_batch", "  operating points"),
    (planner, "best_rows", "rank"),
    (planner, "_placements", "report placements"),
    (estimate, "confidences", "  confidences"),
    (estimate, "_mean_step_parts", "  parts of the step"),
    (planner, "_rejections", "report rejections"),
)
"""What is timed by stage: where the function is looked up, its name, and what it is called here."""


def shipped_catalogue() -> CatalogSnapshot:
    """The shipped catalogue, from a database in memory."""
    application = Application.from_settings(Settings(database_url="sqlite://"))
    try:
        return application.snapshot
    finally:
        application.close()


def questions(
    snapshot: CatalogSnapshot, name: str, weights: str, numbers: Iterator[int]
) -> Callable[[], PlacementQuery]:
    """Questions about one model with limits on both latencies; none has the lengths of another of the same numbers."""
    model = model_costs(snapshot.resolve_model(name).architecture, weights)
    supply = snapshot.supply()

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


class Stages:
    """Adds up what the stages of plans take, while it is entered."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = defaultdict(float)
        self._stack = ExitStack()

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.ms[name] += (time.perf_counter() - begin) * 1e3

        return timed

    def __enter__(self) -> Stages:
        for where, attribute, name in STAGES:
            self._stack.enter_context(patch.object(where, attribute, self._timed(name, getattr(where, attribute))))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()


def print_stages(asked: dict[str, Callable[[], PlacementQuery]], rounds: int) -> None:
    """What each stage takes of a plan, over all models."""
    found = defaultdict(list)
    for _ in range(rounds):
        for another in asked.values():
            query = another()
            with Stages() as stages:
                found["plan"].append(plan_ms(query))
            for name in (name for _, _, name in STAGES):
                found[name].append(stages.ms[name])
    print(f"{'stage of a plan':40} {'':10} {'median ms':>10} {'least ms':>10}")
    for name, times in found.items():
        print(f"{name:40} {'':10} {statistics.median(times):10.2f} {min(times):10.2f}")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    snapshot = shipped_catalogue()
    print(f"measured sites in force: {len(snapshot.coefficients.corrections.sites)}")
    numbers = count()
    asked = {name: questions(snapshot, name, weights, numbers) for name, weights in MODELS}
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
    print_stages(asked, arguments.rounds)
    if arguments.profile:
        profile = cProfile.Profile()
        for _ in range(arguments.rounds):
            for another in asked.values():
                profile.runcall(plan, another())
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
