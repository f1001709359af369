"""What a choice of engine resolves to: names, versions, defaults by version and device, refusals by name."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import InvalidInputError
from capplan.estimation.device import whole_device
from capplan.estimation.engine import (
    ENGINE_NAMES,
    EngineChoice,
    EngineSettings,
    engine_name,
    engine_notes,
    engine_refusal,
    engine_version,
    resolve_settings,
)
from capplan.estimation.engine_records import capture_sizes
from capplan.hardware.accelerator import Accelerator
from tests.hardware.devices import (
    A100,
    B200,
    GAUDI3,
    GB10,
    H100,
    H200,
    L40S,
    MI300X,
    MI355X,
    RTX_3090,
    RTX_4090,
    T4,
    V100,
)


def resolved(choice: EngineChoice, accelerator: Accelerator, ranks: int = 1, context: int = 8_192) -> EngineSettings:
    device = whole_device(accelerator)
    assert device is not None
    return resolve_settings(choice, accelerator, device.memory_bytes, ranks=ranks, context_tokens=context)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("vllm", "vllm"),
        ("vLLM", "vllm"),
        ("SGLang", "sglang"),
        ("sg-lang", "sglang"),
        ("TensorRT-LLM", "tensorrt-llm"),
        ("tensorrt_llm", "tensorrt-llm"),
        ("TRT-LLM", "tensorrt-llm"),
        ("trtllm", "tensorrt-llm"),
    ],
)
def test_engines_go_by_their_usual_spellings(written: str, meant: str) -> None:
    assert engine_name(written) == meant


@pytest.mark.parametrize("name", ["tgi", "lmdeploy", "", "llama.cpp", "vllm2"])
def test_other_engines_are_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        engine_name(name)
    (violation,) = refusal.value.violations
    assert violation.field == "constraints.engine.name"
    assert all(known in violation.description for known in ENGINE_NAMES)


@pytest.mark.parametrize(
    ("name", "version", "meant"),
    [
        ("vllm", None, "0.33"),
        ("vllm", "v0.8.5.post1", "0.8"),
        ("vllm", "0.6.6", "0.6"),
        ("sglang", None, "0.5.23"),
        ("sglang", "0.5", "0.5.23"),
        ("sglang", "0.4.6.post5", "0.4.6"),
        ("tensorrt-llm", None, "1.4"),
        ("tensorrt-llm", "1.0.0rc4", "1.0"),
    ],
)
def test_versions_go_by_the_engines_own_table(name: str, version: str | None, meant: str) -> None:
    assert engine_version(EngineChoice(name, version)) == meant


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("vllm", "0.3.3"),
        ("vllm", "0.34"),
        ("vllm", "1.0"),
        ("sglang", "0.3.6"),
        ("sglang", "0.4.5"),
        ("sglang", "0.6"),
        ("tensorrt-llm", "0.12"),
        ("tensorrt-llm", "1.5"),
        ("vllm", "latest"),
        ("vllm", "0"),
        ("vllm", "0.x"),
        ("sglang", "0.\uff15.1"),
    ],
)
def test_versions_outside_are_refused_by_name(name: str, version: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        engine_version(EngineChoice(name, version))
    assert refusal.value.violations[0].field == "constraints.engine.version"


@given(st.text(max_size=20))
def test_no_text_in_place_of_a_version_crashes(text: str) -> None:
    for name in ENGINE_NAMES:
        with contextlib.suppress(InvalidInputError):
            assert engine_version(EngineChoice(name, text)).replace(".", "").isdigit()


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        (EngineChoice("sglang", gpu_memory_utilization=0.9), "mem_fraction_static"),
        (EngineChoice("tensorrt-llm", mem_fraction_static=0.9), "free_gpu_memory_fraction"),
        (EngineChoice("vllm", free_gpu_memory_fraction=0.9), "gpu_memory_utilization"),
    ],
)
def test_another_engines_fraction_is_not_taken_for_ones_own(choice: EngineChoice, taken: str) -> None:
    with pytest.raises(InvalidInputError, match=taken):
        resolved(choice, H100)


@pytest.mark.parametrize(
    ("version", "accelerator", "sequences", "tokens"),
    [
        # vllm/engine/arg_utils.py by tag, API server
        ("0.33", H100, 1024, 8192),
        ("0.33", L40S, 256, 2048),
        ("0.33", A100, 256, 2048),
        ("0.8.5", A100, 1024, 8192),
        ("0.27", B200, 1024, 8192),
        ("0.28", B200, 1024, 16384),
        ("0.28", MI300X, 1024, 16384),
        ("0.29", GB10, 1024, 8192),
        ("0.33", GB10, 256, 2048),
        ("0.7", H100, 256, 8192),
        ("0.8.1", RTX_3090, 1024, 2048),
        ("0.8.5", RTX_3090, 256, 2048),
    ],
)
def test_vllms_caps_follow_version_and_device(
    version: str, accelerator: Accelerator, sequences: int, tokens: int
) -> None:
    settings = resolved(EngineChoice(version=version), accelerator)
    assert (settings.max_num_seqs, settings.max_num_batched_tokens) == (sequences, tokens)


def test_the_v0_engine_profiles_a_whole_unchunked_prefill_up_to_32k() -> None:
    for context, tokens in ((1_024, 2_048), (29_000, 29_000), (32_768, 32_768), (35_000, 2_048)):
        settings = resolved(EngineChoice(version="0.6"), RTX_3090, context=context)
        assert settings.max_num_batched_tokens == tokens


def test_what_is_not_modelled_of_an_engine_is_said() -> None:
    assert engine_notes(EngineChoice()) == engine_notes(EngineChoice("sglang")) == ()
    assert "V0 engine" in engine_notes(EngineChoice(version="0.7"))[0]
    assert "launched" in engine_notes(EngineChoice("trtllm", enforce_eager=True))[0]


def test_vllms_utilization_rose_when_graphs_entered_the_budget() -> None:
    old, new = resolved(EngineChoice(version="0.19"), H100), resolved(EngineChoice(version="0.20"), H100)
    assert (old.gpu_memory_utilization, old.memory.graphs_in_budget) == (0.90, False)
    assert (new.gpu_memory_utilization, new.memory.graphs_in_budget) == (0.92, True)
    assert (old.mem_fraction_static, old.free_gpu_memory_fraction) == (None, None)
    assert not resolved(EngineChoice(version="0.20"), MI300X).memory.graphs_in_budget
    assert resolved(EngineChoice(version="0.33"), MI300X).memory.graphs_in_budget


@pytest.mark.parametrize(
    ("version", "accelerator", "ranks", "fraction"),
    [
        # H100, 81,559 MiB, one rank: 512 + 1.5 * 8,192 + 2 * 256 + 128 = 13,440 MiB kept free
        ("0.5.9", H100, 1, 0.835),
        # and 8 MiB for each of 58 prefill graphs
        ("0.5.23", H100, 1, 0.830),
        # 9,728 + 512 * 8 MiB of 81,559
        ("0.5.2", H100, 8, 0.831),
        # the table by tensor parallelism for at most 80 GiB, 13,312 MiB above
        ("0.4.6", H100, 4, 0.85),
        ("0.4.6", H200, 8, round((143771 - 13312) / 143771, 3)),
        # sglang pull 18263 logs 0.911 on MI355X: 512 + 1.5 * 16,384 + 2 * 512 + 128 = 26,240 of 294,896 MiB
        ("0.5.16", MI355X, 1, 0.911),
        # 24,564 MiB: 512 + 1.5 * 2,048 + 2 * 24 + 128
        ("0.5.9", RTX_4090, 1, 0.847),
    ],
)
def test_sglang_computes_its_fraction(version: str, accelerator: Accelerator, ranks: int, fraction: float) -> None:
    settings = resolved(EngineChoice("sglang", version), accelerator, ranks)
    assert settings.mem_fraction_static == pytest.approx(fraction, abs=0.0006)


@pytest.mark.parametrize(
    ("version", "accelerator", "chunk"),
    [
        ("0.5.2", RTX_4090, 2048),
        ("0.5.2", L40S, 8192),
        ("0.5.9", L40S, 4096),
        ("0.5.9", H100, 8192),
        ("0.5.23", RTX_4090, 4096),
        ("0.5.23", B200, 16384),
    ],
)
def test_sglangs_prefill_chunk_follows_version_and_device(version: str, accelerator: Accelerator, chunk: int) -> None:
    assert resolved(EngineChoice("sglang", version), accelerator).max_num_batched_tokens == chunk


def test_a_larger_chunk_leaves_sglang_less_for_its_pools() -> None:
    small, large = (resolved(EngineChoice("sglang", max_num_batched_tokens=c), H200) for c in (8_192, 32_768))
    assert large.memory_fraction < small.memory_fraction


def test_tensorrt_llms_defaults_do_not_turn_on_the_device() -> None:
    for accelerator in (H100, L40S):
        settings = resolved(EngineChoice("tensorrt-llm"), accelerator)
        assert (settings.free_gpu_memory_fraction, settings.max_num_seqs) == (0.9, 2048)
        assert settings.max_num_batched_tokens == 8192


@pytest.mark.parametrize(
    ("name", "runs", "refused"),
    [
        ("vllm", (V100, T4, H100, MI300X), (GAUDI3,)),
        ("sglang", (T4, H100, MI300X), (V100, GAUDI3)),
        ("tensorrt-llm", (A100, H100), (V100, T4, MI300X, GAUDI3)),
    ],
)
def test_engines_run_on_their_devices_only(
    name: str, runs: tuple[Accelerator, ...], refused: tuple[Accelerator, ...]
) -> None:
    assert all(engine_refusal(accelerator, name) is None for accelerator in runs)
    assert all(engine_refusal(accelerator, name) for accelerator in refused)


def test_graph_sizes_are_counted_as_the_engine_lists_them() -> None:
    # 1, 2, 4, then 8 to 248 by 8 (31 sizes), then 256 to 512 by 16 (17 sizes)
    assert capture_sizes(512) == 3 + 31 + 17
    assert capture_sizes(1) == 1
    assert capture_sizes(16) == 5
    assert capture_sizes(256) == 3 + 31 + 1


def test_the_v0_engine_chunks_long_prompts_from_0_5_4_on() -> None:
    # vLLM pull 6666: contexts above 32,768 tokens are chunked by 2,048; before, one prefill takes the whole context
    def step_tokens(version: str, context: int) -> int:
        settings = resolve_settings(EngineChoice(version=version), H100, 80 << 30, context_tokens=context)
        return settings.max_num_batched_tokens

    assert step_tokens("0.5.3", 131_072) == 131_072
    assert step_tokens("0.5.4", 131_072) == 2_048
    assert step_tokens("0.6", 32_768) == 32_768


def test_the_v0_engine_samples_when_it_does_not_chunk() -> None:
    # vLLM issue 10517: a peak of 0.06 GiB at 35,000 tokens (chunked), 2.07 at 20,000 (not)
    def copies(context: int) -> float:
        settings = resolve_settings(EngineChoice(version="0.6"), RTX_3090, 24 << 30, context_tokens=context)
        return settings.memory.sampler_logit_copies

    assert copies(35_000) == 0.0
    assert copies(20_000) > 0.0
