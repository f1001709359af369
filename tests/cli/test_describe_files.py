"""``describe-model`` over files and names, answered by the application in this process."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app

CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
LINEAR = 2 * (2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 4096)
PARAMETERS = 2 * 32000 * 1024 + LINEAR + 5 * 1024


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.delenv("CAPPLAN_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str):
        result = CliRunner().invoke(app, ["describe-model", *arguments, "--local"], catch_exceptions=False)
        return result, [json.loads(line) for line in result.stdout.splitlines()] if "json" in arguments else []

    return invoke


def test_files_and_names_answer_in_order_and_a_refused_one_in_its_place(run, tmp_path):
    (tmp_path / "plain.json").write_text(json.dumps(CONFIG))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "odd.json").write_text(json.dumps(CONFIG | {"model_type": "unheard-of"}))
    arguments = ("plain.json", "broken.json", "Qwen/Qwen3-4B", "odd.json", "nobody/Nothing-1B")
    result, lines = run(*arguments, "--output", "json")
    assert result.exit_code == 1
    assert [line["model"] for line in lines] == list(arguments)
    plain, broken, catalogue, odd, unknown = lines
    assert plain["total_parameters"] == plain["active_parameters"] == PARAMETERS
    assert plain["weight_bytes"] == 2 * PARAMETERS
    assert plain["kv_cache_bytes_per_token"] == 2 * 2 * 4 * 64 * 2
    assert plain["state_bytes_per_sequence"] == 0
    assert plain["name"] == "plain"
    assert catalogue["name"] == "Qwen/Qwen3-4B"
    assert [line["reason"] for line in (broken, odd, unknown)] == ["INVALID_INPUT", "MODEL_UNSUPPORTED", "NOT_FOUND"]
    assert "unheard-of" in odd["error"]


def test_a_quantisation_config_beside_a_file_sets_its_format(run, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(CONFIG))
    _, (plain,) = run("m.json", "--output", "json")
    scheme = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "m.hf_quant_config.json").write_text(json.dumps(scheme))
    _, (beside,) = run("m.json", "--output", "json")
    assert (plain["native_weights"], beside["native_weights"]) == ("bf16", "fp8")
    # One byte for each of the 14 matrices' weights, and two fp32 scales (weights, activations).
    assert beside["weight_bytes"] == 2 * (PARAMETERS - LINEAR) + LINEAR + 14 * 8
    assert beside["kv_cache_bytes_per_token"] * 2 == plain["kv_cache_bytes_per_token"]
    (tmp_path / "m.hf_quant_config.json").rename(tmp_path / "elsewhere")
    _, (given,) = run("m.json", "--quantization-config", "elsewhere", "--output", "json")
    assert given == beside


def test_tables_of_real_models_fit_80_columns(run, tmp_path):
    (tmp_path / "plain.json").write_text(json.dumps(CONFIG))
    for arguments in (
        ("plain.json", "--training-batch", "1", "--training-length", "2048"),
        ("deepseek-ai/DeepSeek-V3",),
        ("plain.json", "Qwen/Qwen3-4B", "openai/gpt-oss-120b"),
    ):
        result, _ = run(*arguments)
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80
