"""Shipped MIG tables, against published `nvidia-smi mig -lgip` and `-lgipp` listings retyped here."""

from __future__ import annotations

import pytest

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.hardware.mig import MigBoard, check_board
from capplan.hardware.mig_geometry import maximal_layouts

MIB = 1 << 20

SEVEN_SLICE_BOARDS = (
    "a100-40gb",
    "a100-80gb",
    "b200-180gb",
    "b300-269gb",
    "gb200-186gb",
    "gb300-278gb",
    "gh200-144gb",
    "gh200-96gb",
    "h100-80gb-pcie",
    "h100-80gb-sxm5",
    "h100-94gb",
    "h20-141gb",
    "h20-96gb",
    "h200-141gb",
)


def tables(snapshot: CatalogSnapshot, board: str) -> MigBoard:
    found = snapshot.mig_boards[board].tables
    assert found is not None
    return found


def test_all_twenty_boards_are_there(snapshot: CatalogSnapshot) -> None:
    assert len(snapshot.mig_boards) == 20


@pytest.mark.parametrize("board", SEVEN_SLICE_BOARDS)
def test_the_seven_slice_family_shares_one_start_table(snapshot: CatalogSnapshot, board: str) -> None:
    # id, compute slices, memory units, starts, most instances: the -lgipp listings of A100, H100 and B200.
    assert [
        (profile.profile_id, profile.compute_slices, profile.memory_slices, profile.starts, profile.max_count)
        for profile in tables(snapshot, board).profiles
    ] == [
        (0, 7, 8, (0,), 1),
        (5, 4, 4, (0,), 1),
        (9, 3, 4, (0, 4), 2),
        (14, 2, 2, (0, 2, 4), 3),
        (15, 1, 2, (0, 2, 4, 6), 4),
        (19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
        (20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    ]


def test_a30_has_four_slices_on_four_units(snapshot: CatalogSnapshot) -> None:
    board = tables(snapshot, "a30-24gb")
    assert (board.grid_units, board.compute_slices) == (4, 4)
    assert {profile.profile_id: profile.starts for profile in board.profiles} == {
        0: (0,),
        5: (0, 2),
        6: (0, 2),
        14: (0, 1, 2, 3),
        21: (0, 1, 2, 3),
    }


def test_rtx_pro_6000_has_four_slices_on_twelve_units(snapshot: CatalogSnapshot) -> None:
    board = tables(snapshot, "rtx-pro-6000-96gb")
    assert (board.grid_units, board.compute_slices) == (12, 4)
    by_size = {(profile.compute_slices, profile.memory_slices, profile.starts) for profile in board.profiles}
    assert by_size == {(1, 3, (0, 3, 6, 9)), (2, 6, (0, 6)), (4, 12, (0,))}
    extensions = {profile.profile_id: profile.media_extension for profile in board.profiles}
    assert extensions == {14: None, 21: "me", 47: "gfx", 65: "me.all", 67: "-me"} | {
        5: None,
        35: "gfx",
        64: "me.all",
        66: "-me",
    } | {0: None, 32: "gfx"}


# Usable MiB by profile id: -lgip listings.
@pytest.mark.parametrize(
    ("board", "usable_mib"),
    [
        ("a100-40gb", {19: 4864, 15: 9984, 14: 9984, 9: 20096, 5: 20096, 0: 40320}),
        ("a100-80gb", {19: 9728, 15: 19968, 14: 19968, 9: 40192, 5: 40192, 0: 80384}),
        ("h100-80gb-sxm5", {19: 9984, 15: 20096, 14: 20096, 9: 40448, 5: 40448, 0: 81152}),
        ("h100-94gb", {19: 11008, 15: 22144, 14: 22144, 9: 47488, 5: 47488, 0: 95360}),
        ("gh200-96gb", {19: 11264, 15: 23552, 14: 23552, 9: 47616, 5: 47616, 0: 95232}),
        ("h200-141gb", {19: 16384, 15: 33024, 14: 33024, 9: 71168, 5: 71168, 0: 143104}),
        ("b200-180gb", {19: 20992, 15: 45312, 14: 45312, 9: 91136, 5: 91136, 0: 182784}),
        ("gb200-186gb", {19: 22528, 15: 46592, 14: 46592, 9: None, 5: None, 0: None}),
        ("b300-269gb", {19: None, 15: None, 14: None, 9: None, 5: None, 0: None}),
        ("a30-24gb", {14: 5952, 5: 11968, 0: 24000}),
        ("rtx-pro-6000-96gb", {14: 24192, 5: 48512, 0: 97408}),
    ],
)
def test_usable_memory(snapshot: CatalogSnapshot, board: str, usable_mib: dict[int, int | None]) -> None:
    for profile_id, mib in usable_mib.items():
        expected = None if mib is None else mib * MIB
        assert tables(snapshot, board).profile(profile_id).memory_bytes == expected


# SM of 1g, 1g with double memory, 2g, 3g, 4g, 7g: -lgip listings.
@pytest.mark.parametrize(
    ("board", "sm_counts"),
    [
        ("a100-80gb", (14, 14, 28, 42, 56, 98)),
        ("h100-80gb-sxm5", (16, 26, 32, 60, 64, 132)),
        ("h100-80gb-pcie", (14, 14, 30, 46, 62, 114)),
        ("b200-180gb", (18, 30, 36, 70, 72, 148)),
    ],
)
def test_sm_counts_are_no_multiples_of_the_smallest(
    snapshot: CatalogSnapshot, board: str, sm_counts: tuple[int, ...]
) -> None:
    found = tables(snapshot, board)
    assert tuple(found.profile(profile_id).sm_count for profile_id in (19, 15, 14, 9, 5, 0)) == sm_counts


def test_one_name_is_three_profiles_on_three_boards(snapshot: CatalogSnapshot) -> None:
    def profiles(board: str) -> list[tuple[int, int, int, int]]:
        return [
            (profile.profile_id, profile.max_count, profile.memory_slices, tables(snapshot, board).grid_units)
            for profile in tables(snapshot, board).profiles
            if profile.name == "1g.24gb"
        ]

    assert profiles("h100-94gb") == [(15, 4, 2, 8)]
    assert profiles("rtx-pro-6000-96gb") == [(14, 4, 3, 12)]
    # Early GB200 firmware called id 19 so; current firmware says 1g.23gb.
    assert profiles("gb200-186gb") == []
    assert tables(snapshot, "gb200-186gb").profile(19).name == "1g.23gb"


@pytest.mark.parametrize(
    ("board", "profile_id", "branch"),
    [
        ("a100-40gb", 19, "R450"),  # MIG itself
        ("a100-40gb", 20, "R470"),  # media extension
        ("a100-40gb", 15, "R525"),  # double memory
        ("a100-40gb", 5, "R450"),  # R510 is for 4g and 3g together, not for 4g alone
        ("a30-24gb", 14, "R460"),
        ("a30-24gb", 21, "R470"),
        ("a30-24gb", 6, "R525"),
        ("h100-80gb-sxm5", 15, "R525"),
        ("h200-141gb", 19, "R550"),
        ("b200-180gb", 19, "R570"),
        ("rtx-pro-6000-96gb", 14, "R575"),
        ("b300-269gb", 19, "R580"),
        ("gh200-96gb", 19, None),
    ],
)
def test_a_profile_needs_the_later_of_its_own_and_its_boards_driver(
    snapshot: CatalogSnapshot, board: str, profile_id: int, branch: str | None
) -> None:
    assert tables(snapshot, board).profile(profile_id).min_driver == branch


def test_media_engines_are_known_whole_or_not_at_all(snapshot: CatalogSnapshot) -> None:
    assert dict(tables(snapshot, "b200-180gb").profile(9).media_engines) == {
        "decoder": 3,
        "encoder": 0,
        "jpeg": 3,
        "optical_flow": 0,
    }
    # H20 has no encoder, but how many decoders was never published.
    assert tables(snapshot, "h20-96gb").profile(9).media_engines == ()


def test_boards_without_published_placements_are_listed_but_place_nothing(snapshot: CatalogSnapshot) -> None:
    bare = {board for board, record in snapshot.mig_boards.items() if record.tables is None}
    assert bare == {"rtx-pro-5000-48gb", "rtx-pro-4500-32gb", "thor-igpu"}
    station = snapshot.mig_boards["gb300-dgx-station"]
    assert station.confidence == "unverified"
    assert station.tables is not None
    assert all(profile.starts == () for profile in station.tables.profiles)
    assert station.tables.profile(5).name == "4g.126gb"


def test_every_table_is_sound_and_ranked_by_its_least_certain_profile(snapshot: CatalogSnapshot) -> None:
    order = ["measured", "partly-measured", "names-documented", "unverified"]
    for record in snapshot.mig_boards.values():
        if record.tables is not None:
            assert check_board(record.tables) == ()
            worst = max(order.index(profile.confidence) for profile in record.tables.profiles)
            assert record.confidence == record.tables.confidence == order[worst]


@pytest.mark.parametrize(("board", "count"), [("h100-80gb-sxm5", 239), ("a30-24gb", 17), ("rtx-pro-6000-96gb", 302)])
def test_the_tables_give_the_known_number_of_maximal_layouts(snapshot: CatalogSnapshot, board: str, count: int) -> None:
    # Counted by brute force over start tables: 7-slice with double memory and one +me; A30 with +me; RTX PRO 6000 with
    # every variant under its budget of four decoders, encoders and JPEG engines and one optical-flow engine.
    assert len(maximal_layouts(tables(snapshot, board))) == count
