"""What the catalogue knows, as frozen values: the core's facts with their provenance and what only a reader wants."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.facts import architecture_from_facts
from capplan.planning.query import DevicePrice


class PriceTerm(StrEnum):
    """Under which terms a device is rented."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class Market(StrEnum):
    """Which clouds a summary price is over."""

    TYPICAL = "typical"
    HYPERSCALER = "hyperscaler"
    NEOCLOUD = "neocloud"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a record comes from.

    Attributes:
        source: what it was read from.
        as_of: when it was read or, for prices, when the newest was observed.
        edited: an operator wrote it; loading shipped facts leaves it alone.
    """

    source: str
    as_of: datetime.date
    edited: bool


@dataclass(frozen=True, slots=True)
class AcceleratorRecord:
    """One accelerator and what the planner does not need of it.

    Attributes:
        accelerator: the planner's view.
        aliases: other names that mean it, as written.
        device_name: what the driver's tool prints.
        memory_basis: ``driver`` or ``vendor``; ``None`` without memory.
        boost_clock_mhz: fastest clock the tools show (base clock for CPUs); data-centre tensor peaks hold at a
            lower one.
        sparsity_multiplier: with-sparsity peak of the data sheet over the dense one.
    """

    accelerator: Accelerator
    aliases: tuple[str, ...]
    device_name: str | None
    release_year: int
    memory_basis: str | None
    memory_technology: str
    boost_clock_mhz: int | None
    l2_bytes: int | None
    sparsity_multiplier: float
    form_factor: str
    pci_device_id: str | None
    cross_check: str | None
    notes: str | None
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class MigBoardRecord:
    """One MIG board.

    Attributes:
        board: key.
        tables: what the planner places by; ``None`` when no placement was ever published for the board.
        min_driver: first driver branch that offers MIG on it.
    """

    board: str
    display_name: str
    compute_slices: int
    tables: MigBoard | None
    min_driver: str | None
    confidence: str
    notes: str | None
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """A summary price. ``clouds`` and ``offers`` say how many it is over, where known."""

    sku: str
    market: Market
    price: DevicePrice
    min_usd_per_h: float | None
    max_usd_per_h: float | None
    clouds: int | None
    offers: int | None
    observed_from: datetime.date
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class CloudInstance:
    """One shape a cloud sells in one region; prices are for the whole shape.

    Attributes:
        accelerator_share: part of one device the shape has; 1 for whole devices.
    """

    cloud: str
    instance_type: str
    region: str
    sku: str
    accelerator_count: int
    accelerator_share: float
    vcpus: int | None
    host_memory_bytes: int | None
    on_demand_usd_per_h: float | None
    spot_usd_per_h: float | None
    observed_from: datetime.date
    notes: str | None
    provenance: Provenance


@dataclass(frozen=True)
class ModelProfile:
    """One model. The architecture is built from the facts when first asked for, and kept.

    Attributes:
        facts: what the architecture is built from.
        total_parameters: published or counted total, to check the architecture against.
        cache_bytes_per_token_16bit: the same for the KV cache, bytes over all layers in a 16-bit format.
        state_bytes_per_sequence: the same for recurrent state; 0 without recurrence.
    """

    name: str
    family: str
    aliases: tuple[str, ...]
    total_parameters: int
    parameters_source: str
    cache_bytes_per_token_16bit: int | None
    state_bytes_per_sequence: int | None
    confidence: str
    facts: Mapping[str, Any]
    provenance: Provenance

    @cached_property
    def architecture(self) -> ModelArchitecture:
        """The model's structure.

        Raises:
            InvalidInputError: the facts cannot be read; names the field.
        """
        return architecture_from_facts(self.facts)
