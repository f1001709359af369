"""Predicts every row of a table of published figures from the catalogue, and compares where a figure is stated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from capplan.catalog.evaluation_file import EvaluationFile, EvaluationRow, PublishedNames
from capplan.catalog.evaluation_table import count_reasons, figure_cell
from capplan.catalog.layout_search import best, is_searched, layouts
from capplan.catalog.observations import likely_kv_cache
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.corrections import novelty_of
from capplan.estimation.evaluation import Comparison, figure_family
from capplan.estimation.measurement import Measurement
from capplan.estimation.observation import Observation, observe
from capplan.estimation.prediction import Prediction, predict_rows
from capplan.modeling.costs import ModelCosts, model_costs


@dataclass(frozen=True, slots=True)
class ChosenLayout:
    """The best of the layouts that a row of unknown tensor parallelism can have run in.

    Attributes:
        tensor_parallel: its tensor parallelism.
        replicas: its replicas.
        tried: layouts it is the best of.
    """

    tensor_parallel: int
    replicas: int
    tried: int

    @property
    def note(self) -> str:
        """The layout in words."""
        return f"layout chosen: tensor parallel {self.tensor_parallel}, replicas {self.replicas}, of {self.tried} tried"


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What came of one row.

    Attributes:
        row: the row.
        predicted: in the row's own unit; ``None`` where there is no prediction.
        lower: lower end of the 90 % interval, in the same unit; ``None`` without one.
        upper: upper end.
        provenance: where the prediction comes from; empty without one.
        bottleneck: what the step is limited by; empty without a prediction.
        layout: the layout that was chosen for a row that states none; ``None`` where it is stated or nothing is
            predicted.
        reason: why there is no prediction, empty with one.
    """

    row: EvaluationRow
    predicted: float | None = None
    lower: float | None = None
    upper: float | None = None
    provenance: str = ""
    bottleneck: str = ""
    layout: ChosenLayout | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NameUse:
    """What names of the file were taken for, and how often.

    Attributes:
        published: the row's words.
        model: catalogue name of the model profile.
        weights: weight precision.
        kv_cache: KV-cache precision.
        sku: accelerator.
        engine: canonical engine name.
        rows: rows that use these words.
    """

    published: PublishedNames
    model: str
    weights: str
    kv_cache: str
    sku: str
    engine: str
    rows: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every row with its outcome, and those that can be compared.

    Attributes:
        file: the file.
        outcomes: one for each of its rows, in order.
        comparisons: predictions beside their measured figures.
        names: what the file's names were taken for, most used first.
    """

    file: EvaluationFile
    outcomes: tuple[RowOutcome, ...]
    comparisons: tuple[Comparison, ...]
    names: tuple[NameUse, ...]


def evaluate_file(
    file: EvaluationFile, snapshot: CatalogSnapshot, fitted: Coefficients, known: Sequence[Measurement]
) -> Evaluation:
    """Predicts every row of a file.

    Args:
        file: what to predict.
        snapshot: the catalogue its names were resolved in.
        fitted: coefficients of the step model.
        known: the catalogue's measurements: devices and models that are in none of them are new.
    """
    placing = _Placing(snapshot)
    placed = [placing.ways(row.measurement) if row.measurement is not None else row.fault for row in file.rows]
    ways = [way for place in placed if not isinstance(place, str) for way in place]
    predictions = iter(predict_rows(ways, fitted))
    skus, models = {row.sku for row in known}, {row.model for row in known}
    outcomes, comparisons = [], []
    for row, place in zip(file.rows, placed, strict=True):
        if isinstance(place, str):
            outcomes.append(RowOutcome(row, reason=place))
            continue
        outcome = _outcome(row, place, list(islice(predictions, len(place))))
        outcomes.append(outcome)
        if outcome.predicted is not None and row.measured is not None:
            m = place[0].measurement
            comparisons.append(
                Comparison(
                    row=row.line,
                    family=figure_family(place[0].load, place[0].metric),
                    metric=place[0].metric,
                    concurrency=m.load_value,
                    measured=row.measured,
                    predicted=outcome.predicted,
                    lower=outcome.lower,
                    upper=outcome.upper,
                    group=(m.source, m.model, m.sku),
                    engine=m.engine,
                    model_family=snapshot.models[m.model].family,
                    precision=m.weights,
                    provenance=outcome.provenance,
                    novelty=novelty_of(m.sku in skus, m.model in models),
                    bottleneck=outcome.bottleneck,
                    chosen_tensor_parallel=None if outcome.layout is None else outcome.layout.tensor_parallel,
                )
            )
    return Evaluation(file, tuple(outcomes), tuple(comparisons), _name_uses(file))


def _outcome(row: EvaluationRow, ways: Sequence[Observation], predictions: Sequence[Prediction]) -> RowOutcome:
    """The best of a row's predictions; there is more than one only where its layout was searched for."""
    position = best([prediction.value for prediction in predictions], ways[0].metric)
    if position is None:
        return RowOutcome(row, reason="the step model gives no finite figure")
    prediction, way = predictions[position], ways[position]
    layout = None
    if row.measurement is not None and row.measurement.tensor_parallel is None:
        layout = ChosenLayout(way.replica.parallelism.tensor_parallel, int(way.replicas), len(ways))
    return RowOutcome(
        row,
        predicted=prediction.value / row.unit,
        lower=None if prediction.lower is None else prediction.lower / row.unit,
        upper=None if prediction.upper is None else prediction.upper / row.unit,
        provenance=prediction.provenance.value,
        bottleneck=prediction.bottleneck,
        layout=layout,
    )


def added_cells(outcome: RowOutcome) -> tuple[str, ...]:
    """Cells of the columns that a table of predictions adds; what does not exist is empty."""
    figures = map(figure_cell, (outcome.predicted, outcome.lower, outcome.upper))
    layout = "" if outcome.layout is None else outcome.layout.note
    return (*figures, outcome.provenance, outcome.bottleneck, layout, outcome.reason)


class _Placing:
    """Places measurements in the step model's terms; rows of one model in the same formats share one costs object."""

    def __init__(self, snapshot: CatalogSnapshot) -> None:
        self._snapshot = snapshot
        self._costs: dict[tuple[str, str, str], ModelCosts] = {}

    def ways(self, measurement: Measurement) -> tuple[Observation, ...] | str:
        """The ways a measurement can have run: one, or every layout where it states none; or why there are none."""
        if is_searched(measurement):
            return layouts(measurement, self._place)
        place = self._place(measurement)
        return place if isinstance(place, str) else (place,)

    def _place(self, measurement: Measurement) -> Observation | str:
        key = (measurement.model, measurement.weights, likely_kv_cache(measurement))
        try:
            if key not in self._costs:
                architecture = self._snapshot.models[measurement.model].architecture
                self._costs[key] = model_costs(architecture, *key[1:])
            accelerator = self._snapshot.accelerators[measurement.sku].accelerator
            return observe(measurement, self._costs[key], accelerator)
        except InvalidInputError as error:
            return "; ".join(violation.description for violation in error.violations)


def _name_uses(file: EvaluationFile) -> tuple[NameUse, ...]:
    uses: Counter[tuple[PublishedNames, str, str, str, str, str]] = Counter(
        (row.names, m.model, m.weights, m.kv_cache, m.sku, m.engine)
        for row in file.rows
        if row.names is not None and (m := row.measurement) is not None
    )
    return tuple(NameUse(*key, rows=rows) for key, rows in uses.most_common())


def reason_counts(evaluation: Evaluation) -> Mapping[str, tuple[int, int]]:
    """(rows, line of the first one) by reason for no prediction, most frequent first."""
    return count_reasons((outcome.reason, outcome.row.line) for outcome in evaluation.outcomes)
