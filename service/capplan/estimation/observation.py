"""Measurements and the step model brought together: what a measured configuration is, and what the model says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.device import whole_device
from capplan.estimation.engine import ENGINE_NAMES, EngineChoice, resolve_settings
from capplan.estimation.engine_runtime import dated_version
from capplan.estimation.legality import device_faults, split_faults
from capplan.estimation.measurement import Measurement
from capplan.estimation.memory import memory_breakdown, rank_footprint
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import PREFILL_BUDGET_LIMIT, Request, steady_state
from capplan.estimation.step import StepLoad, step_s
from capplan.estimation.table import Array, ReplicaTable, build_table
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.costs import ModelCosts
from capplan.units import MS_PER_S

_OFFLINE_SEQUENCES = 2_048
"""Sequences per step that offline runs are tuned to, where memory allows."""


class Metric(StrEnum):
    """Figures that can be compared with a prediction."""

    TPOT = "tpot_ms"
    ITL = "itl_ms"
    TTFT = "ttft_ms"
    E2E = "e2e_latency_ms"
    OUTPUT = "output_tokens_per_s"
    TOTAL = "total_tokens_per_s"
    REQUESTS = "requests_per_s"


class Load(StrEnum):
    """Kinds of load that can be predicted."""

    CONCURRENCY = "concurrency"
    OFFLINE = "offline_max"
    BATCH = "batch"


_LEAST_HELD = 2.0
"""Requests below which a computed KV pool cannot be that of a deployment somebody published figures of."""

_APART = frozenset({"disaggregated", "speculative_decoding", "spec_decode_unknown"})
"""Flags of deployments that work another way than the step model says."""

_MEDIANS = frozenset({"p50", "median"})
_MEAN_STATISTICS = _MEDIANS | {"", "mean", "unstated(mean or p50)"}


@dataclass(frozen=True, slots=True)
class Observation:
    """A measurement that can be predicted.

    Attributes:
        measurement: the figure.
        model: the model in the measured formats.
        accelerator: the device.
        replica: how one replica ran.
        replicas: replicas of the deployment.
        request: mean lengths.
        load: kind of load.
        metric: kind of figure.
        ceiling: most sequences one replica runs at once.
        in_flight: requests in flight per replica; the ceiling for an offline maximum.
    """

    measurement: Measurement
    model: ModelCosts
    accelerator: Accelerator
    replica: Replica
    replicas: float
    request: Request
    load: Load
    metric: Metric
    ceiling: float
    in_flight: float


def observe(measurement: Measurement, model: ModelCosts, accelerator: Accelerator) -> Observation | str:
    """Places a measurement in the step model's terms.

    Returns:
        The observation, or why the measurement cannot be predicted, as a sentence.
    """
    m = measurement
    apart = _APART.intersection(m.flags)
    if apart:
        return f"{', '.join(sorted(apart)).replace('_', ' ')} deployments are not predicted"
    try:
        load, metric = Load(m.load_kind), Metric(m.metric)
    except ValueError:
        return f"{m.metric} under {m.load_kind} is not predicted"
    if m.statistic not in _MEAN_STATISTICS and not (load is Load.OFFLINE and m.statistic == "max"):
        return f"the statistic {m.statistic} is no mean or median"
    if m.mig_profile:
        return "MIG slices are predicted by their own tables only"
    if m.tensor_parallel is None:
        return "the tensor parallelism is not stated"
    if m.input_tokens is None or m.output_tokens is None:
        return "the lengths are not stated"
    if load is not Load.OFFLINE and m.load_value is None:
        return "the load is not stated"
    # experts dealt out over more ranks than share one attention layer: the others attend for other sequences
    shares = m.attention_data_parallel if m.expert_parallel > 1 else 1
    shares = max(shares, m.expert_parallel // m.tensor_parallel)
    spread = Parallelism(m.tensor_parallel, m.pipeline_parallel, m.expert_parallel, shares)
    device = whole_device(accelerator)
    if device is None:
        return "the memory size of the accelerator is not known"
    # it was measured, so engines found a way around widths that do not divide; heads must
    faults = [
        fault
        for fault in (*device_faults(model, accelerator), *split_faults(model, Parallelism(m.tensor_parallel)))
        if not fault.reason.endswith("_WIDTH")
    ]
    if faults:
        return faults[0].description
    if m.pipeline_parallel > model.layers:
        return f"{m.pipeline_parallel} stages are more than the model's {model.layers} layers"
    modelled = m.engine if m.engine in ENGINE_NAMES else ENGINE_NAMES[0]
    choice = EngineChoice(name=modelled, max_num_seqs=_OFFLINE_SEQUENCES if load is Load.OFFLINE else None)
    settings = resolve_settings(choice, accelerator, device.memory_bytes, ranks=spread.devices)
    version = dated_version(m.engine, m.engine_version, m.as_of)
    settings = replace(settings, name=m.engine, version=version)
    request = Request(m.input_tokens, m.output_tokens)
    memory = memory_breakdown(
        rank_footprint(
            model,
            m.tensor_parallel,
            pipeline_parallel=m.pipeline_parallel,
            attention_data_parallel=shares,
        ),
        device,
        settings,
        peers=spread.devices > 1,
        context_tokens=int(m.input_tokens + m.output_tokens),
        live_tokens=request.admitted_tokens(settings.memory),
    )
    replicas = max(1.0, m.devices / spread.devices)
    budget = settings.max_num_batched_tokens * shares * spread.pipeline_parallel
    prompts = PREFILL_BUDGET_LIMIT * budget * m.output_tokens / m.input_tokens
    # it was measured, so where the default settings would hold next to nothing others were in force, unknown here
    held = memory.max_concurrent_requests
    held = held if held >= _LEAST_HELD else np.inf
    ceiling = max(1.0, min(held * shares, float(settings.max_num_seqs * shares), prompts))
    in_flight = ceiling if m.load_value is None else m.load_value / replicas
    return Observation(
        m, model, accelerator, Replica(device, spread, settings), replicas, request, load, metric, ceiling, in_flight
    )


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Mean lengths of many rows at once; :class:`Request` with columns in place of numbers."""

    input_tokens: Array
    output_tokens: Array

    @property
    def live_tokens(self) -> Array:
        """Mean context of a running request."""
        return self.input_tokens + self.output_tokens / 2.0

    @property
    def prefill_tokens(self) -> Array:
        """Prompt tokens to compute: all of them, as no measurement says what was cached."""
        return self.input_tokens


def _burst_share(observation: Observation, fitted: Coefficients) -> float:
    """Share of the requests that arrived in a burst; so few of them move a mean, but no median."""
    if observation.measurement.statistic in _MEDIANS:
        return 0.0
    settings = observation.replica.settings
    return fitted.of("burst_share", engine=settings.name, runtime=settings.runtime)


def _replica_key(observation: Observation) -> tuple[object, ...]:
    """What the step model's table depends on."""
    replica = observation.replica
    settings = replica.settings
    engine = (settings.name, settings.runtime, settings.max_num_batched_tokens)
    return (observation.accelerator.sku, replica.parallelism, engine)


class Batch:
    """Observations of one model in one pair of formats, packed once and predicted with many coefficients."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        """Packs observations that share their model costs."""
        self.observations = tuple(observations)
        self.model = observations[0].model
        unique: dict[tuple[object, ...], int] = {}
        self._replicas: list[Replica] = []
        rows = []
        for observation in observations:
            key = _replica_key(observation)
            if key not in unique:
                unique[key] = len(self._replicas)
                self._replicas.append(observation.replica)
            rows.append(unique[key])
        self._rows = np.array(rows)
        self._lengths = _Lengths(
            np.array([[o.request.input_tokens] for o in observations]),
            np.array([[o.request.output_tokens] for o in observations]),
        )
        self._ceiling = np.array([[o.ceiling] for o in observations])
        self._in_flight = np.array([[o.in_flight] for o in observations])
        self._replica_count = np.array([[o.replicas] for o in observations])
        self._static = np.array([o.load is Load.BATCH for o in observations])
        self._metric = np.array([o.metric.value for o in observations])
        self._decoding = np.ones_like(self._in_flight)

    def settle(self, fitted: Coefficients) -> None:
        """Finds the share of its stay for which a request decodes, under these coefficients.

        It moves little with the coefficients, so a fit settles it now and then instead of at each evaluation.
        """
        table = build_table(self.model, self._replicas, fitted).take(self._rows)
        request: Request = self._lengths  # type: ignore[assignment]  # columns broadcast where numbers would
        for _ in range(5):
            state = steady_state(table, request, np.minimum(self._in_flight, self._ceiling) * self._decoding)
            decode_ms = request.output_tokens * state.itl_ms
            self._decoding = decode_ms / (decode_ms + state.ttft_ms)

    @property
    def running(self) -> NDArray[np.float64]:
        """Decoding sequences of one replica, (N,), at the shares last settled; the whole of a fixed batch."""
        served = np.minimum(self._in_flight, self._ceiling) * self._decoding
        result: NDArray[np.float64] = np.where(self._static[:, None], np.maximum(self._in_flight, 1.0), served)[:, 0]
        return result

    def predict(self, fitted: Coefficients) -> NDArray[np.float64]:
        """The figure of every observation, (N,), in its metric's unit, at the shares last settled."""
        table = build_table(self.model, self._replicas, fitted).take(self._rows)
        bursts = np.array([[_burst_share(o, fitted)] for o in self.observations])
        request: Request = self._lengths  # type: ignore[assignment]  # columns broadcast where numbers would
        figures = self._closed_loop(table, request, bursts)
        if self._static.any():
            static = self._static_batch(table, request)
            figures = {name: np.where(self._static[:, None], static[name], value) for name, value in figures.items()}
        result = np.full(len(self.observations), np.nan)
        for name, value in figures.items():
            rows = self._metric == name
            result[rows] = value[rows, 0]
        return result

    def _closed_loop(self, table: ReplicaTable, request: Request, bursts: Array) -> dict[str, Array]:
        """Steady state at the batch that a fixed number of requests in flight leads to.

        A request decodes for a part of its stay only; what is in flight beyond the ceiling queues for a slot.
        """
        served = np.minimum(self._in_flight, self._ceiling)
        state = steady_state(table, request, served * self._decoding)
        rate = state.requests_per_s * self._replica_count
        queued = (self._in_flight - served) / state.requests_per_s * MS_PER_S
        # a burst's prompts are read one after the other: on average half of them stand before one
        together = np.maximum(served, 1.0)
        own_ms = state.ttft_unloaded_ms - table.request_s * MS_PER_S
        burst = table.request_s * MS_PER_S + own_ms * (1.0 + together) / 2.0
        ttft = (1.0 - bursts) * state.ttft_ms + bursts * np.maximum(burst, state.ttft_ms) + queued
        return {
            Metric.TPOT: state.itl_ms,
            Metric.ITL: state.itl_ms,
            Metric.TTFT: ttft,
            Metric.E2E: ttft + np.maximum(request.output_tokens - 1.0, 0.0) * state.itl_ms,
            Metric.REQUESTS: rate,
            Metric.OUTPUT: rate * request.output_tokens,
            Metric.TOTAL: rate * (request.output_tokens + request.input_tokens),
        }

    def _static_batch(self, table: ReplicaTable, request: Request) -> dict[str, Array]:
        """A whole batch is read, then decoded together."""
        batch = np.maximum(self._in_flight, 1.0)
        zero = np.zeros_like(batch)
        chunks = np.ceil(batch * request.input_tokens / table.token_budget)
        read = chunks * step_s(
            table, StepLoad(zero, batch * request.input_tokens / chunks, request.live_tokens, request.input_tokens)
        )
        step = step_s(table, StepLoad(batch, zero, request.live_tokens, request.input_tokens))
        seconds = read + np.maximum(request.output_tokens - 1.0, 0.0) * step
        rate = batch / seconds * self._replica_count
        return {
            Metric.TPOT: step * MS_PER_S,
            Metric.ITL: step * MS_PER_S,
            Metric.TTFT: read * MS_PER_S,
            Metric.E2E: seconds * MS_PER_S,
            Metric.REQUESTS: rate,
            Metric.OUTPUT: rate * request.output_tokens,
            Metric.TOTAL: rate * (request.output_tokens + request.input_tokens),
        }


def batches(observations: Sequence[Observation]) -> tuple[tuple[Batch, NDArray[np.int64]], ...]:
    """Groups observations by model and formats; each group comes with the positions of its observations."""
    groups: dict[int, list[int]] = {}
    for index, observation in enumerate(observations):
        groups.setdefault(id(observation.model), []).append(index)
    return tuple((Batch([observations[i] for i in rows]), np.array(rows)) for rows in groups.values())


def settle(groups: Sequence[tuple[Batch, NDArray[np.int64]]], fitted: Coefficients) -> None:
    """Settles every batch, see :meth:`Batch.settle`."""
    for batch, _ in groups:
        batch.settle(fitted)


def predict(groups: Sequence[tuple[Batch, NDArray[np.int64]]], count: int, fitted: Coefficients) -> NDArray[np.float64]:
    """Predictions of all observations, (count,), in the order they were grouped from."""
    result = np.full(count, np.nan)
    for batch, rows in groups:
        result[rows] = batch.predict(fitted)
    return result


def running(groups: Sequence[tuple[Batch, NDArray[np.int64]]], count: int) -> NDArray[np.float64]:
    """Decoding sequences of one replica of every observation, (count,), at the shares last settled."""
    result = np.full(count, np.nan)
    for batch, rows in groups:
        result[rows] = batch.running
    return result


def measured(observations: Sequence[Observation]) -> NDArray[np.float64]:
    """The measured figures, (N,)."""
    return np.array([o.measurement.value for o in observations])
