"""Fitting: known coefficients come back in the predictions, outliers do not bend them, nothing depends on chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capplan.estimation.calibration import calibrate
from capplan.estimation.coefficients import UNFITTED, Coefficients, deviation_key
from capplan.estimation.estimate import Provenance, provenance_of
from capplan.estimation.observation import batches, measured, observe, predict, settle
from tests.estimation.measurements import MODELS, as_if, measurement, observed
from tests.hardware.devices import B200, H100

TRUTH = Coefficients(
    values={
        "gemm_rate": 0.55,
        "layer_s": 45e-6,
        "request_s": 25e-3,
        deviation_key("weight_read", "generation", "ampere"): 0.9,
    }
)


@pytest.fixture(scope="module")
def rows() -> list:
    return as_if(TRUTH)


@pytest.fixture(scope="module")
def fit(rows: list):
    return calibrate(rows)


def errors(rows: list, fitted: Coefficients) -> np.ndarray:
    groups = batches(rows)
    settle(groups, fitted)
    return np.abs(np.log(predict(groups, len(rows), fitted) / measured(rows)))


def test_the_start_values_are_far_from_the_made_up_truth(rows: list) -> None:
    assert np.median(errors(rows, UNFITTED)) > 0.1


def test_a_fit_finds_what_the_rows_were_made_with(rows: list, fit) -> None:
    assert np.median(errors(rows, fit.coefficients)) < 0.02
    assert np.max(errors(rows, fit.coefficients)) < 0.1


def test_the_same_rows_give_the_same_coefficients(rows: list, fit) -> None:
    assert calibrate(rows).coefficients == fit.coefficients


def test_a_contradicting_row_does_not_bend_the_others(rows: list) -> None:
    spoilt = list(rows)
    spoilt[0] = replace(spoilt[0], measurement=replace(spoilt[0].measurement, value=spoilt[0].measurement.value * 50))
    fitted = calibrate(spoilt).coefficients
    assert np.median(errors(rows[1:], fitted)) < 0.03


def test_too_few_rows_are_refused(rows: list) -> None:
    with pytest.raises(ValueError, match="at least 30"):
        calibrate(rows[:10])


def test_progress_is_told(rows: list) -> None:
    told: list[int] = []
    calibrate(rows, lambda count, _error: told.append(count))
    assert told == list(range(1, len(told) + 1))


def test_only_seen_generations_and_engines_count_as_calibrated(fit) -> None:
    assert provenance_of(observed(measurement()).replica, fit.coefficients) is Provenance.CALIBRATED
    assert provenance_of(observed(measurement(), B200).replica, fit.coefficients) is Provenance.ANALYTIC
    assert provenance_of(observed(measurement()).replica, UNFITTED) is Provenance.ANALYTIC


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"statistic": "p99"}, "p99"),
        ({"load_kind": "qps"}, "qps"),
        ({"tensor_parallel": None}, "tensor parallelism"),
        ({"concurrency": None}, "load"),
        ({"tensor_parallel": 3}, "3"),
    ],
)
def test_what_cannot_be_predicted_says_why(change: dict, reason: str) -> None:
    answer = observe(measurement(**change), MODELS["llama-8b", "bf16"], H100)
    assert isinstance(answer, str)
    assert reason in answer


def test_requests_beyond_the_pool_queue() -> None:
    # far more requests than run at once: TTFT grows by the wait, TPOT stays what the full batch gives
    few, many = (observed(measurement(concurrency=c, metric="tpot_ms")) for c in (2_000.0, 8_000.0))
    waits = [observed(measurement(concurrency=c, metric="ttft_ms")) for c in (2_000.0, 8_000.0)]
    groups = batches([few, many, *waits])
    settle(groups, UNFITTED)
    tpot_few, tpot_many, ttft_few, ttft_many = predict(groups, 4, UNFITTED)
    assert tpot_many == pytest.approx(tpot_few, rel=0.01)
    assert ttft_many > 3 * ttft_few
