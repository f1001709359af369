from __future__ import annotations

import shlex

import pytest

from capplan.cli.views.launch import launch_command
from capplan.v1 import placement_pb2

PLAIN = placement_pb2.Parallelism(tensor_parallel=1, pipeline_parallel=1, expert_parallel=1, attention_data_parallel=1)


def words(version="0.33", parallelism=PLAIN, kv_cache="", model="org/model"):
    settings = placement_pb2.EngineSettings(
        name="vllm", version=version, gpu_memory_utilization=0.92, max_num_seqs=1024, max_num_batched_tokens=8192,
        max_model_len_tokens=40_960,
    )  # fmt: skip
    return shlex.split(launch_command(model, settings, parallelism, kv_cache).replace("\\\n", ""))


def value_of(flag, command):
    return command[command.index(flag) + 1] if flag in command else None


def test_one_device_needs_no_parallel_flag():
    assert words() == shlex.split(
        "vllm serve org/model --max-model-len 40960 --gpu-memory-utilization 0.92 --max-num-seqs 1024 "
        "--max-num-batched-tokens 8192"
    )


def test_each_kind_of_parallelism_has_its_flag():
    command = words(
        parallelism=placement_pb2.Parallelism(
            tensor_parallel=8, pipeline_parallel=2, expert_parallel=8, attention_data_parallel=4
        )
    )
    assert value_of("--tensor-parallel-size", command) == "8"
    assert value_of("--pipeline-parallel-size", command) == "2"
    assert value_of("--data-parallel-size", command) == "4"
    # The size of expert parallelism follows from the others; the flag takes no value.
    assert value_of("--enable-expert-parallel", command) == "--max-model-len"


@pytest.mark.parametrize(
    ("asked", "version", "expected"),
    [
        ("", "0.33", None),
        ("auto", "0.33", None),
        ("fp8", "0.33", "fp8"),
        ("fp8", "0.8", "fp8"),
        # `bfloat16` became a choice in 0.12.
        ("bf16", "0.12", "bfloat16"),
        ("bf16", "0.11", None),
        ("fp16", "0.33", None),
    ],
)
def test_the_cache_format_is_given_only_when_asked_for(asked, version, expected):
    assert value_of("--kv-cache-dtype", words(version=version, kv_cache=asked)) == expected


def test_a_name_cannot_smuggle_in_a_command():
    assert words(model="a; rm -rf $HOME")[2] == "a; rm -rf $HOME"


def engine_words(name, **pinned):
    settings = placement_pb2.EngineSettings(
        name=name, max_num_seqs=256, max_num_batched_tokens=8192, max_model_len_tokens=32_768, **pinned
    )
    spread = placement_pb2.Parallelism(
        tensor_parallel=4, pipeline_parallel=1, expert_parallel=1, attention_data_parallel=1
    )
    return shlex.split(launch_command("org/model", settings, spread, "fp8").replace("\\\n", ""))


def test_sglang_is_started_by_its_own_flags():
    # python/sglang/srt/server_args.py at v0.5.23
    assert engine_words("sglang", version="0.5.23", mem_fraction_static=0.83) == shlex.split(
        "python3 -m sglang.launch_server --model-path org/model --tp-size 4 --context-length 32768 "
        "--mem-fraction-static 0.83 --max-running-requests 256 --chunked-prefill-size 8192 --kv-cache-dtype fp8_e4m3"
    )


def test_tensorrt_llm_is_started_by_its_own_flags():
    # tensorrt_llm/commands/serve.py; the cache's format is set in its YAML only
    assert engine_words("tensorrt-llm", version="1.4", free_gpu_memory_fraction=0.9) == shlex.split(
        "trtllm-serve org/model --tp_size 4 --max_seq_len 32768 --kv_cache_free_gpu_memory_fraction 0.9 "
        "--max_batch_size 256 --max_num_tokens 8192"
    )
