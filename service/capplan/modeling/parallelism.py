"""Whether a split of a model over ranks would start: tensor, pipeline and expert parallelism judged together.

The one place that says so. Tensor parallelism's own rules are :mod:`capplan.modeling.sharding`'s; what expert
parallelism lifts of them, and what pipelines and experts ask on top, is here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from capplan.modeling.costs import ModelCosts
from capplan.modeling.sharding import ShardingFault, ShardingFaultCode, tensor_parallel_faults


class ParallelismFaultCode(StrEnum):
    """Why a pipeline or an expert-parallel size cannot start."""

    MORE_STAGES_THAN_LAYERS = "MORE_STAGES_THAN_LAYERS"
    NO_ROUTED_EXPERTS = "NO_ROUTED_EXPERTS"
    EXPERTS_NOT_DIVISIBLE = "EXPERTS_NOT_DIVISIBLE"
    EXPERT_PARALLEL_SIZE = "EXPERT_PARALLEL_SIZE"


@dataclass(frozen=True, slots=True)
class ParallelismFault:
    """One reason a split would not start.

    Attributes:
        code: stable reason code.
        sentence: what does not divide, with the numbers.
    """

    code: ShardingFaultCode | ParallelismFaultCode
    sentence: str


@dataclass(frozen=True, slots=True)
class PipelineBalance:
    """How the layers of a model spread over pipeline stages.

    Attributes:
        stage_layers: layers of each stage, first to last.
        largest_stage_share: layers of the largest stage over all layers; the pipeline runs at its pace, and it needs
            that share of the layers' memory. Layers count alike, so a model of unlike layers may be less even.
    """

    stage_layers: tuple[int, ...]
    largest_stage_share: float


def parallelism_faults(
    costs: ModelCosts,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    expert_parallel: int = 1,
    data_parallel: int = 1,
) -> tuple[ParallelismFault, ...]:
    """Every reason this split of one replica would not start; empty when it would.

    Experts live on the ``tensor_parallel * data_parallel`` ranks of a pipeline stage. With expert parallelism each of
    ``expert_parallel`` groups of those ranks holds whole experts, and an expert's width is divided inside a group only:
    when the size equals the ranks, which is the one size vLLM runs (``--enable-expert-parallel``: EP = TP x DP), it is
    not divided at all. Engines with a size of their own (SGLang, TensorRT-LLM) take divisors too.

    Args:
        costs: the model in its formats.
        tensor_parallel: ranks that divide attention and dense layers.
        pipeline_parallel: stages that divide the layers.
        expert_parallel: groups of ranks that divide the experts; 1 for no expert parallelism.
        data_parallel: copies of attention inside the replica.

    Raises:
        ValueError: a size below 1.
    """
    sizes = {
        "tensor_parallel": tensor_parallel,
        "pipeline_parallel": pipeline_parallel,
        "expert_parallel": expert_parallel,
        "data_parallel": data_parallel,
    }
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")
    expert_faults, ranks_per_expert = _expert_faults(costs, tensor_parallel * data_parallel, expert_parallel)
    rest = replace(costs, splits=tuple(rule for rule in costs.splits if not rule.routed_expert))
    experts = replace(
        costs, splits=tuple(rule for rule in costs.splits if rule.routed_expert), attentions=(), states=()
    )
    return (
        *_from_sharding(tensor_parallel_faults(rest, tensor_parallel)),
        *_from_sharding(tensor_parallel_faults(experts, ranks_per_expert)),
        *_pipeline_faults(costs, pipeline_parallel),
        *expert_faults,
    )


def pipeline_balance(layers: int, stages: int) -> PipelineBalance:
    """How vLLM spreads layers over stages: evenly, the remainder one each from the last but one stage backwards.

    The last stage goes without because it also holds the head (vLLM ``vllm/distributed/utils.py``, get_pp_indices).

    Args:
        layers: decoder layers.
        stages: pipeline stages.

    Raises:
        ValueError: no stages, or more of them than layers.
    """
    if not 1 <= stages <= layers:
        raise ValueError(f"{layers} layers cannot fill {stages} stages")
    each, left = divmod(layers, stages)
    # The remainder is smaller than the number of stages, so it never reaches the last one.
    counts = tuple(each + (stages - 1 - left <= stage < stages - 1) for stage in range(stages))
    return PipelineBalance(counts, max(counts) / layers)


def _from_sharding(faults: tuple[ShardingFault, ...]) -> tuple[ParallelismFault, ...]:
    return tuple(ParallelismFault(fault.code, fault.sentence) for fault in faults)


def _pipeline_faults(costs: ModelCosts, stages: int) -> tuple[ParallelismFault, ...]:
    # One stage is no pipeline: a model without layers still runs.
    if stages == 1 or stages <= costs.layers:
        return ()
    sentence = f"{costs.layers} layers cannot fill {stages} pipeline stages"
    return (ParallelismFault(ParallelismFaultCode.MORE_STAGES_THAN_LAYERS, sentence),)


def _expert_faults(costs: ModelCosts, ranks: int, groups: int) -> tuple[tuple[ParallelismFault, ...], int]:
    """Faults of the expert-parallel size, and over how many ranks an expert's width is divided."""
    if groups == 1:
        return (), ranks
    counts = sorted({gemm.experts for gemm in costs.gemms if gemm.experts})
    if not counts:
        sentence = f"expert parallel {groups}: the model has no routed experts"
        return (ParallelismFault(ParallelismFaultCode.NO_ROUTED_EXPERTS, sentence),), ranks
    faults = [
        ParallelismFault(
            ParallelismFaultCode.EXPERTS_NOT_DIVISIBLE,
            f"{experts} routed experts do not divide over {groups} expert-parallel groups",
        )
        for experts in counts
        if experts % groups
    ]
    if ranks % groups:
        sentence = (
            f"expert parallel {groups} does not divide the {ranks} ranks (tensor parallel x data parallel) that hold "
            "the experts"
        )
        faults.append(ParallelismFault(ParallelismFaultCode.EXPERT_PARALLEL_SIZE, sentence))
        return tuple(faults), 1  # how the width would be divided has no answer
    return tuple(faults), ranks // groups
