from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import InvalidInputError, NotFoundError
from capplan.hardware.mig import MigBoard, MigInstance
from capplan.hardware.mig_geometry import (
    addable_multisets,
    can_place,
    completions,
    feasible_multisets,
    largest_first,
    lay_out_gpu,
    legal_starts,
    maximal_layouts,
    most_additional,
    occupancy_mask,
    pareto,
    pareto_multisets,
    reachable_states,
)
from tests.hardware import brute_force
from tests.hardware.boards import DOUBLE, MEDIA, a30, profile, rtx_pro_6000, seven_slice, two_halves
from tests.hardware.brute_force import Oracle, exhaust

# Layout counts: 19 maximal layouts are those NVIDIA's MIG user guide draws for A100 (18 in papers that predate driver
# R510); the other numbers were established by exhaustive enumeration outside this project.
ORACLES = {
    "7-slice": (298, 19, 38, 12),
    "7-slice before R510": (297, 18, 37, 11),
    "7-slice with double memory": (723, 78, 78, 28),
    "7-slice with one media": (1089, 67, 64, 20),
    "7-slice with double memory and one media": (2319, 239, 128, 44),
    "A30": (26, 5, 10, 4),
    "A30 with media": (76, 17, 20, 8),
    "RTX PRO 6000": (26, 5, 10, 4),
    "RTX PRO 6000, every variant": (717, 302, 115, 64),
    "two halves": (5, 2, 4, 2),
}

BOARDS = {
    "7-slice": (seven_slice(), None),
    "7-slice before R510": (seven_slice(), 470),
    "7-slice with double memory": (seven_slice(DOUBLE), None),
    "7-slice with one media": (seven_slice(MEDIA), None),
    "7-slice with double memory and one media": (seven_slice(DOUBLE, MEDIA), None),
    "A30": (a30(), None),
    "A30 with media": (a30(media=True), None),
    "RTX PRO 6000": (rtx_pro_6000(), None),
    "RTX PRO 6000, every variant": (rtx_pro_6000(variants=True), None),
    "two halves": (two_halves(), None),
}


@cache
def oracle(name: str) -> Oracle:
    seven, double, media = brute_force.SEVEN_SLICE, brute_force.DOUBLE, brute_force.ONE_MEDIA
    return {
        "7-slice": lambda: exhaust(seven, 8),
        "7-slice before R510": lambda: exhaust(seven, 8, allowed=brute_force.without_four_plus_three),
        "7-slice with double memory": lambda: exhaust({**seven, **double}, 8),
        "7-slice with one media": lambda: exhaust({**seven, **media}, 8),
        "7-slice with double memory and one media": lambda: exhaust({**seven, **double, **media}, 8),
        "A30": lambda: exhaust(brute_force.A30, 4, budget=(1,)),
        "A30 with media": lambda: exhaust({**brute_force.A30, **brute_force.A30_MEDIA}, 4, budget=(1,)),
        "RTX PRO 6000": lambda: exhaust(brute_force.RTX, 12, budget=(4, 4, 4, 1)),
        "RTX PRO 6000, every variant": lambda: exhaust(
            {**brute_force.RTX, **brute_force.RTX_VARIANTS}, 12, (4, 4, 4, 1)
        ),
        "two halves": lambda: exhaust(brute_force.HALVES, 2),
    }[name]()


def size_name(instance: MigInstance) -> str:
    """Oracle's name of a plain or double-memory 7-slice profile."""
    profile = instance.profile
    return f"{profile.compute_slices}g double" if profile.profile_id == 15 else f"{profile.compute_slices}g"


def short(instances: tuple[MigInstance, ...]) -> frozenset[tuple[str, int]]:
    return frozenset((size_name(instance), instance.start) for instance in instances)


@pytest.mark.parametrize("name", ORACLES)
def test_brute_force_gives_the_published_counts(name):
    assert oracle(name).counts == ORACLES[name]


@pytest.mark.parametrize("name", ORACLES)
def test_geometry_gives_the_published_counts(name):
    board, driver = BOARDS[name]
    found = reachable_states(board, driver), maximal_layouts(board, driver)
    sets = feasible_multisets(board, driver), pareto_multisets(board, driver)
    assert tuple(len(answer) for answer in (*found, *sets)) == ORACLES[name]


@pytest.mark.parametrize("name", ["7-slice", "7-slice before R510", "7-slice with double memory"])
def test_geometry_and_brute_force_agree_state_by_state(name):
    board, driver = BOARDS[name]
    assert {short(state) for state in reachable_states(board, driver)} == oracle(name).states
    assert {short(state) for state in maximal_layouts(board, driver)} == oracle(name).maximal


def test_the_nineteen_layouts_of_the_user_guide():
    listed = """
        1@0-6 | 1@0-3,2@4,1@6 | 1@0-3,3@4 | 1@0,1,2@2,1@4-6 | 1@0,1,2@2,2@4,1@6 | 1@0,1,2@2,3@4 | 2@0,1@2-6
        | 2@0,1@2,3,2@4,1@6 | 2@0,1@2,3,3@4 | 2@0,2@2,1@4-6 | 2@0,2@2,2@4,1@6 | 2@0,2@2,3@4 | 3@0,1@4-6
        | 3@0,2@4,1@6 | 3@0,3@4 | 4@0,1@4-6 | 4@0,2@4,1@6 | 4@0,3@4 | 7@0
    """
    expected = set()
    for layout in listed.split("|"):
        instances, slices = set(), 0
        for part in layout.strip().split(","):
            if "@" in part:
                slices, part = int(part.split("@")[0]), part.split("@")[1]
            first, _, last = part.partition("-")
            instances |= {(f"{slices}g", start) for start in range(int(first), int(last or first) + 1)}
        expected.add(frozenset(instances))
    assert len(expected) == 19
    assert {short(layout) for layout in maximal_layouts(seven_slice())} == expected


def test_the_twelve_pareto_sets():
    # 7; 4+3; 4+2+1; 4+1x3; 3+3; 3+2+2; 3+2+1x2; 3+1x4; 2x3+1; 2x2+1x3; 2+1x5; 1x7, as counts of 1g, 2g, 3g, 4g, 7g.
    assert pareto_multisets(seven_slice()) == {
        (0, 0, 0, 0, 1),
        (0, 0, 1, 1, 0),
        (1, 1, 0, 1, 0),
        (3, 0, 0, 1, 0),
        (0, 0, 2, 0, 0),
        (0, 2, 1, 0, 0),
        (2, 1, 1, 0, 0),
        (4, 0, 1, 0, 0),
        (1, 3, 0, 0, 0),
        (3, 2, 0, 0, 0),
        (5, 1, 0, 0, 0),
        (7, 0, 0, 0, 0),
    }


def test_occupied_gpus_have_192_masks_and_705_pareto_completions():
    board = seven_slice(DOUBLE)
    by_mask: dict[int, frozenset[tuple[int, ...]]] = {}
    for state in reachable_states(board):
        addable = pareto(addable_multisets(board, state))
        # What can be added depends on the occupied units alone, not on who occupies them.
        assert by_mask.setdefault(occupancy_mask(state), addable) == addable
    assert len(by_mask) == 192
    assert sum(map(len, by_mask.values())) == 705


@pytest.mark.parametrize(("extra", "accepted", "wrong"), [((), 754, 291), ((DOUBLE,), 2190, 754)])
def test_sums_are_wrong_on_partly_used_gpus_and_the_start_table_never_is(extra, accepted, wrong):
    board = seven_slice(*extra)
    states = oracle("7-slice with double memory" if extra else "7-slice").states
    sum_accepts = sum_errs = 0
    for state in reachable_states(board):
        compute = sum(instance.profile.compute_slices for instance in state)
        memory = sum(instance.profile.memory_slices for instance in state)
        for candidate in board.profiles:
            by_sum = compute + candidate.compute_slices <= 7 and memory + candidate.memory_slices <= 8
            name = size_name(MigInstance(candidate, 0))
            truth = tuple(
                start
                for start in range(8)
                if short(state) | {(name, start)} in states and (name, start) not in short(state)
            )
            assert legal_starts(board, candidate.profile_id, state) == truth
            sum_accepts += by_sum
            sum_errs += by_sum != bool(truth)
    assert (sum_accepts, sum_errs) == (accepted, wrong)


def test_sums_are_right_on_an_empty_gpu():
    board = seven_slice(DOUBLE)
    for size in range(9):
        for wanted in combinations_with_replacement(board.profiles, size):
            counts = Counter(profile.profile_id for profile in wanted)
            by_sum = sum(p.compute_slices for p in wanted) <= 7 and sum(p.memory_slices for p in wanted) <= 8
            assert (lay_out_gpu(board, counts) is not None) == by_sum


def realised(board: MigBoard, order: int, end: int) -> int:
    """How many feasible sets a tool without backtracking realises: largest first (1) or smallest (-1), start at end."""
    done = 0
    for counts in feasible_multisets(board):
        wanted = largest_first(board, {p.profile_id: n for p, n in zip(board.profiles, counts, strict=True)})
        placed: tuple[MigInstance, ...] = ()
        for candidate in wanted[::order]:
            starts = legal_starts(board, candidate.profile_id, placed)
            if not starts:
                break
            placed = (*placed, MigInstance(candidate, starts[end]))
        done += len(placed) == len(wanted)
    return done


@pytest.mark.parametrize(("extra", "sets"), [((), 38), ((DOUBLE,), 78)])
def test_largest_first_at_the_highest_start_realises_every_set(extra, sets):
    assert realised(seven_slice(*extra), 1, -1) == sets


@pytest.mark.parametrize(
    ("extra", "order", "fails"), [((), 1, 3), ((DOUBLE,), 1, 11), ((), -1, 9), ((DOUBLE,), -1, 23)]
)
def test_lowest_start_fails_some_sets_in_either_order(extra, order, fails):
    board = seven_slice(*extra)
    assert realised(board, order, 0) == len(feasible_multisets(board)) - fails


@pytest.mark.parametrize("name", ORACLES)
def test_a_multiset_is_laid_out_exactly_when_it_is_feasible(name):
    board, driver = BOARDS[name]
    for counts in feasible_multisets(board, driver):
        wanted = {p.profile_id: n for p, n in zip(board.profiles, counts, strict=True)}
        laid_out = lay_out_gpu(board, wanted, (), driver)
        assert laid_out is not None
        assert Counter(i.profile.profile_id for i in laid_out) == Counter({k: v for k, v in wanted.items() if v})
        for index, instance in enumerate(laid_out):
            assert instance.start in legal_starts(board, instance.profile.profile_id, laid_out[:index], driver)


@st.composite
def board_and_state(draw):
    name = draw(st.sampled_from(sorted(BOARDS)))
    board, driver = BOARDS[name]
    placed: tuple[MigInstance, ...] = ()
    for _ in range(draw(st.integers(0, 4))):
        options = [
            MigInstance(p, start) for p in board.profiles for start in legal_starts(board, p.profile_id, placed, driver)
        ]
        if not options:
            break
        placed = (*placed, draw(st.sampled_from(options)))
    return board, driver, placed


@given(board_and_state())
@settings(deadline=None, max_examples=150)
def test_completions_fill_the_gpu_and_contain_every_addable_multiset(case):
    board, driver, placed = case
    full = completions(board, placed, driver)
    counted = {tuple(sum(i.profile == p for i in added) for p in board.profiles) for added in full}
    addable = addable_multisets(board, placed, driver)
    assert pareto(addable) <= counted <= addable
    for added in full:
        assert not any(can_place(board, p.profile_id, placed + added, driver) for p in board.profiles)
    for index, p in enumerate(board.profiles):
        assert most_additional(board, p.profile_id, placed, driver) == max(counts[index] for counts in addable)


@given(board_and_state(), st.data())
@settings(deadline=None, max_examples=150)
def test_layout_beside_placed_instances_is_found_exactly_when_one_exists(case, data):
    board, driver, placed = case
    counts = data.draw(st.tuples(*(st.integers(0, min(p.max_count, 3)) for p in board.profiles)))
    wanted = {p.profile_id: n for p, n in zip(board.profiles, counts, strict=True)}
    laid_out = lay_out_gpu(board, wanted, placed, driver)
    assert (laid_out is not None) == (counts in addable_multisets(board, placed, driver))
    if laid_out is not None:
        masks = [instance.mask for instance in placed + laid_out]
        assert sum(masks) == occupancy_mask(placed + laid_out)  # no unit is taken twice


def place(board: MigBoard, *placements: tuple[int, int]) -> tuple[MigInstance, ...]:
    return tuple(MigInstance(board.profile(profile_id), start) for profile_id, start in placements)


def test_partly_used_h100_admits_what_its_starts_admit():
    # kubernetes-sigs/dra-driver-nvidia-gpu issue 933: 1g@0, 1g@1, 1g@5 occupied, 4 compute and 5 memory units free.
    board = seven_slice(DOUBLE, board="h100-80gb-sxm5")
    used = place(board, (19, 0), (19, 1), (19, 5))
    assert legal_starts(board, 9, used) == ()
    assert legal_starts(board, 5, used) == ()
    assert legal_starts(board, 14, used) == (2,)
    assert legal_starts(board, 15, used) == (2, 6)


def test_grid_of_twelve_is_aligned():
    # Half of the memory is free, but no half of the grid.
    board = rtx_pro_6000()
    assert not can_place(board, 5, place(board, (14, 3), (14, 9)))


def test_two_3g_leave_no_room_for_a_1g():
    # Simulated tables that give 3g a size of 3 accept this; boards do not.
    board = seven_slice(board="h100-80gb-sxm5")
    assert lay_out_gpu(board, {9: 2, 19: 1}) is None


def test_4g_comes_first_because_it_has_one_start():
    board = seven_slice()
    laid_out = lay_out_gpu(board, {19: 1, 14: 1, 5: 1})
    assert laid_out is not None
    assert [(i.profile.name, i.start) for i in laid_out] == [("4g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6)]


@pytest.mark.parametrize(("driver", "feasible"), [(None, True), (510, True), (509, False), (470, False)])
def test_4g_with_3g_needs_driver_r510(driver, feasible):
    # mig-parted issue 100.
    board = seven_slice()
    assert (lay_out_gpu(board, {5: 1, 9: 1}, (), driver) is not None) == feasible
    assert can_place(board, 9, place(board, (5, 0)), driver) == feasible
    assert can_place(board, 5, place(board, (9, 4)), driver) == feasible


@pytest.mark.parametrize(("profile_id", "first"), [(15, 525), (20, 470)])
def test_profiles_appear_with_their_driver(profile_id, first):
    board = seven_slice(DOUBLE, MEDIA)
    assert not can_place(board, profile_id, (), first - 1)
    assert can_place(board, profile_id, (), first)


def test_all_media_engines_in_one_instance_leave_only_siblings_without():
    board = rtx_pro_6000(variants=True)
    used = place(board, (65, 0))
    fitting = {p.name for p in board.profiles if can_place(board, p.profile_id, used)}
    assert fitting == {"1g.24gb-me", "2g.48gb-me"}


def test_a_second_media_instance_does_not_fit():
    board = a30(media=True)
    assert not can_place(board, 6, place(board, (21, 0)))


def test_count_limit_holds_where_engines_are_unknown():
    # B300's media engines were not published; its +me profile is still limited to one.
    board = MigBoard("b300", "B300", 8, 7, (profile(20, "1g.34gb+me", 1, 1, tuple(range(7)), 1),), "named")
    assert len(reachable_states(board)) == 8
    assert most_additional(board, 20) == 1
    assert lay_out_gpu(board, {20: 2}) is None


def test_illegal_state_is_refused_by_name():
    board = seven_slice()
    with pytest.raises(InvalidInputError, match=r"2g\.20gb .*cannot start at 6.*legal starts: \[0, 2, 4\]"):
        legal_starts(board, 19, place(board, (14, 6)))
    with pytest.raises(InvalidInputError, match="overlaps"):
        legal_starts(board, 19, place(board, (9, 0), (14, 2)))


def test_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(NotFoundError, match=r"19 \(1g\.10gb\)"):
        can_place(seven_slice(), 99)
    with pytest.raises(NotFoundError):
        lay_out_gpu(seven_slice(), {99: 1})


def test_equal_tables_are_one_board_whatever_object_holds_them():
    # A catalogue that is read again yields equal boards, not the same ones.
    for _ in range(2):
        board = rtx_pro_6000()
        assert lay_out_gpu(board, {14: 1}) == (MigInstance(board.profile(14), 9),)


def test_negative_count_is_refused():
    with pytest.raises(InvalidInputError, match="negative"):
        lay_out_gpu(seven_slice(), {19: -1})


def test_more_instances_than_units_do_not_fit():
    assert lay_out_gpu(seven_slice(), {19: 10**15}) is None


def test_board_without_published_starts_is_refused():
    unknown = MigBoard("gb300-dgx-station", "GB300", 8, 7, (profile(19, "1g.31gb", 1, 1, (), 7),), "unverified")
    with pytest.raises(InvalidInputError, match=r"no start table was published for 1g\.31gb"):
        reachable_states(unknown)
