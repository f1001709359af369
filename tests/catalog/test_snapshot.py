"""The snapshot: names resolve to one entry, supply is filtered and stable, and nothing in it can be changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import Engine

from capplan.catalog import repository
from capplan.catalog.editing import put_row
from capplan.catalog.shipped import ShippedCatalog
from capplan.catalog.snapshot import CatalogBusyError, CatalogSnapshot, load_snapshot
from capplan.catalog.tables import DevicePriceRow
from capplan.database import session_scope
from capplan.errors import InvalidInputError, NotFoundError


def test_every_alias_resolves_to_its_accelerator(snapshot: CatalogSnapshot, shipped: ShippedCatalog) -> None:
    for row in shipped.accelerator_aliases:
        assert snapshot.resolve_accelerator(row["alias"]).sku == row["sku"]
        assert snapshot.resolve_accelerator(row["alias"].lower().replace(" ", "_")).sku == row["sku"]


def test_every_sku_driver_name_and_node_label_resolves(snapshot: CatalogSnapshot) -> None:
    for sku, record in snapshot.accelerators.items():
        assert snapshot.resolve_accelerator(sku).sku == sku
        assert record.device_name is not None
        assert snapshot.resolve_accelerator(record.device_name.replace(" (1 socket)", "")).sku == sku
        if record.accelerator.kubernetes_product_label:
            assert snapshot.resolve_accelerator(record.accelerator.kubernetes_product_label).sku == sku


# Spellings of benchmark tables, bug reports and node labels.
@pytest.mark.parametrize(
    ("name", "sku"),
    [
        ("B200-SXM-180GB", "b200-180gb"),
        ("B200-192GB", "b200-180gb"),
        ("H200-SXM-141GB", "h200-sxm-141gb"),
        ("NVIDIA-H200", "h200-sxm-141gb"),
        ("H100-SXM-80GB", "h100-sxm-80gb"),
        ("H100 80GB", "h100-sxm-80gb"),
        ("H100-80GB", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm-80gb"),
        ("H100-PCIe-80GB", "h100-pcie-80gb"),
        ("A100-SXM-80GB", "a100-sxm4-80gb"),
        ("A100-SXM-40GB", "a100-sxm4-40gb"),
        ("A100-PCIe-80GB", "a100-pcie-80gb"),
        ("NVIDIA-A100-80GB-PCIe", "a100-pcie-80gb"),
        ("V100-SXM-32GB", "v100-sxm2-32gb"),
        ("GB200-192GB", "gb200-186gb"),
        ("B300 288GB", "b300-288gb"),
        ("MI300X-192GB", "mi300x-192gb"),
        ("AMD_Instinct_MI300X_OAM", "mi300x-192gb"),
        ("MI355X-288GB", "mi355x-288gb"),
        ("mi250", "mi250-gcd-64gb"),
        ("RTX4090-24GB", "rtx-4090-24gb"),
        ("RTX 3090", "rtx-3090-24gb"),
        ("RTXA6000-48GB", "rtx-a6000-48gb"),
        ("RTX6000Ada-48GB", "rtx-6000-ada-48gb"),
        ("GB10 128GB (DGX Spark)", "gb10-dgx-spark-128gb"),
        ("GH200 96GB", "gh200-96gb"),
        ("H20 96GB", "h20-96gb"),
        ("T4", "t4-16gb"),
        ("l40s", "l40s-48gb"),
        ("tpu v5e", "tpu-v5e-16gb"),
    ],
)
def test_common_spellings(snapshot: CatalogSnapshot, name: str, sku: str) -> None:
    assert snapshot.resolve_accelerator(name).sku == sku


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("a100", ("a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb")),
        ("A100 80GB", ("a100-pcie-80gb", "a100-sxm4-80gb")),
        ("H100", ("h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm-80gb")),
        ("V100 32GB", ("v100-pcie-32gb", "v100-sxm2-32gb")),
        ("GH200", ("gh200-144gb", "gh200-96gb")),
        ("RTX PRO 6000 96GB", ("rtx-pro-6000-server-96gb", "rtx-pro-6000-workstation-96gb")),
    ],
)
def test_an_ambiguous_name_is_refused_with_every_candidate(
    snapshot: CatalogSnapshot, name: str, candidates: tuple[str, ...]
) -> None:
    with pytest.raises(NotFoundError) as caught:
        snapshot.resolve_accelerator(name)
    assert caught.value.near == candidates


@pytest.mark.parametrize(("name", "nearest"), [("RTX 4091", "rtx-4090-24gb"), ("mi301x-192gb", "mi300x-192gb")])
def test_a_misspelt_name_is_refused_with_the_right_one_first(
    snapshot: CatalogSnapshot, name: str, nearest: str
) -> None:
    with pytest.raises(NotFoundError) as caught:
        snapshot.resolve_accelerator(name)
    assert caught.value.near[0] == nearest


def test_supply_is_every_accelerator_in_order_with_its_board_and_price(snapshot: CatalogSnapshot) -> None:
    supply = snapshot.supply()
    skus = [item.accelerator.sku for item in supply]
    assert skus == sorted(snapshot.accelerators)
    items = dict(zip(skus, supply, strict=True))
    h100 = items["h100-sxm-80gb"]
    assert h100.mig_board is not None
    assert h100.mig_board.board == "h100-80gb-sxm5"
    assert h100.price is not None
    assert h100.price.usd_per_h == 3.995
    assert items["l40s-48gb"].mig_board is None
    assert items["h20-96gb"].price is None


def test_supply_takes_names_and_the_asked_price(snapshot: CatalogSnapshot) -> None:
    supply = snapshot.supply("spot", allowed=["L4", "H100 80GB", "b200"], denied=["B200-192GB"])
    assert [item.accelerator.sku for item in supply] == ["h100-sxm-80gb", "l4-24gb"]
    assert [item.price.usd_per_h for item in supply if item.price] == [3.466, 0.48]
    (hyperscaler,) = snapshot.supply(allowed=["l4"], market="hyperscaler")
    assert hyperscaler.price is not None
    assert hyperscaler.price.usd_per_h == 1.132


def test_supply_refuses_what_it_does_not_know(snapshot: CatalogSnapshot) -> None:
    with pytest.raises(NotFoundError):
        snapshot.supply(allowed=["h100"])
    with pytest.raises(NotFoundError):
        snapshot.supply(denied=["h100"])
    with pytest.raises(InvalidInputError, match=r"price_term: 'reserved' is unknown; one of on_demand, spot"):
        snapshot.supply("reserved")
    with pytest.raises(InvalidInputError, match="market"):
        snapshot.supply(market="all")


def test_a_snapshot_cannot_be_changed(snapshot: CatalogSnapshot) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        snapshot.revision = 9  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.accelerators["x"] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        snapshot.accelerators["l4-24gb"].accelerator.peak_flop_per_s["bf16"] = 1.0  # type: ignore[index]


def test_a_snapshot_of_an_empty_catalogue_is_revision_zero(empty: Engine) -> None:
    with session_scope(empty) as session:
        snapshot = load_snapshot(session)
    assert (snapshot.revision, snapshot.supply()) == (0, ())
    assert snapshot.updated_at.tzinfo is not None
    with pytest.raises(NotFoundError):
        snapshot.resolve_accelerator("h100")


def test_a_write_while_reading_makes_the_reader_start_again(loaded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session writes between two of the reader's queries, once."""
    real, writes = repository.read_prices, iter([0.11])

    def read_prices_after_a_write(session: Any) -> Any:
        prices = real(session)
        for price in writes:
            with session_scope(loaded) as other:
                put_row(
                    other, DevicePriceRow, {"sku": "l4-24gb", "term": "spot", "market": "typical", "usd_per_h": price}
                )
        return prices

    monkeypatch.setattr(repository, "read_prices", read_prices_after_a_write)
    with session_scope(loaded) as session:
        snapshot = load_snapshot(session)
    price = snapshot.price("l4-24gb", "spot")
    assert price is not None
    assert (snapshot.revision, price.usd_per_h) == (2, 0.11)


def test_a_catalogue_that_never_rests_is_reported(loaded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = repository.read_revision, iter(range(1, 1000))

    def ever_higher(session: Any) -> repository.Revision:
        return dataclasses.replace(real(session), number=next(count))

    monkeypatch.setattr(repository, "read_revision", ever_higher)
    with session_scope(loaded) as session, pytest.raises(CatalogBusyError):
        load_snapshot(session)
