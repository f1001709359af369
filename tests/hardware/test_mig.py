from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.errors import InvalidInputError, NotFoundError
from capplan.hardware.mig import MigBoard, check_board, driver_branch, validate_board
from tests.hardware.boards import DOUBLE, MEDIA, a30, profile, rtx_pro_6000, seven_slice


def board_of(*profiles, grid: int = 8, compute: int = 7) -> MigBoard:
    return MigBoard("test-board", "Test", grid, compute, profiles, "measured")


@pytest.mark.parametrize("board", [seven_slice(DOUBLE, MEDIA), a30(media=True), rtx_pro_6000(variants=True)])
def test_published_tables_are_sound(board):
    assert validate_board(board) is board


@pytest.mark.parametrize(
    ("board", "fault"),
    [
        (board_of(profile(14, "2g", 2, 2, (0, 7), 1)), "start 7 with 2 units leaves the grid"),
        (board_of(profile(14, "2g", 2, 2, (-2,), 1)), "start -2"),
        (board_of(profile(14, "2g", 2, 2, (0, 0, 2), 2)), "a start is listed twice"),
        # 2g never starts at 6, so four of them never fit although 4 x 2 = 8 units exist.
        (board_of(profile(14, "2g", 2, 2, (0, 2, 4), 4)), "4 instances, but the starts allow 3 at most"),
        # Overlapping starts: of 0-4 and 2-6 only one pair is disjoint.
        (board_of(profile(9, "3g", 3, 4, (0, 2, 4), 3)), "3 instances, but the starts allow 2 at most"),
        (board_of(profile(9, "3g", 3, 4, (0,), 0)), "0 is not positive"),
        (board_of(profile(9, "3g", 9, 4, (0,), 1)), r"9 is outside 1\.\.7"),
        (board_of(profile(9, "3g", 3, 9, (0,), 1)), r"9 is outside 1\.\.8"),
        (board_of(profile(9, "3g", 3, 0, (0,), 1)), r"0 is outside 1\.\.8"),
        (board_of(profile(9, "3g", 3, 4, (0,), 1), profile(9, "4g", 4, 4, (0,), 1)), "id 9 is listed 2 times"),
        (board_of(profile(9, "3g", 3, 4, (0,), 1, mib=0)), "0 is not positive"),
        (board_of(profile(9, "3g", 3, 4, (0,), 1, sm=-1)), "-1 is not positive"),
        (board_of(), "no profile"),
        (board_of(profile(9, "3g", 3, 4, (0,), 1), grid=0), "grid_units"),
        (board_of(profile(9, "3g", 3, 4, (0,), 1), compute=0), "compute_slices"),
    ],
)
def test_unsound_table_is_refused(board, fault):
    with pytest.raises(InvalidInputError, match=fault):
        validate_board(board)


def test_every_fault_is_named_at_once():
    board = board_of(profile(14, "2g", 2, 2, (0, 7), 1), profile(9, "3g", 3, 4, (0,), 2))
    fields = [violation.field for violation in check_board(board)]
    assert fields == [
        "mig_boards[test-board].profiles[14 2g].starts",
        "mig_boards[test-board].profiles[9 3g].max_count",
    ]


def test_simulated_table_with_a_3g_of_three_units_has_only_legal_starts_to_betray_it():
    # A popular mock gives 3g a size of 3. The table is consistent in itself, so only a measured table can refute it.
    assert not check_board(board_of(profile(9, "3g", 3, 3, (0, 4), 2)))


def test_profiles_are_found_by_id_since_names_repeat():
    # 1g.24gb is id 14 here, 19 on early GB200 and 15 on H100 NVL.
    assert rtx_pro_6000().profile(14).name == "1g.24gb"
    with pytest.raises(NotFoundError, match=r"no MIG profile of rtx-pro-6000-96gb named '19'"):
        rtx_pro_6000().profile(19)


def test_media_budget_is_what_the_whole_gpu_lists():
    assert rtx_pro_6000().media_engine_budget == (("decoder", 4), ("encoder", 4), ("jpeg", 4), ("optical_flow", 1))
    assert seven_slice(board="h100-80gb-sxm5").media_engine_budget is None  # its test table lists no engines
    partly = replace(a30(), profiles=(*a30().profiles[1:], replace(a30().profiles[0], media_engines=())))
    assert partly.media_engine_budget is None


@pytest.mark.parametrize(
    ("board", "reset"), [("a100-40gb", True), ("a30-24gb", True), ("h100-80gb-sxm5", False), ("b200-180gb", False)]
)
def test_only_ampere_needs_a_reset_to_switch_mode(board, reset):
    assert replace(seven_slice(), board=board).needs_reset_to_toggle == reset


@pytest.mark.parametrize(
    ("text", "branch"), [("R525", 525), ("525", 525), ("525.60.13", 525), ("R570.86", 570), (" 1000 ", 1000)]
)
def test_driver_branch_is_read_from_any_spelling(text, branch):
    assert driver_branch(text) == branch


@pytest.mark.parametrize("text", ["", "latest", "R5", "525-server", "v525", "-525"])
def test_what_is_no_driver_branch_is_refused(text):
    with pytest.raises(InvalidInputError, match="write R570"):
        driver_branch(text)
