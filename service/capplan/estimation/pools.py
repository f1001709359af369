"""KV pools of many devices under one model, in columns: which of them start, and how many requests they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.demand import RankDemand
from capplan.estimation.device import RankDevice
from capplan.estimation.engine_records import EngineSettings, MemoryRule
from capplan.estimation.memory_split import memory_fraction, pads_experts, runtime_bytes, split_memory


@dataclass(frozen=True, slots=True, eq=False)
class Pools:
    """KV pools of N ranks under what a model asks; arrays are (N,).

    Attributes:
        starts: whether each rank starts: whether :func:`~capplan.estimation.legality.memory_faults` finds nothing.
        short_bytes: what is missing where it does not; 0 where bytes are not what is missing.
        concurrent_requests: requests of mean live length that the pool holds.
    """

    starts: NDArray[np.bool_]
    short_bytes: NDArray[np.int64]
    concurrent_requests: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """N devices with engine settings of one memory rule, whatever the model; arrays are (N,).

    Attributes:
        rule: the memory rule.
        fraction: memory fraction.
        multimodal_fraction: the same for models with towers.
        memory_bytes: total the engine sees.
        occupied_bytes: what others than the engine hold of it.
        runtime_bytes: context, libraries and collective buffers.
        pads: whether kernels pad mxfp4 experts.
        max_num_seqs: most sequences in one step.
    """

    rule: MemoryRule
    fraction: NDArray[np.float64]
    multimodal_fraction: NDArray[np.float64]
    memory_bytes: NDArray[np.int64]
    occupied_bytes: NDArray[np.int64]
    runtime_bytes: NDArray[np.int64]
    pads: NDArray[np.bool_]
    max_num_seqs: NDArray[np.int64]

    @classmethod
    def of(cls, ranks: Sequence[tuple[RankDevice, EngineSettings, bool]]) -> Ranks:
        """Columns of devices with their settings, all of one rule, and whether each has peers; one at least."""
        rule = ranks[0][1].memory
        return cls(
            rule,
            np.array([memory_fraction(settings, multimodal=False) for _, settings, _ in ranks]),
            np.array([memory_fraction(settings, multimodal=True) for _, settings, _ in ranks]),
            np.array([device.memory_bytes for device, _, _ in ranks]),
            np.array([device.occupied_bytes for device, _, _ in ranks]),
            np.array([runtime_bytes(device, rule, peers=peers) for device, _, peers in ranks]),
            np.array([pads_experts(device) for device, _, _ in ranks]),
            np.array([settings.max_num_seqs for _, settings, _ in ranks]),
        )

    def pools(self, demands: Sequence[RankDemand], which: NDArray[np.int64]) -> Pools:
        """Splits every device's memory over what a rank asks, as :func:`~capplan.estimation.memory.place_demand` does.

        Args:
            demands: what ranks ask, all of one model.
            which: (N,) which of them each asks.
        """

        def asked(amounts: Sequence[int]) -> NDArray[np.int64]:
            return np.array(amounts, dtype=np.int64)[which]

        plain, padded = asked([d.weight_bytes for d in demands]), asked([d.padded_weight_bytes for d in demands])
        split = split_memory(
            self.rule,
            self.multimodal_fraction if demands[0].multimodal else self.fraction,
            self.memory_bytes,
            self.occupied_bytes,
            np.where(self.pads, padded, plain) + asked([d.table_bytes for d in demands]),
            asked([d.activation_bytes for d in demands]),
            asked([d.graph_bytes for d in demands]),
            self.runtime_bytes,
        )
        pool = split.pool - asked([d.reserved_bytes for d in demands])
        needed = asked([int(d.request_bytes) for d in demands])
        missing = np.maximum(split.budget + split.beside - self.memory_bytes, 0)
        fits = (pool > 0) & (needed <= pool)
        starts = fits & (missing == 0)
        bound = np.array([d.state_bounds_sequences for d in demands])[which]
        if bound.any():
            block_bytes = np.array([d.layout.block_bytes for d in demands])[which]
            blocks = np.floor_divide(pool, block_bytes, out=np.zeros(len(pool)), where=bound & (block_bytes > 0))
            starts &= ~(bound & (blocks < self.max_num_seqs))
        live = asked([d.live_request_bytes for d in demands])
        concurrent = np.divide(pool, live, out=np.full(len(pool), np.inf), where=live > 0)
        return Pools(starts, np.where(fits, missing, needed - pool), np.where(pool > 0, concurrent, 0.0))
