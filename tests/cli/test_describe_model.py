from __future__ import annotations

import json
import re

import pytest
from google.protobuf import json_format

from capplan.client import UnreachableError
from capplan.errors import InvalidInputError, NotFoundError
from capplan.v1 import model_pb2, planner_service_pb2
from tests.cli.answers import model_answer

UNKNOWN = NotFoundError("model", "unknown", ("org/model-70b",))


def lines(result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_flags_reach_the_request(run, backend):
    run(
        *("describe-model", "m", "--precision", "fp8", "--precision", "int4", "--kv-cache", "fp8"),
        *("--training-batch", "4", "--training-length", "2048", "--optimizer", "adamw-8bit"),
    )
    assert backend.requests[0] == planner_service_pb2.DescribeModelRequest(
        model=model_pb2.ModelSelection(name="m"),
        precisions=["fp8", "int4"],
        kv_cache="fp8",
        training=model_pb2.TrainingSelection(batch_size=4, sequence_length_tokens=2048, optimizer="adamw-8bit"),
    )


def test_a_model_is_needed(run, backend):
    result = run("describe-model")
    assert result.exit_code == 2
    assert "MODEL" in result.stderr
    assert not backend.requests


@pytest.mark.parametrize("flag", ["--training-batch", "--training-length"])
@pytest.mark.parametrize("value", ["0", "-4"])
def test_a_size_of_training_is_above_zero(run, backend, flag, value):
    result = run("describe-model", "m", flag, value)
    assert result.exit_code == 2
    assert flag in result.stderr
    assert not backend.requests


def test_an_argument_that_is_a_file_is_a_config_and_its_sibling_goes_with_it(run, backend, tmp_path):
    config = tmp_path / "Some-7B-FP8.json"
    config.write_text('{"model_type": "llama"}')
    (tmp_path / "Some-7B-FP8.hf_quant_config.json").write_text('{"quantization": {}}')
    run("describe-model", str(config))
    assert backend.requests[0].model == model_pb2.ModelSelection(
        config_json='{"model_type": "llama"}',
        quantization_config_json='{"quantization": {}}',
        display_name="Some-7B-FP8",
    )


def test_a_plain_config_json_is_called_by_its_folder(run, backend, tmp_path):
    folder = tmp_path / "Other-1B"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    run("describe-model", str(folder / "config.json"))
    assert backend.requests[0].model.display_name == "Other-1B"
    assert not backend.requests[0].model.quantization_config_json


def test_a_file_of_any_name_is_a_config_and_a_folder_is_a_name(run, backend, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text("{}")
    (tmp_path / "org").mkdir()
    run("describe-model", "config", "org")
    assert [request.model.WhichOneof("source") for request in backend.requests] == ["config_json", "name"]


def test_a_quantization_config_goes_with_one_file(run, backend, tmp_path):
    config, quantization = tmp_path / "a.json", tmp_path / "q"
    config.write_text("{}")
    quantization.write_text('{"q": 1}')
    run("describe-model", str(config), "--quantization-config", str(quantization))
    assert backend.requests[0].model.quantization_config_json == '{"q": 1}'
    for wrong in ([str(config), "m"], ["m"]):
        result = run("describe-model", *wrong, "--quantization-config", str(quantization))
        assert result.exit_code == 2
        assert "--quantization-config" in result.stderr
    assert len(backend.requests) == 1


def test_config_brings_one_model(run, backend, tmp_path):
    config = tmp_path / "a.json"
    config.write_text("{}")
    assert run("describe-model", "called-so", "--config", str(config)).exit_code == 0
    assert backend.requests[0].model.display_name == "called-so"
    assert run("describe-model", "a", "b", "--config", str(config)).exit_code == 2


def test_json_is_one_line_for_each_model_in_order(run):
    found = lines(run("describe-model", "first", "second", "third", "--output", "json"))
    assert [line["model"] for line in found] == ["first", "second", "third"]


def test_sizes_in_json_are_numbers(run):
    (line,) = lines(run("describe-model", "m", "--output", "json"))
    expected = {
        "total_parameters": 3_000_000_000,
        "active_parameters": 1_000_000_000,
        "kv_cache_bytes_per_token": 2048.0,
        "state_bytes_per_sequence": 4096,
        "weight_bytes": 6_000_000_000,
    }
    assert {name: line[name] for name in expected} == expected
    assert not any(isinstance(line[name], str | bool) for name in expected)
    assert line["parameter_groups"][1]["active_parameters"] == 250_000_000
    assert line["training"][0]["activations"][0]["total_bytes"] == 50_000_000_000
    assert line["accelerators"][0]["longest_context_tokens"] == 12_345
    # Zero is a figure too.
    assert line["accelerators"][1]["longest_context_tokens"] == 0


def test_a_line_is_the_description_and_the_revision(run):
    (line,) = lines(run("describe-model", "m", "--output", "json"))
    assert (line.pop("model"), line.pop("catalog_revision")) == ("m", 7)
    assert json_format.ParseDict(line, model_pb2.ModelDescription()) == model_answer().model


def test_a_refused_model_is_a_line_among_the_others(run, backend, tmp_path):
    backend.models["unknown"] = UNKNOWN
    backend.models["odd"] = InvalidInputError.single("precisions[0]", "is not known")
    result = run("describe-model", "a", "unknown", str(tmp_path / "none.json"), "odd", "b", "--output", "json")
    assert result.exit_code == 1
    first, unknown, missing, odd, last = lines(result)
    assert (first["model"], last["model"]) == ("a", "b")
    assert (unknown["model"], unknown["reason"]) == ("unknown", "NOT_FOUND")
    assert "did you mean org/model-70b" in unknown["error"]
    assert (missing["model"], missing["reason"]) == (str(tmp_path / "none.json"), "USAGE")
    assert (odd["model"], odd["reason"]) == ("odd", "INVALID_INPUT")
    assert "--precision" in odd["error"]


def test_one_refused_model_is_a_line_too(run, backend):
    backend.models["unknown"] = UNKNOWN
    result = run("describe-model", "unknown", "--output", "json")
    assert result.exit_code == 1
    assert lines(result)[0]["reason"] == "NOT_FOUND"


def test_a_quantisation_config_is_no_model(run, tmp_path):
    result = run("describe-model", str(tmp_path / "x.hf_quant_config.json"), "--output", "json")
    (line,) = lines(result)
    assert "x.json" in line["error"]


def test_without_a_server_there_are_no_lines(run, backend):
    backend.models["a"] = UnreachableError("127.0.0.1:1", "refused")
    result = run("describe-model", "a", "b", "--output", "json")
    assert (result.exit_code, result.stdout, len(backend.requests)) == (1, "", 1)


def test_several_models_make_one_table_and_a_refusal_goes_to_standard_error(run, backend):
    backend.models["unknown"] = UNKNOWN
    result = run("describe-model", "a", "unknown", "b")
    assert result.exit_code == 1
    # 6e9 bytes are 5.588 GiB, 4,096 bytes 0.0039 MiB.
    assert result.stdout.count("org/model-70b 3.00 B 1.00 B bf16 5.59 2.00 0.00391") == 0  # columns are padded
    assert flat(result.stdout).count("org/model-70b 3.00 B 1.00 B bf16 5.59 2.00 0.00391") == 2
    assert "unknown" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_parameter_groups_add_up_to_the_total(run):
    out = run("describe-model", "m").stdout
    counts = {
        part: int(re.search(rf"^{part}\s+([\d,]+)", out, re.MULTILINE).group(1).replace(",", ""))
        for part in ("embedding", "routed expert", "total")
    }
    assert counts["embedding"] + counts["routed expert"] == counts["total"] == 3_000_000_000
    assert "3.00 billion parameters, 1.00 billion of them for one token" in out
    assert "Apart from these, 90.00 million in multi-token-prediction layers" in out


def test_sizes_come_per_precision_and_a_refusal_has_no_size(run):
    out = run("describe-model", "m").stdout
    # 6e9 bytes are 5.588 GiB.
    assert re.search(r"^bf16\s+5\.59\s+16\.00", out, re.MULTILINE)
    assert "mxfp4 - - cannot be stored so: this model has no such checkpoint" in flat(out)


def test_a_token_costs_less_once_windows_are_full(run):
    out = run("describe-model", "m").stdout
    assert re.search(r"KV cache per token\s+2\.00 KiB", out)
    assert re.search(r"KV cache per token once every window is full\s+1\.00 KiB", out)
    assert re.search(r"recurrent state per sequence\s+4\.00 KiB", out)


def test_the_anatomy_is_shown(run):
    out = flat(run("describe-model", "m").stdout)
    assert "windowed 2 0.5 1,024 -" in out
    assert "65,536 0.954 0.00391 3.00 2.50 the model's whole context" in out
    assert "Tensor parallel: 1 With expert parallelism over the same ranks: 1, 2" in out
    assert "fp8 block width: 2" in out
    assert "h100-sxm-80gb bf16 295 200 M/M/C 12,345 2" in out
    assert "engine unsupported: tpu-v5e" in out
    # 6, 6, 12, 24 and 48 GB.
    assert "bf16 5.59 5.59 11.18 22.35 44.70 16.00" in out
    assert "bf16 keeping layer inputs only 1.86 46.57" in out


def test_it_fits_80_columns_and_is_plain_text(run):
    out = run("describe-model", "m").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.isascii()
