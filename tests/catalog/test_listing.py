"""The catalogue's listings, page by page, and each of their fields."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.catalog.filtering import FieldKind
from capplan.catalog.listing import ACCELERATORS, CLOUD_INSTANCES, MIG_BOARDS, MODELS, PRICES, Listing
from capplan.catalog.paging import Paginator
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError

LISTINGS: list[Listing[Any]] = [ACCELERATORS, MIG_BOARDS, PRICES, CLOUD_INSTANCES, MODELS]


def everything(listing: Listing[Any], snapshot: CatalogSnapshot, text: str) -> list[Any]:
    paginator, token = Paginator(), ""
    rows: list[Any] = []
    while True:
        page = listing.page(snapshot, paginator, filter_text=text, page_size=7, page_token=token)
        rows += page.items
        token = page.next_page_token
        if not token:
            return rows


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.collection)
def test_the_pages_are_every_row_once(snapshot: CatalogSnapshot, listing: Listing[Any]) -> None:
    keys = [listing.key(row) for row in everything(listing, snapshot, "")]
    assert keys == sorted({listing.key(row) for row in listing.rows(snapshot)})


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.collection)
def test_every_field_has_values_of_its_kind(snapshot: CatalogSnapshot, listing: Listing[Any]) -> None:
    literal = {
        FieldKind.TEXT: '= "nothing"',
        FieldKind.TEXTS: ": nothing",
        FieldKind.NUMBER: "> -1",
        FieldKind.BOOLEAN: "= true",
        FieldKind.DATE: ">= 2000-01-01",
    }
    for name, field in listing.fields.items():
        everything(listing, snapshot, f"{name} {literal[field.kind]}")  # a value of another kind cannot be compared


@pytest.mark.parametrize(
    ("text", "skus"),
    [
        ("vendor = aws", ["inferentia2-32gb", "trainium1-32gb", "trainium2-96gb"]),
        # 140 GB and more on Hopper: H200 twice, the larger GH200.
        ("memory_bytes >= 140e9 AND architecture = hopper", ["gh200-144gb", "h200-nvl-141gb", "h200-sxm-141gb"]),
        ('aliases : "dgx spark"', ["gb10-dgx-spark-128gb"]),
        ("mig_capable = true AND architecture = ampere AND memory_bytes < 40e9", ["a30-24gb"]),
        ("release_year > 2024 AND vendor = amd", ["mi350x-288gb", "mi355x-288gb"]),
    ],
)
def test_accelerators_are_filtered(snapshot: CatalogSnapshot, text: str, skus: list[str]) -> None:
    assert [row.accelerator.sku for row in everything(ACCELERATORS, snapshot, text)] == skus


def test_boards_and_prices_are_filtered(snapshot: CatalogSnapshot) -> None:
    assert len(everything(MIG_BOARDS, snapshot, "placeable = false")) == 3
    prices = everything(PRICES, snapshot, "sku = h100-sxm-80gb AND term = on_demand")
    assert [row.market for row in prices] == ["hyperscaler", "neocloud", "typical"]
    assert len(everything(CLOUD_INSTANCES, snapshot, "accelerator_share < 1")) == 2


def test_an_unknown_field_is_refused_with_the_listings_own(snapshot: CatalogSnapshot) -> None:
    with pytest.raises(InvalidInputError, match="accepted fields: as_of, edited, market, sku, term, usd_per_h"):
        everything(PRICES, snapshot, "price > 1")


def test_a_token_of_one_listing_is_refused_by_another(snapshot: CatalogSnapshot) -> None:
    paginator = Paginator()
    token = ACCELERATORS.page(snapshot, paginator, filter_text="", page_size=5, page_token="").next_page_token
    with pytest.raises(InvalidInputError, match="page_token"):
        PRICES.page(snapshot, paginator, filter_text="", page_size=5, page_token=token)
