"""Layouts of a measured deployment whose tensor parallelism nobody states, as where it was the best of a search.

Such a figure is held against the planner's own best layout. What is tried: every tensor parallelism that the planner
tries, with as many replicas as the devices make without a rest, as long as the layout would start and its memory holds
the load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from capplan.estimation.legality import Fault, link_faults, memory_faults, split_faults
from capplan.estimation.measurement import LATENCY_METRICS, Measurement
from capplan.estimation.memory import MemoryBreakdown, memory_breakdown, rank_footprint
from capplan.estimation.observation import Load, Observation
from capplan.planning.configurations import TENSOR_PARALLEL_SIZES

Place = Callable[[Measurement], Observation | str]
"""Places a measurement of a known tensor parallelism, or says why it cannot."""

_LEAST_OFFLINE: Final = 2.0
"""Requests a replica must hold for an offline maximum: with fewer, nothing is batched and nobody calls it one."""

_FEWER_SEQUENCES: Final = "STATE_BLOCKS_BELOW_MAX_NUM_SEQS"

_SEARCHED_LOADS: Final = frozenset({Load.CONCURRENCY.value, Load.OFFLINE.value})


class _Stage(IntEnum):
    """How far a layout came; later is closer to one that runs."""

    NOT_PLACED = 0
    SPLIT = 1
    START = 2
    LOAD = 3


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a layout is out.

    Attributes:
        tensor_parallel: its tensor parallelism.
        stage: how far it came.
        lacking: how much it lacks, comparable inside one stage.
        reason: the reason as a sentence.
    """

    tensor_parallel: int
    stage: _Stage
    lacking: float
    reason: str


def is_searched(measurement: Measurement) -> bool:
    """Whether a measurement's layout is to be searched for: it states none, under a load that a layout is tuned to."""
    return measurement.tensor_parallel is None and measurement.load_kind in _SEARCHED_LOADS


def layouts(measurement: Measurement, place: Place) -> tuple[Observation, ...] | str:
    """Every layout in which a measurement of unknown tensor parallelism can have run.

    Args:
        measurement: the figure; its other widths stay as they are stated.
        place: what places it in one layout.

    Returns:
        The observations, one for each tensor parallelism, or why there are none: the reason of the layout that came
        closest.
    """
    tried = [
        _try(replace(measurement, tensor_parallel=size), size, place)
        for size in TENSOR_PARALLEL_SIZES
        if size <= measurement.devices
    ]
    found = tuple(layout for layout in tried if isinstance(layout, Observation))
    return found or _closest([layout for layout in tried if isinstance(layout, _Refused)])


def _try(measurement: Measurement, size: int, place: Place) -> Observation | _Refused:
    observation = place(measurement)
    if isinstance(observation, str):
        return _Refused(size, _Stage.NOT_PLACED, 0.0, observation)
    parallelism, model = observation.replica.parallelism, observation.model
    rest = measurement.devices % parallelism.devices
    if rest:
        text = f"replicas of {parallelism.devices} devices leave {rest} of {measurement.devices} over"
        return _Refused(size, _Stage.SPLIT, float(rest), text)
    faults: tuple[Fault, ...] = (
        *link_faults(observation.accelerator, parallelism),
        *split_faults(model, parallelism),
    )
    if faults:
        return _Refused(size, _Stage.SPLIT, -faults[0].shortfall, faults[0].description)
    memory = _memory(observation)
    # An engine that holds too few recurrent states for its most sequences starts with fewer.
    faults = tuple(f for f in memory_faults(memory, memory.demand.context_tokens) if f.reason != _FEWER_SEQUENCES)
    if faults:
        return _Refused(size, _Stage.START, -faults[0].shortfall, faults[0].description)
    held = memory.max_concurrent_requests * parallelism.attention_data_parallel
    needed = _LEAST_OFFLINE if observation.load is Load.OFFLINE else max(1.0, observation.in_flight)
    if held < needed:
        text = f"memory holds {math.floor(held)} of the {math.ceil(needed)} requests in flight in a replica"
        return _Refused(size, _Stage.LOAD, needed / held if held else math.inf, text)
    return observation


def _memory(observation: Observation) -> MemoryBreakdown:
    """One rank's memory, as the placed replica runs."""
    replica, request = observation.replica, observation.request
    parallelism = replica.parallelism
    footprint = rank_footprint(
        observation.model,
        parallelism.tensor_parallel,
        pipeline_parallel=parallelism.pipeline_parallel,
        attention_data_parallel=parallelism.attention_data_parallel,
    )
    return memory_breakdown(
        footprint,
        replica.device,
        replica.settings,
        peers=parallelism.devices > 1,
        context_tokens=math.ceil(request.input_tokens + request.output_tokens),
        live_tokens=request.admitted_tokens(replica.settings.memory),
    )


def _closest(refused: Sequence[_Refused]) -> str:
    reasons = {layout.reason for layout in refused}
    if len(reasons) == 1:
        # What holds for every layout has nothing to do with the layout.
        return reasons.pop()
    closest = max(refused, key=lambda layout: (layout.stage, -layout.lacking))
    return f"no layout holds the load; the closest, tensor parallel {closest.tensor_parallel}: {closest.reason}"


def best(values: Sequence[float], metric: str) -> int | None:
    """Position of the best finite figure in its metric's sense: the lowest latency, the highest rate.

    Args:
        values: figures of one metric, one for each layout.
        metric: name of the metric.

    Returns:
        The first of equally good ones; ``None`` when no figure is finite and above zero.
    """
    usable = [position for position, value in enumerate(values) if math.isfinite(value) and value > 0.0]
    if not usable:
        return None
    sign = 1.0 if metric in LATENCY_METRICS else -1.0
    return min(usable, key=lambda position: sign * values[position])
