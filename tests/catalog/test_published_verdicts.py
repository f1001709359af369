"""Published verdicts on shipped models and devices: what started, what did not fit, what was never legal.

Each row names where it was published. A setting that the source leaves out has the engine's default for its version;
the offline class of vLLM, which issue 44376 uses, steps by 16,384 tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from capplan.catalog.evaluation_memory_names import NameReader
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.estimation.engine import EngineChoice
from capplan.estimation.replica import Parallelism
from capplan.estimation.start import Start, predict_start
from capplan.modeling.costs import model_costs

FITS, DOES_NOT_FIT, INVALID = "fits", "does not fit", "invalid"
MEMORY_REASONS = {
    "WEIGHTS_DO_NOT_FIT",
    "CONTEXT_DOES_NOT_FIT",
    "DEVICE_MEMORY_EXCEEDED",
    "STATE_BLOCKS_BELOW_MAX_NUM_SEQS",
}


class Row(NamedTuple):
    """One verdict; ``engine`` is name and version."""

    source: str
    model: str
    weights: str
    gpu: str
    tensor_parallel: int
    engine: str
    context: int | None
    verdict: str
    settings: dict[str, Any] = {}  # noqa: RUF012
    kv_cache: str = "auto"
    mig: str = ""
    data_parallel: int = 1


VLLM = "https://github.com/vllm-project/vllm/"
LLMD = "https://github.com/llm-d-incubation/llm-d-planner/blob/e50305af/docs/empirical-vllm-memory-results.md"
GPUSTACK = "https://github.com/gpustack/gpustack/blob/47277d79/docs/performance-lab/"
RECIPES = "https://github.com/vllm-project/recipes/"
QWEN3_8 = RECIPES + "blob/8959cf64/models/Qwen/Qwen3.8-27B.yaml"
INFERENCEX = "https://github.com/SemiAnalysisAI/InferenceX/blob/843c6254f/perf-changelog.yaml"
LLAMA_8B, GPT_OSS = "meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-120b"
EAGER = {"enforce_eager": True}


def util(share: float, **others: Any) -> dict[str, Any]:
    return {"gpu_memory_utilization": share, **others}


ROWS = (
    Row(VLLM + "issues/10517", LLAMA_8B, "bf16", "RTX 3090", 1, "vllm 0.6", 20_000, FITS, util(0.9)),
    Row(VLLM + "issues/10517", LLAMA_8B, "bf16", "RTX 3090", 1, "vllm 0.6", 29_000, DOES_NOT_FIT, util(0.9)),
    Row(VLLM + "issues/10517", LLAMA_8B, "bf16", "RTX 3090", 1, "vllm 0.6", 35_000, FITS, util(0.9)),
    Row(
        "https://github.com/BatsResearch/bonito/issues/7",
        "mistralai/Mistral-7B-v0.1",
        "bf16",
        "A10G",
        1,
        "vllm 0.4",
        32_768,
        DOES_NOT_FIT,
    ),
    Row(VLLM + "issues/23278", GPT_OSS, "mxfp4", "H100 SXM", 1, "vllm 0.10.1", None, DOES_NOT_FIT, util(0.9)),
    Row(
        VLLM + "issues/27508",
        GPT_OSS,
        "mxfp4",
        "H100 SXM",
        1,
        "vllm 0.11",
        131_072,
        DOES_NOT_FIT,
        util(0.95, max_num_batched_tokens=1024),
    ),
    Row(LLMD, GPT_OSS, "mxfp4", "H100 SXM", 1, "vllm 0.16", 16_000, FITS, util(0.95)),
    Row(LLMD, GPT_OSS, "mxfp4", "H100 SXM", 1, "vllm 0.16", 16_000, DOES_NOT_FIT, util(0.9)),
    Row(LLMD, "deepseek-ai/DeepSeek-R1", "fp8", "H100 SXM", 1, "vllm 0.16", None, DOES_NOT_FIT),
    Row(
        LLMD, "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8", "H100 SXM", 2, "vllm 0.16", 16_000, FITS, util(0.9)
    ),
    Row(LLMD, "Qwen/Qwen3-32B", "bf16", "H100 SXM", 1, "vllm 0.16", 32_000, DOES_NOT_FIT, util(0.9)),
    Row(LLMD, "Qwen/Qwen3-32B", "bf16", "H100 SXM", 1, "vllm 0.16", 16_000, FITS, util(0.9)),
    Row(VLLM + "issues/414", "huggyllama/llama-30b", "fp16", "V100 SXM2 32GB", 3, "vllm 0.4", None, INVALID),
    Row(VLLM + "issues/596", "meta-llama/Llama-2-13b-hf", "fp16", "RTX 3090", 3, "vllm 0.4", None, INVALID),
    Row(
        "https://github.com/THU-KEG/AdaptThink/issues/1",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        "bf16",
        "H100 SXM",
        8,
        "vllm 0.8",
        None,
        INVALID,
    ),
    Row(
        "https://github.com/gpustack/gpustack/issues/2259",
        "google/gemma-3-27b-it",
        "bf16",
        "H100 SXM",
        3,
        "vllm 0.8.5",
        8_192,
        INVALID,
    ),
    Row(
        "https://github.com/MIV-XJTU/FSDrive/issues/21",
        "Qwen/Qwen2-VL-2B-Instruct",
        "bf16",
        "H100 SXM",
        8,
        "vllm 0.10",
        8_192,
        INVALID,
    ),
    Row(
        VLLM + "issues/44376",
        "deepseek-ai/DeepSeek-V4-Flash",
        "",
        "GH200 480GB",
        2,
        "vllm 0.22",
        30_000,
        DOES_NOT_FIT,
        util(0.95, max_num_batched_tokens=16384),
        "fp8",
    ),
    Row(
        RECIPES + "issues/381",
        "deepseek-ai/DeepSeek-V4-Pro",
        "",
        "H200",
        1,
        "vllm 0.20",
        800_000,
        DOES_NOT_FIT,
        kv_cache="fp8",
        data_parallel=8,
    ),
    Row(VLLM + "issues/12890", "deepseek-ai/DeepSeek-V3", "fp8", "H20", 8, "vllm 0.7.0", 6_500, FITS, util(0.98)),
    Row(
        VLLM + "issues/12890",
        "deepseek-ai/DeepSeek-V3",
        "fp8",
        "H20",
        8,
        "vllm 0.7.0",
        163_840,
        DOES_NOT_FIT,
        util(0.98),
    ),
    Row(
        VLLM + "issues/6746",
        "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8",
        "fp8",
        "H100 SXM",
        8,
        "vllm 0.5.3",
        131_072,
        DOES_NOT_FIT,
    ),
    Row(QWEN3_8, "Qwen/Qwen3.6-27B", "nvfp4", "RTX 5090", 1, "vllm 0.26", 32_768, DOES_NOT_FIT, {}, "fp8"),
    Row(QWEN3_8, "Qwen/Qwen3.6-27B", "nvfp4", "RTX 5090", 1, "vllm 0.26", 32_768, FITS, EAGER, "fp8"),
    Row(
        VLLM + "issues/17238",
        "Qwen/Qwen2.5-32B-Instruct",
        "int8",
        "RTX 3090",
        2,
        "vllm 0.8.1",
        4_096,
        DOES_NOT_FIT,
        util(0.9, enforce_eager=True),
    ),
    Row(
        "https://github.com/ray-project/ray/issues/32778",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "fp16",
        "A100 80GB SXM",
        2,
        "vllm 0.4",
        16_384,
        INVALID,
        {},
        "auto",
        "3g.40gb",
    ),
    Row(
        "https://github.com/1CatAI/1Cat-vLLM/issues/255",
        "Qwen/Qwen3.6-27B",
        "int4",
        "V100 SXM2 32GB",
        1,
        "vllm 0.26",
        8_192,
        INVALID,
    ),
    Row(
        "https://github.com/QwenLM/Qwen3/blob/7a2f61f/docs/source/getting_started/speed_benchmark.md",
        "Qwen/Qwen3-32B-FP8",
        "fp8",
        "H20",
        1,
        "sglang 0.4.6",
        131_072,
        FITS,
        {"mem_fraction_static": 0.85},
    ),
    Row(
        "https://github.com/kaito-project/kaito/pull/2186",
        "Qwen/Qwen3-4B",
        "bf16",
        "H100 SXM",
        2,
        "vllm 0.22",
        4_096,
        INVALID,
        {},
        "auto",
        "3g.40gb",
    ),
    Row(
        "https://github.com/gke-labs/open-rl/issues/230",
        "Qwen/Qwen3-8B",
        "bf16",
        "L4",
        1,
        "vllm 0.28",
        1_024,
        FITS,
        util(0.9),
    ),
    Row(VLLM + "pull/2031", "meta-llama/Llama-2-70b-hf", "fp16", "A100 80GB SXM", 4, "vllm 0.4", None, FITS, util(0.9)),
    Row(
        VLLM + "issues/14092",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        "fp16",
        "T4",
        4,
        "vllm 0.7",
        8_192,
        DOES_NOT_FIT,
    ),
    Row(RECIPES + "pull/273", "MiniMaxAI/MiniMax-M2", "fp8", "MI300X", 2, "vllm 0.17.1", None, FITS),
    Row(INFERENCEX, "moonshotai/Kimi-K3", "mxfp4", "B300", 8, "vllm 0.24", 1_048_576, FITS, util(0.9), "fp8"),
    Row(INFERENCEX, "nvidia/GLM-5.2-NVFP4", "nvfp4", "B200", 4, "sglang 0.5.14", 1_000_000, DOES_NOT_FIT),
    Row(VLLM + "issues/2856", "TheBloke/Llama-2-70B-AWQ", "int4-awq", "A10G", 4, "vllm 0.4", None, FITS),
    Row(VLLM + "issues/1400", "mistralai/Mistral-7B-Instruct-v0.1", "bf16", "T4", 1, "vllm 0.4", None, INVALID),
    Row(
        "https://github.com/MeetKai/functionary/issues/128",
        "mistralai/Mistral-7B-Instruct-v0.2",
        "bf16",
        "RTX 3090",
        1,
        "vllm 0.4",
        32_768,
        DOES_NOT_FIT,
        util(0.9),
    ),
    Row(
        "https://github.com/imoneoi/openchat/issues/198",
        "google/gemma-7b",
        "bf16",
        "RTX 4090",
        1,
        "vllm 0.4",
        8_000,
        DOES_NOT_FIT,
    ),
    Row(RECIPES + "pull/831", "Qwen/Qwen3.6-27B", "fp8", "RTX PRO 6000", 1, "vllm 0.28", None, DOES_NOT_FIT),
    Row(
        RECIPES + "pull/831", "Qwen/Qwen3.6-27B", "bf16", "RTX PRO 6000", 1, "vllm 0.28", None, DOES_NOT_FIT, util(0.95)
    ),
    Row(GPUSTACK + "qwen3-32b/a100.md", "Qwen/Qwen3-32B", "bf16", "A100 80GB SXM", 1, "vllm 0.11", 8_192, FITS),
    Row(GPUSTACK + "glm-4.x/a100.md", "zai-org/GLM-4.6", "fp8", "A100 80GB SXM", 8, "vllm 0.11", None, FITS),
    Row(GPUSTACK + "glm-4.x/a100.md", "zai-org/GLM-4.6", "bf16", "A100 80GB SXM", 8, "vllm 0.11", None, DOES_NOT_FIT),
    Row(GPUSTACK + "glm-4.x/h200.md", "zai-org/GLM-4.6", "bf16", "H200", 8, "vllm 0.11", None, FITS),
    Row(GPUSTACK + "glm-4.x/a100.md", "zai-org/GLM-4.6", "fp8", "A100 80GB SXM", 8, "sglang 0.5.3", None, INVALID),
    Row(
        GPUSTACK + "qwen3-235b-a22b/a100.md",
        "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
        "fp8",
        "A100 80GB SXM",
        4,
        "vllm 0.11",
        None,
        FITS,
    ),
    Row(
        "https://github.com/Graph-COM/SubgraphRAG/issues/19",
        LLAMA_8B,
        "bf16",
        "RTX 3090",
        1,
        "vllm 0.7",
        131_072,
        DOES_NOT_FIT,
    ),
    Row(
        "https://github.com/ai-dynamo/aiconfigurator/pull/509",
        "meta-llama/Llama-3.1-405B-Instruct",
        "bf16",
        "H100 SXM",
        1,
        "tensorrt-llm 1.0",
        2_048,
        DOES_NOT_FIT,
    ),
)


WRONG = (
    (
        Row(INFERENCEX, "deepseek-ai/DeepSeek-V4-Pro", "", "MI300X", 8, "vllm 0.24", 9_472, FITS),
        "the fp4 experts of the checkpoint are taken to run on no CDNA 3 device; vLLM expands them to fp8",
    ),
    (
        Row(
            "https://github.com/OpenRLHF/OpenRLHF/issues/336",
            "meta-llama/Meta-Llama-3-70B",
            "bf16",
            "A100 80GB SXM",
            2,
            "vllm 0.5",
            8_192,
            DOES_NOT_FIT,
            util(0.9),
        ),
        "1.1 GiB less are left than estimated; the source names neither the device nor what else ran on it",
    ),
    (
        Row(RECIPES + "pull/831", "Qwen/Qwen3.6-27B", "nvfp4", "RTX PRO 6000", 1, "vllm 0.28", None, DOES_NOT_FIT),
        "the publisher's nvfp4 build keeps 5 GiB more in 16 bit than the recipe that is assumed of a build not shipped",
    ),
)
"""Rows that are answered otherwise, and why."""


@pytest.fixture(scope="module")
def names(snapshot: CatalogSnapshot) -> NameReader:
    return NameReader(snapshot)


def start(row: Row, snapshot: CatalogSnapshot, names: NameReader) -> Start:
    build = names.build(row.model, row.weights)
    accelerator = names.accelerator(row.gpu, None)
    name, version = row.engine.split()
    mig = None
    if row.mig:
        board = snapshot.mig_board_of(accelerator)
        assert board is not None
        mig = (board, next(profile for profile in board.profiles if profile.name == row.mig))
    return predict_start(
        model_costs(build.architecture, build.weights, row.kv_cache),
        accelerator,
        EngineChoice(name=name, version=version, **row.settings),
        mig=mig,
        parallelism=Parallelism(row.tensor_parallel, attention_data_parallel=row.data_parallel),
        max_context_tokens=row.context,
    )


def verdict(found: Start) -> str:
    if found.starts:
        return FITS
    return DOES_NOT_FIT if {fault.reason for fault in found.faults} <= MEMORY_REASONS else INVALID


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source.split('github.com/')[-1]}-{row.context}")
def test_verdicts_are_the_published_ones(row: Row, snapshot: CatalogSnapshot, names: NameReader) -> None:
    found = start(row, snapshot, names)
    assert verdict(found) == row.verdict, found.faults


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.xfail(reason=why, raises=AssertionError, strict=True), id=why)
        for row, why in WRONG
    ],
)
def test_rows_that_are_answered_otherwise(row: Row, snapshot: CatalogSnapshot, names: NameReader) -> None:
    """One that comes right fails here: it belongs into the rows above then."""
    assert verdict(start(row, snapshot, names)) == row.verdict


def test_what_is_said_to_fit_leaves_the_device_its_rest(snapshot: CatalogSnapshot, names: NameReader) -> None:
    for row in ROWS:
        found = start(row, snapshot, names)
        if found.starts and found.memory is not None:
            assert found.memory.budget_bytes <= found.memory.device_bytes
            assert found.memory.kv_pool_bytes >= found.memory.full_context_request_bytes
