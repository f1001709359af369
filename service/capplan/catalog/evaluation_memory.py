"""Predicts every row of a table of engine start-up logs from the catalogue, and compares with what was printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from capplan.catalog.evaluation_memory_errors import DEFAULTED, KNOWN, MemoryComparison, Taken
from capplan.catalog.evaluation_memory_file import (
    ADDED_COLUMNS,
    MemoryFile,
    MemoryMetric,
    MemoryRow,
    StatedStart,
)
from capplan.catalog.evaluation_memory_names import (
    Build,
    NameReader,
    UnresolvedError,
    cache_word,
    engine_release,
    states_release,
)
from capplan.catalog.evaluation_table import count_reasons, figure_cell, table_with_predictions
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError
from capplan.estimation.engine import EngineChoice, memory_fraction_field
from capplan.estimation.footprint import rank_footprint
from capplan.estimation.replica import Parallelism
from capplan.estimation.start import Start, predict_start
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.linear import Component
from capplan.units import GIB


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """What came of one row.

    Attributes:
        row: the row.
        predicted: predictions by figure; the weights alone where the engine or the device is not modelled.
        taken: what its words were taken for.
        reason: why something is not predicted, empty where all is.
        faults: why the engine would not start, where that is predicted.
    """

    row: MemoryRow
    predicted: Mapping[MemoryMetric, float]
    taken: Taken = field(default_factory=Taken)
    reason: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryEvaluation:
    """Every row with its outcome, and those that can be compared.

    Attributes:
        file: the file.
        outcomes: one for each of its rows, in order.
        comparisons: one for each figure that is predicted and stated.
        not_positive: stated figures of 0 or less, which nothing can be a share of.
    """

    file: MemoryFile
    outcomes: tuple[MemoryOutcome, ...]
    comparisons: tuple[MemoryComparison, ...]
    not_positive: int


def evaluate_memory(file: MemoryFile, snapshot: CatalogSnapshot) -> MemoryEvaluation:
    """Predicts every row of a file.

    Args:
        file: what to predict.
        snapshot: the catalogue its names are looked up in.
    """
    predictor = _Predictor(snapshot)
    outcomes = tuple(predictor.outcome(row) for row in file.rows)
    comparisons, not_positive = [], 0
    for outcome in outcomes:
        stated = outcome.row.stated
        for metric, measured in outcome.row.measured.items():
            predicted = outcome.predicted.get(metric)
            if stated is None or predicted is None:
                continue
            if measured <= 0:
                not_positive += 1
                continue
            settings = KNOWN if _states_all(stated) else DEFAULTED
            comparisons.append(
                MemoryComparison(outcome.row.line, metric, measured, predicted, outcome.taken, settings, stated)
            )
    return MemoryEvaluation(file, outcomes, tuple(comparisons), not_positive)


class _Predictor:
    """Predicts rows; those of one model in the same formats share one costs object."""

    def __init__(self, snapshot: CatalogSnapshot) -> None:
        self._snapshot = snapshot
        self._names = NameReader(snapshot)
        self._costs: dict[tuple[str, str, str, bool], ModelCosts] = {}

    def outcome(self, row: MemoryRow) -> MemoryOutcome:
        stated = row.stated
        if stated is None:
            return MemoryOutcome(row, {}, reason=row.fault)
        try:
            build = self._names.build(stated.model, stated.weights)
            costs = self._costs_of(build, cache_word(stated.kv_cache), without_towers=stated.without_towers)
        except (UnresolvedError, InvalidInputError) as error:
            return MemoryOutcome(row, {}, reason=_sentence(error))
        taken = Taken(build.profile, build.family, build.weights, costs.kv_precision)
        try:
            accelerator = self._names.accelerator(stated.gpu, stated.gpu_memory_gb)
            mig = self._mig(accelerator, stated.mig_profile)
            taken = replace(taken, sku=" ".join(filter(None, (accelerator.sku, stated.mig_profile))))
            engine = _engine(stated)
            taken = replace(taken, engine=engine.name, version=engine.version or "")
            start = predict_start(
                costs,
                accelerator,
                engine,
                mig=mig,
                parallelism=_spread(stated),
                max_context_tokens=stated.max_model_len,
            )
        except (UnresolvedError, InvalidInputError, ValueError) as error:
            return MemoryOutcome(row, _weights_alone(costs, stated), taken, f"weights alone: {_sentence(error)}")
        if start.memory is None:
            return MemoryOutcome(row, {}, taken, "; ".join(fault.description for fault in start.faults))
        if start.settings is not None:
            taken = replace(taken, version=start.settings.version)
        return MemoryOutcome(row, _figures(start), taken, "", tuple(fault.reason for fault in start.faults))

    def _costs_of(self, build: Build, kv_cache: str, *, without_towers: bool) -> ModelCosts:
        key = (build.profile, build.weights, kv_cache, without_towers)
        found = self._costs.get(key)
        if found is None:
            found = model_costs(build.architecture, build.weights, kv_cache)
            if without_towers:
                kept = tuple(gemm for gemm in found.gemms if gemm.component is not Component.MULTIMODAL_ENCODER)
                found = replace(found, gemms=kept)
            self._costs[key] = found
        return found

    def _mig(self, accelerator: Accelerator, name: str) -> tuple[MigBoard, MigProfile] | None:
        if not name:
            return None
        board = self._snapshot.mig_board_of(accelerator)
        if board is not None:
            for profile in board.profiles:
                if profile.name == name.removeprefix("MIG ").strip():
                    return board, profile
        raise UnresolvedError(f"{accelerator.product_name} has no MIG profile {name!r}")


def _states_all(stated: StatedStart) -> bool:
    release = states_release(stated.engine, stated.version)
    return release and stated.memory_fraction is not None and stated.tensor_parallel is not None


def _sentence(error: Exception) -> str:
    if isinstance(error, InvalidInputError):
        return "; ".join(violation.description for violation in error.violations)
    return str(error)


def _engine(stated: StatedStart) -> EngineChoice:
    """The engine with every setting the row states."""
    engine = engine_release(stated.engine, stated.version, stated.date)
    pinned: dict[str, Any] = {memory_fraction_field(engine.name): stated.memory_fraction}
    return replace(
        engine,
        max_num_seqs=stated.max_num_seqs,
        max_num_batched_tokens=stated.max_num_batched_tokens,
        enforce_eager=stated.enforce_eager,
        **pinned,
    )


def _spread(stated: StatedStart) -> Parallelism:
    return Parallelism(
        stated.tensor_parallel or 1,
        stated.pipeline_parallel or 1,
        stated.expert_parallel or 1,
        stated.data_parallel or 1,
    )


def _figures(start: Start) -> dict[MemoryMetric, float]:
    figures = {
        MemoryMetric.WEIGHTS: start.weights_gib,
        MemoryMetric.KV_CACHE: start.kv_pool_gib,
        MemoryMetric.KV_TOKENS: start.kv_tokens,
        MemoryMetric.CONCURRENCY: start.max_concurrency,
    }
    return {metric: float(value) for metric, value in figures.items() if value is not None and np.isfinite(value)}


def _weights_alone(costs: ModelCosts, stated: StatedStart) -> dict[MemoryMetric, float]:
    """Weights of one rank, which turn on neither the engine nor the device (but for padded mxfp4 experts)."""
    spread = _spread(stated)
    try:
        footprint = rank_footprint(
            costs,
            spread.tensor_parallel,
            pipeline_parallel=spread.pipeline_parallel,
            attention_data_parallel=spread.attention_data_parallel,
        )
    except ValueError:
        return {}
    return {MemoryMetric.WEIGHTS: (footprint.weight_bytes + footprint.table_bytes) / GIB}


def reason_counts(evaluation: MemoryEvaluation) -> Mapping[str, tuple[int, int]]:
    """(rows, line of the first one) by reason why something is not predicted, most frequent first."""
    return count_reasons((outcome.reason, outcome.row.line) for outcome in evaluation.outcomes)


def name_uses(evaluation: MemoryEvaluation) -> Mapping[tuple[str, str], int]:
    """Rows by (words of the file, what they were taken for): models with formats, then devices, then engines."""
    models, devices, engines = (Counter[tuple[str, str]]() for _ in range(3))
    for outcome in evaluation.outcomes:
        stated, taken = outcome.row.stated, outcome.taken
        if stated is None:
            continue
        if taken.model:
            words = ", ".join(filter(None, (stated.model, stated.weights, _cache(stated.kv_cache))))
            models[words, f"{taken.model}, {taken.weights}, {_cache(taken.kv_cache)}"] += 1
        if taken.sku:
            memory = "" if stated.gpu_memory_gb is None else f", {stated.gpu_memory_gb:g} GB"
            devices[f"{stated.gpu}{memory}", taken.sku] += 1
        if taken.engine:
            words = " ".join(
                filter(None, (stated.engine, stated.version or f"(none stated, {stated.date or 'no date'})"))
            )
            engines[words, f"{taken.engine} {taken.version}"] += 1
    return {pair: rows for names in (models, devices, engines) for pair, rows in names.most_common()}


def _cache(precision: str) -> str:
    return f"KV {precision}" if precision else ""


def predictions_table(evaluation: MemoryEvaluation) -> str:
    """The file's text with :data:`ADDED_COLUMNS`."""
    rows = ((outcome.row.cells, _added_cells(outcome)) for outcome in evaluation.outcomes)
    return table_with_predictions(evaluation.file.header, ADDED_COLUMNS, rows)


def _added_cells(outcome: MemoryOutcome) -> tuple[str, ...]:
    return (*(figure_cell(outcome.predicted.get(metric)) for metric in MemoryMetric), outcome.reason)
