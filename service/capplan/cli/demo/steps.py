"""The questions of the demonstration. Each checks that its answer shows what the narration says before it prints it."""

from __future__ import annotations

from importlib import resources
from typing import Final

from rich.console import Console

from capplan.cli.demo.failure import DemoError, check
from capplan.cli.failures import describe
from capplan.cli.output import print_bullets, print_heading
from capplan.cli.plan import grid_units_of
from capplan.cli.views.deployment import print_deployment
from capplan.cli.views.figures import figure, gib, short_name
from capplan.cli.views.mig import print_mig_layout
from capplan.cli.views.plan import layout_text, print_plan, print_ranking
from capplan.client import Client
from capplan.errors import CapplanError, InvalidInputError, NotFoundError
from capplan.v1 import catalog_service_pb2, model_pb2, placement_pb2, planner_service_pb2

_H100: Final = "h100-sxm-80gb"


def cheapest_for_llama(client: Client, console: Console) -> None:
    """A dense model under two latency limits, ranked by cost."""
    _narrate(
        console,
        "Llama-3.1-70B in fp8 for 10,000 output tokens/s, 1,000 tokens in and 250 out, TTFT within 1 s and ITL within "
        "50 ms: what is cheapest?",
    )
    limits = {placement_pb2.LATENCY_METRIC_TTFT: 1000.0, placement_pb2.LATENCY_METRIC_ITL: 50.0}
    request = planner_service_pb2.PlanPlacementRequest(
        model=model_pb2.ModelSelection(name="Llama-3.1-70B"),
        precision=model_pb2.Precision(weights="fp8"),
        target=placement_pb2.Target(output_tokens_per_s=10_000),
        workload=placement_pb2.Workload(input_tokens=1000, output_tokens=250),
        latency_limits=[
            placement_pb2.LatencyLimit(metric=metric, limit_ms=limit_ms) for metric, limit_ms in limits.items()
        ],
        objective=placement_pb2.OBJECTIVE_COST,
    )
    answer = client.plan_placement(request)
    check(bool(answer.placements), "some accelerator serves Llama-3.1-70B")
    for placement in answer.placements:
        load = placement.operating_point
        check(_capacity(placement) >= 10_000, "every placement carries the target")
        check(load.ttft_ms.value <= 1000.0 and load.itl_ms.value <= 50.0, "every placement keeps the limits")
    costs = [placement.cost_usd_per_h for placement in answer.placements]
    check(costs == sorted(costs) and costs[0] > 0, "placements come in order of cost")
    print_plan(console, request, answer, grid_units_of(client, answer))


def deepseek_from_its_config(client: Client, console: Console) -> None:
    """A model the catalogue need not know, from its config.json alone."""
    _narrate(
        console,
        "DeepSeek-V3 from its config.json, nothing else, with the fp8 weights it is published in: 5,000 output "
        "tokens/s, contexts up to 16,384 tokens.",
    )
    request = planner_service_pb2.PlanPlacementRequest(
        model=model_pb2.ModelSelection(config_json=_read_config("deepseek-v3.json"), display_name="DeepSeek-V3"),
        precision=model_pb2.Precision(weights="fp8"),
        target=placement_pb2.Target(output_tokens_per_s=5_000),
        workload=placement_pb2.Workload(input_tokens=1000, output_tokens=250, max_context_tokens=16_384),
        max_placements=3,
    )
    answer = client.plan_placement(request)
    check(bool(answer.placements), "some accelerator serves DeepSeek-V3")
    best = answer.placements[0]
    check(best.device_count > 1, "671 billion parameters take more than one device")
    check(_capacity(best) >= 5_000, "the best placement carries the target")
    _print_choice(console, answer)
    memory = best.memory
    console.print(
        f"Each device holds {gib(memory.weight_bytes)} GiB of weights and {gib(memory.kv_pool_bytes)} GiB of KV cache."
    )


def gpt_oss_does_not_fit(client: Client, console: Console) -> None:
    """A layout that nearly fits: refused with the shortfall, and what would do instead."""
    _narrate(
        console,
        "gpt-oss-120b as published (mxfp4) on one H100 80 GB, at the engine's defaults and its full context: does it "
        "start?",
    )
    model = model_pb2.ModelSelection(name="openai/gpt-oss-120b")
    precision = model_pb2.Precision(weights="mxfp4")
    workload = placement_pb2.Workload(input_tokens=1000, output_tokens=300)
    question = planner_service_pb2.EstimateDeploymentRequest(
        model=model,
        precision=precision,
        workload=workload,
        deployment=planner_service_pb2.Deployment(accelerator=_H100),
    )
    estimate = client.estimate_deployment(question)
    check(not estimate.starts, "gpt-oss-120b does not start on one H100 with its full context")
    check(any(fault.shortfall < 0 for fault in estimate.faults), "the estimate says by how much it misses")
    print_deployment(console, question, estimate)

    _narrate(console, "So a plan that allows one H100 and nothing else is infeasible; what would have to change?")
    request = planner_service_pb2.PlanPlacementRequest(
        model=model,
        precision=precision,
        workload=workload,
        target=placement_pb2.Target(output_tokens_per_s=100),
        constraints=placement_pb2.Constraints(allowed_accelerators=[_H100], max_devices=1),
        max_placements=3,
    )
    refused = client.plan_placement(request)
    check(not refused.placements, "one H100 does not serve gpt-oss-120b with its full context")
    check(bool(refused.relaxations), "the answer names changes that would do")
    print_plan(console, request, refused, 0)

    _narrate(console, "And without that restriction, what fits?")
    request.ClearField("constraints")
    fits = client.plan_placement(request)
    check(bool(fits.placements), "some accelerator serves gpt-oss-120b")
    _print_choice(console, fits)


def qwen_on_slices(client: Client, console: Console) -> None:
    """A small model on MIG slices, with the layout of every GPU."""
    _narrate(console, "Qwen3-4B in bf16 for 300 output tokens/s, on MIG slices only: which profile, where on the GPU?")
    request = planner_service_pb2.PlanPlacementRequest(
        model=model_pb2.ModelSelection(name="Qwen/Qwen3-4B"),
        precision=model_pb2.Precision(weights="bf16"),
        target=placement_pb2.Target(output_tokens_per_s=300),
        workload=placement_pb2.Workload(input_tokens=500, output_tokens=200, max_context_tokens=4096),
        constraints=placement_pb2.Constraints(mig_policy=placement_pb2.MIG_POLICY_REQUIRED),
        max_placements=3,
    )
    answer = client.plan_placement(request)
    check(bool(answer.placements), "some slice serves Qwen3-4B")
    check(all(placement.HasField("mig_layout") for placement in answer.placements), "every placement uses slices")
    layout = answer.placements[0].mig_layout
    profile = client.get_mig_profile(
        catalog_service_pb2.GetMigProfileRequest(name=f"migBoards/{layout.board}/profiles/{layout.profile_id}")
    ).mig_profile
    used = [instance for gpu in layout.gpus for instance in gpu.instances if instance.used]
    check(bool(used), "the layout has slices in use")
    check({instance.start for instance in used} <= set(profile.starts), "every slice starts where the board allows it")
    check(layout.resource_name_mixed.startswith("nvidia.com/mig-"), "slices have a Kubernetes resource name")
    _print_choice(console, answer)
    print_mig_layout(console, layout, profile.grid_unit_count)


def refusals(client: Client, console: Console) -> None:
    """Questions that have no answer: refused by name, with what would be accepted."""
    workload = placement_pb2.Workload(input_tokens=1000, output_tokens=250)
    target = placement_pb2.Target(output_tokens_per_s=1000)

    _narrate(console, 'A model nobody knows, "Qwen/Qwen3-23B": refused, with the names that come near.')
    unknown = planner_service_pb2.PlanPlacementRequest(
        model=model_pb2.ModelSelection(name="Qwen/Qwen3-23B"), workload=workload, target=target
    )
    refusal = _refusal_of(client, unknown)
    check(isinstance(refusal, NotFoundError) and bool(refusal.near), "an unknown model is refused with near names")
    print_bullets(console, describe(refusal))

    _narrate(console, "A config.json of a kind of model that capplan does not know: refused by name.")
    unsupported = planner_service_pb2.PlanPlacementRequest(
        model=model_pb2.ModelSelection(config_json=_read_config("acme-liquid.json")), workload=workload, target=target
    )
    refusal = _refusal_of(client, unsupported)
    check(isinstance(refusal, InvalidInputError), "an unsupported architecture is refused")
    check("acme_liquid" in str(refusal), "the refusal names the architecture")
    print_bullets(console, describe(refusal))


STEPS: Final = (cheapest_for_llama, deepseek_from_its_config, gpt_oss_does_not_fit, qwen_on_slices, refusals)


def _narrate(console: Console, text: str) -> None:
    console.rule(characters="=")
    console.print(text)


def _capacity(placement: placement_pb2.Placement) -> float:
    return placement.capacity.output_tokens_per_s.value * placement.replica_count


def _print_choice(console: Console, answer: planner_service_pb2.PlanPlacementResponse) -> None:
    """The ranking, and why the best one is the best."""
    print_ranking(console, answer.placements)
    best = answer.placements[0]
    print_heading(console, f"Best: {best.device_count} x {short_name(best.accelerator)}, {layout_text(best)}")
    print_bullets(console, list(best.explanation))
    console.print(f"Each replica can do {figure(best.capacity.output_tokens_per_s.value)} output tokens/s.")


def _refusal_of(client: Client, request: planner_service_pb2.PlanPlacementRequest) -> CapplanError:
    try:
        client.plan_placement(request)
    except CapplanError as refusal:
        return refusal
    raise DemoError("the demonstration expected a refusal, and got an answer")


def _read_config(name: str) -> str:
    return resources.files("capplan.cli").joinpath("demo_data", name).read_text(encoding="utf-8")
