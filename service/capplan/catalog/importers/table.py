"""A plain CSV table, one figure a row, for figures from anywhere.

Columns that must be there: ``model``, ``gpu``, ``load_kind``, ``metric``, ``value``. Read when there: ``source_title``,
``source_url``, ``source_version_or_date``, ``engine``, ``engine_version``, ``weight_precision``, ``kv_precision``,
``mig_profile``, ``num_gpus``, ``tp``, ``pp``, ``ep``, ``dp``, ``isl``, ``osl``, ``load_value``, ``statistic``,
``per_gpu`` (the value is per device of ``num_gpus``), ``serving_mode`` (``agg`` or ``disagg``), ``flags`` (separated by
``;``) and ``notes``. An empty cell is not stated. Every row counts as the fleet's own, whatever it says of trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from capplan.catalog.importers.reading import UnusableError, cell_number, csv_records, number, shown, text_of, whole
from capplan.catalog.importers.runs import Facts, Figure, Parsed, Run
from capplan.estimation.measurement import RATE_METRICS

_REQUIRED: Final = ("model", "gpu", "load_kind", "metric", "value")
_BOOLEANS: Final = {"": False, "false": False, "0": False, "true": True, "1": True}


def parse_table(text: str) -> Parsed:
    """Read a table.

    Raises:
        InvalidInputError: the file is no CSV, or a column that must be there is missing.
    """
    parsed = Parsed()
    for line, record in csv_records(text, _REQUIRED, parsed):
        try:
            parsed.runs.append(_run(f"line {line}", record))
        except UnusableError as error:
            parsed.reject(f"line {line}", str(error))
    return parsed


def _run(place: str, record: Mapping[str, str]) -> Run:
    metric = record["metric"].strip()
    value = cell_number(record, "value", number)
    if value is None:
        raise UnusableError("value is empty")
    devices = cell_number(record, "num_gpus", whole)
    if _boolean(record, "per_gpu") and metric in RATE_METRICS:
        if devices is None:
            raise UnusableError("per_gpu is true, but num_gpus is empty")
        value *= devices
    flags = [flag for part in record.get("flags", "").split(";") if (flag := text_of(part))]
    mode = record.get("serving_mode", "").strip()
    if mode == "disagg":
        flags.append("disaggregated")
    elif mode not in ("", "agg"):
        raise UnusableError(f"serving_mode is {shown(mode)}; accepted: agg, disagg")
    notes = text_of(record.get("notes"))
    return Run(
        place,
        Facts(
            model=text_of(record["model"]),
            accelerator=text_of(record["gpu"]),
            engine=text_of(record.get("engine")),
            engine_version=text_of(record.get("engine_version")),
            weights=text_of(record.get("weight_precision")),
            kv_cache=text_of(record.get("kv_precision")),
            mig_profile=text_of(record.get("mig_profile")),
            devices=devices,
            tensor_parallel=cell_number(record, "tp", whole),
            pipeline_parallel=cell_number(record, "pp", whole),
            expert_parallel=cell_number(record, "ep", whole),
            attention_data_parallel=cell_number(record, "dp", whole),
            input_tokens=cell_number(record, "isl", number),
            output_tokens=cell_number(record, "osl", number),
            load_kind=text_of(record["load_kind"]),
            load_value=cell_number(record, "load_value", number),
            source=text_of(record.get("source_title")),
            source_url=text_of(record.get("source_url")),
            as_of=text_of(record.get("source_version_or_date")),
        ),
        (Figure(metric, record.get("statistic", "").strip().lower(), value),),
        tuple(dict.fromkeys(flags)),
        (notes,) if notes else (),
    )


def _boolean(record: Mapping[str, str], column: str) -> bool:
    cell = record.get(column, "").strip().lower()
    if cell not in _BOOLEANS:
        raise UnusableError(f"{column} is {shown(cell)}; accepted: true, false")
    return _BOOLEANS[cell]
