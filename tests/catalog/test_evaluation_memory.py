"""Start-up logs as a table: how rows are read, what their words mean, and how far predictions are from what is printed.

Figures are those of published logs; each row names where it was printed.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.catalog.evaluation_memory import evaluate_memory, name_uses, predictions_table, reason_counts
from capplan.catalog.evaluation_memory_errors import DEFAULTED, KNOWN, memory_error_tables, worst_rows
from capplan.catalog.evaluation_memory_file import ADDED_COLUMNS, MemoryMetric, read_memory_file
from capplan.catalog.evaluation_memory_names import NameReader, UnresolvedError, cache_word, engine_release
from capplan.catalog.names import MAX_NEAR_NAMES
from capplan.catalog.repository import Revision
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError

COLUMNS = [
    *("url", "date", "engine", "engine_version", "model", "weight_precision", "kv_dtype", "gpu", "gpu_mem_gb"),
    *("mig_profile", "tp", "pp", "gpu_memory_utilization", "max_model_len", "enforce_eager"),
    *("weights_gib_per_gpu", "kv_cache_gib_per_gpu", "kv_tokens", "max_concurrency", "notes"),
]
USUAL = dict.fromkeys(COLUMNS, "") | {
    "url": "https://github.com/llm-d-incubation/llm-d-planner",
    "date": "2026-04-20",
    "engine": "vllm",
    "engine_version": "0.19.0",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "weight_precision": "bf16",
    "gpu": "H100",
    "gpu_mem_gb": "80",
    "tp": "1",
    "gpu_memory_utilization": "0.95",
    "max_model_len": "8192",
    "weights_gib_per_gpu": "14.99",
    "kv_cache_gib_per_gpu": "58.11",
    "kv_tokens": "476016",
}
WEIGHTS, KV_CACHE, KV_TOKENS, CONCURRENCY = MemoryMetric


def table(*rows: dict[str, str], columns=COLUMNS) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(USUAL | row for row in rows)
    return text.getvalue().encode()


@pytest.fixture(scope="module")
def evaluate(snapshot):
    return lambda *rows: evaluate_memory(read_memory_file(table(*rows)), snapshot)


@pytest.fixture(scope="module")
def predict(evaluate):
    """The outcome of one row."""
    return lambda **cells: evaluate(cells).outcomes[0]


PUBLISHED = [
    # llm-d-planner, accuracy report of vLLM 0.19.0 on H100
    {},
    {"model": "Qwen/Qwen2.5-7B-Instruct", "weights_gib_per_gpu": "14.25", "kv_cache_gib_per_gpu": "58.53"}
    | {"kv_tokens": "1096000"},
    {"kv_dtype": "fp8", "kv_tokens": "952032"},
    {"weight_precision": "float32", "weights_gib_per_gpu": "29.98", "kv_cache_gib_per_gpu": "42.8", "kv_tokens": ""},
    # the same, part 2
    {"engine_version": "0.16.0", "model": "Qwen/Qwen3-14B", "weights_gib_per_gpu": "27.52"}
    | {"kv_cache_gib_per_gpu": "41.94", "kv_tokens": "", "max_concurrency": "33.55"},
    {"engine_version": "0.17.0", "model": "Qwen/Qwen3-14B", "weights_gib_per_gpu": "27.52"}
    | {"kv_cache_gib_per_gpu": "45.34", "kv_tokens": "", "max_concurrency": "36.27"},
    # vLLM issue 10517
    {"engine_version": "0.6.x", "gpu": "RTX 3090", "gpu_mem_gb": "24", "gpu_memory_utilization": "0.9"}
    | {"max_model_len": "20000", "kv_cache_gib_per_gpu": "3.81", "kv_tokens": "31232", "max_concurrency": "1.56"},
    # vLLM pull 4454: one prefill of 32,768 tokens at 0.4
    {"engine_version": "0.4.1+", "model": "teknium/OpenHermes-2.5-Mistral-7B", "gpu": "RTX A6000", "gpu_mem_gb": "48"}
    | {"gpu_memory_utilization": "0.9", "max_model_len": "", "weights_gib_per_gpu": "", "kv_cache_gib_per_gpu": ""}
    | {"kv_tokens": "203760"},
    # TensorRT-LLM issue 2268: 0.9 of the 21.89 GiB that are free
    {"engine": "tensorrt-llm", "engine_version": "0.13.0.dev2024082000", "model": "Qwen1.5-7B"}
    | {"weight_precision": "fp16", "gpu": "A100", "gpu_mem_gb": "40", "gpu_memory_utilization": ""}
    | {"max_model_len": "", "weights_gib_per_gpu": "", "kv_cache_gib_per_gpu": "19.72", "kv_tokens": "40384"},
]


def test_published_logs_are_predicted_within_the_bars(evaluate):
    evaluation = evaluate(*PUBLISHED)
    errors = {metric: found for (_, metric), found in memory_error_tables(evaluation.comparisons)[0].strata.items()}
    assert sum(found.rows for found in errors.values()) == 7 + 8 + 6 + 3
    assert errors[WEIGHTS].median <= 0.01
    assert errors[WEIGHTS].p90 <= 0.03
    assert errors[KV_TOKENS].median <= 0.03
    assert errors[KV_TOKENS].p90 <= 0.10


def test_statistics_are_those_of_the_definition(evaluate):
    # The first three rows are one prediction against figures of which it is 2, 1 and 0.5 times as much.
    predicted = evaluate({}).outcomes[0].predicted[WEIGHTS]
    evaluation = evaluate(*({"weights_gib_per_gpu": repr(predicted / ratio)} for ratio in (2, 1, 0.5)))
    whole, *by_property = memory_error_tables(evaluation.comparisons)
    errors = whole.strata["all rows", WEIGHTS]
    assert errors.rows == 3
    assert (errors.median, errors.bias) == pytest.approx((0.5, 0.0), abs=1e-12)
    assert errors.p90 == pytest.approx(0.5 + 0.8 * 0.5)  # the 90th percentile lies 0.8 of the way from 0.5 to 1
    assert {t.by for t in by_property} == {"engine", "settings", "GPU", "model family", "precision"}
    assert [row.line for row in worst_rows(evaluation.comparisons, 1)] == [2]


def test_settings_count_as_known_only_when_all_are_stated(evaluate):
    rows: list[dict[str, str]] = [
        {},
        {"engine_version": ""},
        {"gpu_memory_utilization": "default"},
        {"tp": ""},
        {"engine_version": "image 2026-06"},
        {"engine_version": "0.2.7"},
        {"engine": "tgi"},
    ]
    settings = {comparison.line: comparison.settings for comparison in evaluate(*rows).comparisons}
    assert settings == {2: KNOWN} | dict.fromkeys(range(3, 9), DEFAULTED)


@pytest.mark.parametrize(
    ("cells", "direction"),
    [
        ({"gpu_memory_utilization": "0.8"}, -1),
        ({"engine_version": "0.16"}, -1),  # sorts for the sampler
        ({"engine_version": "0.20"}, -1),  # subtracts graphs
        ({"notes": "max_num_seqs 64"}, 1),
        ({"max_num_seqs": "64"}, 1),
        ({"tp": "2"}, 1),
        ({"weight_precision": "fp8"}, 1),
    ],
)
def test_what_a_row_states_is_used(snapshot, cells, direction):
    columns = [*COLUMNS, "max_num_seqs"]
    file = read_memory_file(table({}, cells, columns=columns))
    usual, changed = (outcome.predicted[KV_CACHE] for outcome in evaluate_memory(file, snapshot).outcomes)
    assert (changed - usual) * direction > 0


@pytest.mark.parametrize(
    ("cells", "gib"),
    [
        # llm-d-planner, accuracy report of 0.19: as much on each of four ranks as on one
        ({"tp": "4"}, 3.77),
        ({"tp": "2"}, 7.51),
        # dtcms.com, 609393: tables of 40,960 positions beside 0.70 GiB
        ({"model": "Qwen/Qwen3-0.6B-FP8", "weight_precision": "fp8", "engine_version": "0.11"}, 0.711),
    ],
)
def test_weights_come_with_the_tables_of_the_rotary_embedding(predict, cells, gib):
    assert predict(**cells).predicted[WEIGHTS] == pytest.approx(gib, rel=0.002)


def test_eager_mode_gives_the_graphs_back(predict):
    kept = predict(engine_version="0.24", enforce_eager="no").predicted[KV_CACHE]
    assert predict(engine_version="0.24", enforce_eager="yes").predicted[KV_CACHE] > kept


def test_a_slice_is_predicted_with_its_own_memory(predict):
    whole, part = predict(), predict(mig_profile="3g.40gb")
    assert part.taken.sku == "h100-sxm-80gb 3g.40gb"
    # 0.95 of half the device beside the same 15 GiB of weights
    assert part.predicted[KV_CACHE] < whole.predicted[KV_CACHE] / 2
    assert "MIG profile" in predict(mig_profile="9g.90gb").reason


def test_towers_are_left_out_when_the_log_says_so(predict):
    cells = {"model": "Qwen/Qwen2.5-VL-7B-Instruct"}
    assert predict(**cells, notes="language-model-only").predicted[WEIGHTS] < predict(**cells).predicted[WEIGHTS]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"engine": "tgi"}, "engine 'tgi' is not modelled"),
        ({"engine": ""}, "engine '' is not modelled"),
        ({"gpu": "Abacus"}, "no accelerator named 'Abacus'"),
        ({"gpu": "H20", "gpu_mem_gb": "141"}, "H20 with 141 GB is not in the catalogue"),
    ],
)
def test_weights_are_predicted_where_engine_or_device_are_not_modelled(predict, cells, reason):
    outcome = predict(**cells)
    assert reason in outcome.reason
    assert set(outcome.predicted) == {WEIGHTS}
    assert outcome.predicted[WEIGHTS] == pytest.approx(14.99, rel=0.01)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"model": "no/such-model"}, "no model named"),
        ({"model": ""}, "no model named"),
        ({"weight_precision": "exl3"}, "weight format 'exl3'"),
        ({"kv_dtype": "q4_0"}, "KV-cache format 'q4_0'"),
        ({"weight_precision": "mxfp4"}, "not modelled in mxfp4"),
    ],
)
def test_what_cannot_be_predicted_is_kept_with_its_reason(evaluate, cells, reason):
    evaluation = evaluate({}, cells)
    assert reason in evaluation.outcomes[1].reason
    assert evaluation.outcomes[1].predicted == {}
    assert list(reason_counts(evaluation).values()) == [(1, 3)]


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ({"tp": "many"}, "tp is 'many', not a whole number"),
        ({"tp": "0"}, "tp is 0"),
        ({"gpu_memory_utilization": "1.2"}, "gpu_memory_utilization is 1.2; accepted: above 0, at most 1"),
        ({"gpu_memory_utilization": "nan"}, "gpu_memory_utilization is 'nan', not a number"),
        ({"enforce_eager": "perhaps"}, "enforce_eager is 'perhaps'; accepted: yes, no"),
        ({"kv_tokens": "12k"}, "kv_tokens is '12k', not a number"),
    ],
)
def test_malformed_cells_are_named_with_their_line(evaluate, cells, fault):
    row = evaluate(cells).outcomes[0]
    assert fault in row.reason
    assert row.row.line == 2


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "no column model, gpu"),
        (b"model,kv_tokens\nx,1\n", "no column gpu"),
        (b"model,gpu,gpu\n", "more than once"),
        (b"model,gpu,predicted_kv_tokens\n", "columns of predictions already"),
        (b"model,gpu,kv_dtype,kv_cache_dtype\n", "has both kv_dtype and kv_cache_dtype"),
        (b"model,gpu\n\xff,x\n", "UTF-8"),
    ],
)
def test_files_that_are_no_such_table_are_refused(content, fault):
    with pytest.raises(InvalidInputError, match=fault):
        read_memory_file(content)


def test_a_ragged_row_is_reported_and_the_others_are_predicted(snapshot):
    content = b"model,gpu,engine\nQwen3-8B,H100 SXM\nQwen3-8B,H100 SXM,vllm\n"
    ragged, whole = evaluate_memory(read_memory_file(content), snapshot).outcomes
    assert ragged.reason == "the row has 2 cells, the header 3"
    assert not whole.reason


def test_a_table_with_a_column_vllm_states_engine_and_version(snapshot):
    content = b"model,gpu,vllm,dtype,kv_cache_dtype,weight_gib,note\nQwen/Qwen3-8B,H100-80GB,v0.19.0,auto,auto,15.3,\n"
    (outcome,) = evaluate_memory(read_memory_file(content), snapshot).outcomes
    assert (outcome.taken.engine, outcome.taken.version, outcome.taken.weights) == ("vllm", "0.19", "bf16")
    assert outcome.row.measured == {WEIGHTS: 15.3}


def test_figures_of_zero_or_less_are_predicted_but_compared_with_nothing(evaluate):
    evaluation = evaluate({"kv_cache_gib_per_gpu": "-1.05", "kv_tokens": "0"})
    assert evaluation.not_positive == 2
    assert {comparison.metric for comparison in evaluation.comparisons} == {WEIGHTS}
    assert set(evaluation.outcomes[0].predicted) == set(MemoryMetric)


def test_predictions_repeat_every_row(evaluate):
    rows: list[dict[str, str]] = [{}, {"model": "no/such"}, {"tp": "x"}]
    evaluation = evaluate(*rows)
    written = list(csv.DictReader(io.StringIO(predictions_table(evaluation), newline="")))
    assert [{column: row[column] for column in COLUMNS} for row in written] == [USUAL | row for row in rows]
    assert list(written[0])[len(COLUMNS) :] == list(ADDED_COLUMNS)
    assert float(written[0]["predicted_kv_tokens"]) == evaluation.outcomes[0].predicted[KV_TOKENS]
    assert [bool(row["not_predicted_reason"]) for row in written] == [False, True, True]


@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=6), max_size=4))
def test_no_content_breaks_the_reader(rows):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["model", "gpu", "tp", "kv_tokens"], *rows])
    try:
        file = read_memory_file(text.getvalue().encode(errors="surrogatepass"))
    except InvalidInputError:
        return
    assert all(row.fault or row.stated for row in file.rows)


@pytest.fixture(scope="module")
def names(snapshot):
    return NameReader(snapshot)


@pytest.mark.parametrize(
    ("name", "stated", "profile", "weights"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "bf16", "meta-llama/Meta-Llama-3.1-8B", "bf16"),
        ("meta-llama/Llama-3.1-8B-Instruct", "", "meta-llama/Meta-Llama-3.1-8B", "bf16"),
        ("Qwen/Qwen3-30B-A3B FP8", "fp8", "Qwen/Qwen3-30B-A3B-FP8", "fp8"),
        ("Qwen2.5-7B 4-bit", "int4", "Qwen/Qwen2.5-7B", "int4"),
        ("someone/Qwen2.5-7B-GPTQ-Int4", "", "Qwen/Qwen2.5-7B", "int4"),
        ("RedHatAI/Qwen3-8B-FP8-dynamic", "", "Qwen/Qwen3-8B", "fp8"),
        ("DeepSeek-R1 AWQ (inferred from 21.21 GiB x 16)", "int4-awq", "deepseek-ai/DeepSeek-R1", "int4"),
        ("moonshotai/Kimi-K3 (MXFP4, 2.8T)", "mxfp4", "moonshotai/Kimi-K3", "mxfp4"),
        ("Llama-2-7B class (SmoothQuant)", "w8a8", "meta-llama/Llama-2-7b-hf", "int8"),
        # only a quantised build is in the catalogue: its shape, in the format asked for
        ("cyankiwi/gemma-4-31B-it-AWQ-4bit", "int4-awq", "nvidia/Gemma-4-31B-IT-NVFP4", "int4"),
        # the checkpoint itself, whatever a source calls its mixture
        ("deepseek-ai/DeepSeek-V4-Pro", "fp8/fp4", "deepseek-ai/DeepSeek-V4-Pro", "fp8"),
        ("deepseek-ai/DeepSeek-V4-Pro", "mxfp4", "deepseek-ai/DeepSeek-V4-Pro", "fp8"),
        ("openai/gpt-oss-120b", "checkpoint default", "openai/gpt-oss-120b", "mxfp4"),
        ("deepseek-ai/DeepSeek-V4-Flash-0731", "", "deepseek-ai/DeepSeek-V4-Flash", "fp8"),
    ],
)
def test_builds_are_a_profile_in_a_format(names, name, stated, profile, weights):
    build = names.build(name, stated)
    assert (build.profile, build.weights) == (profile, weights)


@pytest.mark.parametrize("name", ["", "(see thread)", "phi", "gemma", "fp8", "Qwen/Qwen9-8B"])
def test_no_model_is_guessed(names, name):
    with pytest.raises(UnresolvedError):
        names.build(name, "")


@pytest.mark.parametrize(
    ("name", "memory", "sku"),
    [
        ("H100", 80, "h100-sxm-80gb"),
        ("H100", None, "h100-sxm-80gb"),
        ("RTX PRO 6000", 96, "rtx-pro-6000-server-96gb"),
        ("A100", 40, "a100-sxm4-40gb"),
        ("A100", 80, "a100-sxm4-80gb"),
        ("H100-80GB", None, "h100-sxm-80gb"),
        ("RTX 3090 (23.58 GiB)", 24, "rtx-3090-24gb"),
        ("GB10 (DGX Spark)", 128, "gb10-dgx-spark-128gb"),
        ("H200", 141, "h200-sxm-141gb"),
    ],
)
def test_devices_are_told_apart_by_their_memory(names, name, memory, sku):
    assert names.accelerator(name, memory).sku == sku


def test_a_device_is_found_among_more_than_an_error_names(snapshot):
    # Names that look alike are listed by name, so these come before the SXM module.
    usual = snapshot.accelerators["h100-pcie-80gb"]
    boards = [
        replace(usual, accelerator=replace(usual.accelerator, sku=f"h100-board-{number}-80gb"), aliases=())
        for number in range(MAX_NEAR_NAMES)
    ]
    records = [*snapshot.accelerators.values(), *boards]
    grown = CatalogSnapshot.build(
        Revision(snapshot.revision, snapshot.updated_at), records, (), (), (), snapshot.models.values(), None
    )
    assert NameReader(grown).accelerator("H100", 80).sku == "h100-sxm-80gb"


@pytest.mark.parametrize(("name", "memory"), [("A100", None), ("H20", 141), ("", None), ("RTX 4060", 8)])
def test_no_device_is_guessed(names, name, memory):
    with pytest.raises(UnresolvedError):
        names.accelerator(name, memory)


@pytest.mark.parametrize(
    ("engine", "stated", "date", "version"),
    [
        ("vllm", "0.11.0", "", "0.11.0"),
        ("vllm", "v0.19.0", "", "0.19.0"),
        ("vllm", "0.26.1rc1", "", "0.26.1"),
        ("vllm", "unstated (<=0.16)", "", "0.16"),
        ("vllm", "gptoss image (0.10.1)", "2026-08-10", "0.10.1"),
        ("vllm", "0.8.x V0", "", "0.7"),
        ("vllm", "0.7.4.dev V1", "", "0.8"),
        ("vllm", "nightly", "2026-05-03", "0.20"),
        ("vllm", "0.1.dev19262+gb6bbf29dd", "2026-07-27", "0.24"),
        ("vllm", "", "~2025-06", "0.9"),
        ("vllm", "0.99", "", "0.33"),
        ("SGLang", "0.4.6.post5", "", "0.4.6"),
        ("NIM (TensorRT-LLM)", "", "", None),
        ("TensorRT-LLM", "0.5", "", "0.13"),
    ],
)
def test_versions(engine, stated, date, version):
    if version is None:
        with pytest.raises(UnresolvedError):
            engine_release(engine, stated, date)
    else:
        assert engine_release(engine, stated, date).version == version


@pytest.mark.parametrize(
    ("stated", "meant"), [("", "auto"), ("fp8_e5m2", "fp8"), ("int8_per_token_head or fp8 (see thread)", "fp8")]
)
def test_cache_formats(stated, meant):
    assert cache_word(stated) == meant


def test_what_names_were_taken_for_is_listed(evaluate):
    uses = name_uses(evaluate({}, {"model": "RedHatAI/Qwen3-8B-FP8-dynamic", "weight_precision": ""}))
    assert ("H100, 80 GB", "h100-sxm-80gb") in uses
    assert ("RedHatAI/Qwen3-8B-FP8-dynamic", "Qwen/Qwen3-8B, fp8, KV bf16") in uses
    assert uses["vllm 0.19.0", "vllm 0.19"] == 2
