"""What the planner answers: placements, rejections, relaxations, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.estimation.engine import EngineSettings
from capplan.estimation.estimate import ReplicaEstimate
from capplan.estimation.legality import Fault
from capplan.estimation.memory import MemoryBreakdown
from capplan.estimation.replica import Parallelism
from capplan.hardware.accelerator import Accelerator
from capplan.planning.mig_layout import MigPlan
from capplan.planning.query import DevicePrice


@dataclass(frozen=True, slots=True)
class Placement:
    """One way to serve the target.

    Attributes:
        accelerator: the device.
        device_count: physical devices in total.
        replica_count: independent replicas.
        parallelism: how one replica spreads.
        mig_plan: slices, ``None`` when whole devices are used.
        settings: engine settings to start each replica with.
        context_tokens: context length to start it with.
        memory: memory of one rank.
        capacity: one replica at the highest load at which every limit holds.
        operating_point: one replica at the target divided evenly.
        utilization: target over the deployment's capacity.
        binding_constraint: what kept a replica's batch from growing.
        price: price of one device; ``None`` when the catalogue has none.
        cost_usd_per_h: dollars per hour; ``None`` without a price.
        cost_usd_per_million_output_tokens: dollars per million generated tokens at the target, or ``None``.
        power_w: power draw; ``None`` when the board power is unknown.
        objective_value: what the ranking compared, lower is better.
        explanation: the choice in sentences.
    """

    accelerator: Accelerator
    device_count: int
    replica_count: int
    parallelism: Parallelism
    mig_plan: MigPlan | None
    settings: EngineSettings
    context_tokens: int
    memory: MemoryBreakdown
    capacity: ReplicaEstimate
    operating_point: ReplicaEstimate
    utilization: float
    binding_constraint: str
    price: DevicePrice | None
    cost_usd_per_h: float | None
    cost_usd_per_million_output_tokens: float | None
    power_w: float | None
    objective_value: float
    explanation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """An accelerator that was ruled out, by the way of using it that came closest.

    Attributes:
        accelerator: the device.
        configuration: the way, e.g. ``tensor parallel 8`` or ``MIG 3g.40gb``; empty when no way was tried.
        fault: why, with the signed shortfall.
    """

    accelerator: Accelerator
    configuration: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One change of the question that makes it feasible, verified by solving again.

    Attributes:
        field: request field to change.
        value: value to set, as text.
        description: the change and what it leads to.
    """

    field: str
    value: str
    description: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer.

    Attributes:
        placements: what meets everything asked, best first; empty when infeasible.
        rejections: every accelerator without a placement, by SKU.
        relaxations: smallest changes that would make an infeasible question feasible; empty when feasible.
        assumptions: what was assumed, one sentence each.
        evaluated_candidates: configurations that were evaluated.
    """

    placements: tuple[Placement, ...]
    rejections: tuple[Rejection, ...]
    relaxations: tuple[Relaxation, ...]
    assumptions: tuple[str, ...]
    evaluated_candidates: int
