"""Catalogue records as messages."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.catalog.records import (
    AcceleratorRecord,
    CloudInstance,
    MigBoardRecord,
    ModelProfile,
    PriceRecord,
    PriceTerm,
)
from capplan.catalog.records import Provenance as RecordProvenance
from capplan.hardware.mig import MigProfile
from capplan.modeling.precision import native_precision
from capplan.planning.mig_layout import resource_name_mixed
from capplan.server.resource_names import accelerator_name, mig_board_name, mig_profile_name, model_name, price_name
from capplan.v1 import catalog_pb2

INSTANCE_MARKET = "instance"
"""Market of a price that one cloud asks for one shape."""


def to_fact_source(
    provenance: RecordProvenance, confidence: str = "", as_of: str | None = None
) -> catalog_pb2.FactSource:
    """Where a record comes from."""
    return catalog_pb2.FactSource(
        source=provenance.source,
        as_of=provenance.as_of.isoformat() if as_of is None else as_of,
        confidence=confidence,
        edited=provenance.edited,
    )


def to_accelerator(record: AcceleratorRecord) -> catalog_pb2.Accelerator:
    """One accelerator."""
    accelerator = record.accelerator
    return catalog_pb2.Accelerator(
        name=accelerator_name(accelerator.sku),
        vendor=accelerator.vendor,
        product_name=accelerator.product_name,
        architecture=accelerator.architecture,
        compute_capability=accelerator.compute_capability or "",
        memory_bytes=accelerator.memory_bytes or 0,
        memory_bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
        sm_count=accelerator.sm_count or 0,
        peak_flop_per_s=dict(accelerator.peak_flop_per_s),
        interconnect=accelerator.interconnect,
        link_bytes_per_s=accelerator.link_bytes_per_s or 0.0,
        link_domain_size=accelerator.link_domain_size,
        pcie_bytes_per_s=accelerator.pcie_bytes_per_s or 0.0,
        board_power_w=accelerator.board_power_w or 0.0,
        mig_board=mig_board_name(accelerator.mig_board) if accelerator.mig_board is not None else "",
        kubernetes_product_label=accelerator.kubernetes_product_label or "",
        aliases=record.aliases,
        source=to_fact_source(record.provenance, accelerator.confidence),
    )


def to_mig_profiles(record: MigBoardRecord) -> Iterator[catalog_pb2.MigProfile]:
    """Every profile of a board; none when no placement was ever published for it."""
    if record.tables is not None:
        for profile in record.tables.profiles:
            yield _to_mig_profile(record, profile, record.tables.grid_units)


def _to_mig_profile(record: MigBoardRecord, profile: MigProfile, grid_units: int) -> catalog_pb2.MigProfile:
    return catalog_pb2.MigProfile(
        name=mig_profile_name(record.board, profile.profile_id),
        board_display_name=record.display_name,
        profile=profile.name,
        profile_id=profile.profile_id,
        compute_slice_count=profile.compute_slices,
        memory_slice_count=profile.memory_slices,
        grid_unit_count=grid_units,
        memory_bytes=profile.memory_bytes or 0,
        sm_count=profile.sm_count or 0,
        starts=profile.starts,
        max_count=profile.max_count,
        min_driver=profile.min_driver or "",
        resource_name=resource_name_mixed(profile),
        source=to_fact_source(record.provenance, profile.confidence),
    )


def to_model_profile(profile: ModelProfile) -> catalog_pb2.ModelProfile:
    """One model.

    Raises:
        UnsupportedModelError: the catalogue's facts describe something that cannot be sized exactly.
    """
    return catalog_pb2.ModelProfile(
        name=model_name(profile.name),
        hub_id=profile.name,
        family=profile.family,
        total_parameter_count=profile.total_parameters,
        native_weights=native_precision(profile.architecture),
        aliases=profile.aliases,
        source=to_fact_source(profile.provenance, profile.confidence),
    )


def to_summary_price(record: PriceRecord) -> catalog_pb2.Price:
    """A price over many clouds."""
    return catalog_pb2.Price(
        name=price_name(record.sku, record.price.term, record.market),
        accelerator=accelerator_name(record.sku),
        term=record.price.term,
        market=record.market,
        device_count=1.0,
        usd_per_device_h=record.price.usd_per_h,
        source=to_fact_source(record.provenance, as_of=record.price.as_of),
    )


def to_instance_prices(instance: CloudInstance) -> Iterator[catalog_pb2.Price]:
    """What a cloud asks for one shape, one price for each term it offers, per device."""
    devices = instance.accelerator_count * instance.accelerator_share
    offers = ((PriceTerm.ON_DEMAND, instance.on_demand_usd_per_h), (PriceTerm.SPOT, instance.spot_usd_per_h))
    for term, usd_per_h in offers:
        if usd_per_h is not None:
            yield catalog_pb2.Price(
                name=price_name(instance.cloud, instance.instance_type, instance.region, term),
                accelerator=accelerator_name(instance.sku),
                term=term,
                market=INSTANCE_MARKET,
                cloud=instance.cloud,
                region=instance.region,
                instance_type=instance.instance_type,
                device_count=devices,
                usd_per_device_h=usd_per_h / devices,
                source=to_fact_source(instance.provenance),
            )
