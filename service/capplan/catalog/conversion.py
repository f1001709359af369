"""Rows of the catalogue's tables, from the database or from the shipped files, as the core's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from capplan.catalog.records import (
    AcceleratorRecord,
    CloudInstance,
    Market,
    MigBoardRecord,
    ModelProfile,
    PriceRecord,
    Provenance,
)
from capplan.catalog.tables.accelerators import ARITHMETIC_FORMATS
from capplan.catalog.tables.mig import MEDIA_ENGINES
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.planning.query import DevicePrice

Row = Mapping[str, Any]


def to_accelerator(row: Row) -> Accelerator:
    """A row of ``accelerators``."""
    peaks = {name: row[f"peak_{name}_flop_per_s"] for name in ARITHMETIC_FORMATS}
    return Accelerator(
        sku=row["sku"],
        vendor=row["vendor"],
        product_name=row["product_name"],
        architecture=row["architecture"],
        compute_capability=row["compute_capability"],
        memory_bytes=row["memory_bytes"],
        memory_bandwidth_bytes_per_s=row["memory_bandwidth_bytes_per_s"],
        sm_count=row["sm_count"],
        peak_flop_per_s=MappingProxyType({name: peak for name, peak in peaks.items() if peak is not None}),
        interconnect=row["interconnect"],
        link_bytes_per_s=row["link_bytes_per_s"],
        link_domain_size=row["link_domain_size"],
        pcie_bytes_per_s=row["pcie_bytes_per_s"],
        board_power_w=row["board_power_w"],
        idle_power_w=row["idle_power_w"],
        mig_board=row["mig_board"],
        kubernetes_product_label=row["kubernetes_product_label"],
        confidence=row["confidence"],
    )


def to_accelerator_record(row: Row, aliases: Iterable[str]) -> AcceleratorRecord:
    """A row of ``accelerators`` with its names."""
    return AcceleratorRecord(
        accelerator=to_accelerator(row),
        aliases=tuple(aliases),
        device_name=row["device_name"],
        release_year=row["release_year"],
        memory_basis=row["memory_basis"],
        memory_technology=row["memory_technology"],
        boost_clock_mhz=row["boost_clock_mhz"],
        l2_bytes=row["l2_bytes"],
        sparsity_multiplier=row["sparsity_multiplier"],
        form_factor=row["form_factor"],
        pci_device_id=row["pci_device_id"],
        cross_check=row["cross_check"],
        notes=row["notes"],
        provenance=_provenance(row),
    )


def to_mig_profile(row: Row, starts: Iterable[int], board_min_driver: str | None) -> MigProfile:
    """A row of ``mig_profiles``; its driver branch is the later of its own and the board's."""
    engines = tuple((engine, row[f"{engine}_count"]) for engine in MEDIA_ENGINES)
    branches = [branch for branch in (row["min_driver"], board_min_driver) if branch is not None]
    return MigProfile(
        profile_id=row["profile_id"],
        name=row["name"],
        compute_slices=row["compute_slices"],
        memory_slices=row["memory_slices"],
        memory_bytes=row["memory_bytes"],
        sm_count=row["sm_count"],
        max_count=row["max_count"],
        starts=tuple(sorted(starts)),
        media_extension=row["media_extension"],
        confidence=row["confidence"],
        # Branches are R and three digits (a constraint says so): text order is number order.
        min_driver=max(branches, default=None),
        # One count missing makes the whole list unknown: the core reads an engine that is not listed as absent.
        media_engines=engines if all(count is not None for _, count in engines) else (),
    )


def to_mig_board_record(row: Row, profiles: Sequence[tuple[Row, Iterable[int]]]) -> MigBoardRecord:
    """A row of ``mig_boards`` with the rows and starts of its profiles."""
    tables = None
    if row["grid_units"] is not None and profiles:
        tables = MigBoard(
            board=row["board"],
            display_name=row["display_name"],
            grid_units=row["grid_units"],
            compute_slices=row["compute_slices"],
            profiles=tuple(
                sorted(
                    (to_mig_profile(profile, starts, row["min_driver"]) for profile, starts in profiles),
                    key=lambda profile: profile.profile_id,
                )
            ),
            confidence=row["confidence"],
        )
    return MigBoardRecord(
        board=row["board"],
        display_name=row["display_name"],
        compute_slices=row["compute_slices"],
        tables=tables,
        min_driver=row["min_driver"],
        confidence=row["confidence"],
        notes=row["notes"],
        provenance=_provenance(row),
    )


def to_price_record(row: Row) -> PriceRecord:
    """A row of ``device_prices``."""
    first, last = row["observed_from"], row["as_of"]
    return PriceRecord(
        sku=row["sku"],
        market=Market(row["market"]),
        price=DevicePrice(
            usd_per_h=row["usd_per_h"],
            term=row["term"],
            source=row["source"],
            as_of=last.isoformat() if first == last else f"{first.isoformat()}..{last.isoformat()}",
            offers=row["offers"],
        ),
        min_usd_per_h=row["min_usd_per_h"],
        max_usd_per_h=row["max_usd_per_h"],
        clouds=row["clouds"],
        offers=row["offers"],
        observed_from=first,
        provenance=_provenance(row),
    )


def to_cloud_instance(row: Row) -> CloudInstance:
    """A row of ``cloud_instances``."""
    return CloudInstance(
        cloud=row["cloud"],
        instance_type=row["instance_type"],
        region=row["region"],
        sku=row["sku"],
        accelerator_count=row["accelerator_count"],
        accelerator_share=row["accelerator_share"],
        vcpus=row["vcpus"],
        host_memory_bytes=row["host_memory_bytes"],
        on_demand_usd_per_h=row["on_demand_usd_per_h"],
        spot_usd_per_h=row["spot_usd_per_h"],
        observed_from=row["observed_from"],
        notes=row["notes"],
        provenance=_provenance(row),
    )


def to_model_profile(row: Row, aliases: Iterable[str]) -> ModelProfile:
    """A row of ``model_profiles`` with its other names."""
    return ModelProfile(
        name=row["name"],
        family=row["family"],
        aliases=tuple(aliases),
        total_parameters=row["total_parameters"],
        parameters_source=row["parameters_source"],
        cache_bytes_per_token_16bit=row["cache_bytes_per_token_16bit"],
        state_bytes_per_sequence=row["state_bytes_per_sequence"],
        confidence=row["confidence"],
        facts=MappingProxyType(row["facts"]),
        provenance=_provenance(row),
    )


def _provenance(row: Row) -> Provenance:
    return Provenance(source=row["source"], as_of=row["as_of"], edited=bool(row.get("edited", False)))
