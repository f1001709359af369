"""What accelerators cost: summary prices by term, and single offers of clouds."""

from __future__ import annotations

import datetime
from typing import Final

from sqlalchemy import BigInteger, CheckConstraint, Double, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import Provenance, at_least, between, not_blank, one_of, provenance_checks
from capplan.database import Base

PRICE_TERMS: Final = ("on_demand", "spot")
MARKETS: Final = ("typical", "hyperscaler", "neocloud")


class DevicePriceRow(Provenance, Base):
    """Dollars per device hour of an accelerator: a median over clouds of each cloud's median.

    Attributes:
        term: ``on_demand`` or ``spot``.
        market: which clouds it is over: all (``typical``), or one kind of them.
        min_usd_per_h: cheapest offer, where known; max likewise.
        clouds: how many clouds the median is over, where known.
        offers: how many offers they made, where known.
        observed_from: date of the oldest offer; ``as_of`` is that of the newest.
    """

    __tablename__ = "device_prices"

    sku: Mapped[str] = mapped_column(ForeignKey("accelerators.sku", ondelete="CASCADE"), primary_key=True)
    term: Mapped[str] = mapped_column(String(16), primary_key=True)
    market: Mapped[str] = mapped_column(String(16), primary_key=True)
    usd_per_h: Mapped[float] = mapped_column(Double)
    min_usd_per_h: Mapped[float | None] = mapped_column(Double)
    max_usd_per_h: Mapped[float | None] = mapped_column(Double)
    clouds: Mapped[int | None]
    offers: Mapped[int | None]
    observed_from: Mapped[datetime.date]

    __table_args__ = (
        one_of("term", PRICE_TERMS),
        one_of("market", MARKETS),
        CheckConstraint("usd_per_h > 0 AND usd_per_h < 10000", "usd_per_h_in_range"),
        CheckConstraint("min_usd_per_h > 0 AND min_usd_per_h <= usd_per_h", "min_not_above_the_median"),
        CheckConstraint("max_usd_per_h >= usd_per_h AND max_usd_per_h < 10000", "max_not_below_the_median"),
        at_least("clouds", 1),
        CheckConstraint("offers >= 1 AND (clouds IS NULL OR offers >= clouds)", "offers_not_fewer_than_clouds"),
        CheckConstraint("observed_from <= as_of", "observed_in_order"),
        *provenance_checks(),
    )


class CloudInstanceRow(Provenance, Base):
    """One shape a cloud sells in one region, with its price for the whole shape.

    Attributes:
        accelerator_count: devices in the shape.
        accelerator_share: part of one device, for shapes that sell a fraction; 1 otherwise.
        host_memory_bytes: main memory of the host.
        observed_from: date of the older of its prices; ``as_of`` is that of the newer.
    """

    __tablename__ = "cloud_instances"

    cloud: Mapped[str] = mapped_column(String(32), primary_key=True)
    instance_type: Mapped[str] = mapped_column(String(64), primary_key=True)
    region: Mapped[str] = mapped_column(String(32), primary_key=True)
    sku: Mapped[str] = mapped_column(ForeignKey("accelerators.sku", ondelete="CASCADE"), index=True)
    accelerator_count: Mapped[int]
    accelerator_share: Mapped[float] = mapped_column(Double)
    vcpus: Mapped[int | None]
    host_memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    on_demand_usd_per_h: Mapped[float | None] = mapped_column(Double)
    spot_usd_per_h: Mapped[float | None] = mapped_column(Double)
    observed_from: Mapped[datetime.date]
    notes: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        not_blank("cloud"),
        not_blank("instance_type"),
        not_blank("region"),
        between("accelerator_count", 1, 1024),
        CheckConstraint("accelerator_share > 0 AND accelerator_share <= 1", "accelerator_share_is_a_share"),
        CheckConstraint("accelerator_share = 1 OR accelerator_count = 1", "only_one_device_is_shared"),
        at_least("vcpus", 1),
        between("host_memory_bytes", 1 << 30, 1e15),
        CheckConstraint("on_demand_usd_per_h > 0 AND on_demand_usd_per_h < 100000", "on_demand_usd_per_h_in_range"),
        CheckConstraint("spot_usd_per_h > 0 AND spot_usd_per_h < 100000", "spot_usd_per_h_in_range"),
        CheckConstraint("on_demand_usd_per_h IS NOT NULL OR spot_usd_per_h IS NOT NULL", "has_a_price"),
        CheckConstraint("observed_from <= as_of", "observed_in_order"),
        *provenance_checks(),
    )
