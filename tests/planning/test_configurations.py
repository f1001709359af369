"""Ways of using a device: what constraints leave, and that what is remembered is never another device's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.errors import InvalidInputError
from capplan.estimation.engine import EngineChoice
from capplan.planning.configurations import Configurations, Refused
from capplan.planning.query import Constraints, MigPolicy, SupplyItem
from tests.hardware.boards import DOUBLE, seven_slice
from tests.hardware.devices import H100, L4

WITH_MIG = SupplyItem(H100, seven_slice(DOUBLE, board="h100-80gb-sxm5"), None)
WITHOUT = SupplyItem(L4, None, None)


def labels(item: SupplyItem, constraints: Constraints) -> list[str]:
    ways = Configurations(constraints, 8_192).of(item)
    return [
        way.fault.reason
        if isinstance(way, Refused)
        else (way.device.profile.name if way.device.profile else f"TP{way.parallelism.tensor_parallel}")
        for way in ways
    ]


def test_whole_devices_side_by_side_and_every_slice_are_tried() -> None:
    found = labels(WITH_MIG, Constraints())
    assert [label for label in found if label.startswith("TP")] == ["TP1", "TP2", "TP4", "TP8"]
    assert "1g.10gb" in found
    assert "7g.80gb" in found


FORBIDDEN = MigPolicy.FORBIDDEN


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (Constraints(mig=FORBIDDEN, tensor_parallel_sizes=(2,)), ["TP2"]),
        (Constraints(mig_profiles=("1g.10gb",)), ["1g.10gb"]),
        (Constraints(mig_profiles=("9g.90gb",)), ["MIG_PROFILE_NOT_ON_BOARD"]),
        (Constraints(mig=MigPolicy.REQUIRED, tensor_parallel_sizes=(2,)), ["MIG_NEEDS_TENSOR_PARALLEL_1"]),
        (
            Constraints(mig=FORBIDDEN, tensor_parallel_sizes=(1, 4), max_devices=2),
            ["TP1", "TOO_MANY_DEVICES"],
        ),
        (Constraints(mig=FORBIDDEN, tensor_parallel_sizes=(16,)), ["TENSOR_PARALLEL_BEYOND_LINK"]),
    ],
)
def test_constraints_leave_what_they_allow(constraints: Constraints, expected: list[str]) -> None:
    # the same answers whether or not another question was asked in between
    assert labels(WITH_MIG, constraints) == expected
    labels(WITH_MIG, Constraints())
    assert labels(WITH_MIG, constraints) == expected


def test_a_device_without_tables_has_no_slices() -> None:
    assert labels(WITHOUT, Constraints(mig=MigPolicy.REQUIRED)) == ["MIG_NOT_AVAILABLE"]


def test_an_edited_device_under_the_same_name_is_not_taken_for_the_old_one() -> None:
    (before, *_), (after, *_) = (
        Configurations(Constraints(), 8_192).of(SupplyItem(device, None, None))
        for device in (H100, replace(H100, memory_bytes=40 << 30))
    )
    assert not isinstance(before, Refused)
    assert not isinstance(after, Refused)
    assert after.device.memory_bytes < 40 << 30 < before.device.memory_bytes


def test_the_context_matters_to_the_v0_engine_and_to_no_other() -> None:
    def step_tokens(version: str, context: int) -> int:
        way, *_ = Configurations(Constraints(engine=EngineChoice(version=version)), context).of(WITHOUT)
        assert not isinstance(way, Refused)
        return way.settings.max_num_batched_tokens

    assert step_tokens("0.6", 20_000) == 20_000
    assert step_tokens("0.6", 10_000) == 10_000
    assert step_tokens("0.19", 20_000) == step_tokens("0.19", 10_000)


def test_settings_an_engine_refuses_are_refused_each_time() -> None:
    engine = EngineChoice(max_num_batched_tokens=128)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="refuses to start"):
            Configurations(Constraints(engine=engine), 8_192).of(WITHOUT)
