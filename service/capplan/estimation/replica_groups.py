"""Replicas told apart by what the step model's figures depend on: kind of device with its engine, and parallelism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.device_rates import Kind
from capplan.estimation.identity import Same
from capplan.estimation.replica import Parallelism, Replica

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaGroups:
    """C replicas told apart by what their figures depend on, so that each figure is worked out once and then spread.

    Nothing here depends on the model.

    Attributes:
        kinds: those that differ.
        kind: (C,) the position of each replica's kind.
        spreads: the parallelisms that differ.
        spread: (C,) the position of each replica's.
        bandwidth_bytes_per_s: (C, 1) peak of a rank's device.
        compute_share: (C, 1) share of the accelerator's peak arithmetic rate that a rank has.
        rank_token_budget: (C, 1) tokens of one step of a rank.
    """

    kinds: tuple[Kind, ...]
    kind: NDArray[np.int64]
    spreads: tuple[Parallelism, ...]
    spread: NDArray[np.int64]
    bandwidth_bytes_per_s: Array
    compute_share: Array
    rank_token_budget: Array

    @classmethod
    def of(cls, replicas: Sequence[Replica]) -> ReplicaGroups:
        """Groups replicas."""
        kinds: dict[Kind, int] = {}
        spreads: dict[Parallelism, int] = {}
        kind, spread = [], []
        for replica in replicas:
            settings = replica.settings
            key = Kind(Same(replica.device.accelerator), settings.name, settings.runtime)
            kind.append(kinds.setdefault(key, len(kinds)))
            spread.append(spreads.setdefault(replica.parallelism, len(spreads)))
        return cls(
            tuple(kinds),
            np.array(kind, dtype=np.int64),
            tuple(spreads),
            np.array(spread, dtype=np.int64),
            _column([replica.device.bandwidth_bytes_per_s for replica in replicas]),
            _column([replica.device.compute_share for replica in replicas]),
            _column([float(replica.settings.max_num_batched_tokens) for replica in replicas]),
        )

    def take(self, rows: NDArray[np.int64]) -> ReplicaGroups:
        """The groups of the replicas at the given positions, without those that none of them is of."""
        kinds, kind = np.unique(self.kind[rows], return_inverse=True)
        spreads, spread = np.unique(self.spread[rows], return_inverse=True)
        return ReplicaGroups(
            tuple(self.kinds[position] for position in kinds.tolist()),
            kind,
            tuple(self.spreads[position] for position in spreads.tolist()),
            spread,
            self.bandwidth_bytes_per_s[rows],
            self.compute_share[rows],
            self.rank_token_budget[rows],
        )

    def by_kind(self, figures: Callable[[Kind], tuple[float, ...]]) -> tuple[Array, ...]:
        """Figures of each kind as columns of the replicas, (C, 1)."""
        return _spread_out([figures(kind) for kind in self.kinds], self.kind)

    def by_spread(self, figures: Callable[[Parallelism], tuple[float, ...]]) -> tuple[Array, ...]:
        """Figures of each parallelism as columns of the replicas, (C, 1)."""
        return _spread_out([figures(spread) for spread in self.spreads], self.spread)


def _spread_out(figures: Sequence[tuple[float, ...]], rows: NDArray[np.int64]) -> tuple[Array, ...]:
    columns = np.array(figures, dtype=np.float64).T
    return tuple(column[rows][:, None] for column in columns)


def _column(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)[:, None]
