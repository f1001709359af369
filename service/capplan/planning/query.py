"""What a caller asks of the planner, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.engine import EngineChoice
from capplan.estimation.steady_state import Request
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard
from capplan.modeling.costs import ModelCosts


class Objective(StrEnum):
    """What "best" means."""

    COST = "cost"
    DEVICES = "devices"
    ENERGY = "energy"
    LATENCY = "latency"


class MigPolicy(StrEnum):
    """Whether Multi-Instance GPU slices may, must or must not be used."""

    ALLOWED = "allowed"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"


class TargetKind(StrEnum):
    """What the target counts."""

    OUTPUT_TOKENS_PER_S = "output_tokens_per_s"
    REQUESTS_PER_S = "requests_per_s"
    CONCURRENT_USERS = "concurrent_users"


@dataclass(frozen=True, slots=True)
class Target:
    """The load to serve, over the whole deployment."""

    kind: TargetKind
    value: float


@dataclass(frozen=True, slots=True)
class Workload:
    """One request as the model sees it.

    Attributes:
        input_tokens: mean prompt length.
        output_tokens: mean generated length.
        max_context_tokens: context every replica must be able to hold for one request; ``None`` means the model's full
            context, as engines default to.
        prefix_cache_hit_share: share of the prompt tokens whose keys and values are found in the prefix cache, at least
            0 and below 1.
    """

    input_tokens: float
    output_tokens: float
    max_context_tokens: int | None = None
    prefix_cache_hit_share: float = 0.0

    @property
    def request(self) -> Request:
        """One request as the estimator takes it."""
        return Request(self.input_tokens, self.output_tokens, self.prefix_cache_hit_share)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the workload's figures take for granted, one sentence each."""
        if self.prefix_cache_hit_share == 0:
            return ()
        return (
            f"{self.prefix_cache_hit_share:.4g} of the prompt tokens are found in the prefix cache, which needs prefix "
            "caching enabled in the engine and room for the prefixes; their prefill is left out. Every running request "
            "still takes KV cache for its whole prompt: memory that requests share is not counted.",
        )


class LatencyMetric(StrEnum):
    """Which latency a limit is about."""

    TTFT = "ttft"
    ITL = "itl"
    E2E = "e2e"


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """A limit on the mean of one latency, in milliseconds. Percentiles are not supported yet."""

    metric: LatencyMetric
    limit_ms: float


@dataclass(frozen=True, slots=True)
class DevicePrice:
    """What one device of a SKU costs.

    Attributes:
        usd_per_h: dollars per device hour.
        term: ``on_demand`` or ``spot``.
        source: where the figure comes from.
        as_of: date or period of the figure.
        offers: how many offers it is the median of; ``None`` when not known.
    """

    usd_per_h: float
    term: str
    source: str
    as_of: str
    offers: int | None = None


@dataclass(frozen=True, slots=True)
class SupplyItem:
    """One kind of device the planner may use.

    Attributes:
        accelerator: the device.
        mig_board: its MIG tables; ``None`` without MIG.
        price: price under the asked term; ``None`` when the catalogue has none.
    """

    accelerator: Accelerator
    mig_board: MigBoard | None
    price: DevicePrice | None


@dataclass(frozen=True, slots=True)
class Constraints:
    """What an answer must respect.

    Attributes:
        allowed_skus: when not empty, only these.
        denied_skus: never these.
        mig: whether slices may be used.
        mig_profiles: when not empty, only these profile names (``1g.10gb``).
        tensor_parallel_sizes: when not empty, only these.
        max_devices: most physical devices in total.
        max_usd_per_h: budget of the whole deployment.
        headroom_share: capacity kept free, 0.2 plans for 1.2 times the target.
        engine: engine and its pinned settings.
    """

    allowed_skus: tuple[str, ...] = ()
    denied_skus: tuple[str, ...] = ()
    mig: MigPolicy = MigPolicy.ALLOWED
    mig_profiles: tuple[str, ...] = ()
    tensor_parallel_sizes: tuple[int, ...] = ()
    max_devices: int | None = None
    max_usd_per_h: float | None = None
    headroom_share: float = 0.0
    engine: EngineChoice = field(default_factory=EngineChoice)


@dataclass(frozen=True, slots=True)
class PlacementQuery:
    """The whole question. The supply is part of it: the planner looks nothing up.

    Attributes:
        model: the model in the asked precision, with its costs.
        target: load to serve.
        workload: shape of one request.
        limits: latency limits, all of which hold.
        constraints: what an answer must respect.
        objective: what to rank by.
        supply: devices to choose from.
        max_placements: how many placements to return, best first.
        coefficients: coefficients of the step model.
    """

    model: ModelCosts
    target: Target
    workload: Workload
    limits: tuple[LatencyLimit, ...]
    constraints: Constraints
    objective: Objective
    supply: tuple[SupplyItem, ...]
    max_placements: int = 5
    coefficients: Coefficients = UNFITTED
