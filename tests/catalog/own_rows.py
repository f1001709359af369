"""Own measurements of a model and an accelerator that no shipped measurement is of."""

from __future__ import annotations

from dataclasses import replace

from capplan.catalog.observations import observe_all
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.measurement import Measurement
from capplan.estimation.prediction import Prediction, predict_rows
from tests.estimation.measurements import measurement

MODEL = "Qwen/Qwen3-8B"
SKU = "l40s-48gb"
OWN = replace(
    measurement(), model=MODEL, sku=SKU, own=True, trust="own", key="own", engine="vllm", engine_version="0.21.0"
)


def predicted(row: Measurement, fitted: Coefficients, catalog: CatalogSnapshot) -> Prediction:
    (prediction,) = predict_rows(observe_all([row], catalog).observations, fitted)
    return prediction


def off_by(factor: float, row: Measurement, catalog: CatalogSnapshot) -> Measurement:
    """The row with so many times the figure that the shipped calibration gives."""
    return replace(row, value=factor * predicted(row, catalog.fitted, catalog).value)
