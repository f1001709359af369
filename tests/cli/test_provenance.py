"""How sure an estimate is and where it comes from, as people and programs read it."""

from __future__ import annotations

import io
import json
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from capplan.cli.views.performance import print_performance
from capplan.cli.views.provenance import ESTIMATES, provenance_sentence, weakest, widest_side
from capplan.v1 import placement_pb2 as p
from tests.cli.answers import estimate_answer, performance, placement, plan_answer

SHAPE = ["--input-tokens", "1000", "--output-tokens", "300"]
PLAN = ["plan", "m", "--requests-per-s", "1", *SHAPE]
ESTIMATE = ["estimate", "m", "h100", *SHAPE]
VERSIONS = "vllm 0.8.5 to 0.11.0"


def sure(
    load: p.ReplicaPerformance, provenance: p.Provenance.ValueType, distance: float | None = None, versions: str = ""
) -> None:
    """Gives every figure an interval from four fifths to one and a half times itself, and says where all come from."""
    for name in ESTIMATES:
        estimate = getattr(load, name)
        estimate.lower, estimate.upper = estimate.value * 0.8, estimate.value * 1.5
    load.provenance = provenance
    load.engine_versions = versions
    if distance is not None:
        load.distance = distance


def sure_plan(output_tokens_per_s: float = 2_000.0):
    answer = plan_answer(placement(1), placement(2, "h100-sxm-80gb"))
    for each in answer.placements:
        each.capacity.CopyFrom(performance(output_tokens_per_s * 1.25, 41.5))
        each.operating_point.CopyFrom(performance(output_tokens_per_s, 31.5))
        sure(each.capacity, p.PROVENANCE_CALIBRATED, 1.75, VERSIONS)
        sure(each.operating_point, p.PROVENANCE_INTERPOLATED, 0.4, VERSIONS)
    return answer


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("provenance", "distance", "versions", "text"),
    [
        (p.PROVENANCE_MEASURED, 0.0, "vllm 0.11.0", "measured, 0 from a measurement (vllm 0.11.0)"),
        (p.PROVENANCE_INTERPOLATED, 0.4, VERSIONS, f"interpolated, 0.4 from a measurement ({VERSIONS})"),
        (p.PROVENANCE_INTERPOLATED, 0.999, "", "interpolated, 1 from a measurement"),
        (p.PROVENANCE_CALIBRATED, 2.254, "", "calibrated, 2.25 from a measurement"),
        (p.PROVENANCE_CALIBRATED, 1e300, "", "calibrated, over 99 from a measurement"),
        (
            p.PROVENANCE_CALIBRATED,
            None,
            "sglang 0.5.1",
            "calibrated to this GPU generation and engine; no measurement of this configuration is known "
            "(sglang 0.5.1)",
        ),
        (p.PROVENANCE_ANALYTIC, None, "", "analytic: not calibrated to this GPU generation and engine"),
        (p.PROVENANCE_MEASURED, None, "", "measured"),
        (p.PROVENANCE_UNSPECIFIED, None, "", "unspecified"),
    ],
)
def test_where_an_estimate_comes_from_is_a_sentence(provenance, distance, versions, text):
    load = p.ReplicaPerformance(provenance=provenance, distance=distance, engine_versions=versions)
    assert provenance_sentence(load) == text


def test_a_provenance_that_is_newer_than_the_program_is_told_as_it_came():
    load = p.ReplicaPerformance()
    load.ParseFromString(bytes([9 << 3, 77]))  # field 9 as a varint
    assert provenance_sentence(load) == "number 77"


def test_the_weaker_of_two_provenances_is_the_one_that_saw_less():
    order = (p.PROVENANCE_ANALYTIC, p.PROVENANCE_CALIBRATED, p.PROVENANCE_INTERPOLATED, p.PROVENANCE_MEASURED)
    for place, weaker in enumerate(order):
        for stronger in order[place:]:
            assert weakest(p.ReplicaPerformance(provenance=stronger), p.ReplicaPerformance(provenance=weaker)) == weaker


@pytest.mark.parametrize(
    ("lower", "upper", "text"), [(90.0, 105.0, "+-10"), (99.0, 130.0, "+-30"), (100.0, 100.0, "+-0"), (None, None, "")]
)
def test_an_interval_in_short_reaches_to_its_wider_side(lower, upper, text):
    assert widest_side(p.Estimate(value=100.0, lower=lower, upper=upper)) == text


# A small replica, and one whose figures have as many digits as they ever get.
@pytest.mark.parametrize("output_tokens_per_s", [3.0, 2_000.0, 400_000.0])
def test_a_plan_with_every_interval_fits_80_columns(run, backend, output_tokens_per_s):
    backend.plan = sure_plan(output_tokens_per_s)
    out = run(*PLAN).stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.isascii()
    # No interval is broken over lines: both columns of each row are whole.
    table = out[out.index("Performance of one replica") : out.index("at capacity: ")]
    intervals = re.findall(r"\([\d.,]+ to [\d.,]+\)", table)
    assert len(intervals) == 2 * len(ESTIMATES)


def test_a_plan_says_how_sure_the_best_placement_is_and_of_what(run, backend):
    backend.plan = sure_plan()
    out = words(run(*PLAN).stdout)
    # 31.5 times 0.8 and 1.5
    assert "ITL ms 41.5 (33.2 to 62.2) 31.5 (25.2 to 47.2)" in out
    assert f"- at capacity: calibrated, 1.75 from a measurement ({VERSIONS})" in out
    assert f"- at the target: interpolated, 0.4 from a measurement ({VERSIONS})" in out
    assert "in brackets: 90 % intervals" in out
    assert "0 at it; at 1, 61 % of what it showed" in out  # exp(-1/2) is 0.607


def test_the_ranking_says_how_sure_every_placement_is(run, backend):
    backend.plan = sure_plan()
    out = run(*PLAN).stdout
    lines = out[: out.index("Best:")].splitlines()
    second = next(number for number, line in enumerate(lines) if line.startswith("2 "))
    # Half as much again above the figure is the wider side; of the two loads, capacity is further from a measurement.
    assert lines[second + 1].split() == ["calibrated", "+-50", "+-50", "+-50"]
    assert "+- percent to the wider side of the 90 % interval" in words(out)


def test_without_intervals_and_distances_none_is_spoken_of(run, backend):
    backend.plan = plan_answer(placement(1))
    for load in (backend.plan.placements[0].capacity, backend.plan.placements[0].operating_point):
        load.itl_ms.ClearField("lower")
        load.itl_ms.ClearField("upper")
    out = run(*PLAN).stdout
    assert "- at capacity, at the target: analytic: not calibrated to this GPU generation and engine" in words(out)
    for word in ("interval", "from a measurement", "+-"):
        assert word not in out


def sure_estimate(opinions: int):
    answer = estimate_answer()
    sure(answer.performance, p.PROVENANCE_MEASURED, 0.0, "vllm 0.11.0")
    answer.total_output_tokens_per_s.lower = 4_000.0
    answer.total_output_tokens_per_s.upper = 7_500.0
    for number in range(1, opinions + 1):
        opinion = answer.second_opinions.add(estimator=f"table-{number}")
        opinion.performance.CopyFrom(performance(2_000.0, 100.0 + number))
        sure(opinion.performance, p.PROVENANCE_INTERPOLATED, number / 4)
    return answer


@pytest.mark.parametrize("opinions", range(6))
def test_second_opinions_that_do_not_fit_beside_the_answer_come_below_it(run, backend, opinions):
    backend.estimate = sure_estimate(opinions)
    out = run(*ESTIMATE).stdout
    assert max(map(len, out.splitlines())) <= 80
    rows = re.findall(r"^ITL ms +(.*)$", out, re.MULTILINE)
    shown = [float(value) for row in rows for value in re.findall(r"([\d.]+) \([\d.]+ to [\d.]+\)", row)]
    assert shown == [41.5, *(100.0 + number for number in range(1, opinions + 1))]
    assert (len(rows) == 1) is (opinions < 2)
    for number in range(1, opinions + 1):
        assert f"- says table-{number}: interpolated, {number / 4:g} from a measurement" in out


def test_the_total_of_an_estimate_has_its_interval_too(run, backend):
    backend.estimate = sure_estimate(0)
    out = run(*ESTIMATE, "--replicas", "2").stdout
    assert "all 2 replica(s): 5,000 (4,000 to 7,500) output tokens/s" in out
    assert "- as full as it gets: measured, 0 from a measurement (vllm 0.11.0)" in out


def test_a_bottleneck_as_long_as_another_estimator_may_give_is_folded(run, backend):
    backend.estimate = sure_estimate(2)
    usual = run(*ESTIMATE).stdout
    backend.estimate.second_opinions[0].performance.bottleneck = "x" * 500
    out = run(*ESTIMATE).stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("x") == usual.count("x") + 500


def test_json_has_ends_distance_and_versions_and_leaves_out_what_is_not_known(run, backend):
    backend.plan = sure_plan()
    (first, *_) = json.loads(run(*PLAN, "--output", "json").stdout)["placements"]
    at_target = first["operating_point"]
    assert (at_target["provenance"], at_target["distance"]) == ("PROVENANCE_INTERPOLATED", 0.4)
    assert at_target["engine_versions"] == VERSIONS
    assert at_target["ttft_ms"] == {"value": 123.0, "lower": 123.0 * 0.8, "upper": 123.0 * 1.5}
    backend.estimate = sure_estimate(1)
    answer = json.loads(run(*ESTIMATE, "--output", "json").stdout)
    assert answer["performance"]["distance"] == 0.0
    assert answer["second_opinions"][0]["performance"]["distance"] == 0.25
    backend.estimate = estimate_answer()
    unknown = json.loads(run(*ESTIMATE, "--output", "json").stdout)["performance"]
    assert "distance" not in unknown
    assert unknown["engine_versions"] == ""
    assert set(unknown["ttft_ms"]) == {"value"}


def test_the_word_in_the_table_is_the_one_of_the_contract(run, backend):
    for name, value in p.Provenance.items():
        backend.estimate = estimate_answer()
        backend.estimate.performance.provenance = value
        row = re.search(r"^provenance +(.*?) *$", run(*ESTIMATE).stdout, re.MULTILINE)
        assert row is not None
        assert row.group(1) == name.removeprefix("PROVENANCE_").lower()


FIGURES = st.floats(width=64)
ENDS = st.one_of(st.none(), FIGURES)
LOADS = st.builds(
    p.ReplicaPerformance,
    batch=FIGURES,
    prefill_step_share=FIGURES,
    provenance=st.sampled_from(p.Provenance.values()),
    bottleneck=st.text(string.printable, max_size=120),
    distance=ENDS,
    engine_versions=st.text(string.printable, max_size=120),
    **{name: st.builds(p.Estimate, value=FIGURES, lower=ENDS, upper=ENDS) for name in ESTIMATES},
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=40), LOADS, min_size=1, max_size=5))
def test_whatever_a_server_sends_is_printed_within_the_width(columns):
    text = io.StringIO()
    console = Console(file=text, width=80, highlight=False, markup=False, emoji=False)
    print_performance(console, columns)
    assert max(map(len, text.getvalue().splitlines())) <= 80
    for load in columns.values():
        widest_side(load.itl_ms)
