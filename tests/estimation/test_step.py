"""The step model against arithmetic written out, and properties that must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.estimation.coefficients import UNFITTED
from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.steady_state import Request, steady_state
from capplan.estimation.step import StepLoad, group_times, step_s
from capplan.estimation.table import ReplicaTable, build_table
from capplan.hardware.collectives import all_reduce_s
from capplan.hardware.efficiency import efficiency
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from tests.estimation.configs import LLAMA_3_1_8B, QWEN3_30B_A3B
from tests.hardware.devices import H100


def llama(weights: str = "bf16") -> ModelCosts:
    return model_costs(read_config(LLAMA_3_1_8B), weights)


def qwen_moe() -> ModelCosts:
    return model_costs(read_config(QWEN3_30B_A3B), "bf16")


def table(model: ModelCosts, *tensor_parallel: int) -> ReplicaTable:
    accelerator = H100
    device = whole_device(accelerator)
    assert device is not None
    settings = resolve_settings(EngineChoice(), accelerator, device.memory_bytes)
    return build_table(model, [Replica(device, Parallelism(tp), settings) for tp in tensor_parallel])


def load(decode: float, prefill: float, context: float = 1_000.0) -> StepLoad:
    return StepLoad(np.array([[decode]]), np.array([[prefill]]), context, 1_000.0)


def times(rows: ReplicaTable, work: StepLoad) -> dict[str, tuple[float, float, float]]:
    return {
        g.name: (float(g.memory_s[0, 0]), float(g.compute_s[0, 0]), float(g.total_s[0, 0]))
        for g in group_times(rows, work)
    }


def test_one_sequence_reads_every_dense_weight_once() -> None:
    # Llama-3.1-8B, feed-forward: 32 layers * 3 * 4,096 * 14,336 parameters in bf16, over H100's achieved bandwidth
    rate = 3.35e12 * efficiency(H100, "bf16").memory_fraction * UNFITTED.of("weight_read")
    memory, _, _ = times(table(llama(), 1), load(1, 0))["dense_ffn"]
    assert memory == pytest.approx(32 * 3 * 4_096 * 14_336 * 2 / rate)


def test_compute_side_counts_two_flop_per_parameter_and_token() -> None:
    # with 1e6 tokens the ramp is at its top: 2 * 5.637e9 FLOP per token over the achieved rate; the mean output width
    # of gate, up and down projection is (2 * 14,336 + 4,096) / 3
    width = (2 * 14_336 + 4_096) / 3
    narrow = width / (width + UNFITTED.of("narrow_width"))
    achieved = efficiency(H100, "bf16").compute_fraction * UNFITTED.of("gemm_rate") * narrow
    _, compute, _ = times(table(llama(), 1), load(0, 1e6))["dense_ffn"]
    assert compute == pytest.approx(2 * 32 * 3 * 4_096 * 14_336 * 1e6 / (989.4e12 * achieved), rel=1e-3)


def test_decode_attention_reads_the_cache_of_every_sequence() -> None:
    # 131,072 B of KV per token (2 * 8 heads * 128 * 2 B * 32 layers), 64 sequences of 1,000 tokens
    rate = 3.35e12 * efficiency(H100, "bf16").kv_memory_fraction
    memory, _, _ = times(table(llama(), 1), load(64, 0))["decode_attention"]
    assert memory == pytest.approx(64 * 1_000 * 131_072 / rate)


@pytest.mark.parametrize("tokens", [1, 8, 64, 4_096])
def test_routed_experts_read_only_the_experts_they_touch(tokens: int) -> None:
    # 48 layers of 128 experts of 3 * 2,048 * 768 parameters; a token draws 8 of them
    touched = 1.0 - (1.0 - 8 / 128) ** tokens
    rate = 3.35e12 * efficiency(H100, "bf16").memory_fraction * UNFITTED.of("weight_read")
    memory, _, _ = times(table(qwen_moe(), 1), load(tokens, 0))["routed_expert"]
    assert memory == pytest.approx(48 * 128 * 3 * 2_048 * 768 * 2 * touched / rate, rel=1e-6)


def test_group_time_is_the_smooth_maximum_of_its_two_sides() -> None:
    memory, compute, total = times(table(llama(), 1), load(128, 0))["dense_ffn"]
    assert total == pytest.approx((memory**4 + compute**4) ** 0.25)


def test_collectives_cost_two_all_reduces_a_layer() -> None:
    message = np.array([64 * 4_096 * 2.0])
    expected = 2 * 32 * float(all_reduce_s(H100, 4, message)[0])
    # the table holds one point per octave of message size
    assert times(table(llama(), 4), load(64, 0))["all_reduce"][2] == pytest.approx(expected, rel=0.1)
    assert times(table(llama(), 1), load(64, 0))["all_reduce"][2] == 0.0


def test_rows_do_not_disturb_each_other() -> None:
    together = step_s(table(llama(), 1, 2, 4, 8), StepLoad(np.full((4, 1), 32.0), np.zeros((4, 1)), 1e3, 1e3))
    apart = [step_s(table(llama(), tp), load(32, 0))[0, 0] for tp in (1, 2, 4, 8)]
    assert together[:, 0] == pytest.approx(apart)


tokens = st.floats(min_value=1.0, max_value=4_096.0)


@given(decode=tokens, prefill=st.floats(0.0, 8_192.0), more=st.floats(0.0, 1_000.0))
def test_a_step_never_gets_faster_with_more_work(decode: float, prefill: float, more: float) -> None:
    for model in (llama(), qwen_moe()):
        rows = table(model, 1)
        base = step_s(rows, load(decode, prefill))[0, 0]
        assert step_s(rows, load(decode + more, prefill))[0, 0] >= base * (1 - 1e-12)
        assert step_s(rows, load(decode, prefill + more))[0, 0] >= base * (1 - 1e-12)
        assert step_s(rows, load(decode, prefill, 1_000.0 + more))[0, 0] >= base * (1 - 1e-12)


@given(
    batch=st.floats(2.0**-10, 512.0),
    growth=st.floats(1.0, 4.0),
    lengths=st.tuples(st.floats(1.0, 20_000.0), st.floats(1.0, 4_000.0)),
)
def test_latency_and_throughput_grow_with_the_batch(batch: float, growth: float, lengths: tuple[float, float]) -> None:
    rows, request = table(llama("fp8"), 1), Request(*lengths)
    state = steady_state(rows, request, np.array([[batch, batch * growth]]))
    for name in ("itl_ms", "ttft_ms", "e2e_ms"):
        low, high = getattr(state, name)[0]
        assert high >= low * (1 - 1e-9), name


def test_littles_law_ties_batch_rate_and_latency() -> None:
    request = Request(1_000.0, 250.0)
    state = steady_state(table(llama(), 1), request, np.array([[32.0]]))
    in_flight = state.requests_per_s * state.e2e_ms / 1e3
    assert in_flight == pytest.approx(state.requests_in_flight)
    assert state.output_tokens_per_s == pytest.approx(state.requests_per_s * 250.0)
    assert state.itl_ms / 1e3 * state.output_tokens_per_s == pytest.approx(32.0)


def test_prompt_work_is_conserved() -> None:
    # per decoded token of every sequence, input/output prompt tokens pass through the steps
    from capplan.estimation.steady_state import prefill_mix

    rows = table(llama(), 1)
    for batch in (0.5, 10.0, 400.0):
        mix = prefill_mix(rows, Request(1_000.0, 250.0), np.array([[batch]]))
        assert (mix.step_share * mix.chunk)[0, 0] == pytest.approx(batch * 1_000 / 250)
