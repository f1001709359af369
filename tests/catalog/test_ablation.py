"""What is taken away has no effect any more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capplan.catalog.ablation import (
    PARTS,
    Part,
    all_experts_read,
    straight_all_reduces,
    tokens_without_prompts,
)
from capplan.estimation.calibration import calibrate
from capplan.estimation.coefficients import BY_NAME, Coefficients
from capplan.estimation.observation import Observation, batches, observe, predict, settle
from capplan.hardware.collectives import all_reduce_s
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from tests.estimation.configs import DEEPSEEK_R1, QWEN3_30B_A3B
from tests.estimation.measurements import MODELS, measurement
from tests.hardware.devices import H100, H200

EXPERTS = model_costs(read_config(QWEN3_30B_A3B), "bf16")
LATENT = model_costs(read_config(DEEPSEEK_R1), "fp8")
NEAR_NO_EFFECT = 1e-4


def row(model=MODELS["llama-8b", "bf16"], devices=1, **fields) -> Observation:
    """A row on one replica of ``devices`` ranks."""
    found = observe(measurement(tensor_parallel=devices, **fields), model, H100)
    assert isinstance(found, Observation)
    return found


def varied() -> list[Observation]:
    """Rows of dense and sparse models on one and four devices at several loads, some with expert parallelism."""
    rows = [
        row(model, devices, concurrency=concurrency, metric=metric)
        for model in (MODELS["llama-8b", "bf16"], EXPERTS)
        for devices in (1, 4)
        for concurrency in (1.0, 4.0, 16.0, 64.0)
        for metric in ("tpot_ms", "ttft_ms")
    ]
    dealt = observe(replace(measurement(tensor_parallel=4, concurrency=32.0), expert_parallel=4), EXPERTS, H100)
    # latent attention multiplies far more for each byte of its cache than others
    latent = observe(replace(measurement(tensor_parallel=8, concurrency=64.0), input_tokens=64_000.0), LATENT, H200)
    assert isinstance(dealt, Observation)
    assert isinstance(latent, Observation)
    return [*rows, dealt, latent]


def answers(rows, values) -> np.ndarray:
    groups = batches(rows)
    settle(groups, Coefficients())
    return predict(groups, len(rows), Coefficients(values))


FREED = [part for part in PARTS if part.pinned.values and set(part.pinned.values.values()) != {1.0}]


@pytest.mark.parametrize("part", FREED, ids=lambda part: part.name)
def test_a_coefficient_is_pinned_where_it_has_stopped_to_matter(part: Part):
    rows = varied()
    without = answers(rows, part.pinned.values)
    # a hundred times further in the same direction: nothing left to gain
    further = {
        name: value * (100.0 if value > BY_NAME[name].start else 0.01) for name, value in part.pinned.values.items()
    }
    assert answers(rows, further) == pytest.approx(without, rel=NEAR_NO_EFFECT)
    # and what it does at the other end of its range shows in some row
    full = {
        name: BY_NAME[name].low if value > BY_NAME[name].start else BY_NAME[name].high
        for name, value in part.pinned.values.items()
    }
    assert np.abs(np.log(answers(rows, full) / without)).max() > 10 * NEAR_NO_EFFECT


def test_a_fit_leaves_pinned_coefficients_and_kinds_alone():
    rows = [row(concurrency=float(n), metric=metric, value=5.0 * n) for n in range(1, 17) for metric in METRICS]
    free = calibrate(rows).coefficients.values
    assert any(key.startswith("layer_s|") for key in free)
    assert any("generation=" in key for key in free)
    for part in PARTS:
        if part.name not in ("layer launches", "device generations"):
            continue
        held = calibrate(rows, pinned=part.pinned).coefficients.values
        for name, value in part.pinned.values.items():
            assert held[name] == value
            assert not any(key.startswith(f"{name}|") for key in held)
        assert not any(f"|{kind}=" in key for kind in part.pinned.kinds for key in held)


METRICS = ("tpot_ms", "ttft_ms")


def test_one_sequence_reads_all_experts_where_none_are_spared():
    sparse, dense = row(EXPERTS, concurrency=1.0), row(concurrency=1.0)
    whole, same = all_experts_read([sparse, dense])
    assert same.model.gemms == dense.model.gemms
    # 8 of 128 experts are visited by a token: 30.5 billion parameters are read instead of 3.3 billion
    before, after = answers([sparse], {})[0], answers([whole], {})[0]
    assert after > 3 * before
    # at many sequences each expert is read anyway
    busy = row(EXPERTS, concurrency=512.0)
    assert answers(all_experts_read([busy]), {})[0] == pytest.approx(answers([busy], {})[0], rel=0.1)


def test_rows_of_one_model_stay_together():
    assert len(batches(all_experts_read([row(EXPERTS), row(EXPERTS, concurrency=4.0), row()]))) == 2


def test_exchanges_without_their_curve_lie_on_a_line():
    size = np.array([2.0**15, 2.0**20, 2.0**25])
    (changed,) = straight_all_reduces([row(devices=4)])

    def bend(accelerator) -> float:
        small, middle, large = all_reduce_s(accelerator, 4, size)
        line = small + (large - small) * (size[1] - size[0]) / (size[2] - size[0])
        return float(abs(middle / line - 1.0))

    assert bend(H100) > 0.05
    assert bend(changed.replica.device.accelerator) < 1e-9
    assert changed.accelerator is changed.replica.device.accelerator


def test_prompts_elsewhere_leave_token_times_to_decoding_alone():
    token, first = row(concurrency=32.0), row(concurrency=32.0, metric="ttft_ms")
    alone, same = tokens_without_prompts([token, first])
    assert same is first
    assert answers([alone], {})[0] < answers([token], {})[0]
    # 1000 in and 500 out: 1250 tokens of context in the mean
    assert alone.request.live_tokens == 1_250.0
    # a prompt's attention, ten times slower, makes a difference only where there are prompts
    slow = {"attention_prefill": 0.06}
    assert answers([alone], slow)[0] == pytest.approx(answers([alone], {})[0], rel=1e-4)
    assert answers([token], slow)[0] > answers([token], {})[0] * 1.001
