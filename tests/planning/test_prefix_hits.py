"""Plans with a prefix cache: what hits save, and that more of them never cost anything."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from capplan.planning.planner import plan
from capplan.planning.query import Constraints, MigPolicy, Objective, PlacementQuery, Workload
from capplan.planning.solver import solve
from tests.planning.questions import costs, question


def best(query: PlacementQuery) -> float:
    sized = solve(query).sized
    return math.inf if sized is None else float(sized.objective.min())


def cached(share: float, *, input_tokens: float = 6_000.0, output_tokens: float = 200.0) -> Workload:
    return Workload(input_tokens, output_tokens, 16_384, share)


@given(
    model=st.sampled_from([("LLAMA_3_1_8B", "bf16"), ("QWEN3_30B_A3B", "bf16"), ("GPT_OSS_120B", "mxfp4")]),
    shares=st.lists(st.floats(0.0, 0.99), min_size=2, max_size=2).map(sorted),
    lengths=st.tuples(st.floats(1.0, 12_000.0), st.floats(1.0, 2_000.0)),
    limits=st.tuples(st.none() | st.floats(50.0, 3_000.0), st.none() | st.floats(8.0, 80.0)),
    objective=st.sampled_from([Objective.COST, Objective.DEVICES, Objective.ENERGY]),
)
@hypothesis_settings(max_examples=25)
def test_more_hits_never_make_a_plan_worse(
    model: tuple[str, str],
    shares: list[float],
    lengths: tuple[float, float],
    limits: tuple[float | None, float | None],
    objective: Objective,
) -> None:
    few, many = (
        best(
            question(
                costs(*model),
                workload=cached(share, input_tokens=lengths[0], output_tokens=lengths[1]),
                ttft_ms=limits[0],
                itl_ms=limits[1],
                objective=objective,
                constraints=Constraints(mig=MigPolicy.FORBIDDEN),
            )
        )
        for share in shares
    )
    assert many <= few * (1 + 1e-12)


def test_hits_save_devices_where_prompts_are_the_work() -> None:
    # 6,000 prompt tokens for 200 of the answer: prompt work is most of it, and a tenth of it is left
    few, many = (
        best(question(workload=cached(share), tokens_per_s=20_000.0, objective=Objective.DEVICES))
        for share in (0.0, 0.9)
    )
    assert many < few / 1.5


def test_a_limit_that_no_whole_prompt_can_meet_is_met_by_what_misses() -> None:
    # 12,000 tokens of an 8B model are 192 TFLOP, 0.2 s even at an H100's peak of 989 TFLOP/s in one device; a
    # twentieth of them leaves room
    def placements(share: float) -> int:
        only = Constraints(tensor_parallel_sizes=(1,), allowed_skus=("h100-sxm-80gb",))
        workload = cached(share, input_tokens=12_000.0)
        return len(plan(question(workload=workload, ttft_ms=120.0, constraints=only)).placements)

    assert placements(0.0) == 0
    assert placements(0.95) > 0


@pytest.mark.parametrize(("share", "said"), [(0.0, 0), (0.25, 1)])
def test_the_answer_says_what_hits_take_for_granted(share: float, said: int) -> None:
    assumed = plan(question(workload=cached(share))).assumptions
    assert sum("memory that requests share is not counted" in sentence for sentence in assumed) == said
