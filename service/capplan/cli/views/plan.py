"""An answer of ``PlanPlacement``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capplan.cli.output import new_table, print_bullets, print_heading
from capplan.cli.views.figures import ABSENT, amount, count, figure, percent, sentence, short_name, usd
from capplan.cli.views.launch import launch_command
from capplan.cli.views.memory import print_memory
from capplan.cli.views.mig import print_mig_layout
from capplan.cli.views.performance import print_performance, print_step_parts
from capplan.cli.views.provenance import has_interval, provenance_word, weakest, widest_side
from capplan.v1 import placement_pb2, planner_service_pb2

_NEAREST_PER_REASON = 3


def print_plan(
    console: Console,
    request: planner_service_pb2.PlanPlacementRequest,
    answer: planner_service_pb2.PlanPlacementResponse,
    grid_units: int,
    *,
    all_rejections: bool = False,
) -> None:
    """The verdict, the ranking, the best placement whole, what was ruled out, what was assumed.

    Args:
        console: where to print.
        request: the question.
        answer: its answer.
        grid_units: units of the best placement's MIG grid; zero without MIG.
        all_rejections: print every rejection instead of the nearest few of each reason.
    """
    console.print(
        f"{answer.model}, weights {answer.weights}, KV cache {answer.kv_cache}; catalogue revision "
        f"{answer.catalog_revision}, {count(answer.evaluated_candidate_count)} configurations evaluated"
    )
    if answer.placements:
        print_ranking(console, answer.placements)
        print_best(console, request, answer, grid_units)
    else:
        print_heading(console, "Infeasible: no accelerator meets everything asked")
    if answer.relaxations:
        print_heading(console, "Smallest changes that would make it feasible")
        print_bullets(
            console, [f"{change.description} [{change.field} = {change.value}]" for change in answer.relaxations]
        )
    print_rejections(console, answer.rejections, everything=all_rejections)
    if answer.assumptions:
        print_heading(console, "Assumed")
        print_bullets(console, list(answer.assumptions))


def layout_text(placement: placement_pb2.Placement) -> str:
    """Replicas times what one of them is: ``2 x TP4``, ``14 x 1g.10gb``."""
    parallelism = placement.parallelism
    if placement.HasField("mig_layout"):
        return f"{count(placement.replica_count)} x {placement.mig_layout.profile}"
    parts = [
        f"{name}{size}"
        for name, size in (
            ("TP", max(parallelism.tensor_parallel, 1)),
            ("PP", parallelism.pipeline_parallel),
            ("EP", parallelism.expert_parallel),
            ("DP", parallelism.attention_data_parallel),
        )
        if size > 1 or name == "TP"
    ]
    return f"{count(placement.replica_count)} x {' '.join(parts)}"


def print_ranking(console: Console, placements: Sequence[placement_pb2.Placement]) -> None:
    """A placement a row. Throughput is what the whole deployment can do, latencies are at the target.

    A second line of each row says how sure its figures are; where capacity and operating point come from different
    sources, it names the weaker one.
    """
    right = ("#", "devices", "tok/s\ncapacity", "ITL\nms", "TTFT\nms", "$/h", "$/M\ntok", "used")
    print_heading(console, "Placements, best first")
    table = new_table(
        console,
        *("#", "accelerator", "devices", "layout", "tok/s\ncapacity", "ITL\nms", "TTFT\nms", "$/h", "$/M\ntok", "used"),
        right=right,
    )
    for placement in placements:
        has_cost = placement.HasField("cost_usd_per_h")
        has_token_cost = placement.HasField("cost_usd_per_million_output_tokens")
        capacity, at_target = placement.capacity, placement.operating_point
        table.add_row(
            str(placement.rank),
            f"{short_name(placement.accelerator)}\n{provenance_word(weakest(capacity, at_target))}",
            count(placement.device_count),
            layout_text(placement),
            _with_reach(
                count(capacity.output_tokens_per_s.value * placement.replica_count), capacity.output_tokens_per_s
            ),
            _with_reach(figure(at_target.itl_ms.value), at_target.itl_ms),
            _with_reach(figure(at_target.ttft_ms.value), at_target.ttft_ms),
            usd(placement.cost_usd_per_h) if has_cost else ABSENT,
            usd(placement.cost_usd_per_million_output_tokens) if has_token_cost else ABSENT,
            percent(placement.utilization),
        )
    console.print(table)
    console.print("tok/s: all replicas at the limits asked for; ITL, TTFT and used: at the target")
    below = ["the provenance of its figures"]
    if any(_intervals(placement) for placement in placements):
        below.append("+- percent to the wider side of the 90 % interval")
    console.print(f"below each: {', '.join(below)}")


def _with_reach(text: str, estimate: placement_pb2.Estimate) -> str:
    """A figure, and in a second line how far its interval reaches."""
    reach = widest_side(estimate)
    return f"{text}\n{reach}" if reach else text


def _intervals(placement: placement_pb2.Placement) -> bool:
    """Whether a figure that the ranking shows has an interval."""
    at_target = placement.operating_point
    return any(map(has_interval, (placement.capacity.output_tokens_per_s, at_target.itl_ms, at_target.ttft_ms)))


def print_best(
    console: Console,
    request: planner_service_pb2.PlanPlacementRequest,
    answer: planner_service_pb2.PlanPlacementResponse,
    grid_units: int,
) -> None:
    """Everything about the first placement."""
    best = answer.placements[0]
    title = f"Best: {count(best.device_count)} x {best.product_name or short_name(best.accelerator)}"
    print_heading(console, f"{title}, {layout_text(best)}")
    print_bullets(console, list(best.explanation))
    facts = [f"bound by: {sentence(best.binding_constraint)}"]
    if best.price_source:
        facts.append(f"price: {best.price_source}")
    if best.HasField("power_w"):
        facts.append(f"power: {count(best.power_w)} W at the target")
    facts.append(f"one replica asks for {best.resource_request}")
    print_bullets(console, facts)
    print_performance(console, {"at capacity": best.capacity, "at the target": best.operating_point})
    print_step_parts(console, best.operating_point, "at the target")
    has_slices = best.HasField("mig_layout")
    print_memory(console, best.memory, f"each {best.mig_layout.profile} slice" if has_slices else "each device")
    if has_slices:
        print_mig_layout(console, best.mig_layout, grid_units)
    print_heading(console, f"Start each replica ({best.engine.name} {best.engine.version})")
    model = request.model.name and answer.model
    checkpoint = model or "PATH_OF_THE_CHECKPOINT"
    command = launch_command(checkpoint, best.engine, best.parallelism, request.precision.kv_cache)
    console.print(command, soft_wrap=True)
    console.print(f"The checkpoint must hold its weights in {answer.weights}.")


def print_rejections(
    console: Console, rejections: Sequence[placement_pb2.Rejection], *, everything: bool = False
) -> None:
    """What was ruled out, by reason, the nearest miss first."""
    if not rejections:
        return
    print_heading(console, f"Ruled out: {count(len(rejections))} accelerator(s)")
    reasons: dict[str, list[placement_pb2.Rejection]] = {}
    for rejection in rejections:
        reasons.setdefault(rejection.reason, []).append(rejection)
    # Near misses say more than what was never possible, so reasons with an amount come first.
    ordered = sorted(reasons.items(), key=lambda item: (not any(one.shortfall for one in item[1]), item[0]))
    for reason, group in ordered:
        nearest_first = sorted(group, key=lambda rejection: (rejection.shortfall_unit, -rejection.shortfall))
        console.print(f"{sentence(reason)} ({count(len(group))})")
        shown = nearest_first if everything else nearest_first[:_NEAREST_PER_REASON]
        print_bullets(console, [_rejection_text(rejection) for rejection in shown])
        if len(shown) < len(group):
            console.print(f"  and {count(len(group) - len(shown))} more (--all-rejections lists them)")


def _rejection_text(rejection: placement_pb2.Rejection) -> str:
    how = f", {rejection.configuration}" if rejection.configuration else ""
    missing = f" [misses {amount(rejection.shortfall, rejection.shortfall_unit)}]" if rejection.shortfall else ""
    return f"{short_name(rejection.accelerator)}{how}: {rejection.description}{missing}"
