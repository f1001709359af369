"""Latency over load, worked out once for each replica and then looked up: what plans and estimates answer from.

The step model is asked at fixed loads, the nodes; inter-token latency and own prefill time are interpolated between
them, linearly in the batch. Below one sequence at a time both are linear in it indeed, as the replica idles in between,
so that two nodes hold that part; above, nodes are a fraction of an octave apart, with one more where every step begins
to carry prompt tokens and the slope changes at once. The rest of a steady state is exact: it follows from these two and
the load by the very formulas of :func:`~capplan.estimation.steady_state.steady_state`.

Beyond saturation, where prompts arrive faster than the token budget takes them and no state is steady, latencies go on
growing as if each step took what arrives, so that no bend lies just above the loads that plans stop at.

Measured corrections multiply the nodes. Whatever they are, neither inter-token latency nor throughput falls with the
load, and what was no faster before a correction is no faster after it: from the lowest load up, each node's corrected
latency is kept between its neighbour's and that times the ratio of their loads, both of which never fall when the step
model's latencies grow. A chord between two such points keeps all of that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.replica import Replica
from capplan.estimation.situation import situations_of
from capplan.estimation.steady_state import (
    Latencies,
    Request,
    SteadyState,
    loaded_ttft_s,
    prefill_budget_share,
    prefill_mix,
    rates,
    serving_times,
    state_of,
    stay_s,
    unloaded_ttft_s,
)
from capplan.estimation.table import Array, ReplicaTable
from capplan.modeling.costs import ModelCosts
from capplan.units import MS_PER_S

MIN_LOG2_BATCH = -12
"""Smallest load of a curve: a replica that decodes one sequence for 1/4096 of the time."""
MAX_LOG2_BATCH = 12
"""Greatest load of a curve; beyond it the last chord goes on."""

_PER_OCTAVE = 4
_BEND_BATCHES = 2.0 ** (MIN_LOG2_BATCH + 1), 2.0 ** (MAX_LOG2_BATCH - 1)
"""Least and greatest load at which the change of slope gets its node."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadCurve:
    """C replicas under requests of one kind, over the load; arrays are (C, 1) unless said otherwise.

    Attributes:
        request: mean lengths.
        request_s: handling of one request before its first token.
        token_budget: tokens of one step.
        stages: pipeline stages.
        bend: load at which every step begins to carry prompt tokens.
        node_batch: (C, N) loads of the nodes, rising.
        itl_s: (C, N) corrected inter-token latency at the nodes.
        uncorrected_itl_s: (C, N) the step model's own.
        own_prefill_s: (C, N) the steps that a request's own prompt takes, uncorrected.
        unloaded_ttft_s: time to first token on an idle replica, uncorrected.
        first_token_factor: what times to first token are multiplied by.
    """

    request: Request
    request_s: Array
    token_budget: Array
    stages: Array
    bend: Array
    node_batch: Array
    itl_s: Array
    uncorrected_itl_s: Array
    own_prefill_s: Array
    unloaded_ttft_s: Array
    first_token_factor: Array

    @classmethod
    def of(
        cls,
        table: ReplicaTable,
        request: Request,
        log_factors: Array | None = None,
        first_token_log_factors: NDArray[np.float64] | None = None,
        max_batch: float = 2.0**MAX_LOG2_BATCH,
    ) -> LoadCurve:
        """Works the curve out.

        Args:
            table: C replicas.
            request: mean lengths.
            log_factors: (C, 13) natural log of what the inter-token latency is multiplied by, at 1, 2, 4 ... 4,096
                sequences; linear in log2 of the batch in between, held below and beyond. None when not given.
            first_token_log_factors: (C,) the same of times to first token, loaded or not; none when not given.
            max_batch: load up to which nodes are needed, to save those above; it changes no value up to there.
        """
        octaves = math.ceil(math.log2(min(max(max_batch, 2.0), 2.0**MAX_LOG2_BATCH)))
        loads = np.exp2(np.concatenate(([MIN_LOG2_BATCH], np.arange(octaves * _PER_OCTAVE + 1) / _PER_OCTAVE)))
        bend = np.clip(table.stages * request.output_tokens, *_BEND_BATCHES)
        node_batch = np.sort(np.hstack((np.broadcast_to(loads, (table.rows, len(loads))), bend)), axis=1)
        mix = prefill_mix(table, request, node_batch)
        times = serving_times(table, request, node_batch, mix, mix.chunks_per_step)
        corrected = times.itl_s
        if log_factors is not None:
            corrected = corrected * np.exp(_at_loads(log_factors, node_batch))
        first_token = np.zeros(table.rows) if first_token_log_factors is None else first_token_log_factors
        return cls(
            request=request,
            request_s=table.request_s,
            token_budget=table.token_budget,
            stages=table.stages,
            bend=bend,
            node_batch=node_batch,
            itl_s=_monotone(corrected, node_batch),
            uncorrected_itl_s=times.itl_s,
            own_prefill_s=times.own_prefill_s,
            unloaded_ttft_s=unloaded_ttft_s(table, request),
            first_token_factor=np.exp(first_token)[:, None],
        )

    def take(self, rows: NDArray[np.int64]) -> LoadCurve:
        """The curve of the replicas at the given positions, repeated ones included."""
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "request"}
        if self.itl_s is self.uncorrected_itl_s:
            columns["uncorrected_itl_s"] = columns["itl_s"]
        return replace(self, **columns)

    def at(self, batch: Array) -> SteadyState:
        """Figures of every replica at the given loads.

        Times to first token are those of the step model times their factor; corrections of the inter-token latency do
        not enter them, for they were measured apart.

        Args:
            batch: (C, B) mean number of decoding sequences, positive.
        """
        mix = prefill_mix(self, self.request, batch)
        itl, ttft = self._latencies_s(batch, mix.budget_share)
        return state_of(self.request, batch, mix, itl, ttft, self.first_token_factor * self.unloaded_ttft_s)

    def latencies_at(self, batch: Array) -> Latencies:
        """Mean latencies at the given loads alone, (C, B); the same as in :meth:`at`."""
        itl, ttft = self._latencies_s(batch, prefill_budget_share(self, self.request, batch))
        e2e = stay_s(self.request.output_tokens, itl, ttft)
        return Latencies(itl * MS_PER_S, ttft * MS_PER_S, e2e * MS_PER_S)

    def _latencies_s(self, batch: Array, budget_share: Array) -> tuple[Array, Array]:
        """Inter-token latency and time to first token."""
        chords = self._chords(batch)
        itl = chords.of(self.itl_s)
        uncorrected = itl if self.itl_s is self.uncorrected_itl_s else chords.of(self.uncorrected_itl_s)
        ttft = loaded_ttft_s(self.request_s, uncorrected, chords.of(self.own_prefill_s), budget_share)
        return itl, self.first_token_factor * ttft

    def requests_per_s_at(self, batch: Array) -> Array:
        """Finished requests per second at the given loads alone, (C, B); the same as in :meth:`at`."""
        _, requests_per_s = rates(self.request.output_tokens, batch, self._chords(batch).of(self.itl_s))
        return requests_per_s

    def _chords(self, batch: Array) -> _Chords:
        rows, nodes = self.node_batch.shape
        # the regular nodes begin at one sequence, after one far below it; the bend's comes in between or above
        cell = np.maximum(np.floor(np.log2(batch) * _PER_OCTAVE), -1.0).astype(np.int64) + 1 + (batch >= self.bend)
        low = np.minimum(cell, nodes - 2) + np.arange(rows)[:, None] * nodes
        start = self.node_batch.take(low)
        width = self.node_batch.take(low + 1) - start
        # no width where the bend falls on a regular node, both of which hold the same
        width[width == 0.0] = np.inf
        return _Chords(low, (batch - start) / width)


@dataclass(frozen=True, slots=True)
class _Chords:
    """Where loads lie between two nodes; arrays are (C, B).

    Attributes:
        low: position of the lower node in the flattened nodes.
        share: how far towards the upper one, in batch.
    """

    low: NDArray[np.int64]
    share: Array

    def of(self, values: Array) -> Array:
        """Interpolates values at the nodes, (C, N)."""
        # a weighted sum rather than start plus slope: to the last bit it never falls when either end grows
        found: Array = values.take(self.low) * (1.0 - self.share) + values.take(self.low + 1) * self.share
        return found


def _at_loads(log_factors: Array, batch: Array) -> Array:
    """Log factors given at 1, 2, 4 ... sequences, at other loads: linear in log2 of the batch, held at both ends."""
    last = log_factors.shape[1] - 1
    position = np.clip(np.log2(batch), 0.0, last)
    left = np.minimum(position.astype(np.int64), last - 1)
    low = np.take_along_axis(log_factors, left, axis=1)
    high = np.take_along_axis(log_factors, left + 1, axis=1)
    found: Array = low + (position - left) * (high - low)
    return found


def _monotone(itl_s: Array, batch: Array) -> Array:
    """The nearest latencies, node by node from below, that fall neither themselves nor in batch over latency."""
    growth = batch[:, 1:] / batch[:, :-1]
    if np.all((itl_s[:, 1:] >= itl_s[:, :-1]) & (itl_s[:, 1:] <= itl_s[:, :-1] * growth)):
        return itl_s
    kept = itl_s.copy()
    for node in range(1, itl_s.shape[1]):
        before = kept[:, node - 1]
        kept[:, node] = np.clip(itl_s[:, node], before, before * growth[:, node - 1])
    return kept


def curve_of(
    model: ModelCosts,
    replicas: Sequence[Replica],
    table: ReplicaTable,
    request: Request,
    fitted: Coefficients,
    max_batch: float = 2.0**MAX_LOG2_BATCH,
) -> LoadCurve:
    """The curve of replicas as plans and estimates use it, with the corrections that were measured.

    Args:
        model: the model in its formats.
        replicas: C ways to run it.
        table: the replicas in order, packed with the same coefficients.
        request: mean lengths.
        fitted: coefficients of the step model, with corrections.
        max_batch: load up to which nodes are needed.
    """
    corrections = fitted.corrections
    if not corrections.sites:
        return LoadCurve.of(table, request, max_batch=max_batch)
    situations = situations_of(model, replicas)
    lengths = request.input_tokens, request.output_tokens
    return LoadCurve.of(
        table,
        request,
        corrections.log_factors(situations, *lengths),
        corrections.first_token_log_factors(situations, *lengths),
        max_batch,
    )
