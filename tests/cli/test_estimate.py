from __future__ import annotations

import json
import re
import shlex

import grpc
import pytest
from google.protobuf import json_format

from capplan.client import UnreachableError
from capplan.errors import InvalidInputError, NotFoundError
from capplan.v1 import planner_service_pb2
from tests.cli.answers import BUDGET_GIB, PARTS_GIB, estimate_answer, performance

QUESTION = ["estimate", "Qwen/Qwen3-32B", "h100-sxm-80gb", "--input-tokens", "1000", "--output-tokens", "300"]


def test_every_flag_reaches_its_field(run, backend):
    flags = shlex.split(
        "--precision fp8 --kv-cache fp8 --max-context-tokens 4096 --concurrency 64 --tensor-parallel 2 "
        "--replicas 3 --mig-profile id:19 --engine vllm --engine-version 0.20 --gpu-memory-utilization 0.85 "
        "--max-num-seqs 128 --max-num-batched-tokens 4096"
    )
    assert run(*QUESTION, *flags).exit_code == 0
    assert json_format.MessageToDict(backend.requests[0], preserving_proto_field_name=True) == {
        "model": {"name": "Qwen/Qwen3-32B"},
        "precision": {"weights": "fp8", "kv_cache": "fp8"},
        "workload": {"input_tokens": 1000.0, "output_tokens": 300.0, "max_context_tokens": "4096"},
        "deployment": {
            "accelerator": "h100-sxm-80gb",
            "mig_profile": "id:19",
            "tensor_parallel": 2,
            "replica_count": "3",
            "engine": {
                "name": "vllm",
                "version": "0.20",
                "gpu_memory_utilization": 0.85,
                "max_num_seqs": 128,
                "max_num_batched_tokens": 4096,
            },
        },
        "concurrency": 64.0,
    }


def test_flags_of_another_engine_and_of_the_prefix_cache_reach_their_fields(run, backend):
    flags = "--mem-fraction-static 0.8 --free-gpu-memory-fraction 0.7 --prefix-cache-hit-share 0.4"
    assert run(*QUESTION, *shlex.split(flags)).exit_code == 0
    (request,) = backend.requests
    engine = request.deployment.engine
    assert (engine.mem_fraction_static, engine.free_gpu_memory_fraction) == (0.8, 0.7)
    assert request.workload.prefix_cache_hit_share == 0.4


def with_opinions(names: list[str]):
    """The usual answer with what these estimators say: 30 ms more a token for each, or nothing for "silent"."""
    answer = estimate_answer()
    for number, name in enumerate(names, start=1):
        opinion = answer.second_opinions.add(estimator=name)
        if name == "silent":
            opinion.reason = "h100 was never measured"
        else:
            opinion.performance.CopyFrom(performance(2_000.0, 41.5 + 30 * number))
            opinion.performance.prefill_step_share = 0.0
            opinion.performance.bottleneck = ""
    return answer


def test_second_opinions_are_asked_for_and_stand_beside_the_answer(run, backend):
    backend.estimate = with_opinions(["their-table", "silent", "analytic"])
    result = run(*QUESTION, "--second-opinion", "their-table", "--second-opinion", "silent",
                 "--second-opinion", "analytic")  # fmt: skip
    assert list(backend.requests[0].second_opinions) == ["their-table", "silent", "analytic"]
    (itl,) = re.findall(r"^ITL ms +(.*)$", result.stdout, re.MULTILINE)
    assert re.findall(r"([\d.]+) \(", itl) == ["41.5", "71.5", "132"]  # the third is 41.5 + 3 * 30
    # what they do not say is a dash, not a zero
    assert re.search(r"^steps with prefill +25 % +- +-$", result.stdout, re.MULTILINE)
    assert re.search(r"^limited by +memory bandwidth +- +-$", result.stdout, re.MULTILINE)
    assert "silent: h100 was never measured" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_without_second_opinions_none_is_mentioned(run, backend):
    out = run(*QUESTION).stdout
    assert not backend.requests[0].second_opinions
    assert "opinion" not in out
    assert "says" not in out


def test_second_opinions_are_in_the_json(run, backend):
    backend.estimate = with_opinions(["their-table", "silent"])
    answer = json.loads(run(*QUESTION, "--second-opinion", "their-table", "--output", "json").stdout)
    assert [opinion["estimator"] for opinion in answer["second_opinions"]] == ["their-table", "silent"]
    assert answer["second_opinions"][0]["performance"]["itl_ms"]["value"] == 71.5
    assert answer["second_opinions"][1]["reason"] == "h100 was never measured"


def test_the_help_says_how_another_estimator_gets_there(run):
    out = re.sub(r"[\s│]+", " ", run("estimate", "--help").stdout)
    assert "entry point of the group capplan.estimators" in out
    assert "capplan.estimation.estimator.Estimator" in out


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("second_opinions[0]", "--second-opinion"),
        ("workload.prefix_cache_hit_share", "--prefix-cache-hit-share"),
        ("deployment.engine.mem_fraction_static", "--mem-fraction-static"),
        ("deployment.engine.free_gpu_memory_fraction", "--free-gpu-memory-fraction"),
    ],
)
def test_a_refused_field_is_named_by_its_flag(run, backend, field, flag):
    backend.estimate = InvalidInputError.single(field, "is not right")
    result = run(*QUESTION)
    assert result.exit_code == 2
    assert f"{field} ({flag}): is not right" in result.stderr


@pytest.mark.parametrize(("names", "display_name"), [(["h100"], ""), (["mine", "h100"], "mine")])
def test_with_a_config_the_display_name_may_be_left_out(run, backend, names, display_name):
    run("estimate", *names, "--config", "-", "--input-tokens", "1", "--output-tokens", "1", input="{}")
    assert backend.requests[0].deployment.accelerator == "h100"
    assert backend.requests[0].model.display_name == display_name
    assert backend.requests[0].model.config_json == "{}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["estimate"], "MODEL and an ACCELERATOR"),
        (["estimate", "m"], "MODEL and an ACCELERATOR"),
        (["estimate", "m", "a"], "--input-tokens and --output-tokens missing"),
        ([*QUESTION, "--concurrency", "0"], "--concurrency must be above zero"),
        ([*QUESTION, "--mem-fraction-static", "0"], "--mem-fraction-static must be above zero"),
        ([*QUESTION, "--free-gpu-memory-fraction", "0"], "--free-gpu-memory-fraction must be above zero"),
        ([*QUESTION, "--replicas", "0"], "--replicas"),
        ([*QUESTION, "--request", "-"], "leave out MODEL, ACCELERATOR, --input-tokens, --output-tokens"),
        ([*QUESTION, "--requests", "-"], "leave out MODEL, ACCELERATOR, --input-tokens, --output-tokens"),
        (["estimate", "--requests", "-", "--request", "-"], "leave out --request"),
        (["estimate", "--requests", "/no/such/file"], "No such file"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(run, backend, arguments, named):
    result = run(*arguments, input="")
    assert result.exit_code == 2
    assert named in re.sub(r"[\s│]+", " ", result.stderr)
    assert not backend.requests


def test_the_verdict_comes_first(run):
    result = run(*QUESTION)
    assert result.exit_code == 0
    assert result.stdout.startswith("STARTS: org/model-70b with fp8 weights runs on h100-sxm-80gb")
    assert "5,000 output tokens/s" in result.stdout


def test_a_layout_that_does_not_start_says_by_how_much_it_misses(run, backend):
    backend.estimate = estimate_answer(starts=False)
    result = run(*QUESTION)
    assert result.exit_code == 3
    assert result.stdout.startswith("DOES NOT START")
    first = result.stdout.split("\n- ")[0]
    assert "misses 1.50 GiB per device" in re.sub(r"\s+", " ", first)
    assert "CONTEXT_DOES_NOT_FIT" in result.stdout


def test_the_parts_of_memory_and_step_add_up(run):
    out = run(*QUESTION).stdout
    memory = {part: float(re.search(rf"^{part}\s+([\d.]+)", out, re.MULTILINE).group(1)) for part in PARTS_GIB}
    assert sum(memory.values()) == BUDGET_GIB
    total = float(re.search(r"Mean step as full as it gets: ([\d.]+) ms", out).group(1))
    parts = [float(re.search(rf"^{name}\s+([\d.]+)", out, re.MULTILINE).group(1)) for name in
             ("routed expert", "all reduce")]  # fmt: skip
    assert sum(parts) == total == 20.0
    assert re.search(r"routed expert\s+15\.0\s+75 %", out)


def test_the_table_fits_80_columns(run, backend):
    for starts in (True, False):
        backend.estimate = estimate_answer(starts=starts)
        out = run(*QUESTION).stdout
        assert max(map(len, out.splitlines())) <= 80
        assert out.isascii()


def test_json_output_parses_back_into_the_answer(run, backend):
    backend.estimate = estimate_answer(starts=False)
    result = run(*QUESTION, "--output", "json")
    assert result.exit_code == 3
    assert json_format.Parse(result.stdout, planner_service_pb2.EstimateDeploymentResponse()) == backend.estimate
    # A false verdict is written out, not left out like other defaults of the format.
    assert json.loads(result.stdout)["starts"] is False


def test_a_whole_request_comes_as_json(run, backend):
    run("estimate", "--request", "-", input='{"deployment": {"accelerator": "a", "tensor_parallel": 2}}')
    assert backend.requests[0].deployment.tensor_parallel == 2


class Scripted:
    """Answers by the accelerator's name: what it says, or the error it stands for."""

    def __init__(self, answers):
        self.answers = answers

    def estimate_deployment(self, request):
        answer = self.answers[request.deployment.accelerator]
        if isinstance(answer, Exception):
            raise answer
        return answer


def lines(*accelerators: str) -> str:
    return "".join(json.dumps({"deployment": {"accelerator": name}}) + "\n" for name in accelerators)


def test_many_questions_are_answered_a_line_each_in_order(run, backend):
    scripted = Scripted({"good": estimate_answer(), "bad": estimate_answer(starts=False)})
    backend.estimate_deployment = scripted.estimate_deployment
    result = run("estimate", "--requests", "-", input=lines("good", "bad", "good"))
    assert result.exit_code == 0
    assert [json.loads(line)["starts"] for line in result.stdout.splitlines()] == [True, False, True]


def test_a_bad_line_is_answered_by_an_error_with_its_number_and_the_rest_goes_on(run, backend):
    unknown = NotFoundError("accelerator", "h1000", ("h100-sxm-80gb",))
    invalid = InvalidInputError.single("workload.input_tokens", "must be at least 1")
    scripted = Scripted({"good": estimate_answer(), "unknown": unknown, "invalid": invalid})
    backend.estimate_deployment = scripted.estimate_deployment
    text = lines("good", "unknown") + "{not json\n\n" + lines("invalid", "good")
    result = run("estimate", "--requests", "-", input=text)
    assert result.exit_code == 1
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [object_.get("error", {}).get("line") for object_ in objects] == [None, 2, 3, 4, 5, None]
    assert [object_["error"]["reason"] for object_ in objects if "error" in object_] == [
        "NOT_FOUND", "USAGE", "USAGE", "INVALID_INPUT",
    ]  # fmt: skip
    assert "h100-sxm-80gb" in objects[1]["error"]["message"]
    assert objects[4]["error"]["violations"] == [
        {"field": "workload.input_tokens", "description": "must be at least 1"}
    ]
    assert "4 of 6 lines" in result.stderr


def test_a_line_ends_only_at_a_newline(run, backend):
    # U+2028 ends a line of text for some, but may stand in a JSON string.
    text = json.dumps({"deployment": {"accelerator": "a\u2028b"}}, ensure_ascii=False) + "\n"
    result = run("estimate", "--requests", "-", input=text)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert backend.requests[0].deployment.accelerator == "a\u2028b"


def test_a_line_that_is_no_text_is_a_bad_line(run, tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\xff\xfe\n" + lines("a").encode())
    result = run("estimate", "--requests", str(path))
    assert result.exit_code == 1
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["error"]["line"] == 1
    assert "UTF-8" in first["error"]["message"]
    assert second["starts"] is True


def test_a_server_that_went_away_ends_the_batch(run, backend):
    gone = UnreachableError("host:1", "connection refused")
    assert gone.code is grpc.StatusCode.UNAVAILABLE
    backend.estimate = gone
    result = run("estimate", "--requests", "-", input=lines("a", "b", "c"))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(backend.requests) == 1
    assert "capplan serve" in result.stderr
    assert "--local" in result.stderr


def test_no_questions_are_no_error(run):
    result = run("estimate", "--requests", "-", input="")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
