"""What measured deployments are taken to have run with where their source does not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.catalog.observations import likely_kv_cache
from tests.estimation.measurements import measurement


@pytest.mark.parametrize(
    ("engine", "weights", "stated", "likely"),
    [
        # NVIDIA's quantised builds state kv_cache_quant_algo FP8 in hf_quant_config.json.
        ("tensorrt-llm", "fp8", "auto", "fp8"),
        ("tensorrt-llm", "nvfp4", "auto", "fp8"),
        ("tensorrt-llm", "bf16", "auto", "auto"),
        ("tensorrt-llm", "fp8", "bf16", "bf16"),
        # vLLM and SGLang cache in the model's own precision unless told otherwise.
        ("vllm", "fp8", "auto", "auto"),
        ("sglang", "nvfp4", "auto", "auto"),
    ],
)
def test_quantised_builds_of_tensorrt_llm_cache_in_fp8(engine: str, weights: str, stated: str, likely: str) -> None:
    row = replace(measurement(), engine=engine, weights=weights, kv_cache=stated)
    assert likely_kv_cache(row) == likely
