"""Which core of an engine a version runs, and what an unstated version is taken for."""

from __future__ import annotations

import pytest

from capplan.estimation.engine_runtime import dated_version, runtime_of


@pytest.mark.parametrize(
    ("engine", "version", "core"),
    [
        # vLLM release notes: V1 became the default in 0.8.0; TensorRT-LLM's: the PyTorch backend in 1.0.
        ("vllm", "0.7.3", "vllm-v0"),
        ("vllm", "0.8.0", "vllm-v1"),
        ("vllm", "v0.11.2.post1", "vllm-v1"),
        ("tensorrt-llm", "0.20", "tensorrt-llm-tensorrt"),
        ("tensorrt-llm", "1.1.0rc2.post2", "tensorrt-llm-pytorch"),
        ("sglang", "0.5.9", ""),
        ("vllm", "nightly-5b8c30d", ""),
        ("vllm", "", ""),
    ],
)
def test_the_core_of_a_version(engine: str, version: str, core: str) -> None:
    assert runtime_of(engine, version) == core


@pytest.mark.parametrize(
    ("engine", "version", "as_of", "core"),
    [
        ("vllm", "", "2024-04", "vllm-v0"),
        ("vllm", "nightly-5b8c30d", "2026-04-03", "vllm-v1"),
        ("tensorrt-llm", "", "2025-08-31", "tensorrt-llm-tensorrt"),
        ("tensorrt-llm", "gpt-oss-dev", "2025-12-15", "tensorrt-llm-pytorch"),
        # A stated version counts, whenever it was measured.
        ("tensorrt-llm", "0.14.0", "2026-01-01", "tensorrt-llm-tensorrt"),
        ("vllm", "", "spring", ""),
        ("sglang", "", "2025-11-10", ""),
    ],
)
def test_the_date_tells_the_core_of_an_unstated_version(engine: str, version: str, as_of: str, core: str) -> None:
    assert runtime_of(engine, dated_version(engine, version, as_of)) == core
