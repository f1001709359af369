"""What an import says that it changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.catalog.own_effects import effect_of
from capplan.catalog.snapshot import CatalogSnapshot
from tests.catalog.own_rows import OWN, off_by


def test_the_effect_of_an_import_is_told_against_estimates_without_it(snapshot: CatalogSnapshot) -> None:
    rows = [
        off_by(factor, replace(OWN, key=f"{metric} {load}", metric=metric, load_value=load), snapshot)
        for metric, factor in (("tpot_ms", 1.4), ("output_tokens_per_s", 0.8))
        for load in (8.0, 16.0, 32.0)
    ]
    effect = effect_of([*rows, replace(OWN, key="x", load_kind="qps")], [], snapshot.fitted, snapshot)
    assert effect.correcting == 6
    assert effect.idle == {"tpot_ms under qps is not predicted": 1}
    assert {metric: found.figures for metric, found in effect.by_metric.items()} == {
        "output_tokens_per_s": 3,
        "tpot_ms": 3,
    }
    assert effect.by_metric["tpot_ms"].median_ratio == pytest.approx(1.4)
    assert effect.by_metric["output_tokens_per_s"].median_ratio == pytest.approx(0.8)


def test_what_was_imported_earlier_counts_as_known(snapshot: CatalogSnapshot) -> None:
    row = off_by(1.4, OWN, snapshot)
    again = effect_of([replace(row, key="again")], [row], snapshot.fitted, snapshot)
    assert again.by_metric["tpot_ms"].median_ratio == pytest.approx(1.0, abs=0.05)
