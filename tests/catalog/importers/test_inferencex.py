"""InferenceX's aggregates; the files here are made up in the documented layout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capplan.catalog.importers.inferencex import parse_inferencex
from capplan.errors import InvalidInputError

ROW: dict[str, Any] = {
    "hw": "h200-trt",
    "conc": 64,
    "model": "org/m-70b",
    "framework": "dynamo-trt",
    "precision": "fp8",
    "spec_decoding": "none",
    "disagg": False,
    "isl": 1000,
    "osl": 500,
    "is_multinode": False,
    "tp": 4,
    "ep": 2,
    "dp_attention": "false",
    "tput_per_gpu": 1150.0,
    "output_tput_per_gpu": 576.0,
    "mean_ttft": 0.42,
    "mean_tpot": 0.026,
    "mean_intvty": 38.5,
    "p99_ttft": 1.9,
}

CSV = """\
hw,model,conc,framework,precision,spec_decoding,disagg,isl,osl,tp,ep,dp_attention,tput_per_gpu,mean_tpot
h200,org/m-70b,64,vllm,fp8,none,False,1000,500,4,1,false,1150,0.026
h200,org/m-70b,64,vllm,fp8,none,False,1000,500,four,1,false,1150,0.026
h200,org/m-70b,64
"""


def run_of(**changes: Any):
    (run,) = parse_inferencex(json.dumps(ROW | changes)).runs
    return run


def figures(run) -> dict[tuple[str, str], float]:
    return {(figure.metric, figure.statistic): figure.value for figure in run.figures}


def test_rates_become_the_deployments_and_seconds_become_milliseconds() -> None:
    found = figures(run_of())
    assert found == {
        ("total_tokens_per_s", "mean"): 4 * 1150.0,
        ("output_tokens_per_s", "mean"): 4 * 576.0,
        ("ttft_ms", "mean"): pytest.approx(420.0),
        ("ttft_ms", "p99"): pytest.approx(1900.0),
        ("tpot_ms", "mean"): pytest.approx(26.0),
    }


def test_the_setup_is_read() -> None:
    facts = run_of().facts
    assert (facts.model, facts.accelerator, facts.engine, facts.weights) == ("org/m-70b", "h200", "tensorrt-llm", "fp8")
    assert (facts.devices, facts.tensor_parallel, facts.expert_parallel, facts.attention_data_parallel) == (4, 4, 2, 1)
    assert (facts.load_kind, facts.load_value) == ("concurrency", 64.0)


def test_lengths_are_the_means_of_what_is_drawn() -> None:
    facts = run_of().facts
    assert (facts.input_tokens, facts.output_tokens) == (900.0, 450.0)  # uniform from 0.8 to 1.0 of the nominal


def test_attention_data_parallelism_takes_the_ranks_of_tp() -> None:
    run = run_of(tp=8, dp_attention="true")
    assert (run.facts.devices, run.facts.tensor_parallel, run.facts.attention_data_parallel) == (8, 1, 8)
    assert run.flags == ("dp_attention",)


def test_a_disaggregated_deployment_counts_both_pools() -> None:
    split = {"disagg": True, "decode_tp": 8, "decode_ep": 8, "decode_dp_attention": "false"}
    run = run_of(**split, num_prefill_gpu=4, num_decode_gpu=16)
    assert run.facts.devices == 20
    assert run.flags == ("disaggregated",)
    # The output rate is published per decode GPU, the total over all.
    assert figures(run)["output_tokens_per_s", "mean"] == 16 * 576.0
    assert figures(run)["total_tokens_per_s", "mean"] == 20 * 1150.0


def test_fp4_may_be_either_format_and_is_left_open() -> None:
    assert run_of(precision="fp4").facts.weights is None


def test_multi_token_prediction_is_flagged() -> None:
    assert run_of(spec_decoding="mtp").flags == ("speculative_decoding",)


def test_a_list_of_aggregates_is_read() -> None:
    parsed = parse_inferencex(json.dumps([ROW, 7, ROW | {"tp": None}, ROW | {"disagg": True, "decode_tp": 4}]))
    assert [run.place for run in parsed.runs] == ["[0]"]
    assert [rejection.place for rejection in parsed.rejections] == ["[1]", "[2]", "[3]"]
    assert "num_prefill_gpu" in parsed.rejections[2].reason


def test_csv_has_the_keys_for_columns_and_bad_lines_are_named() -> None:
    parsed = parse_inferencex(CSV)
    (run,) = parsed.runs
    assert run.place == "line 2"
    assert figures(run) == {("total_tokens_per_s", "mean"): 4600.0, ("tpot_ms", "mean"): pytest.approx(26.0)}
    reasons = {rejection.place: rejection.reason for rejection in parsed.rejections}
    assert reasons == {"line 3": "tp is 'four', no positive number", "line 4": "has 3 cells, the header 14"}


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "{broken", "7"])
def test_a_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_inferencex(text)
