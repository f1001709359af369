from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capplan.planning.mig_layout as mig_layout
from capplan.errors import InvalidInputError, NotFoundError
from capplan.hardware.mig import MigBoard, MigInstance
from capplan.hardware.mig_geometry import legal_starts
from capplan.planning.mig_layout import (
    MigPlan,
    instances_per_gpu,
    lay_out,
    lay_out_mixed,
    resource_name_mixed,
)
from capplan.units import MIB
from tests.hardware.boards import DOUBLE, MEDIA, a30, profile, rtx_pro_6000, seven_slice

A100 = seven_slice(DOUBLE, MEDIA)
H100 = seven_slice(DOUBLE, board="h100-80gb-sxm5")
BOARDS = (A100, H100, a30(media=True), rtx_pro_6000(variants=True))


def starts(plan: MigPlan) -> list[tuple[int, list[tuple[str, int]]]]:
    return [(g.gpu_count, [(i.profile.name, i.start) for i in g.instances]) for g in plan.layouts]


def test_seven_small_slices_fill_a_gpu_and_the_eighth_starts_another():
    plan = lay_out(H100, H100.profile(19), 8)
    assert starts(plan) == [
        (1, [("1g.10gb", start) for start in (6, 5, 4, 3, 2, 1, 0)]),
        (1, [("1g.10gb", 6)]),
    ]
    assert (plan.gpu_count, plan.instance_count) == (2, 8)


def test_identical_gpus_are_one_entry_however_many():
    plan = lay_out(H100, H100.profile(14), 10_000)
    # 3 to a GPU: 3,333 full ones and one with a single instance.
    assert [g.gpu_count for g in plan.layouts] == [3333, 1]
    assert (plan.gpu_count, plan.instance_count) == (3334, 10_000)
    assert plan.slices[0].count == 10_000


def test_leftover_of_the_last_gpu_is_named_with_counts():
    # One 3g at 4: units 0-3 are left, for a 4g, a second 3g, two 2g, two double-memory or four plain 1g.
    (layout,) = lay_out(H100, H100.profile(9), 1).layouts
    assert [(i.profile.name, i.start) for i in layout.instances] == [("3g.40gb", 4)]
    assert {str(item) for item in layout.leftover} == {
        "1g.10gb x 4",
        "1g.20gb x 2",
        "2g.20gb x 2",
        "3g.40gb x 1",
        "4g.40gb x 1",
    }


def test_full_gpu_has_no_leftover():
    assert lay_out(H100, H100.profile(0), 2).layouts[0].leftover == ()
    assert lay_out(H100, H100.profile(19), 7).layouts[0].leftover == ()


@pytest.mark.parametrize(
    ("board", "profile_id", "per_gpu"),
    [
        *((A100, 19, 7), (A100, 20, 1), (A100, 15, 4), (A100, 14, 3), (A100, 9, 2), (A100, 5, 1), (A100, 0, 1)),
        *((a30(), 14, 4), (a30(), 5, 2), (rtx_pro_6000(variants=True), 65, 1), (rtx_pro_6000(variants=True), 67, 4)),
    ],
)
def test_instances_per_gpu_are_the_published_maximums(board, profile_id, per_gpu):
    assert instances_per_gpu(board, board.profile(profile_id)) == per_gpu


def test_mixed_layout_is_created_largest_first_with_explicit_starts():
    plan = lay_out_mixed(H100, {19: 2, 14: 1, 9: 1}, 4)
    assert starts(plan) == [(4, [("3g.40gb", 4), ("2g.20gb", 2), ("1g.10gb", 1), ("1g.10gb", 0)])]
    assert [(g.profile.name, g.count) for g in plan.slices] == [("3g.40gb", 4), ("2g.20gb", 4), ("1g.10gb", 8)]


@pytest.mark.parametrize(
    ("board", "profile_id", "resource"),
    [
        (H100, 19, "nvidia.com/mig-1g.10gb"),
        (A100, 20, "nvidia.com/mig-1g.10gb.me"),
        (rtx_pro_6000(variants=True), 65, "nvidia.com/mig-1g.24gb.me.all"),
        (rtx_pro_6000(variants=True), 67, "nvidia.com/mig-1g.24gb-me"),
    ],
)
def test_resource_names_write_a_plus_as_a_dot(board, profile_id, resource):
    assert resource_name_mixed(board.profile(profile_id)) == resource
    plan = lay_out(board, board.profile(profile_id), 1)
    assert plan.slices[0].resource_name_mixed == resource
    assert plan.resource_name_single == "nvidia.com/gpu"


def test_single_strategy_does_not_serve_a_mixture():
    assert lay_out_mixed(H100, {9: 1, 19: 1}).resource_name_single is None


@pytest.mark.parametrize(("board", "reset"), [(A100, True), (a30(), True), (H100, False), (rtx_pro_6000(), False)])
def test_every_gpu_must_be_idle_and_only_ampere_reset(board, reset):
    plan = lay_out(board, board.profiles[0], 1)
    assert plan.needs_idle
    assert plan.needs_reset == reset


def test_usable_bytes_are_the_drivers_not_the_labels():
    # 1g.10gb of an A100 80 GB: 9728 MiB, not 10 GB.
    assert lay_out(A100, A100.profile(19), 3).slices[0].usable_bytes == 9728 * MIB
    assert lay_out(A100, A100.profile(19), 3).confidence == "measured"


@pytest.mark.parametrize(
    ("counts", "driver"), [({19: 7}, None), ({20: 1}, "R470"), ({15: 1, 20: 1}, "R525"), ({5: 1, 9: 1}, "R510")]
)
def test_lowest_driver_is_that_of_what_is_laid_out(counts, driver):
    assert lay_out_mixed(A100, counts).min_driver == driver


def test_driver_too_old_for_the_layout_is_refused():
    with pytest.raises(InvalidInputError, match=r"1g\.20gb on A100 80GB needs driver R525 or later"):
        lay_out(A100, A100.profile(15), 1, driver_branch=510)
    with pytest.raises(InvalidInputError, match=r"cannot hold 4g\.40gb x 1, 3g\.40gb x 1"):
        lay_out_mixed(A100, {5: 1, 9: 1}, driver_branch=470)


def test_double_memory_slice_says_what_its_sm_count_holds_for():
    (note,) = [n for n in lay_out(H100, H100.profile(15), 1).notes if "26 SM" in n]
    assert "16" in note
    # On A100 both profiles have 14 SM: nothing to say.
    assert not [n for n in lay_out(A100, A100.profile(15), 1).notes if "SM" in n]


@pytest.mark.parametrize("count", [0, -1])
def test_no_instance_is_refused(count):
    with pytest.raises(InvalidInputError, match="at least 1"):
        lay_out(H100, H100.profile(19), count)


def test_mixture_that_does_not_fit_is_refused_by_name():
    with pytest.raises(InvalidInputError, match=r"one H100 80GB SXM5 cannot hold 3g\.40gb x 2, 1g\.10gb x 1"):
        lay_out_mixed(H100, {9: 2, 19: 1})
    with pytest.raises(InvalidInputError, match="no instance"):
        lay_out_mixed(H100, {9: 0})
    with pytest.raises(InvalidInputError, match="at least 1"):
        lay_out_mixed(H100, {9: 1}, 0)


def test_profile_of_another_board_is_refused():
    with pytest.raises(NotFoundError):
        lay_out(H100, rtx_pro_6000(variants=True).profile(47), 1)


def test_board_without_published_starts_is_refused():
    unknown = MigBoard("gb300-dgx-station", "GB300", 8, 7, (profile(19, "1g.31gb", 1, 1, (), 7),), "unverified")
    with pytest.raises(InvalidInputError, match="no start table"):
        lay_out(unknown, unknown.profile(19), 1)


def test_illegal_layout_never_leaves(monkeypatch):
    mig_layout._one_gpu.cache_clear()
    wrong = (MigInstance(H100.profile(14), 4), MigInstance(H100.profile(14), 4))
    monkeypatch.setattr(mig_layout, "lay_out_gpu", lambda *_: wrong)
    with pytest.raises(RuntimeError, match="cannot be created"):
        lay_out(H100, H100.profile(14), 2)


@given(st.data(), st.sampled_from(BOARDS), st.integers(1, 100))
@settings(deadline=None)
def test_plan_holds_what_was_asked_on_the_fewest_gpus(data, board, count):
    chosen = data.draw(st.sampled_from(board.profiles))
    plan = lay_out(board, chosen, count)
    assert plan.instance_count == sum(g.gpu_count * len(g.instances) for g in plan.layouts) == count
    per_gpu = instances_per_gpu(board, chosen)
    assert plan.gpu_count == -(-count // per_gpu)
    for layout in plan.layouts:
        for index, instance in enumerate(layout.instances):
            free = legal_starts(board, chosen.profile_id, layout.instances[:index])
            assert instance.start == max(free)
        fitting = {p.profile_id for p in board.profiles if legal_starts(board, p.profile_id, layout.instances)}
        assert {item.profile.profile_id for item in layout.leftover} == fitting


def test_measured_start_table_overrides_the_shipped_one():
    # A vendor note on one GB300 desktop reports only three 1g creatable: the same id with fewer starts is planned so.
    measured = replace(H100, profiles=(replace(H100.profile(19), starts=(0, 2, 4), max_count=3),))
    assert [g.gpu_count for g in lay_out(measured, measured.profile(19), 7).layouts] == [2, 1]
