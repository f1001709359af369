from __future__ import annotations

import json
import re
import shlex

import pytest
from google.protobuf import json_format

from capplan.cli.backend import Connection
from capplan.errors import InvalidInputError, NotFoundError
from capplan.v1 import placement_pb2 as p
from capplan.v1 import planner_service_pb2
from tests.cli.answers import BUDGET_GIB, PARTS_GIB, plan_answer, sliced_placement

QUESTION = shlex.split(
    "plan Qwen/Qwen3-32B --precision fp8 --output-tokens-per-s 5000 --input-tokens 1000 --output-tokens 300 "
    "--ttft-ms 1000 --itl-ms 40"
)
SHAPE = ["--input-tokens", "1000", "--output-tokens", "300"]


def test_the_readable_question_becomes_the_request(run, backend):
    assert run(*QUESTION).exit_code == 0
    request = planner_service_pb2.PlanPlacementRequest()
    request.model.name = "Qwen/Qwen3-32B"
    request.precision.weights = "fp8"
    request.target.output_tokens_per_s = 5000
    request.workload.input_tokens = 1000
    request.workload.output_tokens = 300
    request.latency_limits.add(metric=p.LATENCY_METRIC_TTFT, limit_ms=1000)
    request.latency_limits.add(metric=p.LATENCY_METRIC_ITL, limit_ms=40)
    request.constraints.engine.SetInParent()
    assert backend.requests[0] == request


def test_every_flag_reaches_its_field(run, backend):
    flags = shlex.split(
        "plan m --kv-cache fp8 --requests-per-s 2.5 --input-tokens 10 --output-tokens 20 --max-context-tokens "
        "4096 --e2e-ms 9000 --objective latency --accelerator a --accelerator b --deny-accelerator c --mig "
        "forbidden --mig-profile 1g.10gb --mig-profile 2g.20gb --tensor-parallel 2 --tensor-parallel 4 "
        "--max-devices 16 --max-usd-per-h 99.5 --headroom 0.2 --price-term spot --engine vllm --engine-version 0.20 "
        "--gpu-memory-utilization 0.85 --max-num-seqs 128 --max-num-batched-tokens 4096 --max-placements 9"
    )
    assert run(*flags).exit_code == 0
    assert json_format.MessageToDict(backend.requests[0], preserving_proto_field_name=True) == {
        "model": {"name": "m"},
        "precision": {"kv_cache": "fp8"},
        "target": {"requests_per_s": 2.5},
        "workload": {"input_tokens": 10.0, "output_tokens": 20.0, "max_context_tokens": "4096"},
        "latency_limits": [{"metric": "LATENCY_METRIC_E2E", "limit_ms": 9000.0}],
        "constraints": {
            "allowed_accelerators": ["a", "b"],
            "denied_accelerators": ["c"],
            "mig_policy": "MIG_POLICY_FORBIDDEN",
            "mig_profiles": ["1g.10gb", "2g.20gb"],
            "tensor_parallel_sizes": [2, 4],
            "max_devices": 16,
            "max_usd_per_h": 99.5,
            "headroom_share": 0.2,
            "price_term": "spot",
            "engine": {
                "name": "vllm",
                "version": "0.20",
                "gpu_memory_utilization": 0.85,
                "max_num_seqs": 128,
                "max_num_batched_tokens": 4096,
            },
        },
        "objective": "OBJECTIVE_LATENCY",
        "max_placements": 9,
    }


def test_flags_of_another_engine_and_of_the_prefix_cache_reach_their_fields(run, backend):
    flags = "--mem-fraction-static 0.8 --free-gpu-memory-fraction 0.7 --prefix-cache-hit-share 0.4"
    assert run(*QUESTION, *shlex.split(flags)).exit_code == 0
    (request,) = backend.requests[:1]
    engine = request.constraints.engine
    assert (engine.mem_fraction_static, engine.free_gpu_memory_fraction) == (0.8, 0.7)
    assert request.workload.prefix_cache_hit_share == 0.4


@pytest.mark.parametrize(
    ("flag", "value", "field", "expected"),
    [
        ("--mig", "allowed", "mig_policy", p.MIG_POLICY_ALLOWED),
        ("--mig", "required", "mig_policy", p.MIG_POLICY_REQUIRED),
        ("--mig", "forbidden", "mig_policy", p.MIG_POLICY_FORBIDDEN),
        ("--objective", "cost", None, p.OBJECTIVE_COST),
        ("--objective", "devices", None, p.OBJECTIVE_DEVICES),
        ("--objective", "energy", None, p.OBJECTIVE_ENERGY),
        ("--objective", "latency", None, p.OBJECTIVE_LATENCY),
    ],
)
def test_choices_mean_the_enum_of_the_same_name(run, backend, flag, value, field, expected):
    run(*QUESTION, flag, value)
    request = backend.requests[0]
    assert (getattr(request.constraints, field) if field else request.objective) == expected


def test_a_config_file_replaces_the_catalogue(run, backend, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama"}')
    quantization = tmp_path / "hf_quant_config.json"
    quantization.write_text('{"producer": {}}')
    run("plan", "mine", "--config", str(config), "--quantization-config", str(quantization),
        "--concurrent-users", "8", *SHAPE)  # fmt: skip
    model = backend.requests[0].model
    assert model.WhichOneof("source") == "config_json"
    assert model.config_json == '{"model_type": "llama"}'
    assert model.quantization_config_json == '{"producer": {}}'
    assert model.display_name == "mine"
    assert backend.requests[0].target.concurrent_users == 8


def test_a_config_can_come_from_standard_input_and_needs_no_name(run, backend):
    run("plan", "--config", "-", "--concurrent-users", "8", *SHAPE, input='{"model_type": "llama"}')
    assert backend.requests[0].model.config_json == '{"model_type": "llama"}'
    assert backend.requests[0].model.display_name == ""


@pytest.mark.parametrize("source", ["file", "-"])
def test_a_whole_request_comes_as_json(run, backend, tmp_path, source):
    text = '{"model": {"name": "m"}, "target": {"requestsPerS": 2}, "workload": {"input_tokens": 5}}'
    path = tmp_path / "question.json"
    path.write_text(text)
    result = run("plan", "--request", str(path) if source == "file" else "-", input=text)
    assert result.exit_code == 0
    request = backend.requests[0]
    assert (request.model.name, request.target.requests_per_s, request.workload.input_tokens) == ("m", 2, 5)


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["MODEL"], "MODEL"),
        (["--precision", "fp8"], "--precision"),
        (["--mig", "allowed"], "--mig"),
        (["--accelerator", "a"], "--accelerator"),
        (["--max-num-seqs", "1"], "--max-num-seqs"),
    ],
)
def test_a_whole_request_excludes_the_flags_of_the_question(run, backend, extra, named):
    result = run("plan", "--request", "-", *extra, input="{}")
    assert result.exit_code == 2
    assert f"leave out {named}" in result.stderr
    assert not backend.requests


def test_a_whole_request_takes_the_flags_of_asking(run, backend):
    result = run("plan", "--request", "-", "--output", "json", "--address", "host:1", "--timeout-s", "2", input="{}")
    assert result.exit_code == 0
    assert backend.connection == Connection(local=False, address="host:1", timeout_s=2.0)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"text"', '{"modle": {}}', '{"target": 5}', '{"max_placements": "many"}', "[" * 5000]
)
def test_a_request_that_is_none_is_refused(run, backend, text):
    result = run("plan", "--request", "-", input=text)
    assert result.exit_code == 2
    assert "is not a PlanPlacementRequest as JSON" in result.stderr
    assert not backend.requests


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["plan"], "name a MODEL"),
        (["plan", "m", *SHAPE], "--output-tokens-per-s, --requests-per-s or --concurrent-users (0 are given)"),
        (["plan", "m", *SHAPE, "--requests-per-s", "1", "--concurrent-users", "1"], "2 are given"),
        (["plan", "--requests-per-s", "1", *SHAPE], "name a MODEL"),
        (["plan", "m", "--requests-per-s", "1"], "--input-tokens and --output-tokens missing"),
        (["plan", "m", "--requests-per-s", "1", "--input-tokens", "5"], "--output-tokens missing"),
        (["plan", "m", "--requests-per-s", "1", *SHAPE, "--quantization-config", "f"], "needs --config"),
        (["plan", "--requests-per-s", "1", *SHAPE, "--config", "-", "--quantization-config", "-"], "cannot both"),
        (["plan", "m", "--requests-per-s", "1", *SHAPE, "--config", "/no/such/file"], "No such file"),
        (["plan", "m", "--requests-per-s", "1", *SHAPE, "--config", "/"], "cannot read /"),
        ([*QUESTION, "--max-usd-per-h", "0"], "--max-usd-per-h must be above zero"),
        ([*QUESTION, "--max-usd-per-h", "nan"], "--max-usd-per-h must be above zero"),
        ([*QUESTION, "--gpu-memory-utilization", "-0.5"], "--gpu-memory-utilization must be above zero"),
        ([*QUESTION, "--max-devices", "0"], "--max-devices"),
        ([*QUESTION, "--max-devices", "99999999999"], "cannot be sent in a request"),
        ([*QUESTION, "--max-context-tokens", str(2**63)], "cannot be sent in a request"),
        ([*QUESTION, "--tensor-parallel", "two"], "--tensor-parallel"),
        ([*QUESTION, "--max-placements", "101"], "--max-placements"),
        ([*QUESTION, "--mig", "maybe"], "--mig"),
        ([*QUESTION, "--objective", "speed"], "--objective"),
        ([*QUESTION, "--no-such-flag"], "--no-such-flag"),
        ([*QUESTION, "another"], "another"),
        ([*QUESTION, "--accelerator", "h100\udcff"], "not valid UTF-8"),
        ([*QUESTION, "--config", "a\0b"], "--config"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(run, backend, arguments, named):
    result = run(*arguments)
    assert result.exit_code == 2
    assert named in re.sub(r"[\s│]+", " ", result.stderr)
    assert result.stdout == ""
    assert not backend.requests


def test_a_file_that_is_no_text_is_refused(run, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff\xfe\x00")
    result = run("plan", "m", "--requests-per-s", "1", *SHAPE, "--config", str(path))
    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr


def test_json_output_is_the_answer_and_nothing_else(run, backend):
    result = run(*QUESTION, "--output", "json")
    assert result.exit_code == 0
    answer = json_format.Parse(result.stdout, planner_service_pb2.PlanPlacementResponse())
    assert answer == backend.plan
    assert result.stderr == ""
    assert "device_count" in result.stdout
    assert "deviceCount" not in result.stdout


def test_json_output_writes_defaults_out(run, backend):
    backend.plan = plan_answer()
    result = run(*QUESTION, "--output", "json")
    assert json.loads(result.stdout)["placements"] == []


def test_infeasible_is_exit_code_3_and_shows_what_would_do(run, backend):
    backend.plan = plan_answer()
    result = run(*QUESTION)
    assert result.exit_code == 3
    assert "Infeasible" in result.stdout
    assert "allow a shorter context [workload.max_context_tokens = 16384]" in result.stdout
    assert run(*QUESTION, "--output", "json").exit_code == 3


def test_a_refused_field_is_named_with_its_flag_and_is_exit_code_2(run, backend):
    backend.plan = InvalidInputError.single("latency_limits[0].limit_ms", "must be positive")
    result = run(*QUESTION)
    assert result.exit_code == 2
    assert "latency_limits[0].limit_ms (--ttft-ms, --itl-ms or --e2e-ms): must be positive" in result.stderr
    assert result.stdout == ""


def test_an_unknown_model_is_refused_with_near_names_and_is_exit_code_1(run, backend):
    backend.plan = NotFoundError("model", "Qwen/Qwen3-23B", ("Qwen/Qwen3-32B",))
    result = run(*QUESTION)
    assert result.exit_code == 1
    assert "no model named 'Qwen/Qwen3-23B'; did you mean Qwen/Qwen3-32B?" in result.stderr


def test_the_table_fits_80_columns_and_is_plain_text(run, backend):
    backend.plan = plan_answer(sliced_placement(), *(backend.plan.placements))
    out = run(*QUESTION, "--all-rejections").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert out.isascii()


def test_the_ranking_shows_each_placement_in_a_line(run, backend):
    backend.plan.placements[0].accelerator = "accelerators/h100-sxm-80gb"
    out = run(*QUESTION).stdout
    row = next(line for line in out.splitlines() if line.startswith("1 "))
    # Three replicas of 2,500 tokens/s can do 7,500; latencies are those at the target.
    assert row.split() == [
        "1", "h100-sxm-80gb", "12", "3", "x", "TP4", "7,500", "31.5", "123", "30.12", "1.39", "80", "%",
    ]  # fmt: skip


def test_a_long_name_is_folded_not_cut(run, backend):
    out = run(*QUESTION).stdout
    table = out[out.index("Placements") : out.index("Best:")]
    first_two = "".join(line[3:24].strip() for line in table.splitlines()[4:6])
    assert backend.plan.placements[0].accelerator == f"accelerators/{first_two}"


def test_a_missing_price_is_a_dash_not_a_zero(run, backend):
    backend.plan.placements[0].ClearField("cost_usd_per_h")
    backend.plan.placements[0].ClearField("cost_usd_per_million_output_tokens")
    backend.plan.placements[0].accelerator = "accelerators/short"
    row = next(line for line in run(*QUESTION).stdout.splitlines() if line.startswith("1  "))
    assert row.split()[-4:] == ["-", "-", "80", "%"]


def test_the_best_placement_is_explained(run):
    out = run(*QUESTION).stdout
    for fact in ("This is the first sentence.", "This is the second sentence.", "a price list", "4,321 W",
                 "nvidia.com/gpu: 4", "itl limit", "31.5 (30.5 to 32.5)", "analytic"):  # fmt: skip
        assert fact in out


def test_the_memory_parts_add_up_to_the_budget(run):
    out = run(*QUESTION).stdout
    printed = {
        part: float(re.search(rf"^{part}\s+([\d.]+)", out, re.MULTILINE).group(1)) for part in (*PARTS_GIB, "budget")
    }
    assert printed == {**PARTS_GIB, "budget": BUDGET_GIB}
    assert sum(PARTS_GIB.values()) == printed["budget"]


def test_the_start_command_can_be_pasted(run):
    out = run(*QUESTION).stdout
    command = out[out.index("vllm serve") :].split("\nThe checkpoint")[0]
    assert command.replace("\\\n", "").split() == shlex.split(
        "vllm serve org/model-70b --tensor-parallel-size 4 --max-model-len 32768 --gpu-memory-utilization "
        "0.9 --max-num-seqs 256 --max-num-batched-tokens 8192"
    )


def test_a_sliced_placement_shows_profile_ids_starts_and_resource_names(run, backend):
    backend.plan = plan_answer(sliced_placement())
    out = run(*QUESTION).stdout
    assert "7 x 1g.10gb" in out
    assert "1g.10gb (id 19) at 0, 1, 2; 3g.40gb (id 9) at 4, spare" in re.sub(r"\s+", " ", out)
    assert "1g.10gb (id 19) at 6" in out
    assert "4g.40gb x 1 or 1g.10gb x 6" in out
    assert "nvidia.com/mig-1g.10gb" in out
    assert "nvidia.com/gpu" in out
    assert "reset" in out
    assert backend.requests[1].name == "migBoards/a100-80gb/profiles/19"


def test_rejections_are_grouped_with_the_nearest_miss_first_and_cut_with_a_count(run):
    out = run(*QUESTION).stdout
    assert "Ruled out: 6 accelerator(s)" in out
    assert "weights do not fit (5)" in out
    assert re.findall(r"device-(\d)", out) == ["1", "2", "3"]
    assert "misses 1.00 GiB per device" in re.sub(r"\s+", " ", out)
    assert "and 2 more" in out
    assert "odd-one: nothing runs there" in out


def test_all_rejections_can_be_had(run):
    out = run(*QUESTION, "--all-rejections").stdout
    assert re.findall(r"device-(\d)", out) == ["1", "2", "3", "4", "5"]
    assert "more (" not in out


def test_the_address_comes_from_the_flag_else_the_environment_else_the_default(run, backend, monkeypatch):
    run(*QUESTION)
    assert backend.connection.address == "127.0.0.1:50051"
    monkeypatch.setenv("CAPPLAN_ADDRESS", "elsewhere:1")
    run(*QUESTION)
    assert backend.connection.address == "elsewhere:1"
    run(*QUESTION, "--address", "flag:2")
    assert backend.connection.address == "flag:2"
    assert run(*QUESTION, "--local").exit_code == 0
    assert backend.connection.local
