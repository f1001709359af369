"""Curves of latency over load: close to the step model, monotone whatever is corrected, exact where they can be."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.corrections import Corrections
from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.estimate import estimate_replicas
from capplan.estimation.load_curve import LoadCurve, curve_of
from capplan.estimation.replica import Parallelism, Replica
from capplan.estimation.sites import Figures, Site
from capplan.estimation.situation import situation_of
from capplan.estimation.steady_state import PREFILL_BUDGET_LIMIT, Request, steady_state
from capplan.estimation.table import Array, ReplicaTable, build_table
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.planning.planner import plan
from tests.estimation import configs
from tests.estimation.measured import site
from tests.hardware.devices import A100, B200, H100, H200, L40S, MI355X
from tests.planning.questions import question

MODELS = (("LLAMA_3_1_8B", "bf16"), ("LLAMA_3_1_70B", "fp8"), ("QWEN3_30B_A3B", "bf16"), ("GPT_OSS_120B", "mxfp4"))
TOLERANCE = 0.01
"""Stated: 1 %; see :func:`test_at_the_loads_of_plans_the_curve_is_within_half_a_percent` for what is usual."""


@lru_cache(maxsize=64)
def costs(name: str, weights: str, layers: int | None = None) -> ModelCosts:
    config = dict(getattr(configs, name))
    if layers is not None:
        config["num_hidden_layers"] = layers
    return model_costs(read_config(config), weights)


@lru_cache(maxsize=16)
def replicas(engine: str = "vllm") -> tuple[Replica, ...]:
    found = []
    for accelerator in (A100, B200, H100, H200, L40S, MI355X):
        device = whole_device(accelerator)
        assert device is not None
        for ranks in (1, 4):
            settings = resolve_settings(EngineChoice(engine), accelerator, device.memory_bytes, ranks=ranks)
            found.append(Replica(device, Parallelism(ranks), settings))
    return tuple(found)


@lru_cache(maxsize=64)
def table(model: tuple[str, str] = MODELS[0], engine: str = "vllm", layers: int | None = None) -> ReplicaTable:
    return build_table(costs(*model, layers), replicas(engine))


ROWS = len(replicas())
REQUEST = Request(1_000.0, 250.0)

models = st.sampled_from(MODELS)
engines = st.sampled_from(["vllm", "sglang"])
requests = st.builds(
    Request,
    input_tokens=st.floats(1.0, 20_000.0),
    output_tokens=st.floats(1.0, 3_000.0),
    prefix_hit_share=st.sampled_from([0.0, 0.0, 0.5, 0.95]),
)
log2_batches = st.lists(st.floats(-12.0, 12.0), min_size=1, max_size=8)
seeds = st.integers(0, 2**32 - 1)


def wild(seed: int, scale: float = 1.0) -> tuple[Array, Array]:
    """Log factors that make no sense: up and down from load to load by e."""
    random = np.random.default_rng(seed)
    return random.normal(0.0, scale, (ROWS, 13)), random.normal(0.0, scale, ROWS)


def loads(log2: list[float]) -> Array:
    return np.broadcast_to(np.exp2(np.array(sorted(log2))), (ROWS, len(log2)))


class TestAgainstTheStepModel:
    @hypothesis_settings(max_examples=60)
    @given(model=models, engine=engines, request_=requests, log2=log2_batches)
    def test_every_figure_is_within_the_tolerance(
        self, model: tuple[str, str], engine: str, request_: Request, log2: list[float]
    ) -> None:
        rows, batch = table(model, engine), loads(log2)
        exact, found = steady_state(rows, request_, batch), LoadCurve.of(rows, request_).at(batch)
        served = exact.prefill_budget_share <= PREFILL_BUDGET_LIMIT
        for field in dataclasses.fields(exact):
            one, other = getattr(found, field.name)[served], getattr(exact, field.name)[served]
            # the time to first token holds several whole prefill steps, which bend the most
            wide = 2.0 if field.name in ("ttft_ms", "e2e_ms", "requests_in_flight") else 1.0
            assert one == pytest.approx(other, rel=wide * TOLERANCE), field.name

    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("lengths", [(1_000.0, 250.0), (200.0, 200.0), (4_000.0, 500.0), (500.0, 2_000.0)])
    def test_at_the_loads_of_plans_the_curve_is_within_half_a_percent(
        self, model: tuple[str, str], lengths: tuple[float, float]
    ) -> None:
        rows, request = table(model), Request(*lengths)
        batch = np.broadcast_to(np.geomspace(2.0**-12, 2.0**12, 997), (ROWS, 997))
        exact, found = steady_state(rows, request, batch), LoadCurve.of(rows, request).at(batch)
        served = exact.prefill_budget_share <= PREFILL_BUDGET_LIMIT
        error = np.abs(found.itl_ms / exact.itl_ms - 1.0)[served]
        assert np.quantile(error, 0.99) < 0.005

    @given(model=models, engine=engines, request_=requests, log2=st.lists(st.floats(-20.0, 0.0), min_size=1))
    def test_an_idling_replica_is_exact(
        self, model: tuple[str, str], engine: str, request_: Request, log2: list[float]
    ) -> None:
        rows, batch = table(model, engine), loads(log2)
        exact, found = steady_state(rows, request_, batch), LoadCurve.of(rows, request_).at(batch)
        served = exact.prefill_budget_share <= PREFILL_BUDGET_LIMIT
        for name in ("itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms"):
            assert getattr(found, name)[served] == pytest.approx(getattr(exact, name)[served], rel=1e-9), name

    @given(request_=requests, octave=st.integers(0, 12))
    def test_nodes_are_exact(self, request_: Request, octave: int) -> None:
        batch = loads([float(octave)])
        exact, found = steady_state(table(), request_, batch), LoadCurve.of(table(), request_).at(batch)
        served = exact.prefill_budget_share < 1.0
        for name in ("itl_ms", "ttft_ms", "e2e_ms", "requests_per_s"):
            assert getattr(found, name)[served] == pytest.approx(getattr(exact, name)[served], rel=1e-9), name

    def test_the_bend_where_every_step_carries_a_prompt_is_on_the_curve(self) -> None:
        # one prompt arrives per step when as many sequences run as each generates tokens
        request = Request(300.0, 37.0)
        for batch in (np.full((ROWS, 1), 37.0), np.full((ROWS, 1), 36.9)):
            exact, found = steady_state(table(MODELS[2]), request, batch), LoadCurve.of(table(MODELS[2]), request)
            assert found.at(batch).itl_ms == pytest.approx(exact.itl_ms, rel=1e-3)

    @pytest.mark.parametrize("highest", [0.3, 1.0, 3.0, 200.0, 256.0, 5_000.0])
    def test_fewer_nodes_change_nothing_below_the_highest_load(self, highest: float) -> None:
        request, batch = Request(1_000.0, 64.0), np.broadcast_to(np.geomspace(1e-4, highest, 50), (ROWS, 50))
        whole, part = (
            LoadCurve.of(table(), request, *wild(1), max_batch=most).at(batch) for most in (2.0**12, highest)
        )
        for field in dataclasses.fields(whole):
            assert getattr(part, field.name) == pytest.approx(getattr(whole, field.name), rel=1e-12)


class TestMonotone:
    @hypothesis_settings(max_examples=60)
    @given(model=models, engine=engines, request_=requests, log2=log2_batches, seed=seeds)
    def test_neither_latency_nor_throughput_falls_with_the_load(
        self, model: tuple[str, str], engine: str, request_: Request, log2: list[float], seed: int
    ) -> None:
        rows, batch = table(model, engine), loads([*log2, 13.0, -13.0])
        for curve in (LoadCurve.of(rows, request_), LoadCurve.of(rows, request_, *wild(seed))):
            state = curve.at(batch)
            for name in ("itl_ms", "ttft_ms", "e2e_ms", "output_tokens_per_s", "requests_per_s"):
                values = getattr(state, name)
                assert np.all(values > 0)
                assert np.all(values[:, 1:] >= values[:, :-1] * (1 - 1e-12)), name

    @hypothesis_settings(max_examples=40)
    @given(
        engine=engines,
        request_=requests,
        log2=log2_batches,
        seed=seeds,
        layers=st.integers(1, 80),
        more=st.integers(1, 40),
    )
    def test_more_layers_are_never_faster(
        self, engine: str, request_: Request, log2: list[float], seed: int, layers: int, more: int
    ) -> None:
        batch, factors = loads(log2), wild(seed)
        shallow, deep = (
            LoadCurve.of(table(MODELS[0], engine, count), request_, *factors).at(batch)
            for count in (layers, layers + more)
        )
        for name in ("itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms"):
            assert np.all(getattr(deep, name) >= getattr(shallow, name) * (1 - 1e-12)), name
        for name in ("output_tokens_per_s", "requests_per_s"):
            assert np.all(getattr(deep, name) <= getattr(shallow, name) * (1 + 1e-12)), name


class TestCorrections:
    @given(log_factor=st.floats(-2.0, 2.0), log2=log2_batches, request_=requests)
    def test_one_factor_for_all_loads_is_realised_at_all_of_them(
        self, log_factor: float, log2: list[float], request_: Request
    ) -> None:
        # nothing is held back: the uncorrected latency is monotone, and stays so when all of it is multiplied
        plain = LoadCurve.of(table(), request_).at(loads(log2))
        corrected = LoadCurve.of(table(), request_, np.full((ROWS, 13), log_factor)).at(loads(log2))
        assert corrected.itl_ms == pytest.approx(plain.itl_ms * np.exp(log_factor), rel=1e-9)
        assert corrected.output_tokens_per_s == pytest.approx(plain.output_tokens_per_s / np.exp(log_factor), rel=1e-9)
        assert corrected.ttft_ms == pytest.approx(plain.ttft_ms, rel=1e-12)

    def test_factors_that_differ_by_load_are_realised_at_their_loads(self) -> None:
        # from 8 to 64 sequences the latency grows by less than a factor of two per octave in any case; a rise of 0.1
        # in the logarithm per octave leaves it below that, and growing
        rising = np.broadcast_to(0.1 * np.arange(13.0), (ROWS, 13))
        batch = np.broadcast_to(np.exp2(np.arange(13.0)), (ROWS, 13))
        plain = steady_state(table(), REQUEST, batch)
        growth = np.diff(np.log(plain.itl_ms), axis=1) + 0.1
        free = np.cumprod(growth < np.log(2.0) - 0.1, axis=1).astype(bool)  # from here on down nothing is held back
        found = LoadCurve.of(table(), REQUEST, rising).at(batch)
        assert free[:, 4].all()
        ratio = (found.itl_ms / plain.itl_ms)[:, 1:]
        assert ratio[free] == pytest.approx(np.exp(rising[:, 1:])[free], rel=1e-9)

    def test_a_fall_is_held_at_the_value_before_and_a_leap_at_equal_throughput(self) -> None:
        falling, leaping = np.zeros((ROWS, 13)), np.zeros((ROWS, 13))
        falling[:, 5:] = -3.0
        leaping[:, 5:] = 3.0
        batch = np.broadcast_to(np.array([16.0, 32.0]), (ROWS, 2))
        held = LoadCurve.of(table(), REQUEST, falling).at(batch).itl_ms
        assert held[:, 1] == pytest.approx(held[:, 0], rel=1e-12)
        rate = LoadCurve.of(table(), REQUEST, leaping).at(batch).output_tokens_per_s
        assert rate[:, 1] == pytest.approx(rate[:, 0], rel=1e-12)

    @given(log2=st.lists(st.floats(-12.0, 0.0), min_size=1))
    def test_below_one_sequence_the_factor_is_that_at_one(self, log2: list[float]) -> None:
        factors = np.full((ROWS, 13), 0.7)
        factors[:, 0] = 0.3
        plain, found = (LoadCurve.of(table(), REQUEST, given_).at(loads(log2)) for given_ in (None, factors))
        assert found.itl_ms == pytest.approx(plain.itl_ms * np.exp(0.3), rel=1e-9)

    @given(seed=seeds, log2=log2_batches, request_=requests)
    def test_times_to_first_token_take_their_factor_at_every_load(
        self, seed: int, log2: list[float], request_: Request
    ) -> None:
        factors, first = wild(seed)
        plain = LoadCurve.of(table(), request_).at(loads(log2))
        found = LoadCurve.of(table(), request_, factors, first).at(loads(log2))
        for name in ("ttft_ms", "ttft_unloaded_ms"):
            assert getattr(found, name) == pytest.approx(getattr(plain, name) * np.exp(first)[:, None], rel=1e-9)
        # a token at once and the others an inter-token latency apart; by Little's law so many requests are in flight
        e2e_ms = found.ttft_ms + (request_.output_tokens - 1.0) * found.itl_ms
        assert found.e2e_ms == pytest.approx(e2e_ms, rel=1e-9)
        assert found.requests_in_flight == pytest.approx(found.requests_per_s * e2e_ms / 1e3, rel=1e-9)

    def test_rates_alone_are_those_of_the_whole_state(self) -> None:
        curve, batch = LoadCurve.of(table(), REQUEST, *wild(7)), loads([-3.0, 0.4, 7.7])
        assert np.array_equal(curve.requests_per_s_at(batch), curve.at(batch).requests_per_s)

    @pytest.mark.parametrize("factors", [(None, None), wild(3)])
    def test_rows_can_be_taken(self, factors: tuple[Array | None, Array | None]) -> None:
        curve, picked = LoadCurve.of(table(), REQUEST, *factors), np.array([4, 0, 4])
        batch = loads([-1.0, 3.3, 6.1])
        assert np.array_equal(curve.take(picked).at(batch[picked]).e2e_ms, curve.at(batch).e2e_ms[picked])


def test_an_estimate_is_read_off_the_curve() -> None:
    model, asked = costs(*MODELS[0]), replicas()
    batch = np.geomspace(0.01, 200.0, ROWS)
    state = curve_of(model, asked, table(), REQUEST, UNFITTED).at(batch[:, None])
    for row, found in enumerate(estimate_replicas(model, asked, REQUEST, batch.tolist())):
        assert found.itl_ms.value == pytest.approx(state.itl_ms[row, 0], rel=1e-12)
        assert found.ttft_ms.value == pytest.approx(state.ttft_ms[row, 0], rel=1e-12)
        assert found.output_tokens_per_s.value == pytest.approx(state.output_tokens_per_s[row, 0], rel=1e-12)


def corrected(*sites: Site) -> Coefficients:
    return replace(UNFITTED, corrections=Corrections(sites))


class TestMeasuredCorrections:
    # the seventh replica of the fleet is one H200, whose sites pull its own latencies
    MODEL, REPLICA = costs(*MODELS[0]), replicas()[6]
    SITES = tuple(
        site(
            situation_of(costs(*MODELS[0]), replicas()[6]),
            log_time,
            figures=figures,
            running=running,
            source=f"report {index}",
        )
        for index, (figures, log_time, running) in enumerate(
            [(Figures.PER_TOKEN, 0.4, 8.0), (Figures.PER_TOKEN, 0.4, 64.0), (Figures.FIRST_TOKEN, -0.3, 16.0)]
        )
    )

    def test_factors_are_those_of_the_replica_its_model_and_the_request(self) -> None:
        fitted = corrected(*self.SITES)
        asked = (REQUEST.input_tokens, REQUEST.output_tokens)
        situations = [situation_of(self.MODEL, replica) for replica in replicas()]
        factors = fitted.corrections.log_factors(situations, *asked)
        first = fitted.corrections.first_token_log_factors(situations, *asked)
        assert factors[6, 3] > 0.05
        assert first[6] < -0.02
        found = curve_of(self.MODEL, replicas(), table(), REQUEST, fitted)
        expected = LoadCurve.of(table(), REQUEST, factors, first)
        assert np.array_equal(found.itl_s, expected.itl_s)
        assert np.array_equal(found.first_token_factor, expected.first_token_factor)

    def test_estimates_are_corrected_and_their_parts_are_not(self) -> None:
        plain, found = (
            estimate_replicas(self.MODEL, [self.REPLICA], REQUEST, [16.0], fitted)[0]
            for fitted in (UNFITTED, corrected(*self.SITES))
        )
        assert found.itl_ms.value > plain.itl_ms.value * 1.05
        assert found.ttft_ms.value < plain.ttft_ms.value * 0.98
        assert found.parts == plain.parts

    def test_a_plan_and_an_estimate_of_the_same_layout_agree(self) -> None:
        fitted = corrected(*self.SITES)
        answer = plan(replace(question(self.MODEL, itl_ms=40.0), coefficients=fitted, max_placements=20))
        compared = 0
        for placement in answer.placements:
            if placement.mig_plan is None:
                device = whole_device(placement.accelerator)
                assert device is not None
                replica = Replica(device, placement.parallelism, placement.settings)
                for point in (placement.capacity, placement.operating_point):
                    (again,) = estimate_replicas(self.MODEL, [replica], REQUEST, [point.batch], fitted)
                    for name in ("itl_ms", "ttft_ms", "e2e_ms", "output_tokens_per_s"):
                        assert getattr(again, name).value == pytest.approx(getattr(point, name).value, rel=1e-12)
                    compared += 1
        assert compared >= 4
