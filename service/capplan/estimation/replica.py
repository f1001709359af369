"""A way to run one replica: its device, its spread over devices, its engine settings."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.estimation.device import RankDevice
from capplan.estimation.engine import EngineSettings


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How one replica spreads over its devices.

    Attributes:
        tensor_parallel: ranks that share one attention layer.
        pipeline_parallel: stages.
        expert_parallel: ranks the experts are dealt out over; 1 splits every expert by tensor parallelism instead.
        attention_data_parallel: groups of ``tensor_parallel`` ranks that each attend for a share of the sequences,
            while all of them share the experts.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    attention_data_parallel: int = 1

    @property
    def stage_ranks(self) -> int:
        """Ranks of one pipeline stage."""
        return self.tensor_parallel * self.attention_data_parallel

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.stage_ranks * self.pipeline_parallel


@dataclass(frozen=True, slots=True)
class Replica:
    """One way to run one replica."""

    device: RankDevice
    parallelism: Parallelism
    settings: EngineSettings
