"""The catalogue's listings: which rows, in which order, filtered by which fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from capplan.catalog.filtering import FieldKind, FilterField, parse_filter
from capplan.catalog.paging import Key, Page, Paginator
from capplan.catalog.records import AcceleratorRecord, CloudInstance, MigBoardRecord, ModelProfile, PriceRecord
from capplan.catalog.snapshot import CatalogSnapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One collection of the catalogue that can be listed.

    Attributes:
        collection: its name in the contract.
        rows: its rows in a snapshot.
        key: a row's key, which orders the listing.
        fields: fields that a filter may name.
    """

    collection: str
    rows: Callable[[CatalogSnapshot], Iterable[T]]
    key: Callable[[T], Key]
    fields: Mapping[str, FilterField[T]]

    def page(
        self, snapshot: CatalogSnapshot, paginator: Paginator, *, filter_text: str, page_size: int, page_token: str
    ) -> Page[T]:
        """One page of the rows that pass the filter.

        Raises:
            InvalidInputError: on ``filter``, ``page_size`` or ``page_token``.
        """
        return paginator.page(
            parse_filter(filter_text, self.fields).apply(self.rows(snapshot)),
            key=self.key,
            collection=self.collection,
            filter_text=filter_text,
            page_size=page_size,
            page_token=page_token,
        )


def _text(read: Callable[[T], str | None]) -> FilterField[T]:
    return FilterField(FieldKind.TEXT, read)


def _number(read: Callable[[T], float | None]) -> FilterField[T]:
    return FilterField(FieldKind.NUMBER, read)


ACCELERATORS: Final[Listing[AcceleratorRecord]] = Listing(
    "accelerators",
    lambda snapshot: snapshot.accelerators.values(),
    lambda row: (row.accelerator.sku,),
    {
        "sku": _text(lambda row: row.accelerator.sku),
        "vendor": _text(lambda row: row.accelerator.vendor),
        "product_name": _text(lambda row: row.accelerator.product_name),
        "architecture": _text(lambda row: row.accelerator.architecture),
        "compute_capability": _text(lambda row: row.accelerator.compute_capability),
        "interconnect": _text(lambda row: row.accelerator.interconnect),
        "form_factor": _text(lambda row: row.form_factor),
        "mig_board": _text(lambda row: row.accelerator.mig_board),
        "confidence": _text(lambda row: row.accelerator.confidence),
        "aliases": FilterField(FieldKind.TEXTS, lambda row: row.aliases),
        "release_year": _number(lambda row: row.release_year),
        "memory_bytes": _number(lambda row: row.accelerator.memory_bytes),
        "memory_bandwidth_bytes_per_s": _number(lambda row: row.accelerator.memory_bandwidth_bytes_per_s),
        "link_domain_size": _number(lambda row: row.accelerator.link_domain_size),
        "board_power_w": _number(lambda row: row.accelerator.board_power_w),
        "mig_capable": FilterField(FieldKind.BOOLEAN, lambda row: row.accelerator.mig_board is not None),
        "edited": FilterField(FieldKind.BOOLEAN, lambda row: row.provenance.edited),
        "as_of": FilterField(FieldKind.DATE, lambda row: row.provenance.as_of),
    },
)

MIG_BOARDS: Final[Listing[MigBoardRecord]] = Listing(
    "migBoards",
    lambda snapshot: snapshot.mig_boards.values(),
    lambda row: (row.board,),
    {
        "board": _text(lambda row: row.board),
        "confidence": _text(lambda row: row.confidence),
        "compute_slices": _number(lambda row: row.compute_slices),
        "placeable": FilterField(FieldKind.BOOLEAN, lambda row: row.tables is not None),
        "edited": FilterField(FieldKind.BOOLEAN, lambda row: row.provenance.edited),
    },
)

PRICES: Final[Listing[PriceRecord]] = Listing(
    "prices",
    lambda snapshot: snapshot.prices.values(),
    lambda row: (row.sku, row.price.term, row.market),
    {
        "sku": _text(lambda row: row.sku),
        "term": _text(lambda row: row.price.term),
        "market": _text(lambda row: row.market),
        "usd_per_h": _number(lambda row: row.price.usd_per_h),
        "as_of": FilterField(FieldKind.DATE, lambda row: row.provenance.as_of),
        "edited": FilterField(FieldKind.BOOLEAN, lambda row: row.provenance.edited),
    },
)

CLOUD_INSTANCES: Final[Listing[CloudInstance]] = Listing(
    "cloudInstances",
    lambda snapshot: snapshot.instances,
    lambda row: (row.cloud, row.instance_type, row.region),
    {
        "cloud": _text(lambda row: row.cloud),
        "instance_type": _text(lambda row: row.instance_type),
        "region": _text(lambda row: row.region),
        "sku": _text(lambda row: row.sku),
        "accelerator_count": _number(lambda row: row.accelerator_count),
        "accelerator_share": _number(lambda row: row.accelerator_share),
        "on_demand_usd_per_h": _number(lambda row: row.on_demand_usd_per_h),
        "spot_usd_per_h": _number(lambda row: row.spot_usd_per_h),
        "as_of": FilterField(FieldKind.DATE, lambda row: row.provenance.as_of),
        "edited": FilterField(FieldKind.BOOLEAN, lambda row: row.provenance.edited),
    },
)

MODELS: Final[Listing[ModelProfile]] = Listing(
    "models",
    lambda snapshot: snapshot.models.values(),
    lambda row: (row.name,),
    {
        "name": _text(lambda row: row.name),
        "family": _text(lambda row: row.family),
        "confidence": _text(lambda row: row.confidence),
        "aliases": FilterField(FieldKind.TEXTS, lambda row: row.aliases),
        "total_parameters": _number(lambda row: row.total_parameters),
        "as_of": FilterField(FieldKind.DATE, lambda row: row.provenance.as_of),
        "edited": FilterField(FieldKind.BOOLEAN, lambda row: row.provenance.edited),
    },
)
