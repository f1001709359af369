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


def test_an_engine_that_reserves_whole_answers_runs_fewer_requests() -> None:
    # 1,000 + 500 tokens set aside against 1,000 + 250 live: the pool holds 1,250 / 1,500 as many.
    row = measurement(load_kind="offline_max", concurrency=None, metric="output_tokens_per_s")
    request = observed(row).request
    trt = observed(replace(row, engine="tensorrt-llm", engine_version="1.1")).replica.settings
    vllm = observed(row).replica.settings
    assert request.admitted_tokens(trt.memory) == 1_500.0
    assert request.admitted_tokens(vllm.memory) == 1_250.0


def test_a_median_is_not_moved_by_a_burst_that_moves_the_mean() -> None:
    mean, median = (observed(measurement(metric="ttft_ms", statistic=s, concurrency=64.0)) for s in ("mean", "p50"))
    groups = batches([mean, median])
    for share, apart in ((0.02, 1.0), (0.9, 2.0)):
        fitted = Coefficients({"burst_share": share})
        settle(groups, fitted)
        of_mean, of_median = predict(groups, 2, fitted)
        assert of_mean > apart * of_median


def test_the_whole_stay_is_the_first_token_and_the_rest() -> None:
    # 500 tokens: the first comes at the TTFT, 499 follow one inter-token latency apart.
    rows = [observed(measurement(metric=metric)) for metric in ("ttft_ms", "tpot_ms", "e2e_latency_ms")]
    groups = batches(rows)
    settle(groups, UNFITTED)
    ttft, tpot, e2e = predict(groups, 3, UNFITTED)
    assert e2e == pytest.approx(ttft + 499 * tpot, rel=1e-9)


def test_a_fit_that_starts_near_its_end_gets_there(rows: list, fit) -> None:
    again = calibrate(rows, near=fit.coefficients)
    assert np.median(errors(rows, again.coefficients)) <= np.median(errors(rows, fit.coefficients)) * 1.05
    assert again.rounds < fit.rounds
