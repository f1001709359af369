"""Estimates of one replica as messages: figures, memory, engine settings, performance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from capplan.estimation.engine import EngineSettings
from capplan.estimation.estimate import Figure, Provenance, ReplicaEstimate
from capplan.estimation.estimator import Refusal
from capplan.estimation.legality import Fault
from capplan.estimation.memory import MemoryBreakdown
from capplan.estimation.opinion import Opinion
from capplan.estimation.replica import Parallelism
from capplan.server.conversion.integers import int64
from capplan.v1 import placement_pb2, planner_service_pb2

_PROVENANCES: Final[Mapping[Provenance, placement_pb2.Provenance.ValueType]] = {
    Provenance.ANALYTIC: placement_pb2.PROVENANCE_ANALYTIC,
    Provenance.CALIBRATED: placement_pb2.PROVENANCE_CALIBRATED,
    Provenance.INTERPOLATED: placement_pb2.PROVENANCE_INTERPOLATED,
    Provenance.MEASURED: placement_pb2.PROVENANCE_MEASURED,
}


def to_estimate(figure: Figure) -> placement_pb2.Estimate:
    """A figure with its interval, when one is known."""
    return placement_pb2.Estimate(value=figure.value, lower=figure.lower, upper=figure.upper)


def to_parallelism(parallelism: Parallelism) -> placement_pb2.Parallelism:
    """How a replica spreads."""
    return placement_pb2.Parallelism(
        tensor_parallel=parallelism.tensor_parallel,
        pipeline_parallel=parallelism.pipeline_parallel,
        expert_parallel=parallelism.expert_parallel,
        attention_data_parallel=parallelism.attention_data_parallel,
    )


def to_engine_settings(settings: EngineSettings, context_tokens: int, kv_cache: str) -> placement_pb2.EngineSettings:
    """The settings to start an engine with."""
    return placement_pb2.EngineSettings(
        name=settings.name,
        version=settings.version,
        gpu_memory_utilization=settings.gpu_memory_utilization or 0.0,
        mem_fraction_static=settings.mem_fraction_static or 0.0,
        free_gpu_memory_fraction=settings.free_gpu_memory_fraction or 0.0,
        enforce_eager=settings.graph_sizes == 0,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len_tokens=int64(context_tokens, "tokens of context"),
        kv_cache=kv_cache,
    )


def to_memory_breakdown(memory: MemoryBreakdown, live_tokens: float) -> placement_pb2.MemoryBreakdown:
    """The memory of one device.

    Args:
        memory: the breakdown.
        live_tokens: mean context of a running request.
    """
    return placement_pb2.MemoryBreakdown(
        device_bytes=memory.device_bytes,
        budget_bytes=memory.budget_bytes,
        weight_bytes=int64(memory.weight_bytes, "bytes of weights"),
        activation_bytes=int64(memory.activation_bytes, "bytes of activations"),
        graph_bytes=memory.graph_bytes,
        runtime_bytes=memory.runtime_bytes,
        kv_pool_bytes=int64(memory.kv_pool_bytes, "bytes missing for the KV cache"),
        full_context_request_bytes=int64(memory.full_context_request_bytes, "bytes of a request of the full context"),
        kv_pool_tokens=int64(memory.kv_pool_tokens(live_tokens), "tokens of the KV cache"),
        max_concurrent_requests=memory.max_concurrent_requests,
        longest_context_tokens=int64(memory.longest_context_tokens, "tokens of context"),
    )


def to_replica_performance(estimate: ReplicaEstimate) -> placement_pb2.ReplicaPerformance:
    """One replica at one load."""
    return placement_pb2.ReplicaPerformance(
        batch=estimate.batch,
        output_tokens_per_s=to_estimate(estimate.output_tokens_per_s),
        requests_per_s=to_estimate(estimate.requests_per_s),
        itl_ms=to_estimate(estimate.itl_ms),
        ttft_ms=to_estimate(estimate.ttft_ms),
        ttft_unloaded_ms=to_estimate(estimate.ttft_unloaded_ms),
        e2e_ms=to_estimate(estimate.e2e_ms),
        prefill_step_share=estimate.prefill_step_share,
        provenance=_PROVENANCES[estimate.provenance],
        bottleneck=estimate.bottleneck,
        step_parts=[
            placement_pb2.StepPart(group=part.group, time_ms=part.time_ms, limited_by=part.limited_by)
            for part in estimate.parts
        ],
        distance=estimate.distance,
        engine_versions=estimate.engine_versions,
    )


def to_second_opinion(opinion: Opinion) -> planner_service_pb2.SecondOpinion:
    """What another estimator says."""
    if isinstance(opinion.answer, Refusal):
        return planner_service_pb2.SecondOpinion(estimator=opinion.estimator, reason=opinion.answer.reason)
    return planner_service_pb2.SecondOpinion(
        estimator=opinion.estimator, performance=to_replica_performance(opinion.answer)
    )


def to_fault(fault: Fault) -> planner_service_pb2.Fault:
    """Why a layout would not start."""
    return planner_service_pb2.Fault(
        reason=fault.reason, description=fault.description, shortfall=fault.shortfall, shortfall_unit=fault.unit
    )
