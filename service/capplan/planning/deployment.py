"""One given layout: would it start, and what does it do?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from capplan.errors import InvalidInputError
from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.device import RankDevice, mig_rank_device, whole_device
from capplan.estimation.engine import EngineChoice, EngineSettings, engine_notes, resolve_settings
from capplan.estimation.estimate import Figure, ReplicaEstimate
from capplan.estimation.estimator import Estimator, Refusal, StepModel
from capplan.estimation.legality import Fault, device_faults, link_faults, memory_faults, split_faults
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint
from capplan.estimation.opinion import Opinion, ask
from capplan.estimation.replica import Parallelism, Replica
from capplan.hardware.mig import MigProfile
from capplan.modeling.costs import ModelCosts
from capplan.planning.candidates import asked_context_tokens, refuse_without_output
from capplan.planning.query import SupplyItem, Workload
from capplan.planning.sizing import batch_caps


@dataclass(frozen=True, slots=True)
class DeploymentQuery:
    """A layout to estimate.

    Attributes:
        model: the model in its formats.
        item: the device.
        mig_profile: slice of the device, ``None`` for the whole.
        tensor_parallel: ranks of one replica.
        replica_count: independent replicas.
        workload: shape of one request.
        engine: engine and its pinned settings.
        concurrency: requests in flight over the whole deployment; ``None`` for as many as it holds.
        coefficients: coefficients of the step model.
        second_opinions: other estimators to ask the same, by name, in the order to answer in.
    """

    model: ModelCosts
    item: SupplyItem
    mig_profile: MigProfile | None
    tensor_parallel: int
    replica_count: int
    workload: Workload
    engine: EngineChoice
    concurrency: float | None
    coefficients: Coefficients = UNFITTED
    second_opinions: Mapping[str, Estimator] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class DeploymentEstimate:
    """The answer.

    Attributes:
        starts: whether every replica would start and hold one request of the full asked context.
        faults: why not.
        memory: memory of one rank; ``None`` when the layout fails before memory matters.
        performance: one replica at the asked concurrency; ``None`` when it does not start.
        total_output_tokens_per_s: all replicas together; ``None`` when they do not start.
        settings: engine settings assumed; ``None`` when the device's memory is unknown.
        context_tokens: context each replica is started with.
        assumptions: what was assumed, one sentence each.
        second_opinions: what each other estimator asked says of one replica at the same batch.
    """

    starts: bool
    faults: tuple[Fault, ...]
    memory: MemoryBreakdown | None
    performance: ReplicaEstimate | None
    total_output_tokens_per_s: Figure | None
    settings: EngineSettings | None
    context_tokens: int
    assumptions: tuple[str, ...]
    second_opinions: tuple[Opinion, ...] = ()


_NOT_ASKED = Refusal("the layout does not start, so there is nothing to estimate")


def _rank_device(query: DeploymentQuery) -> RankDevice | Fault:
    accelerator = query.item.accelerator
    if query.mig_profile is None:
        device = whole_device(accelerator)
        return device or Fault(
            "MEMORY_UNKNOWN", f"the memory size of {accelerator.product_name} is not in the catalogue"
        )
    if query.item.mig_board is None:
        return Fault("MIG_NOT_AVAILABLE", f"{accelerator.product_name} has no Multi-Instance GPU")
    if query.tensor_parallel > 1:
        return Fault("MIG_NEEDS_TENSOR_PARALLEL_1", "instances have no peer access, so a replica is one instance")
    try:
        return mig_rank_device(accelerator, query.item.mig_board, query.mig_profile)
    except InvalidInputError as error:
        return Fault("MIG_FACTS_UNKNOWN", "; ".join(v.description for v in error.violations))


def estimate_deployment(query: DeploymentQuery) -> DeploymentEstimate:
    """Estimates a layout.

    Raises:
        InvalidInputError: the engine or its version is not modelled, or the context contradicts the model.
    """
    request = query.workload.request
    refuse_without_output(query.model)
    context = asked_context_tokens(query.model, query.workload.max_context_tokens, request)
    parallelism = Parallelism(tensor_parallel=query.tensor_parallel)
    notes = [*query.model.assumptions, *query.workload.assumptions]
    not_asked = tuple(Opinion(name, _NOT_ASKED) for name in query.second_opinions)
    if query.workload.max_context_tokens is None:
        notes.append(f"The engine is started with the model's full context of {context} tokens, its default.")
    device = _rank_device(query)
    if isinstance(device, Fault):
        return DeploymentEstimate(False, (device,), None, None, None, None, context, tuple(notes), not_asked)
    settings = resolve_settings(
        query.engine,
        query.item.accelerator,
        device.memory_bytes,
        ranks=parallelism.devices,
        context_tokens=context,
    )
    notes.extend(engine_notes(query.engine))
    memory = memory_breakdown(
        rank_footprint(query.model, query.tensor_parallel),
        device,
        settings,
        peers=query.tensor_parallel > 1,
        context_tokens=context,
        live_tokens=request.admitted_tokens(settings.memory),
    )
    faults = (
        *device_faults(query.model, query.item.accelerator, query.engine),
        *link_faults(query.item.accelerator, parallelism),
        *split_faults(query.model, parallelism),
        *memory_faults(memory, context),
    )
    if faults:
        return DeploymentEstimate(False, faults, memory, None, None, settings, context, tuple(notes), not_asked)
    replica = Replica(device, parallelism, settings)
    caps = batch_caps([settings], np.array([memory.max_concurrent_requests]), request)
    (cap,), (binding,) = caps.batch.tolist(), caps.binding
    batch = cap
    if query.concurrency is not None:
        batch = query.concurrency / query.replica_count
        if batch > cap:
            notes.append(
                f"{batch:.4g} requests per replica are more than run at once ({cap:.4g}, bound by "
                f"{binding.replace('_', ' ')}); the rest waits and its wait is not in the TTFT."
            )
            batch = cap
    own = StepModel("capplan", query.coefficients)
    (performance,) = own.estimate(query.model, [replica], request, [batch])
    total = performance.output_tokens_per_s.times(query.replica_count)
    opinions = tuple(
        opinion
        for name, other in query.second_opinions.items()
        for opinion in ask(other, name, query.model, [replica], request, [batch])
    )
    return DeploymentEstimate(True, (), memory, performance, total, settings, context, tuple(notes), opinions)
