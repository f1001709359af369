"""An answer of ``EstimateDeployment``."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from capplan.cli.output import print_bullets, print_heading
from capplan.cli.views.figures import amount, interval, short_name
from capplan.cli.views.memory import print_memory
from capplan.cli.views.performance import print_performance, print_step_parts
from capplan.v1 import placement_pb2, planner_service_pb2


def verdict(
    request: planner_service_pb2.EstimateDeploymentRequest, answer: planner_service_pb2.EstimateDeploymentResponse
) -> str:
    """Whether the layout starts, and by how much it misses otherwise, in a sentence."""
    layout = request.deployment
    slices = f" on MIG {layout.mig_profile}" if layout.mig_profile else ""
    where = f"{short_name(answer.accelerator)}{slices} at tensor parallel {max(layout.tensor_parallel, 1)}"
    what = f"{answer.model} with {answer.weights} weights"
    if answer.starts:
        return f"STARTS: {what} runs on {where}"
    missing = [amount(fault.shortfall, fault.shortfall_unit) for fault in answer.faults if fault.shortfall]
    return f"DOES NOT START: {what} on {where}" + (f"; it misses {', '.join(missing)}" if missing else "")


def print_deployment(
    console: Console,
    request: planner_service_pb2.EstimateDeploymentRequest,
    answer: planner_service_pb2.EstimateDeploymentResponse,
) -> None:
    """The verdict first, then memory, performance and the step's parts."""
    console.print(Text(verdict(request, answer), style="bold"))
    print_bullets(console, [f"{fault.description} ({fault.reason})" for fault in answer.faults])
    if answer.HasField("engine"):
        console.print(_engine_text(answer.engine))
    if answer.HasField("memory"):
        profile = request.deployment.mig_profile
        print_memory(console, answer.memory, f"each {profile} slice" if profile else "each device")
    if answer.HasField("performance"):
        load = "at the asked load" if request.concurrency else "as full as it gets"
        print_performance(console, {load: answer.performance, **_second_opinions(answer)})
        if answer.HasField("total_output_tokens_per_s"):
            replicas = max(request.deployment.replica_count, 1)
            console.print(f"all {replicas} replica(s): {interval(answer.total_output_tokens_per_s)} output tokens/s")
        print_step_parts(console, answer.performance, load)
    without = [f"{opinion.estimator}: {opinion.reason}" for opinion in answer.second_opinions if opinion.reason]
    if without:
        print_heading(console, "Second opinions without figures")
        print_bullets(console, without)
    if answer.assumptions:
        print_heading(console, "Assumed")
        print_bullets(console, list(answer.assumptions))


def _second_opinions(
    answer: planner_service_pb2.EstimateDeploymentResponse,
) -> dict[str, placement_pb2.ReplicaPerformance]:
    """Figures of other estimators, by what heads their column."""
    return {
        f"says {opinion.estimator}": opinion.performance
        for opinion in answer.second_opinions
        if opinion.HasField("performance")
    }


def _engine_text(engine: placement_pb2.EngineSettings) -> str:
    # each engine has one of these, and means something else by it
    fraction = engine.gpu_memory_utilization or engine.mem_fraction_static or engine.free_gpu_memory_fraction
    return (
        f"{engine.name} {engine.version}: memory fraction {fraction:.4g}, at most "
        f"{engine.max_num_seqs:,} sequences and {engine.max_num_batched_tokens:,} tokens a step, context "
        f"{engine.max_model_len_tokens:,} tokens, KV cache {engine.kv_cache}"
    )
