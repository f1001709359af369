"""Plans: right amounts, explained refusals, and orderings that must always hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.estimation.engine import EngineChoice
from capplan.hardware.mig_geometry import can_place
from capplan.planning.placement import Plan
from capplan.planning.planner import plan
from capplan.planning.query import (
    Constraints,
    LatencyLimit,
    LatencyMetric,
    MigPolicy,
    Objective,
    PlacementQuery,
    Target,
    TargetKind,
    Workload,
)
from capplan.planning.solver import solve
from tests.planning.questions import SUPPLY, costs, question


def reasons(answer: Plan) -> dict[str, str]:
    return {rejection.accelerator.sku: rejection.fault.reason for rejection in answer.rejections}


def best(query: PlacementQuery) -> float:
    sized = solve(query).sized
    return math.inf if sized is None else float(sized.objective.min())


class TestEngines:
    @pytest.mark.parametrize("name", ["vllm", "SGLang", "trtllm"])
    def test_each_engine_plans_with_its_own_memory_fraction(self, name: str) -> None:
        for placement in plan(question(constraints=Constraints(engine=EngineChoice(name)))).placements:
            settings = placement.settings
            fractions = (
                settings.gpu_memory_utilization,
                settings.mem_fraction_static,
                settings.free_gpu_memory_fraction,
            )
            assert [fraction is not None for fraction in fractions].count(True) == 1

    @pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
    def test_what_would_help_is_a_setting_the_engine_takes(self, name: str) -> None:
        answer = plan(question(itl_ms=0.001, constraints=Constraints(engine=EngineChoice(name))))
        assert not answer.placements
        offered = {relaxation.field for relaxation in answer.relaxations}
        assert name == "vllm" or not any("gpu_memory_utilization" in field for field in offered)

    def test_the_older_vllm_engine_is_told(self) -> None:
        older = plan(question(constraints=Constraints(engine=EngineChoice(version="0.7"))))
        assert any("V0 engine" in sentence for sentence in older.assumptions)


class TestAmounts:
    def test_replicas_cover_the_target_and_one_fewer_would_not(self) -> None:
        for placement in plan(question(tokens_per_s=20_000, itl_ms=40)).placements:
            per_replica = placement.capacity.output_tokens_per_s.value
            assert per_replica * placement.replica_count >= 20_000 * (1 - 1e-6)
            assert per_replica * (placement.replica_count - 1) < 20_000

    def test_headroom_plans_for_more(self) -> None:
        query = question(constraints=Constraints(headroom_share=0.5), tokens_per_s=20_000)
        for placement in plan(query).placements:
            assert placement.utilization <= 1 / 1.5 + 1e-6

    def test_cost_power_and_devices_add_up(self) -> None:
        for placement in plan(question(tokens_per_s=30_000)).placements:
            assert placement.price is not None
            assert placement.cost_usd_per_h == pytest.approx(placement.device_count * placement.price.usd_per_h)
            # 30,000 tokens/s are 108 million an hour
            assert placement.cost_usd_per_h is not None
            assert placement.cost_usd_per_million_output_tokens == pytest.approx(placement.cost_usd_per_h / 108)
            if placement.mig_plan is None:
                devices = placement.replica_count * placement.parallelism.tensor_parallel
                assert placement.device_count == devices

    def test_limits_hold_at_capacity_and_at_the_operating_point(self) -> None:
        for placement in plan(question(itl_ms=20, ttft_ms=300, tokens_per_s=20_000)).placements:
            for point in (placement.capacity, placement.operating_point):
                assert point.itl_ms.value <= 20 * (1 + 1e-9)
                assert point.ttft_ms.value <= 300 * (1 + 1e-9)
            assert placement.operating_point.batch <= placement.capacity.batch

    def test_requests_per_s_and_tokens_per_s_are_the_same_question(self) -> None:
        tokens = question(tokens_per_s=10_000)
        requests = replace(tokens, target=Target(TargetKind.REQUESTS_PER_S, 40.0))
        pairs = zip(plan(tokens).placements, plan(requests).placements, strict=True)
        for one, other in pairs:
            assert (one.accelerator.sku, one.device_count) == (other.accelerator.sku, other.device_count)

    def test_each_concurrent_user_gets_a_running_slot(self) -> None:
        query = replace(question(itl_ms=30), target=Target(TargetKind.CONCURRENT_USERS, 500))
        for placement in plan(query).placements:
            assert placement.capacity.batch * placement.replica_count >= 500 * (1 - 1e-6)
            assert placement.operating_point.batch == pytest.approx(500 / placement.replica_count)

    def test_objectives_rank_by_what_they_say(self) -> None:
        answers = {objective: plan(question(objective=objective)).placements for objective in Objective}
        costs_usd = [p.cost_usd_per_h or math.inf for p in answers[Objective.COST]]
        assert costs_usd == sorted(costs_usd)
        devices = [p.device_count for p in answers[Objective.DEVICES]]
        assert devices == sorted(devices)
        power = [p.power_w or math.inf for p in answers[Objective.ENERGY]]
        assert power == sorted(power)
        latency = [p.objective_value for p in answers[Objective.LATENCY]]
        assert latency == sorted(latency)
        assert latency[0] <= min(p.operating_point.e2e_ms.value for p in answers[Objective.COST])

    def test_latency_objective_spends_the_bound_it_is_given(self) -> None:
        bound = Constraints(max_devices=6)
        for placement in plan(question(objective=Objective.LATENCY, constraints=bound)).placements:
            assert placement.device_count <= 6


class TestMig:
    QUERY = question(
        costs("QWEN3_4B", "bf16"),
        tokens_per_s=2_000,
        workload=Workload(1_000, 250, 4_096),
        constraints=Constraints(mig=MigPolicy.REQUIRED),
        max_placements=100,
    )

    def test_required_means_slices_only(self) -> None:
        placements = plan(self.QUERY).placements
        assert placements
        assert all(p.mig_plan is not None and p.parallelism.tensor_parallel == 1 for p in placements)

    def test_layouts_hold_every_replica_at_legal_starts(self) -> None:
        for placement in plan(self.QUERY).placements:
            layout = placement.mig_plan
            assert layout is not None
            assert layout.instance_count == placement.replica_count
            assert layout.gpu_count == placement.device_count
            for gpu in layout.layouts:
                for index, instance in enumerate(gpu.instances):
                    before = tuple(gpu.instances[:index])
                    assert can_place(layout.board, instance.profile.profile_id, before)

    def test_small_slices_are_refused_by_what_they_lack(self) -> None:
        # 4.02e9 parameters in bf16 are 8.04e9 bytes, and 1g.10gb of A100-80GB has 9,728 MiB = 10.2e9 in all
        query = replace(self.QUERY, constraints=Constraints(mig_profiles=("1g.10gb",)))
        answer = plan(query)
        assert not answer.placements
        assert reasons(answer)["a100-sxm4-80gb"] in {"WEIGHTS_DO_NOT_FIT", "CONTEXT_DOES_NOT_FIT"}
        shortfall = next(r.fault.shortfall for r in answer.rejections if r.accelerator.sku == "a100-sxm4-80gb")
        assert shortfall < 0

    def test_forbidden_means_whole_devices(self) -> None:
        query = replace(self.QUERY, constraints=Constraints(mig=MigPolicy.FORBIDDEN))
        assert all(p.mig_plan is None for p in plan(query).placements)

    def test_a_slice_never_carries_tensor_parallelism(self) -> None:
        query = replace(self.QUERY, constraints=Constraints(mig=MigPolicy.REQUIRED, tensor_parallel_sizes=(2,)))
        assert reasons(plan(query))["h100-sxm-80gb"] == "MIG_NEEDS_TENSOR_PARALLEL_1"


class TestRefusals:
    def test_every_accelerator_is_placed_or_refused_with_a_reason(self) -> None:
        answer = plan(question(costs("LLAMA_3_1_70B", "fp8"), tokens_per_s=1_000, max_placements=100))
        placed = {p.accelerator.sku for p in answer.placements}
        assert placed | set(reasons(answer)) == {item.accelerator.sku for item in SUPPLY}
        assert not placed & set(reasons(answer))

    def test_reasons_name_what_is_in_the_way(self) -> None:
        why = reasons(plan(question(costs("LLAMA_3_1_70B", "fp8"), tokens_per_s=1_000)))
        assert why["v100-sxm2-32gb"] == "FORMAT_UNSUPPORTED"  # no fp8 kernel below compute capability 7.5
        assert why["gaudi3-128gb"] == "ENGINE_UNSUPPORTED"
        assert why["mi300x-192gb"] == "NO_PRICE"

    def test_bf16_is_refused_where_the_engine_would_not_start_in_it(self) -> None:
        # vLLM refuses bf16 below compute capability 8.0 and asks for fp16 (its own error text at start)
        why = {
            s: reasons(plan(question(costs("QWEN3_4B", s), tokens_per_s=10))).get("t4-16gb") for s in ("bf16", "fp16")
        }
        assert why == {"bf16": "FORMAT_UNSUPPORTED", "fp16": None}

    def test_gpt_oss_120b_does_not_fit_one_h100_at_full_context(self) -> None:
        query = question(
            costs("GPT_OSS_120B", "mxfp4"),
            tokens_per_s=500,
            workload=Workload(1_000, 250),
            constraints=Constraints(allowed_skus=("h100-sxm-80gb",), max_devices=1),
        )
        answer = plan(query)
        assert not answer.placements
        rejection = next(r for r in answer.rejections if r.accelerator.sku == "h100-sxm-80gb")
        assert rejection.fault.reason in {"CONTEXT_DOES_NOT_FIT", "WEIGHTS_DO_NOT_FIT"}
        assert rejection.fault.shortfall < 0
        assert {r.field for r in answer.relaxations} >= {"constraints.max_devices", "constraints.allowed_accelerators"}

    def test_amounts_beyond_the_bounds_say_by_how_much(self) -> None:
        answer = plan(question(tokens_per_s=1e6, constraints=Constraints(max_devices=3)))
        assert not answer.placements
        fault = next(r.fault for r in answer.rejections if r.accelerator.sku == "h100-sxm-80gb")
        assert fault.reason == "TOO_MANY_DEVICES"
        assert fault.shortfall < 0
        assert fault.unit == "devices"

    def test_tensor_parallel_beyond_the_link_is_refused(self) -> None:
        answer = plan(question(constraints=Constraints(tensor_parallel_sizes=(32,))))
        assert reasons(answer)["h100-sxm-80gb"] == "TENSOR_PARALLEL_BEYOND_LINK"

    @pytest.mark.parametrize(
        ("workload", "field"),
        [
            (Workload(1_000, 250, 500_000), "workload.max_context_tokens"),
            (Workload(200_000, 250), "workload.input_tokens"),
        ],
    )
    def test_contradictions_are_errors(self, workload: Workload, field: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            plan(question(workload=workload))
        assert [v.field for v in caught.value.violations] == [field]

    def test_a_slice_profile_of_no_board_is_refused_by_name(self) -> None:
        with pytest.raises(InvalidInputError) as caught:
            plan(question(constraints=Constraints(mig_profiles=("1g.10gb", "9g.99gb"))))
        assert [v.field for v in caught.value.violations] == ["constraints.mig_profiles[1]"]

    def test_models_without_output_tokens_are_refused_by_name(self) -> None:
        headless = replace(
            costs("QWEN3_4B", "bf16"),
            gemms=tuple(g for g in costs("QWEN3_4B", "bf16").gemms if not g.once_per_sequence),
        )
        with pytest.raises(UnsupportedModelError) as caught:
            plan(question(headless))
        assert [v.field for v in caught.value.violations] == ["model"]

    @pytest.mark.parametrize(
        ("engine", "field"),
        [
            (EngineChoice(max_num_batched_tokens=128), "constraints.engine.max_num_batched_tokens"),
            (EngineChoice(name="tgi"), "constraints.engine.name"),
            (EngineChoice(version="0.3"), "constraints.engine.version"),
            (EngineChoice(version="newest"), "constraints.engine.version"),
        ],
    )
    def test_engines_that_are_not_modelled_are_refused_by_name(self, engine: EngineChoice, field: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            plan(question(constraints=Constraints(engine=engine)))
        assert [v.field for v in caught.value.violations] == [field]


class TestRelaxations:
    def test_each_one_makes_the_question_feasible(self) -> None:
        query = question(itl_ms=1.0, ttft_ms=2_000)
        answer = plan(query)
        assert not answer.placements
        changed = {r.field: float(r.value) for r in answer.relaxations if r.field.startswith("latency")}
        assert set(changed) == {"latency_limits[1].limit_ms"}
        assert plan(question(itl_ms=changed["latency_limits[1].limit_ms"], ttft_ms=2_000)).placements

    def test_the_change_is_the_smallest(self) -> None:
        answer = plan(question(itl_ms=1.0))
        value = float(answer.relaxations[0].value)
        assert not plan(question(itl_ms=value * 0.97)).placements

    def test_devices_without_a_price_are_not_offered_to_a_ranking_by_cost(self) -> None:
        # MI300X would need the fewest devices, and has no price
        query = question(
            costs("LLAMA_3_1_70B", "bf16"),
            tokens_per_s=100,
            constraints=Constraints(allowed_skus=("mi300x-192gb", "h100-sxm-80gb"), max_devices=1),
        )
        by_field = {r.field: r.value for r in plan(query).relaxations}
        enough = int(by_field["constraints.max_devices"])
        assert plan(replace(query, constraints=replace(query.constraints, max_devices=enough))).placements

    def test_a_hopeless_limit_is_still_answered(self) -> None:
        answer = plan(question(itl_ms=1e-5))
        assert [r.field for r in answer.relaxations] == ["latency_limits[0].limit_ms"]
        assert plan(question(itl_ms=float(answer.relaxations[0].value))).placements

    def test_fewer_devices_than_needed(self) -> None:
        query = question(tokens_per_s=1e6, constraints=Constraints(max_devices=3))
        by_field = {r.field: r.value for r in plan(query).relaxations}
        enough = int(by_field["constraints.max_devices"])
        assert plan(replace(query, constraints=Constraints(max_devices=enough))).placements
        assert not plan(replace(query, constraints=Constraints(max_devices=enough - 1))).placements
        less = float(by_field["target.output_tokens_per_s"])
        assert plan(replace(query, target=Target(TargetKind.OUTPUT_TOKENS_PER_S, less))).placements

    def test_context_that_fits(self) -> None:
        query = question(
            costs("QWEN3_32B", "bf16"),
            workload=Workload(1_000, 250, 32_000),
            constraints=Constraints(allowed_skus=("h100-sxm-80gb",), tensor_parallel_sizes=(1,)),
        )
        by_field = {r.field: r.value for r in plan(query).relaxations}
        tokens = int(by_field["workload.max_context_tokens"])
        assert plan(replace(query, workload=Workload(1_000, 250, tokens))).placements
        assert not plan(replace(query, workload=Workload(1_000, 250, int(tokens * 1.02)))).placements

    def test_pairs_when_no_single_change_helps(self) -> None:
        # 141 GB of weights need two H100, and the question allows neither two devices nor tensor parallelism
        bounds = Constraints(tensor_parallel_sizes=(1,), max_devices=1)
        only_h100 = tuple(item for item in SUPPLY if item.accelerator.sku == "h100-sxm-80gb")
        answer = plan(question(costs("LLAMA_3_1_70B", "bf16"), tokens_per_s=100, constraints=bounds, supply=only_h100))
        assert not answer.placements
        assert answer.relaxations
        assert all("," in r.field for r in answer.relaxations)


rates = st.floats(1.0, 1e6)
itl_limits = st.floats(3.0, 300.0)
ttft_limits = st.floats(20.0, 10_000.0)
factors = st.floats(1.0, 3.0)
objectives = st.sampled_from(list(Objective))
workloads = st.builds(
    Workload,
    input_tokens=st.floats(1.0, 6_000.0),
    output_tokens=st.floats(1.0, 2_000.0),
    max_context_tokens=st.just(8_192),
)


class TestProperties:
    @hypothesis_settings(max_examples=40)
    @given(rate=rates, itl=itl_limits, factor=factors, objective=objectives, workload=workloads)
    def test_a_tighter_limit_is_never_better(
        self, rate: float, itl: float, factor: float, objective: Objective, workload: Workload
    ) -> None:
        loose = question(tokens_per_s=rate, itl_ms=itl * factor, objective=objective, workload=workload)
        tight = replace(loose, limits=(LatencyLimit(LatencyMetric.ITL, itl),))
        assert best(tight) >= best(loose) * (1 - 1e-9)

    @hypothesis_settings(max_examples=40)
    @given(rate=rates, ttft=ttft_limits, factor=factors, objective=objectives, workload=workloads)
    def test_a_tighter_ttft_limit_is_never_better(
        self, rate: float, ttft: float, factor: float, objective: Objective, workload: Workload
    ) -> None:
        loose = question(tokens_per_s=rate, ttft_ms=ttft * factor, objective=objective, workload=workload)
        tight = replace(loose, limits=(LatencyLimit(LatencyMetric.TTFT, ttft),))
        assert best(tight) >= best(loose) * (1 - 1e-9)

    @hypothesis_settings(max_examples=40)
    @given(rate=rates, factor=factors, itl=itl_limits, objective=objectives, workload=workloads)
    def test_a_higher_rate_is_never_better(
        self, rate: float, factor: float, itl: float, objective: Objective, workload: Workload
    ) -> None:
        low = question(tokens_per_s=rate, itl_ms=itl, objective=objective, workload=workload)
        high = replace(low, target=Target(TargetKind.OUTPUT_TOKENS_PER_S, rate * factor))
        assert best(high) >= best(low) * (1 - 1e-9)

    @hypothesis_settings(max_examples=40)
    @given(
        layers=st.integers(1, 80),
        more=st.integers(1, 40),
        rate=rates,
        itl=itl_limits,
        objective=objectives,
        users=st.booleans(),
        workload=workloads,
    )
    def test_more_layers_are_never_better(
        self, layers: int, more: int, rate: float, itl: float, objective: Objective, users: bool, workload: Workload
    ) -> None:
        kind = TargetKind.CONCURRENT_USERS if users else TargetKind.OUTPUT_TOKENS_PER_S
        shallow = replace(
            question(costs("LLAMA_3_1_8B", "bf16", layers), itl_ms=itl, objective=objective, workload=workload),
            target=Target(kind, rate),
        )
        deep = replace(shallow, model=costs("LLAMA_3_1_8B", "bf16", layers + more))
        assert best(deep) >= best(shallow) * (1 - 1e-9)

    @hypothesis_settings(max_examples=10)
    @given(rate=st.floats(1.0, 1e4), itl=st.floats(30.0, 300.0), objective=objectives, order=st.permutations(SUPPLY))
    def test_the_order_of_the_supply_does_not_matter(
        self, rate: float, itl: float, objective: Objective, order: list
    ) -> None:
        query = question(tokens_per_s=rate, itl_ms=itl, objective=objective)
        one, other = plan(query), plan(replace(query, supply=tuple(order)))
        assert one == other

    @hypothesis_settings(max_examples=25)
    @given(rate=rates, devices=st.integers(1, 50), budget=st.floats(0.5, 500.0), workload=workloads)
    def test_no_plan_exceeds_its_bounds(self, rate: float, devices: int, budget: float, workload: Workload) -> None:
        bounds = Constraints(max_devices=devices, max_usd_per_h=budget)
        sized = solve(question(tokens_per_s=rate, constraints=bounds, workload=workload)).sized
        assume(sized is not None)
        assert sized is not None
        for candidate, count in zip(sized.candidates, sized.devices, strict=True):
            assert count <= devices
            assert candidate.item.price is not None
            assert count * candidate.item.price.usd_per_h <= budget * (1 + 1e-9)
