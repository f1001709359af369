"""From a file to the measurements: names resolved, everything checked, nothing twice."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

import pytest
from sqlalchemy import Engine

from capplan.catalog.importers.formats import PARSERS, parse
from capplan.catalog.importers.landing import ImportReport, forget_import, import_measurements
from capplan.catalog.importers.runs import Facts
from capplan.catalog.loader import load_catalog
from capplan.catalog.measurements import load_measurements, measurement_revision, read_imports, read_measurements
from capplan.catalog.repository import read_revision
from capplan.catalog.tables.measurements import IMPORT_FORMATS
from capplan.database import session_scope
from capplan.errors import InvalidInputError, NotFoundError
from capplan.estimation.measurement import Measurement
from tests.catalog.importers.test_table import ROW as TABLE_ROW
from tests.catalog.importers.test_table import table
from tests.catalog.importers.test_vllm import RESULT

NOW = datetime.datetime(2026, 12, 1, 10, 30, tzinfo=datetime.UTC)
GIVEN = Facts(model="qwen3-8b", accelerator="h100-sxm-80gb", weights="fp8")
OF_TABLE = TABLE_ROW | {"model": "Qwen/Qwen3-8B", "gpu": "h100-sxm-80gb"}


def land(engine: Engine, content: Any, format_: str = "vllm", given: Facts = GIVEN, **changes: Any) -> ImportReport:
    text = content if isinstance(content, str) else json.dumps(content)
    with session_scope(engine) as session:
        return import_measurements(
            session, text.encode(), format_, "run.json", dataclasses.replace(given, **changes), NOW
        )


def own(engine: Engine) -> list[Measurement]:
    with session_scope(engine) as session:
        return [row for row in load_measurements(session) if row.own]


def reasons(report: ImportReport) -> str:
    return " | ".join(f"{rejection.place}: {rejection.reason}" for rejection in report.rejections)


def test_a_result_becomes_measurements_of_the_fleets_own(loaded: Engine) -> None:
    report = land(loaded, RESULT)
    assert (report.landed, report.present, report.rejections) == (8, 0, ())
    rows = own(loaded)
    assert len(rows) == 8
    (row,) = [row for row in rows if row.metric == "tpot_ms"]
    assert (row.model, row.sku, row.weights, row.kv_cache) == ("Qwen/Qwen3-8B", "h100-sxm-80gb", "fp8", "auto")
    assert (row.devices, row.tensor_parallel, row.pipeline_parallel) == (2, 2, 1)  # tp=2: one replica of two
    assert (row.load_kind, row.load_value, row.statistic, row.value) == ("concurrency", 32.0, "mean", 18.0)
    assert (row.input_tokens, row.output_tokens) == (1000.0, 250.0)
    assert (row.trust, row.own, row.source, row.as_of) == ("own", True, "import of run.json", "2026-03-12")


def test_the_served_name_is_kept_in_the_notes(loaded: Engine) -> None:
    land(loaded, RESULT)
    with session_scope(loaded) as session:
        (notes,) = {record.notes for record in read_measurements(session) if record.import_id is not None}
    assert notes == "served as org/m-8b"


def test_importing_again_lands_nothing_twice(loaded: Engine) -> None:
    land(loaded, RESULT)
    before = own(loaded)
    again = land(loaded, RESULT | {"label": "a copy"}, source="renamed", as_of="later")
    assert (again.landed, again.present) == (0, 8)
    assert own(loaded) == before


def test_a_figure_listed_twice_in_one_file_lands_once(loaded: Engine) -> None:
    report = land(loaded, "\n".join([json.dumps(RESULT)] * 2))
    assert (report.landed, report.present) == (8, 8)


def test_only_what_changes_measurements_moves_their_revision(loaded: Engine) -> None:
    first = land(loaded, RESULT)
    assert first.revision == 2
    again = land(loaded, RESULT)
    assert again.revision == 2
    with session_scope(loaded) as session:
        assert (read_revision(session).number, measurement_revision(session)) == (2, 2)


def test_every_import_is_on_record(loaded: Engine) -> None:
    land(loaded, RESULT)
    land(loaded, RESULT | {"completed": 0})
    with session_scope(loaded) as session:
        first, second = read_imports(session)
    assert (first.file_name, first.format, first.landed, first.present, first.rejected) == ("run.json", "vllm", 8, 0, 0)
    assert (second.landed, second.present, second.rejected) == (0, 0, 1)
    assert first.imported_at == NOW
    assert len(first.digest) == 64
    assert first.digest != second.digest


def test_an_import_can_be_taken_back(loaded: Engine) -> None:
    report = land(loaded, RESULT)
    with session_scope(loaded) as session:
        assert forget_import(session, report.import_id) == 8
        assert measurement_revision(session) == 3
        assert forget_import(session, report.import_id) == 0
        assert measurement_revision(session) == 3
        assert [record.landed for record in read_imports(session)] == [0]
        with pytest.raises(NotFoundError, match="no import named '99'"):
            forget_import(session, 99)
    assert not own(loaded)
    assert land(loaded, RESULT).landed == 8


def test_loading_shipped_facts_leaves_own_rows_alone(loaded: Engine) -> None:
    land(loaded, RESULT)
    with session_scope(loaded) as session:
        report = load_catalog(session)
    assert not report.tables["measurements"].changed
    assert len(own(loaded)) == 8


def test_a_shipped_figure_does_not_become_an_own_one(loaded: Engine) -> None:
    with session_scope(loaded) as session:
        row = next(row for row in load_measurements(session) if row.engine == "sglang" and not row.flags)
    copy = {
        "model": row.model,
        "gpu": row.sku,
        "engine": row.engine,
        "engine_version": row.engine_version,
        "weight_precision": row.weights,
        "kv_precision": row.kv_cache,
        "num_gpus": row.devices,
        "tp": row.tensor_parallel,
        "ep": row.expert_parallel,
        "dp": row.attention_data_parallel,
        "isl": row.input_tokens,
        "osl": row.output_tokens,
        "load_kind": row.load_kind,
        "load_value": row.load_value,
        "metric": row.metric,
        "statistic": row.statistic,
        "value": row.value,
    }
    text = ",".join(copy) + "\n" + ",".join(str(value) for value in copy.values()) + "\n"
    report = land(loaded, text, "csv", Facts())
    assert (report.landed, report.present, reasons(report)) == (0, 1, "")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": "qwen3-9b"}, "no model named 'qwen3-9b'"),
        ({"accelerator": "h900"}, "no accelerator named 'h900'"),
        ({"weights": None}, "weights is stated neither in the file nor beside it"),
        ({"weights": "fp5"}, "'fp5' is not known; accepted: fp32"),
        ({"weights": "mxfp4"}, "has none"),  # routed experts only, and Qwen3-8B is dense
        ({"kv_cache": "int3"}, "'int3' is not known"),
        ({"mig_profile": "1g.1gb"}, "has no MIG profile '1g.1gb'; accepted: 7g.80gb, 4g.40gb"),
        ({"tensor_parallel": 4}, "tensor_parallel is 2 in the file, but 4 was given"),
        ({"load_kind": "batch", "load_value": 8.0}, "load_kind is concurrency in the file, but batch was given"),
        ({"devices": 1}, "a replica has 2 ranks, the deployment only 1 devices"),
        ({"devices": 0}, "devices is 0; accepted: 1 to 65536"),
        ({"pipeline_parallel": 70_000}, "pipeline_parallel is 70000"),
        ({"source": "s" * 300}, "source has 300 characters, at most 256 are accepted"),
    ],
    ids=str,
)
def test_what_is_missing_or_wrong_is_told(loaded: Engine, given: dict[str, Any], says: str) -> None:
    report = land(loaded, RESULT, **given)
    assert report.landed == 0
    assert reasons(report).startswith("run: ")
    assert says in reasons(report)
    assert not own(loaded)


def test_every_fault_of_a_run_is_told_at_once(loaded: Engine) -> None:
    (rejection,) = land(loaded, RESULT, model="qwen3-9b", accelerator="h900", devices=1).rejections
    assert "ranks" in rejection.reason
    assert "qwen3-9b" in rejection.reason
    assert "h900" in rejection.reason


def test_a_bad_figure_does_not_keep_the_others_out(loaded: Engine) -> None:
    report = land(loaded, RESULT | {"mean_tpot_ms": 0.0, "mean_itl_ms": -1})
    assert report.landed == 6
    assert "tpot_ms (mean) is 0, not above 0; itl_ms (mean) is -1, not above 0" in reasons(report)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metric": "speed"}, "line 3: metric is 'speed'; accepted: tpot_ms"),
        ({"statistic": "p42"}, "line 3: statistic is 'p42'; accepted: mean"),
        ({"load_kind": "busy"}, "line 3: load_kind is 'busy'; accepted: concurrency"),
        ({"load_value": ""}, "line 3: load_value is not stated, and concurrency needs one"),
        ({"load_value": -4}, "line 3: load_value is -4"),
        ({"isl": 0}, "line 3: input_tokens is 0"),
        ({"value": 1e300}, "line 3: output_tokens_per_s (mean) is 4e+300"),
        ({"tp": "", "num_gpus": "", "per_gpu": ""}, "neither devices nor tensor_parallel is stated"),
        ({"flags": "two words"}, "line 3: a flag must be one word"),
    ],
    ids=str,
)
def test_a_bad_row_of_a_table_is_rejected_and_the_rest_lands(
    loaded: Engine, changes: dict[str, Any], says: str
) -> None:
    report = land(loaded, table(OF_TABLE, OF_TABLE | changes, OF_TABLE | {"value": 800}), "csv", Facts())
    assert report.landed == 2
    assert says in reasons(report)
    assert sorted(row.value for row in own(loaded)) == [4 * 700.0, 4 * 800.0]


def test_a_rate_searched_for_under_a_limit_needs_no_load(loaded: Engine) -> None:
    row = OF_TABLE | {"load_kind": "qps", "load_value": "", "statistic": "max_under_slo"}
    assert land(loaded, table(row), "csv", Facts()).landed == 1


def test_mig_instances_are_devices_of_their_own(loaded: Engine) -> None:
    row = OF_TABLE | {"num_gpus": 3, "tp": 1}
    assert land(loaded, table(row), "csv", Facts(mig_profile="1g.10gb")).landed == 1
    (found,) = own(loaded)
    assert (found.mig_profile, found.devices, found.tensor_parallel) == ("1g.10gb", 3, 1)


def test_a_file_of_no_known_kind_writes_nothing(loaded: Engine) -> None:
    for content, format_, field in (("x", "vllm", "file"), ("{}", "xml", "format")):
        with pytest.raises(InvalidInputError) as caught:
            land(loaded, content, format_)
        assert caught.value.violations[0].field == field
    with session_scope(loaded) as session:
        assert read_imports(session) == []


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no UTF-8"):
        parse(b"\xff\xfe", "csv")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert parse(b"\xef\xbb\xbf" + json.dumps(RESULT).encode(), "vllm").runs


def test_progress_is_told(loaded: Engine) -> None:
    told: list[tuple[int, int]] = []
    text = "\n".join(json.dumps(RESULT | {"max_concurrency": n}) for n in (8, 16, 32))
    with session_scope(loaded) as session:
        import_measurements(
            session, text.encode(), "vllm", "f", GIVEN, NOW, lambda done, runs: told.append((done, runs))
        )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_every_format_of_the_record_has_a_parser() -> None:
    assert tuple(PARSERS) == IMPORT_FORMATS
