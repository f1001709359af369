"""An operator's changes: what is accepted, and what each refusal names."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest
from sqlalchemy import Engine

from capplan.catalog.editing import put_mig_profile, put_row, retire_row
from capplan.catalog.repository import read_revision
from capplan.catalog.snapshot import load_snapshot
from capplan.catalog.tables import AcceleratorAliasRow, AcceleratorRow, DevicePriceRow, MigProfileRow
from capplan.database import session_scope
from capplan.errors import InvalidInputError, NotFoundError

NEW: dict[str, Any] = {
    "sku": "x900-128gb",
    "vendor": "nvidia",
    "product_name": "X900",
    "architecture": "x",
    "release_year": 2027,
    "memory_bytes": 128 << 30,
    "memory_basis": "vendor",
    "memory_technology": "HBM4",
    "memory_bandwidth_bytes_per_s": 13e12,
    "sparsity_multiplier": 1.0,
    "interconnect": "pcie",
    "link_domain_size": 1,
    "form_factor": "PCIe",
    "confidence": "low",
    "source": "a rumour",
    "as_of": datetime.date(2026, 11, 30),
}


def test_a_new_accelerator_is_in_the_next_snapshot(loaded: Engine) -> None:
    with session_scope(loaded) as session:
        put_row(session, AcceleratorRow, NEW)
        found = load_snapshot(session).resolve_accelerator("X900 128GB")
    assert (found.sku, found.memory_bytes, dict(found.peak_flop_per_s)) == ("x900-128gb", 128 << 30, {})


def test_a_deleted_accelerator_can_be_put_back(loaded: Engine) -> None:
    with session_scope(loaded) as session:
        put_row(session, AcceleratorRow, NEW)
        retire_row(session, AcceleratorRow, {"sku": NEW["sku"]})
        assert NEW["sku"] not in load_snapshot(session).accelerators
        put_row(session, AcceleratorRow, NEW)
        assert NEW["sku"] in load_snapshot(session).accelerators


@pytest.mark.parametrize(
    ("wrong", "field", "says"),
    [
        ({"memory_bytes": 128}, "memory_bytes", "BETWEEN 1000000000"),
        ({"vendor": "nvida"}, "vendor", "'nvidia'"),
        ({"idle_power_w": 90.0, "board_power_w": 80.0}, "board_power_w", "idle_power_w < board_power_w"),
        ({"memory_gb": 128}, "memory_gb", "memory_bytes"),
        ({"edited": False}, "edited", "no such column"),
        ({"memory_bandwidth_bytes_per_s": math.nan}, "memory_bandwidth_bytes_per_s", "finite"),
        ({"link_bytes_per_s": math.inf}, "link_bytes_per_s", "finite"),
        ({"product_name": "X" * 129}, "product_name", "at most 128"),
        ({"vendor": None}, "vendor", "must have a value"),
        ({"mig_board": "no-such-board"}, "accelerators", "mig_board (mig_boards)"),
        ({"sku": None}, "sku", "key"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_refusal_names_the_column_and_the_rule(loaded: Engine, wrong: dict[str, Any], field: str, says: str) -> None:
    with session_scope(loaded) as session:
        before = read_revision(session).number
        with pytest.raises(InvalidInputError) as caught:
            put_row(session, AcceleratorRow, NEW | wrong)
        assert [violation.field for violation in caught.value.violations] == [field]
        assert says in caught.value.violations[0].description
        # The transaction goes on, and nothing of the refused row is in it.
        assert read_revision(session).number == before
        put_row(session, AcceleratorRow, NEW)


def test_a_missing_column_of_a_new_row_is_named(loaded: Engine) -> None:
    incomplete = {name: value for name, value in NEW.items() if name != "architecture"}
    with session_scope(loaded) as session, pytest.raises(InvalidInputError, match="architecture: must have a value"):
        put_row(session, AcceleratorRow, incomplete)


def test_a_taken_profile_name_is_named(loaded: Engine) -> None:
    with (
        session_scope(loaded) as session,
        pytest.raises(InvalidInputError, match="another row has the same board, name"),
    ):
        put_row(session, MigProfileRow, {"board": "a30-24gb", "profile_id": 5, "name": "1g.6gb"})


def test_a_start_that_leaves_the_grid_is_refused_and_the_old_table_stays(loaded: Engine) -> None:
    with session_scope(loaded) as session:
        with pytest.raises(InvalidInputError, match="start \\+ memory_slices <= grid_units"):
            put_mig_profile(session, {"board": "h100-80gb-sxm5", "profile_id": 9}, [0, 5])
        board = load_snapshot(session).mig_boards["h100-80gb-sxm5"].tables
        assert board is not None
        assert board.profile(9).starts == (0, 4)


def test_what_is_not_there_cannot_be_deleted(loaded: Engine) -> None:
    key = {"sku": "h20-96gb", "term": "spot", "market": "typical"}
    with session_scope(loaded) as session, pytest.raises(NotFoundError, match="h20-96gb/spot/typical"):
        retire_row(session, DevicePriceRow, key)
    with session_scope(loaded) as session:
        retire_row(session, AcceleratorAliasRow, {"folded": "b200"})
        with pytest.raises(NotFoundError):
            retire_row(session, AcceleratorAliasRow, {"folded": "b200"})
