from __future__ import annotations

import re

from google.protobuf import json_format

from capplan.v1 import model_pb2, planner_service_pb2
from tests.cli.answers import model_answer


def test_flags_reach_the_request(run, backend):
    run("describe-model", "m", "--precision", "fp8", "--precision", "int4", "--kv-cache", "fp8")
    assert backend.requests[0] == planner_service_pb2.DescribeModelRequest(
        model=model_pb2.ModelSelection(name="m"), precisions=["fp8", "int4"], kv_cache="fp8"
    )


def test_a_model_is_needed(run, backend):
    result = run("describe-model")
    assert result.exit_code == 2
    assert "MODEL" in result.stderr
    assert not backend.requests


def test_parameter_groups_add_up_to_the_total(run):
    out = run("describe-model", "m").stdout
    counts = {
        part: int(re.search(rf"^{part}\s+([\d,]+)", out, re.MULTILINE).group(1).replace(",", ""))
        for part in ("embedding", "routed expert", "total")
    }
    assert counts["embedding"] + counts["routed expert"] == counts["total"] == 3_000_000_000
    assert "3.00 billion parameters, 1.00 billion of them for one token" in out


def test_sizes_come_per_precision_and_a_refusal_has_no_size(run):
    out = run("describe-model", "m").stdout
    # 6e9 bytes are 5.588 GiB.
    assert re.search(r"^bf16\s+5\.59\s+16\.00", out, re.MULTILINE)
    assert "mxfp4 - - cannot be stored so: this model has no such checkpoint" in re.sub(r"\s+", " ", out)


def test_a_token_costs_less_once_windows_are_full(run):
    out = run("describe-model", "m").stdout
    assert re.search(r"KV cache per token\s+2\.00 KiB", out)
    assert re.search(r"KV cache per token once every window is full\s+1\.00 KiB", out)
    assert re.search(r"recurrent state per sequence\s+4\.00 KiB", out)


def test_it_fits_80_columns_and_is_plain_text(run):
    out = run("describe-model", "m").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.isascii()


def test_json_output_parses_back_into_the_answer(run):
    out = run("describe-model", "m", "--output", "json").stdout
    assert json_format.Parse(out, planner_service_pb2.DescribeModelResponse()) == model_answer()
