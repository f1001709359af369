"""A placement and its assumptions in sentences."""

from __future__ import annotations

from dataclasses import replace

from capplan.estimation.engine import engine_notes
from capplan.planning.placement import Placement
from capplan.planning.query import Objective, PlacementQuery, TargetKind

_BINDING = {
    "max_num_seqs": "the engine's cap on sequences per step",
    "kv_capacity": "the KV cache, which holds no more requests of this length",
    "prefill_saturation": "prompt work, which takes up the token budget of the steps",
    "itl_limit": "the ITL limit",
    "ttft_limit": "the TTFT limit",
    "e2e_limit": "the E2E limit",
}
_UNITS = {
    TargetKind.OUTPUT_TOKENS_PER_S: "output tokens/s",
    TargetKind.REQUESTS_PER_S: "requests/s",
    TargetKind.CONCURRENT_USERS: "concurrent users",
}


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def assumptions(query: PlacementQuery, context_tokens: int) -> tuple[str, ...]:
    """What a plan takes for granted, one sentence each."""
    sentences = [*query.model.assumptions, *query.workload.assumptions]
    if query.workload.max_context_tokens is None:
        sentences.append(
            f"Every replica can hold one request of the model's full context of {context_tokens} tokens, as engines "
            "default to; set workload.max_context_tokens to plan for less."
        )
    sentences.append(
        "Latencies are means in steady state with evenly divided load; percentiles and bursts are not modelled yet."
    )
    sentences.extend(engine_notes(query.constraints.engine))
    unbounded = query.constraints.max_devices is None and query.constraints.max_usd_per_h is None
    if query.objective is Objective.LATENCY and unbounded:
        sentences.append(
            "Without constraints.max_devices or constraints.max_usd_per_h, latency is bought with as many replicas as "
            "let each run one request at a time."
        )
    return tuple(sentences)


def explain(query: PlacementQuery, placement: Placement) -> Placement:
    """The same placement with its explanation."""
    capacity, point = placement.capacity, placement.operating_point
    product = placement.accelerator.product_name
    if placement.mig_plan is not None:
        spread = f"one {placement.mig_plan.slices[0].profile.name} slice each"
    elif placement.parallelism.tensor_parallel > 1:
        spread = f"{placement.parallelism.tensor_parallel} devices each (tensor parallel)"
    else:
        spread = "one device each"
    target = f"{query.target.value:g} {_UNITS[query.target.kind]}"
    headroom = query.constraints.headroom_share
    margin = f" with {headroom:.0%} headroom" if headroom else ""
    largest = " and ".join(f"{part.group} {part.time_ms:.2f} ms" for part in capacity.parts[:2])
    sentences = [
        f"{placement.replica_count} replica(s), {spread}, on {placement.device_count} x {product} serve "
        f"{target}{margin}.",
        f"One replica sustains {capacity.output_tokens_per_s.value:.0f} output tokens/s with {_count(capacity.batch)} "
        f"running requests (ITL {capacity.itl_ms.value:.1f} ms, TTFT {capacity.ttft_ms.value:.0f} ms); more is kept "
        f"back by {_BINDING[placement.binding_constraint]}.",
        f"Most of a step at that load is limited by {capacity.bottleneck.replace('_', ' ')}; its longest parts are "
        f"{largest}.",
        f"At the target each replica runs {_count(point.batch)} requests: ITL {point.itl_ms.value:.1f} ms, TTFT "
        f"{point.ttft_ms.value:.0f} ms, {placement.utilization:.0%} of capacity.",
    ]
    if placement.price is not None:
        price = placement.price
        basis = {None: "", 1: ", a single offer"}.get(price.offers, f", median of {price.offers} offers")
        sentences.append(
            f"Priced at {price.usd_per_h:.3g} $/h per device ({price.term.replace('_', '-')}{basis}, {price.as_of})."
        )
    return replace(placement, explanation=tuple(sentences))
