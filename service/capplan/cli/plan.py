"""``capplan plan``: which placements meet a target."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from capplan.cli import flags
from capplan.cli.backend import Backend, Connection, connect
from capplan.cli.failures import ExitCode, UsageError
from capplan.cli.flags import ADDRESS_DEFAULT, CONSTRAINTS_PANEL, LIMITS_PANEL, TARGET_PANEL, TIMEOUT_S_DEFAULT
from capplan.cli.output import open_console, print_json
from capplan.cli.questions import (
    building_request,
    engine_selection,
    model_selection,
    parse_json,
    positive,
    precision,
    read_text,
    refuse_question_flags,
    workload,
)
from capplan.cli.views.plan import print_plan
from capplan.v1 import catalog_service_pb2, placement_pb2, planner_service_pb2

_EPILOG: Final = (
    "Examples:\n\n"
    "capplan plan Qwen/Qwen3-32B --precision fp8 --output-tokens-per-s 5000 --input-tokens 1000 "
    "--output-tokens 300 --ttft-ms 1000 --itl-ms 40\n\n"
    "capplan plan Qwen/Qwen3-4B --output-tokens-per-s 300 --input-tokens 500 --output-tokens 200 --mig required\n\n"
    "capplan plan my-model --config config.json --concurrent-users 64 --input-tokens 2000 --output-tokens 400\n\n"
    "capplan plan --request question.json --output json\n\n"
    "Exits with 0 when there is a placement and 3 when there is none."
)

_OBJECTIVES: Final = {
    flags.ObjectiveFlag.COST: placement_pb2.OBJECTIVE_COST,
    flags.ObjectiveFlag.DEVICES: placement_pb2.OBJECTIVE_DEVICES,
    flags.ObjectiveFlag.ENERGY: placement_pb2.OBJECTIVE_ENERGY,
    flags.ObjectiveFlag.LATENCY: placement_pb2.OBJECTIVE_LATENCY,
}
_MIG_POLICIES: Final = {
    flags.MigPolicyFlag.ALLOWED: placement_pb2.MIG_POLICY_ALLOWED,
    flags.MigPolicyFlag.REQUIRED: placement_pb2.MIG_POLICY_REQUIRED,
    flags.MigPolicyFlag.FORBIDDEN: placement_pb2.MIG_POLICY_FORBIDDEN,
}


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("plan", epilog=_EPILOG)(plan)


def plan(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Catalogue name or alias, e.g. Qwen/Qwen3-32B.")
    ] = None,
    config: flags.Config = None,
    quantization_config: flags.QuantizationConfig = None,
    weights: flags.Precision = None,
    kv_cache: flags.KvCache = None,
    output_tokens_per_s: Annotated[
        float | None,
        typer.Option("--output-tokens-per-s", help="Generated tokens per second.", rich_help_panel=TARGET_PANEL),
    ] = None,
    requests_per_s: Annotated[
        float | None, typer.Option("--requests-per-s", help="Requests per second.", rich_help_panel=TARGET_PANEL)
    ] = None,
    concurrent_users: Annotated[
        float | None,
        typer.Option(
            "--concurrent-users", help="Users who always have one request in flight.", rich_help_panel=TARGET_PANEL
        ),
    ] = None,
    input_tokens: flags.InputTokens = None,
    output_tokens: flags.OutputTokens = None,
    max_context_tokens: flags.MaxContextTokens = None,
    prefix_cache_hit_share: flags.PrefixCacheHitShare = None,
    ttft_ms: Annotated[
        float | None, typer.Option("--ttft-ms", help="Time to first token.", rich_help_panel=LIMITS_PANEL)
    ] = None,
    itl_ms: Annotated[
        float | None, typer.Option("--itl-ms", help="Inter-token latency.", rich_help_panel=LIMITS_PANEL)
    ] = None,
    e2e_ms: Annotated[
        float | None, typer.Option("--e2e-ms", help="From arrival to the last token.", rich_help_panel=LIMITS_PANEL)
    ] = None,
    objective: Annotated[
        flags.ObjectiveFlag | None, typer.Option("--objective", help="What to rank by. Default: cost.")
    ] = None,
    max_placements: Annotated[
        int | None, typer.Option("--max-placements", min=1, max=100, help="Most placements to show. Default: 5.")
    ] = None,
    accelerators: Annotated[
        list[str] | None,
        typer.Option(
            "--accelerator", metavar="NAME", help="Use only this one; repeatable.", rich_help_panel=CONSTRAINTS_PANEL
        ),
    ] = None,
    denied_accelerators: Annotated[
        list[str] | None,
        typer.Option(
            "--deny-accelerator", metavar="NAME", help="Never use; repeatable.", rich_help_panel=CONSTRAINTS_PANEL
        ),
    ] = None,
    mig: Annotated[
        flags.MigPolicyFlag | None,
        typer.Option("--mig", help="Multi-Instance GPU slices. Default: allowed.", rich_help_panel=CONSTRAINTS_PANEL),
    ] = None,
    mig_profiles: Annotated[
        list[str] | None,
        typer.Option(
            "--mig-profile",
            metavar="PROFILE",
            help="Slices of this profile only, e.g. 1g.10gb; repeatable.",
            rich_help_panel=CONSTRAINTS_PANEL,
        ),
    ] = None,
    tensor_parallel: Annotated[
        list[int] | None,
        typer.Option(
            "--tensor-parallel",
            metavar="N",
            min=1,
            help="Only this tensor-parallel size; repeatable.",
            rich_help_panel=CONSTRAINTS_PANEL,
        ),
    ] = None,
    max_devices: Annotated[
        int | None,
        typer.Option(
            "--max-devices",
            metavar="N",
            min=1,
            help="Most physical devices in total.",
            rich_help_panel=CONSTRAINTS_PANEL,
        ),
    ] = None,
    max_usd_per_h: Annotated[
        float | None,
        typer.Option("--max-usd-per-h", help="Budget of the deployment.", rich_help_panel=CONSTRAINTS_PANEL),
    ] = None,
    headroom: Annotated[
        float | None,
        typer.Option(
            "--headroom",
            metavar="SHARE",
            help="Capacity kept free: 0.2 plans for 1.2 times the target.",
            rich_help_panel=CONSTRAINTS_PANEL,
        ),
    ] = None,
    price_term: Annotated[
        str | None,
        typer.Option(
            "--price-term",
            metavar="TERM",
            help="on_demand or spot. Default: on_demand.",
            rich_help_panel=CONSTRAINTS_PANEL,
        ),
    ] = None,
    engine: flags.Engine = None,
    engine_version: flags.EngineVersion = None,
    gpu_memory_utilization: flags.GpuMemoryUtilization = None,
    mem_fraction_static: flags.MemFractionStatic = None,
    free_gpu_memory_fraction: flags.FreeGpuMemoryFraction = None,
    max_num_seqs: flags.MaxNumSeqs = None,
    max_num_batched_tokens: flags.MaxNumBatchedTokens = None,
    request_file: Annotated[
        str | None,
        typer.Option(
            "--request",
            metavar="FILE",
            help="The whole question as a PlanPlacementRequest in JSON, - for standard input; takes no other flag of "
            "the question.",
            rich_help_panel="Asking",
        ),
    ] = None,
    all_rejections: Annotated[
        bool,
        typer.Option("--all-rejections", help="List every accelerator that was ruled out.", rich_help_panel="Asking"),
    ] = False,
    output: flags.Output = flags.OutputFormat.TABLE,
    local: flags.Local = False,
    address: flags.Address = ADDRESS_DEFAULT,
    timeout_s: flags.TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Rank the placements that serve a target, and say why everything else was ruled out."""
    if request_file is not None:
        refuse_question_flags(context, "--request")
        text = read_text(request_file, "--request")
        request = parse_json(text, planner_service_pb2.PlanPlacementRequest(), request_file)
    else:
        with building_request():
            request = planner_service_pb2.PlanPlacementRequest(
                model=model_selection(model, config, quantization_config),
                precision=precision(weights, kv_cache),
                target=_target(output_tokens_per_s, requests_per_s, concurrent_users),
                workload=workload(input_tokens, output_tokens, max_context_tokens, prefix_cache_hit_share),
                latency_limits=_latency_limits(ttft_ms, itl_ms, e2e_ms),
                constraints=placement_pb2.Constraints(
                    allowed_accelerators=accelerators or (),
                    denied_accelerators=denied_accelerators or (),
                    mig_policy=_MIG_POLICIES[mig] if mig else placement_pb2.MIG_POLICY_UNSPECIFIED,
                    mig_profiles=mig_profiles or (),
                    tensor_parallel_sizes=tensor_parallel or (),
                    max_devices=max_devices or 0,
                    max_usd_per_h=positive("--max-usd-per-h", max_usd_per_h),
                    headroom_share=headroom or 0.0,
                    price_term=price_term or "",
                    engine=engine_selection(
                        engine,
                        engine_version,
                        gpu_memory_utilization,
                        mem_fraction_static,
                        free_gpu_memory_fraction,
                        max_num_seqs,
                        max_num_batched_tokens,
                    ),
                ),
                objective=_OBJECTIVES[objective] if objective else placement_pb2.OBJECTIVE_UNSPECIFIED,
                max_placements=max_placements or 0,
            )
    with connect(context, Connection(local, address, timeout_s)) as backend:
        answer = backend.plan_placement(request)
        if output is flags.OutputFormat.JSON:
            print_json(answer)
        else:
            print_plan(open_console(), request, answer, grid_units_of(backend, answer), all_rejections=all_rejections)
    if not answer.placements:
        raise typer.Exit(ExitCode.INFEASIBLE)


def grid_units_of(backend: Backend, answer: planner_service_pb2.PlanPlacementResponse) -> int:
    """Units of the best placement's MIG grid, which only the catalogue knows; zero without MIG."""
    if not answer.placements or not answer.placements[0].HasField("mig_layout"):
        return 0
    layout = answer.placements[0].mig_layout
    profile = catalog_service_pb2.GetMigProfileRequest(name=f"migBoards/{layout.board}/profiles/{layout.profile_id}")
    return backend.get_mig_profile(profile).mig_profile.grid_unit_count


def _target(
    output_tokens_per_s: float | None, requests_per_s: float | None, concurrent_users: float | None
) -> placement_pb2.Target:
    flags_given = {
        "output_tokens_per_s": output_tokens_per_s,
        "requests_per_s": requests_per_s,
        "concurrent_users": concurrent_users,
    }
    given = {field: value for field, value in flags_given.items() if value is not None}
    if len(given) != 1:
        raise UsageError(
            "give exactly one target: --output-tokens-per-s, --requests-per-s or --concurrent-users "
            f"({len(given)} are given)"
        )
    return placement_pb2.Target(**given)


def _latency_limits(
    ttft_ms: float | None, itl_ms: float | None, e2e_ms: float | None
) -> list[placement_pb2.LatencyLimit]:
    limits = (
        (placement_pb2.LATENCY_METRIC_TTFT, ttft_ms),
        (placement_pb2.LATENCY_METRIC_ITL, itl_ms),
        (placement_pb2.LATENCY_METRIC_E2E, e2e_ms),
    )
    return [
        placement_pb2.LatencyLimit(metric=metric, limit_ms=limit_ms)
        for metric, limit_ms in limits
        if limit_ms is not None
    ]
