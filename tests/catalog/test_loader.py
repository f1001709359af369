"""Loading shipped facts: once, twice, over an operator's work, and after the facts changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import Engine

from capplan.catalog.editing import put_mig_profile, put_row, retire_row
from capplan.catalog.loader import LoadReport, load_catalog
from capplan.catalog.repository import read_all, read_revision, table_of
from capplan.catalog.shipped import ShippedCatalog
from capplan.catalog.snapshot import CatalogSnapshot, load_snapshot
from capplan.catalog.tables import (
    AcceleratorAliasRow,
    AcceleratorRow,
    DevicePriceRow,
    MigBoardRow,
    MigProfileRow,
    MigProfileStartRow,
    ModelAliasRow,
    ModelProfileRow,
)
from capplan.database import Base, session_scope
from capplan.errors import InvalidInputError, NotFoundError

TABLES = (
    "mig_boards",
    "mig_profiles",
    "accelerators",
    "accelerator_aliases",
    "device_prices",
    "cloud_instances",
    "model_profiles",
    "model_aliases",
    "measurements",
    "calibrations",
)


def load(engine: Engine, shipped: ShippedCatalog | None = None) -> LoadReport:
    with session_scope(engine) as session:
        return load_catalog(session, shipped)


def look(engine: Engine) -> CatalogSnapshot:
    with session_scope(engine) as session:
        return load_snapshot(session)


def dump(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    with session_scope(engine) as session:
        return {
            mapper.class_.__tablename__: [dict(row) for row in read_all(session, mapper.class_)]
            for mapper in Base.registry.mappers
        }


def changed(facts: ShippedCatalog, table: str, match: dict[str, Any], **values: Any) -> ShippedCatalog:
    """The facts with other values in the one row that matches."""
    rows = [dict(row) for row in getattr(facts, table)]
    (found,) = [row for row in rows if match.items() <= row.items()]
    found.update(values)
    replaced: dict[str, Any] = {table: tuple(rows)}
    return dataclasses.replace(facts, **replaced)


def without(facts: ShippedCatalog, table: str, match: dict[str, Any]) -> ShippedCatalog:
    """The facts without the rows that match."""
    rows = tuple(row for row in getattr(facts, table) if not match.items() <= row.items())
    assert len(rows) < len(getattr(facts, table))
    replaced: dict[str, Any] = {table: rows}
    return dataclasses.replace(facts, **replaced)


def test_the_first_load_inserts_every_row(empty: Engine, shipped: ShippedCatalog) -> None:
    report = load(empty)
    assert report.revision == 1
    assert tuple(report.tables) == TABLES
    for name, table in report.tables.items():
        rows = len(getattr(shipped, name))
        assert (table.inserted, table.updated, table.unchanged, table.kept, table.withdrawn) == (rows, 0, 0, 0, 0)


def test_a_second_load_changes_nothing(loaded: Engine) -> None:
    before = dump(loaded)
    report = load(loaded)
    assert report.revision == 1
    assert not any(table.changed for table in report.tables.values())
    assert dump(loaded) == before


def test_a_corrected_fact_is_updated_and_raises_the_revision(loaded: Engine, shipped: ShippedCatalog) -> None:
    report = load(loaded, changed(shipped, "device_prices", {"sku": "l4-24gb", "term": "spot"}, usd_per_h=0.47))
    assert report.tables["device_prices"].updated == 1
    assert [name for name, table in report.tables.items() if table.changed] == ["device_prices"]
    assert report.revision == 2
    price = look(loaded).price("l4-24gb", "spot")
    assert price is not None
    assert price.usd_per_h == 0.47


def test_a_corrected_start_table_replaces_the_old_one(loaded: Engine, shipped: ShippedCatalog) -> None:
    starts = {**shipped.mig_profile_starts, ("gb300-dgx-station", 9): (0, 4)}
    report = load(loaded, dataclasses.replace(shipped, mig_profile_starts=starts))
    assert report.tables["mig_profiles"].updated == 1
    station = look(loaded).mig_boards["gb300-dgx-station"].tables
    assert station is not None
    assert station.profile(9).starts == (0, 4)


def test_a_corrected_grid_moves_profiles_and_starts_with_it(loaded: Engine, shipped: ShippedCatalog) -> None:
    """Sizes are repeated down the keys, so the database must follow a change of the board's grid."""
    board = "a30-24gb"
    facts = changed(shipped, "mig_boards", {"board": board}, grid_units=5)
    profiles = tuple({**row, "grid_units": 5} if row["board"] == board else row for row in facts.mig_profiles)
    load(loaded, dataclasses.replace(facts, mig_profiles=profiles))
    with session_scope(loaded) as session:
        rows = [row for row in read_all(session, MigProfileStartRow) if row["board"] == board]
    assert {row["grid_units"] for row in rows} == {5}
    assert len(rows) == 4 + 4 + 2 + 2 + 1  # two 1g profiles, two 2g, one 4g


def test_a_row_that_is_no_longer_shipped_goes(loaded: Engine, shipped: ShippedCatalog) -> None:
    facts = without(shipped, "accelerator_aliases", {"alias": "DGX Spark"})
    report = load(loaded, facts)
    assert report.tables["accelerator_aliases"].withdrawn == 1
    with pytest.raises(NotFoundError):
        look(loaded).resolve_accelerator("DGX Spark")


def test_an_accelerator_that_is_no_longer_shipped_takes_its_names_and_prices_along(
    loaded: Engine, shipped: ShippedCatalog
) -> None:
    facts = shipped
    for table in ("accelerators", "accelerator_aliases", "device_prices", "cloud_instances"):
        facts = without(facts, table, {"sku": "a16-16gb"})
    report = load(loaded, facts)
    assert report.tables["accelerators"].withdrawn == 1
    assert "a16-16gb" not in look(loaded).accelerators


def test_a_board_that_is_renamed_is_followed(loaded: Engine, shipped: ShippedCatalog) -> None:
    """The accelerators must have left the old board before it can go."""

    def renamed(row: dict[str, Any], column: str) -> dict[str, Any]:
        return {**row, column: "a30"} if row[column] == "a30-24gb" else row

    facts = dataclasses.replace(
        shipped,
        mig_boards=tuple(renamed(row, "board") for row in shipped.mig_boards),
        mig_profiles=tuple(renamed(row, "board") for row in shipped.mig_profiles),
        accelerators=tuple(renamed(row, "mig_board") for row in shipped.accelerators),
        mig_profile_starts={
            ("a30" if board == "a30-24gb" else board, profile): starts
            for (board, profile), starts in shipped.mig_profile_starts.items()
        },
    )
    report = load(loaded, facts)
    assert report.tables["mig_boards"].withdrawn == 1
    assert look(loaded).resolve_accelerator("a30").mig_board == "a30"


def test_an_operators_edit_survives_loading(loaded: Engine, shipped: ShippedCatalog) -> None:
    key = {"sku": "h100-sxm-80gb", "term": "on_demand", "market": "typical"}
    with session_scope(loaded) as session:
        put_row(session, DevicePriceRow, key | {"usd_per_h": 2.5, "source": "our contract"})
    report = load(loaded, changed(shipped, "device_prices", key, usd_per_h=9.99))
    assert report.tables["device_prices"].kept == 1
    assert not report.tables["device_prices"].changed
    record = look(loaded).prices["h100-sxm-80gb", "on_demand", "typical"]  # type: ignore[index]
    assert (record.price.usd_per_h, record.price.source) == (2.5, "our contract")
    assert record.provenance.edited


def test_an_operators_deletion_survives_loading(loaded: Engine) -> None:
    with session_scope(loaded) as session:
        retire_row(session, AcceleratorRow, {"sku": "t4-16gb"})
    report = load(loaded)
    assert not report.tables["accelerators"].changed
    snapshot = look(loaded)
    assert "t4-16gb" not in snapshot.accelerators
    with pytest.raises(NotFoundError):
        snapshot.resolve_accelerator("Tesla T4")


def test_an_operators_own_row_survives_loading(loaded: Engine, shipped: ShippedCatalog) -> None:
    with session_scope(loaded) as session:
        values = {"folded": "ourbigones", "alias": "our big ones", "sku": "b200-180gb", "kind": "spelling"}
        put_row(session, AcceleratorAliasRow, values | {"source": "us", "as_of": shipped.accelerators[0]["as_of"]})
    assert not load(loaded).tables["accelerator_aliases"].changed
    assert look(loaded).resolve_accelerator("Our-Big-Ones").sku == "b200-180gb"


def test_what_an_operators_row_refers_to_is_not_withdrawn(loaded: Engine, shipped: ShippedCatalog) -> None:
    with session_scope(loaded) as session:
        put_row(
            session,
            DevicePriceRow,
            {"sku": "a16-16gb", "term": "on_demand", "market": "typical", "usd_per_h": 0.4, "min_usd_per_h": None},
        )
    facts = shipped
    for table in ("accelerators", "accelerator_aliases", "device_prices", "cloud_instances"):
        facts = without(facts, table, {"sku": "a16-16gb"})
    assert load(loaded, facts).tables["accelerators"].withdrawn == 0
    price = look(loaded).price("a16-16gb", "on_demand")
    assert price is not None
    assert price.usd_per_h == 0.4


def test_starts_read_from_a_board_survive_loading(loaded: Engine, shipped: ShippedCatalog) -> None:
    with session_scope(loaded) as session:
        put_mig_profile(session, {"board": "gb300-dgx-station", "profile_id": 9, "confidence": "measured"}, [4])
    starts = {**shipped.mig_profile_starts, ("gb300-dgx-station", 9): (0, 4)}
    report = load(loaded, dataclasses.replace(shipped, mig_profile_starts=starts))
    assert report.tables["mig_profiles"].kept == 1
    station = look(loaded).mig_boards["gb300-dgx-station"].tables
    assert station is not None
    assert (station.profile(9).starts, station.profile(9).confidence) == ((4,), "measured")


def test_a_board_an_operator_changed_keeps_its_profiles(loaded: Engine, shipped: ShippedCatalog) -> None:
    with session_scope(loaded) as session:
        put_row(session, MigBoardRow, {"board": "a30-24gb", "grid_units": 6})
    facts = changed(shipped, "mig_profiles", {"board": "a30-24gb", "profile_id": 14}, sm_count=13)
    report = load(loaded, facts)
    assert not report.tables["mig_profiles"].changed
    board = look(loaded).mig_boards["a30-24gb"].tables
    assert board is not None
    assert (board.grid_units, board.profile(14).sm_count) == (6, 14)


def model(name: str, **values: Any) -> dict[str, Any]:
    row = {"name": name, "folded": name.lower().replace("/", "-"), "family": "f", "total_parameters": 10}
    row |= {
        "parameters_source": "counted",
        "cache_bytes_per_token_16bit": 4,
        "state_bytes_per_sequence": 0,
        "facts": {"layers": 2},
    }
    return row | {"confidence": "high", "source": "s"} | values


def test_a_model_whose_name_changes_its_case_stays_one_model(loaded: Engine, shipped: ShippedCatalog) -> None:
    as_of = shipped.accelerators[0]["as_of"]
    alias = {"folded": "m-one", "alias": "M One", "name": "org/m-1", "source": "s", "as_of": as_of}
    profiles = (model("org/m-1", as_of=as_of),)
    first = dataclasses.replace(shipped, model_profiles=profiles, model_aliases=(alias,), measurements=())
    load(loaded, first)
    renamed = dataclasses.replace(
        first,
        model_profiles=(model("Org/M-1", as_of=as_of),),
        model_aliases=({**alias, "name": "Org/M-1"},),
    )
    report = load(loaded, renamed)
    assert report.tables["model_profiles"].updated == 1
    assert look(loaded).resolve_model("m one").name == "Org/M-1"
    with session_scope(loaded) as session:
        assert len(read_all(session, ModelProfileRow)) == len(read_all(session, ModelAliasRow)) == 1


@pytest.mark.parametrize(
    ("table", "match", "values", "field"),
    [
        # A with-sparsity peak: twice what the die can do at that clock.
        ("accelerators", {"sku": "h100-sxm-80gb"}, {"peak_bf16_flop_per_s": 1978.9e12}, "accelerators[h100-sxm-80gb]"),
        ("mig_profiles", {"board": "h100-80gb-sxm5", "profile_id": 9}, {"max_count": 3}, "max_count"),
        ("accelerator_aliases", {"alias": "B300"}, {"folded": "b200"}, "accelerator_aliases[B300]"),
    ],
)
def test_facts_that_contradict_themselves_are_refused_whole(
    loaded: Engine, shipped: ShippedCatalog, table: str, match: dict[str, Any], values: dict[str, Any], field: str
) -> None:
    before = dump(loaded)
    with pytest.raises(InvalidInputError) as caught:
        load(loaded, changed(shipped, table, match, **values))
    assert any(field in violation.field for violation in caught.value.violations)
    assert dump(loaded) == before


def test_a_failure_half_way_leaves_the_catalogue_as_it_was(loaded: Engine, shipped: ShippedCatalog) -> None:
    before = dump(loaded)
    # A price of an accelerator that does not exist is found only by the database, after other rows were written.
    prices = ({**shipped.device_prices[0], "sku": "nothing-1gb"},)
    facts = changed(shipped, "accelerators", {"sku": "l4-24gb"}, idle_power_w=12.0)
    with pytest.raises(Exception, match="FOREIGN KEY"):
        load(loaded, dataclasses.replace(facts, device_prices=prices))
    assert dump(loaded) == before


def test_the_revision_grows_by_one_with_every_change(loaded: Engine) -> None:
    key = {"sku": "l4-24gb", "term": "spot", "market": "typical"}
    with session_scope(loaded) as session:
        first = read_revision(session)
        assert put_row(session, DevicePriceRow, key | {"usd_per_h": 0.5}) == first.number + 1
        assert retire_row(session, DevicePriceRow, key) == first.number + 2
        assert read_revision(session).updated_at > first.updated_at


def test_every_editable_table_is_one_the_loader_writes(shipped: ShippedCatalog) -> None:
    assert {table_of(row).name for row in (MigBoardRow, MigProfileRow, AcceleratorRow)} <= set(TABLES)
