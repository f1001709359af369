"""What is left out says nothing about itself, and intervals hold as many of the left out rows as they claim."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from capplan.estimation.calibration import calibrate
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.corrections import Novelty
from capplan.estimation.fit import Fit
from capplan.estimation.leave_out import folds_by, folds_by_both, leave_out, reach_of
from capplan.estimation.observation import Observation, batches, running, settle
from capplan.estimation.site_selection import select_sites
from tests.estimation.measurements import as_if

TRUTH = Coefficients(values={"gemm_rate": 0.6, "layer_s": 40e-6})


def skewed(rows: list[Observation], sku: str, factor: float) -> list[Observation]:
    """The same rows with every figure of one device changed."""
    return [
        replace(o, measurement=replace(o.measurement, value=o.measurement.value * factor))
        if o.measurement.sku == sku
        else o
        for o in rows
    ]


@pytest.fixture(scope="module")
def rows() -> list[Observation]:
    noise = np.random.default_rng(0).normal(0.0, 0.05, 10_000)
    made = as_if(TRUTH)
    return [
        replace(o, measurement=replace(o.measurement, value=o.measurement.value * math.exp(noise[i])))
        for i, o in enumerate(made)
    ]


@pytest.fixture(scope="module")
def fitted(rows: list[Observation]):
    fit = calibrate(rows)
    groups = batches(rows)
    settle(groups, fit.coefficients)
    sequences = running(groups, len(rows))
    return fit, sequences, select_sites(rows, fit.log_residuals, sequences)


def test_what_a_group_contradicted_counts_again_without_it() -> None:
    # One coefficient that all rows follow alike. 40 rows say 0, 20 say it is 0.3 larger, 5 something else again: with
    # the 40 gone, the 20 that they outvoted are right.
    logs = np.concatenate([np.zeros(40), -0.3 + np.linspace(-0.05, 0.05, 20), np.full(5, 0.5)])
    gone = np.arange(65) < 40
    one = np.ones(65)
    fit = Fit(Coefficients(), logs, 1, one[:, None], one, 0.1 * one, np.array([0.0]), np.array([0.5]), np.array([True]))

    def loss(step: float) -> float:
        return float(np.log1p(((logs[~gone] + step) / 0.1) ** 2).sum() + (step / 0.5) ** 2)

    steps = np.linspace(-1.0, 1.0, 20_001)
    best = steps[np.argmin([loss(step) for step in steps])]
    assert best == pytest.approx(0.3, abs=0.02)
    np.testing.assert_allclose(fit.without(gone) - logs, best, atol=0.02)


def test_without_rows_it_is_close_to_a_fit_without_the_rows(rows: list[Observation], fitted) -> None:
    fit, _, _ = fitted
    gone = np.array([o.measurement.sku.startswith("a100") for o in rows])
    exact = calibrate([o for o, g in zip(rows, gone, strict=True) if not g], near=fit.coefficients)
    groups = batches(rows)
    settle(groups, exact.coefficients)
    from capplan.estimation.observation import measured, predict

    refitted = np.log(predict(groups, len(rows), exact.coefficients) / measured(rows))
    assert np.median(np.abs(fit.without(gone) - refitted)) < 0.02


def test_leaving_nothing_out_changes_next_to_nothing(rows: list[Observation], fitted) -> None:
    fit, _, _ = fitted
    np.testing.assert_allclose(fit.without(np.zeros(len(rows), dtype=bool)), fit.log_residuals, atol=0.01)


def test_a_device_left_out_is_not_corrected_by_itself(rows: list[Observation]) -> None:
    # Every A100 figure is made 1.5 times what the model says of the rest.
    sku = next(o.measurement.sku for o in rows if o.measurement.sku.startswith("a100"))
    odd = skewed(rows, sku, 1.5)
    fit = calibrate(odd)
    groups = batches(odd)
    settle(groups, fit.coefficients)
    sequences = running(groups, len(odd))
    selection = select_sites(odd, fit.log_residuals, sequences)
    skus = [o.measurement.sku for o in odd]
    theirs = np.array([s == sku for s in skus])
    times = theirs & np.array([o.metric.value.endswith("_ms") for o in odd])
    without = leave_out(fit, odd, sequences, selection, folds_by(skus))
    within = leave_out(fit, odd, sequences, selection, folds_by(list(range(len(odd)))))
    assert np.median(np.abs(within.corrected[times])) < np.median(np.abs(without.corrected[times])) - 0.1


def test_intervals_hold_nine_in_ten_of_the_left_out_rows(rows: list[Observation], fitted) -> None:
    fit, sequences, selection = fitted
    reach = reach_of(fit, rows, sequences, selection)
    skus = [o.measurement.sku for o in rows]
    found = leave_out(fit, rows, sequences, selection, folds_by(skus))
    from capplan.estimation.site_selection import figures_of

    spans = np.array([reach[figures_of(o), Novelty.GPU_UNSEEN] for o in rows])
    inside = np.abs(found.corrected) <= spans * found.deviations
    for figures in {figures_of(o) for o in rows}:
        own = np.array([figures_of(o) is figures for o in rows])
        # at least 0.9 (n + 1) / n of them by the choice of the span, and no more than one row above
        assert 0.9 <= inside[own].mean() <= 0.9 + 2.0 / own.sum() + 1e-9


def test_folds_of_pairs_leave_out_whatever_shares_either() -> None:
    folds = folds_by_both(["a", "a", "b"], ["x", "y", "y"])
    assert [(left.tolist(), asked.tolist()) for left, asked in folds] == [
        ([True, True, False], [True, False, False]),
        ([True, True, True], [False, True, False]),
        ([False, True, True], [False, False, True]),
    ]
