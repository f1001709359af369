"""Predictions of measured rows: the step model's figures, where they come from and what limits them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.estimate import Provenance
from capplan.estimation.observation import batches, predict, settle
from capplan.estimation.prediction import predict_rows
from tests.estimation.measurements import measurement, observed
from tests.hardware.devices import A100, H100


def rows_of_several_models() -> list:
    return [
        observed(measurement(concurrency=1.0)),
        observed(measurement("llama-70b", "fp8", tensor_parallel=4, metric="output_tokens_per_s")),
        observed(measurement(accelerator=A100, concurrency=64.0), A100),
        observed(measurement(metric="ttft_ms")),
    ]


def test_rows_are_predicted_in_their_order_as_the_step_model_says():
    rows = rows_of_several_models()
    groups = batches(rows)
    settle(groups, UNFITTED)
    expected = predict(groups, len(rows), UNFITTED)
    assert [p.value for p in predict_rows(rows, UNFITTED)] == pytest.approx(list(expected))


def test_the_measured_value_plays_no_part():
    rows = rows_of_several_models()
    other = [replace(row, measurement=replace(row.measurement, value=float("nan"))) for row in rows]
    assert predict_rows(other, UNFITTED) == predict_rows(rows, UNFITTED)


def test_one_sequence_alone_waits_for_memory():
    # At batch 1 an 8-billion-parameter model in 16 bit reads 16 GB for 16 GFLOP: far below any device's balance.
    (alone,) = predict_rows([observed(measurement(concurrency=1.0))], UNFITTED)
    assert alone.bottleneck == "memory_bandwidth"


def test_a_fit_that_saw_generation_and_engine_makes_it_calibrated():
    seen = Coefficients(generations=frozenset({H100.architecture}), engines=frozenset({"vllm"}))
    rows = [observed(measurement()), observed(measurement(accelerator=A100), A100)]
    assert [p.provenance for p in predict_rows(rows, seen)] == [Provenance.CALIBRATED, Provenance.ANALYTIC]


def test_nothing_to_predict_is_nothing():
    assert predict_rows([], UNFITTED) == ()
