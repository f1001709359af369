"""The catalogue's measurements as a table: it says what the measurements say."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

from capplan.catalog.evaluation import evaluate_file
from capplan.catalog.evaluation_catalog import catalogue_file
from capplan.catalog.evaluation_file import read_evaluation_file
from capplan.catalog.measurements import load_measurements
from capplan.database import session_scope
from capplan.estimation.coefficients import UNFITTED


def test_its_cells_read_back_are_the_same_measurements(loaded, snapshot):
    with session_scope(loaded) as session:
        known = load_measurements(session)[::40]
    file = catalogue_file(known)
    text = io.StringIO(newline="")
    csv.writer(text).writerows([file.header, *(row.cells for row in file.rows)])
    back = read_evaluation_file(text.getvalue().encode(), snapshot, {m.engine for m in known})
    # The table has no column for whose figure it is and where it was read.
    unlisted: dict[str, Any] = {"key": "", "source_url": "", "trust": "", "own": False}
    assert len(known) > 100
    assert [replace(row.measurement, **unlisted) for row in back.rows] == [replace(m, **unlisted) for m in known]
    assert [row.measured for row in back.rows] == [m.value for m in known]
    assert [row.line for row in file.rows] == [row.line for row in back.rows]


def test_it_is_predicted_and_compared_like_any_file(loaded, snapshot):
    with session_scope(loaded) as session:
        known = load_measurements(session)[::200]
    evaluation = evaluate_file(catalogue_file(known), snapshot, UNFITTED, known)
    predicted = [outcome for outcome in evaluation.outcomes if outcome.predicted is not None]
    assert 0 < len(predicted) == len(evaluation.comparisons) < len(known)
    assert all(comparison.novelty == "gpu_and_model_seen" for comparison in evaluation.comparisons)
