from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capplan.cli.views.mig import creation_order, draw
from tests.cli.answers import instance


@st.composite
def gpus(draw_from):
    """A grid cut into pieces that do not overlap, some of them instances, in any order of creation."""
    units = draw_from(st.integers(1, 16))
    instances, at = [], 0
    while at < units:
        size = draw_from(st.integers(1, units - at))
        if draw_from(st.booleans()):
            name = draw_from(st.sampled_from(["1g.5gb", "1g.10gb+me", "3g.40gb", "1g.24gb+me.all", "7g.269gb"]))
            instances.append(instance(name, draw_from(st.integers(0, 99)), at, size, used=draw_from(st.booleans())))
        at += size
    return units, draw_from(st.permutations(instances))


def test_three_small_slices_and_a_spare_half():
    gpu = [
        instance("1g.10gb", 19, 0, 1),
        instance("1g.10gb", 19, 1, 1),
        instance("1g.10gb", 19, 2, 1),
        instance("3g.40gb", 9, 4, 4, used=False),
    ]
    assert draw(gpu, 8) == [
        "start  0       1       2               4",
        "      |1g.10gb|1g.10gb|1g.10gb|.......|             spare             |",
    ]


def test_the_last_unit_of_seven_slices_stays_visible():
    picture = draw([instance("1g.10gb", 19, start, 1) for start in range(7)], 8)[1]
    assert picture.count("1g.10gb") == 7
    assert picture.endswith("|.......|")


@given(gpus())
def test_a_picture_fits_and_every_instance_stands_under_its_start(gpu):
    units, instances = gpu
    starts, cells = draw(instances, units)
    assert len(starts) <= 80
    assert len(cells) <= 80
    # Between the first and the last bar every unit is equally wide.
    assert (len(cells) - 7) % units == 0
    width = (len(cells) - 7) // units
    for one in instances:
        column = 7 + one.start * width
        assert starts[column:].split()[0] == str(one.start)
        assert cells[column - 1] == "|"
        end = column + one.size * width - 1
        assert cells[end] == "|"
        assert "|" not in cells[column:end]
    assert len(starts.split()) == 1 + len(instances)


@given(gpus())
def test_the_order_of_creation_names_every_start_in_order(gpu):
    _, instances = gpu
    words = creation_order(instances).replace(",", "").replace(";", "").split()
    assert [int(word) for word in words if word.isdecimal()] == [one.start for one in instances]
