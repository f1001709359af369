"""Checks of the planner's requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from capplan.catalog.records import PriceTerm
from capplan.modeling.precision import SIZABLE_PRECISIONS
from capplan.modeling.training import Optimizer
from capplan.server.validation.checks import Violations, shown
from capplan.server.validation.parts import (
    MAX_LIST_ENTRIES,
    MAX_NAME_CHARACTERS,
    MAX_PARALLEL,
    MAX_SEQUENCES,
    MAX_TOKENS,
    check_engine,
    check_kv_cache,
    check_model,
    check_precision,
    check_workload,
)
from capplan.v1 import model_pb2, placement_pb2, planner_service_pb2

MIN_AMOUNT: Final = 1e-6
"""Least target, limit or budget: below it divisions leave the range of numbers."""
MAX_TARGET: Final = 1e9
MAX_LIMIT_MS: Final = 1e9
MAX_DEVICES: Final = 1e6
MAX_USD_PER_H: Final = 1e9
MAX_HEADROOM_SHARE: Final = 10
MAX_PLACEMENTS: Final = 100

_WORKLOAD_EXPECTED = "workload.input_tokens and workload.output_tokens, the mean lengths of one request"


def validate_plan_placement(request: planner_service_pb2.PlanPlacementRequest) -> None:
    """Refuse a ``PlanPlacementRequest`` that breaks a rule.

    Raises:
        InvalidInputError: with every fault.
    """
    violations = Violations()
    check_model(violations, request.model)
    check_precision(violations, request.precision)
    _check_target(violations, request.target)
    if violations.present(request, "workload", "workload", _WORKLOAD_EXPECTED):
        check_workload(violations, request.workload)
    _check_latency_limits(violations, request.latency_limits)
    _check_constraints(violations, request.constraints)
    violations.enumeration("objective", request.objective, placement_pb2.Objective.items(), refused=None)
    violations.number("max_placements", request.max_placements, least=1, most=MAX_PLACEMENTS, zero_means="5")
    violations.refuse()


def validate_estimate_deployment(request: planner_service_pb2.EstimateDeploymentRequest) -> None:
    """Refuse an ``EstimateDeploymentRequest`` that breaks a rule.

    Raises:
        InvalidInputError: with every fault.
    """
    violations = Violations()
    check_model(violations, request.model)
    check_precision(violations, request.precision)
    if violations.present(request, "workload", "workload", _WORKLOAD_EXPECTED):
        check_workload(violations, request.workload)
    if violations.present(request, "deployment", "deployment", "at least deployment.accelerator"):
        _check_deployment(violations, request.deployment)
    violations.number(
        "concurrency", request.concurrency, least=MIN_AMOUNT, most=MAX_TARGET, zero_means="as many as it holds"
    )
    _check_second_opinions(violations, request.second_opinions)
    violations.refuse()


def validate_describe_model(request: planner_service_pb2.DescribeModelRequest) -> None:
    """Refuse a ``DescribeModelRequest`` that breaks a rule.

    Raises:
        InvalidInputError: with every fault.
    """
    violations = Violations()
    check_model(violations, request.model)
    if violations.count("precisions", request.precisions, MAX_LIST_ENTRIES):
        for index, weights in enumerate(request.precisions):
            violations.one_of(f"precisions[{index}]", weights, SIZABLE_PRECISIONS)
            if weights in request.precisions[:index]:
                violations.add(f"precisions[{index}]", f"{weights!r} is listed already; accepted: each once")
    check_kv_cache(violations, "kv_cache", request.kv_cache)
    _check_training(violations, request.training)
    violations.refuse()


def _check_training(violations: Violations, training: model_pb2.TrainingSelection) -> None:
    none = "no activations"
    violations.number("training.batch_size", training.batch_size, least=1, most=MAX_SEQUENCES, zero_means=none)
    violations.number(
        "training.sequence_length_tokens", training.sequence_length_tokens, least=1, most=MAX_TOKENS, zero_means=none
    )
    if bool(training.batch_size) != bool(training.sequence_length_tokens):
        missing = "sequence_length_tokens" if training.batch_size else "batch_size"
        violations.add(f"training.{missing}", "is required: activations need both a batch size and a length")
    violations.one_of("training.optimizer", training.optimizer, Optimizer, empty_means=Optimizer.ADAMW.value)


def _check_target(violations: Violations, target: placement_pb2.Target) -> None:
    load = target.WhichOneof("load")
    if load is None:
        violations.add(
            "target", "is required: set one of target.output_tokens_per_s, requests_per_s and concurrent_users"
        )
    else:
        violations.number(f"target.{load}", getattr(target, load), least=MIN_AMOUNT, most=MAX_TARGET)


def _check_latency_limits(violations: Violations, limits: Sequence[placement_pb2.LatencyLimit]) -> None:
    # One entry for each metric, and room for one duplicate of each to be named.
    if not violations.count("latency_limits", limits, 2 * len(placement_pb2.LatencyMetric.items())):
        return
    seen: dict[int, int] = {}
    for index, limit in enumerate(limits):
        field = f"latency_limits[{index}]"
        known = violations.enumeration(
            f"{field}.metric",
            limit.metric,
            placement_pb2.LatencyMetric.items(),
            refused=placement_pb2.LATENCY_METRIC_UNSPECIFIED,
        )
        if known and seen.setdefault(limit.metric, index) != index:
            violations.add(
                f"{field}.metric",
                f"{placement_pb2.LatencyMetric.Name(limit.metric)} is limited by latency_limits[{seen[limit.metric]}] "
                "already; accepted: one limit for each metric",
            )
        violations.number(f"{field}.limit_ms", limit.limit_ms, least=MIN_AMOUNT, most=MAX_LIMIT_MS)
        if limit.percentile != 0:
            violations.add(
                f"{field}.percentile",
                f"{limit.percentile:g} is not served: only the mean is served so far; accepted: 0",
            )


def _check_constraints(violations: Violations, constraints: placement_pb2.Constraints) -> None:
    for name in ("allowed_accelerators", "denied_accelerators", "mig_profiles"):
        violations.texts(
            f"constraints.{name}",
            getattr(constraints, name),
            most_items=MAX_LIST_ENTRIES,
            most_characters=MAX_NAME_CHARACTERS,
            what="a MIG profile name such as 1g.10gb" if name == "mig_profiles" else "a catalogue name or alias",
        )
    known = violations.enumeration(
        "constraints.mig_policy", constraints.mig_policy, placement_pb2.MigPolicy.items(), refused=None
    )
    if known and constraints.mig_profiles and constraints.mig_policy == placement_pb2.MIG_POLICY_FORBIDDEN:
        violations.add(
            "constraints.mig_profiles", "contradicts mig_policy MIG_POLICY_FORBIDDEN; accepted: one of the two"
        )
    sizes = constraints.tensor_parallel_sizes
    if violations.count("constraints.tensor_parallel_sizes", sizes, MAX_LIST_ENTRIES):
        for index, size in enumerate(sizes):
            violations.number(f"constraints.tensor_parallel_sizes[{index}]", size, least=1, most=MAX_PARALLEL)
    no_limit = "no limit"
    violations.number(
        "constraints.max_devices", constraints.max_devices, least=1, most=MAX_DEVICES, zero_means=no_limit
    )
    violations.number(
        "constraints.max_usd_per_h",
        constraints.max_usd_per_h,
        least=MIN_AMOUNT,
        most=MAX_USD_PER_H,
        zero_means=no_limit,
    )
    violations.number("constraints.headroom_share", constraints.headroom_share, least=0, most=MAX_HEADROOM_SHARE)
    violations.one_of(
        "constraints.price_term", constraints.price_term, PriceTerm, empty_means=PriceTerm.ON_DEMAND.value
    )
    check_engine(violations, constraints.engine, "constraints.engine")


def _check_second_opinions(violations: Violations, names: Sequence[str]) -> None:
    """The ``second_opinions`` field; which names are known is what is installed."""
    if not violations.count("second_opinions", names, MAX_LIST_ENTRIES):
        return
    for index, name in enumerate(names):
        field = f"second_opinions[{index}]"
        violations.text(field, name, most_characters=MAX_NAME_CHARACTERS, required="the name of an estimator")
        if name in names[:index]:
            violations.add(field, f"{shown(name)} is listed already; accepted: each once")


def _check_deployment(violations: Violations, deployment: planner_service_pb2.Deployment) -> None:
    violations.text(
        "deployment.accelerator",
        deployment.accelerator,
        most_characters=MAX_NAME_CHARACTERS,
        required="a catalogue name or alias",
    )
    violations.text("deployment.mig_profile", deployment.mig_profile, most_characters=MAX_NAME_CHARACTERS)
    violations.number(
        "deployment.tensor_parallel", deployment.tensor_parallel, least=1, most=MAX_PARALLEL, zero_means="1"
    )
    violations.number("deployment.replica_count", deployment.replica_count, least=1, most=MAX_DEVICES, zero_means="1")
    check_engine(violations, deployment.engine, "deployment.engine")
