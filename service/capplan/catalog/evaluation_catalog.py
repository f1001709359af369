"""The catalogue's own measurements as a table of figures to predict: what the calibration has seen, or could."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from capplan.catalog.evaluation_file import EvaluationFile, EvaluationRow, PublishedNames
from capplan.catalog.evaluation_table import figure_cell
from capplan.estimation.measurement import Measurement

_FIRST_LINE: Final = 2
"""Line of the first row in a file of these columns."""


_COLUMNS: Final[Mapping[str, Callable[[Measurement], str]]] = MappingProxyType(
    {
        "source_title": lambda m: m.source,
        "source_version_or_date": lambda m: m.as_of,
        "engine": lambda m: m.engine,
        "engine_version": lambda m: m.engine_version,
        "model": lambda m: m.model,
        "weight_precision": lambda m: m.weights,
        "kv_precision": lambda m: m.kv_cache,
        "gpu": lambda m: m.sku,
        "mig_profile": lambda m: m.mig_profile,
        "num_gpus": lambda m: str(m.devices),
        "tp": lambda m: figure_cell(m.tensor_parallel),
        "pp": lambda m: str(m.pipeline_parallel),
        "ep": lambda m: str(m.expert_parallel),
        "dp": lambda m: str(m.attention_data_parallel),
        "isl": lambda m: figure_cell(m.input_tokens),
        "osl": lambda m: figure_cell(m.output_tokens),
        "load_kind": lambda m: m.load_kind,
        "load_value": lambda m: figure_cell(m.load_value),
        "metric": lambda m: m.metric,
        "statistic": lambda m: m.statistic,
        "value": lambda m: figure_cell(m.value),
        "flags": lambda m: ";".join(m.flags),
    }
)
"""Cells by the plain table's column names; values are the whole deployment's."""


def catalogue_file(known: Iterable[Measurement]) -> EvaluationFile:
    """Measurements as the file they would be, in their order; lines are those of that file."""
    return EvaluationFile(
        tuple(_COLUMNS), tuple(_row(line, measurement) for line, measurement in enumerate(known, _FIRST_LINE))
    )


def _row(line: int, m: Measurement) -> EvaluationRow:
    return EvaluationRow(
        line=line,
        cells=tuple(cell_of(m) for cell_of in _COLUMNS.values()),
        names=PublishedNames(m.model, m.weights, m.kv_cache, m.sku, m.engine),
        measurement=m,
        measured=m.value,
        unit=1.0,
        fault="",
        malformed=False,
    )
