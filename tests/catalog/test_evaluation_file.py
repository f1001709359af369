"""The reader of tables to predict: no row is lost, no content breaks it, and rows mean what the importer says."""

from __future__ import annotations

import csv
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.catalog.evaluation import evaluate_file
from capplan.catalog.evaluation_file import (
    ADDED_COLUMNS,
    canonical_engine,
    predictions_table,
    read_evaluation_file,
)
from capplan.errors import InvalidInputError
from capplan.estimation.coefficients import UNFITTED

HEADER = (
    "model,weight_precision,kv_precision,gpu,num_gpus,tp,engine,isl,osl,load_kind,load_value,metric,statistic,value"
    ",per_gpu"
)
ROW = "Qwen3-8B,fp8,,H100 SXM,2,1,vLLM (2023),1000,200,concurrency,16,output_tokens_per_s,unstated(mean),500,true"


def changed(**cells: str) -> str:
    record = dict(zip(HEADER.split(","), ROW.split(","), strict=True))
    return ",".join((record | cells).values())


@pytest.fixture(scope="module")
def read_bytes(snapshot):
    return lambda content: read_evaluation_file(content, snapshot, {"vllm"})


@pytest.fixture
def read(read_bytes):
    return lambda *rows, header=HEADER: read_bytes("\n".join((header, *rows)).encode())


@pytest.fixture(scope="module")
def evaluate(snapshot):
    return lambda file: evaluate_file(file, snapshot, UNFITTED, ())


def test_names_statistics_and_units_are_those_of_the_importer(read):
    (row,) = read(ROW).rows
    m = row.measurement
    assert (m.model, m.weights, m.kv_cache, m.sku) == ("Qwen/Qwen3-8B", "fp8", "auto", "h100-sxm-80gb")
    assert (m.engine, m.statistic, m.tensor_parallel, m.devices) == ("vllm", "", 1, 2)
    # 500 tokens per second on each of two devices.
    assert (row.measured, row.unit, m.value) == (500.0, 2.0, 1000.0)


@pytest.mark.parametrize("value", ["", "  "])
def test_a_row_without_a_value_is_read_all_the_same(read, value):
    (row,) = read(changed(value=value)).rows
    assert row.measured is None
    assert math.isnan(row.measurement.value)


def test_a_table_without_the_column_value_is_read(read):
    header, row = (line.replace(cell, "", 1) for line, cell in ((HEADER, ",value"), (ROW, ",500")))
    (found,) = read(row, header=header).rows
    assert (found.fault, found.measured) == ("", None)


@pytest.mark.parametrize(
    ("row", "malformed", "says"),
    [
        (changed(tp="two"), True, "tp is 'two', not a whole number"),
        (changed(value="fast"), True, "value is 'fast', not a number"),
        (changed(value="-3"), True, "value is -3, not above 0"),
        (changed(per_gpu="perhaps"), True, "per_gpu is 'perhaps'; accepted: true, false"),
        ("Qwen3-8B,fp8", True, "the row has 2 cells, the header 15"),
        (changed(gpu="Abacus 9"), False, "no accelerator named 'Abacus 9'"),
        (changed(weight_precision="q4_k_x"), False, "'q4_k_x' is not known"),
        (changed(load_value=""), False, "load_value is not stated"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_and_the_others_stay(read, row, malformed, says):
    good, bad, last = read(ROW, row, ROW).rows
    assert (good.fault, last.fault, bad.line) == ("", "", 3)
    assert bad.malformed is malformed
    assert says in bad.fault
    assert bad.measurement is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no column model, gpu, load_kind, metric"),
        (b"model,gpu\n", "no column load_kind, metric"),
        (b"\xff\xfe", "no UTF-8"),
        ((HEADER + ",tp\n" + ROW + ",1").encode(), "names 'tp' more than once"),
        ((HEADER + ",predicted\n").encode(), "columns of predictions already: predicted"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(read_bytes, content, says):
    with pytest.raises(InvalidInputError, match=says):
        read_bytes(content)


@pytest.mark.parametrize(
    ("published", "canonical"),
    [
        ("vLLM", "vllm"),
        ("vLLM (2023)", "vllm"),
        ("NIM (TensorRT-LLM)", "tensorrt-llm"),
        ("TensorRT (Triton)", "tensorrt (triton)"),
        ("ExLlamaV2", "exllamav2"),
        ("Nobody (knows", "nobody (knows"),
    ],
)
def test_an_engine_goes_by_the_name_it_is_known_by(published, canonical):
    assert canonical_engine(published, {"vllm", "tensorrt-llm", "tensorrt (triton)", "triton"}) == canonical


def test_added_columns_stand_where_the_header_says_even_beside_rows_of_another_length(read):
    file = read(ROW, "short,row", ROW + ",too,long")
    marks = [[f"{column}{number}" for column in ADDED_COLUMNS] for number in range(3)]
    written = list(csv.reader(io.StringIO(predictions_table(file, marks))))
    width = len(HEADER.split(","))
    assert written[0] == [*HEADER.split(","), *ADDED_COLUMNS]
    assert [row[width : width + len(ADDED_COLUMNS)] for row in written[1:]] == marks
    assert written[1][:width] == ROW.split(",")
    assert written[2][:width] == ["short", "row"] + [""] * (width - 2)
    assert written[3][width + len(ADDED_COLUMNS) :] == ["too", "long"]


CELLS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            "1",
            "0",
            "-1",
            "2.5",
            "1e400",
            "nan",
            "mean",
            "fp8",
            "true",
            "vllm",
            '"',
            "\r",
            "\x00",
            "é",
            "1e-9",
            "1e8",
            "65536",
            "999999999",
        ]
    ),
)
COLUMNS = HEADER.split(",")
CHANGES = st.dictionaries(st.sampled_from(COLUMNS), CELLS, max_size=4)


@given(st.lists(CHANGES, max_size=3))
def test_any_cells_are_read_predicted_and_written_back_as_they_were(read_bytes, evaluate, changes):
    usual = dict(zip(COLUMNS, ROW.split(","), strict=True))
    rows = [list((usual | change).values()) for change in changes]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([COLUMNS, *rows])
    file = read_bytes(text.getvalue().encode("utf-8", "replace"))
    evaluation = evaluate(file)
    assert all((outcome.predicted is None) is bool(outcome.reason) for outcome in evaluation.outcomes)
    written = predictions_table(file, [("",) * len(ADDED_COLUMNS) for _ in file.rows])
    back = list(csv.reader(io.StringIO(written, newline="")))
    assert [tuple(row[: len(COLUMNS)]) for row in back[1:]] == [row.cells for row in file.rows]
    assert len(file.rows) == len(rows)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: (HEADER + "\n" + text).encode())))
def test_any_bytes_are_a_table_or_refused(read_bytes, content):
    try:
        file = read_bytes(content)
    except InvalidInputError:
        return
    assert all(row.measurement is not None or row.fault for row in file.rows)
