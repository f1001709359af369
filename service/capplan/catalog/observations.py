"""Measurements as the estimator's observations: models' costs and accelerators looked up, and what cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from capplan.catalog.records import AcceleratorRecord, ModelProfile
from capplan.errors import InvalidInputError
from capplan.estimation.measurement import Measurement
from capplan.estimation.observation import Observation, observe
from capplan.modeling.costs import ModelCosts, model_costs

_OTHER_CONDITIONS: Final = MappingProxyType(
    {
        "neighbours_busy": "other instances of the GPU did other work",
        "power_limited": "the device ran below its usual power limit",
    }
)
"""Flags of rows whose device was not all its own or not at its usual clocks."""


class Named(Protocol):
    """What measurements name, as a snapshot of the catalogue has it."""

    @property
    def accelerators(self) -> Mapping[str, AcceleratorRecord]:
        """Accelerators by SKU."""

    @property
    def models(self) -> Mapping[str, ModelProfile]:
        """Models by name."""


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Measurements, sorted into what can be predicted and what cannot.

    Attributes:
        observations: in the order of the measurements.
        excluded: rows that cannot be predicted, by reason; most frequent first, then by name.
    """

    observations: tuple[Observation, ...]
    excluded: Mapping[str, int]


def observe_all(measurements: Iterable[Measurement], catalog: Named) -> ObservedRows:
    """Places measurements of the catalogue's models and accelerators in the step model's terms.

    Observations of one model in the same formats share one costs object, which is what the fit groups them by.
    """
    costs: dict[tuple[str, str, str], ModelCosts | str] = {}
    observations: list[Observation] = []
    excluded: Counter[str] = Counter()
    for row in measurements:
        found = _observe(row, catalog, costs)
        if isinstance(found, str):
            excluded[found] += 1
        else:
            observations.append(found)
    ordered = sorted(excluded.items(), key=lambda pair: (-pair[1], pair[0]))
    return ObservedRows(tuple(observations), MappingProxyType(dict(ordered)))


_FP8_CACHED: Final = frozenset({"fp8", "nvfp4", "mxfp4"})
"""Formats whose published TensorRT-LLM builds say that keys and values are cached in FP8 (``kv_cache_quant_algo`` of
their ``hf_quant_config.json``)."""


def likely_kv_cache(row: Measurement) -> str:
    """The KV-cache precision that a measured deployment had: as stated, else that of the builds its engine is given."""
    if row.kv_cache == "auto" and row.engine == "tensorrt-llm" and row.weights in _FP8_CACHED:
        return "fp8"
    return row.kv_cache


def _observe(
    row: Measurement, catalog: Named, costs: dict[tuple[str, str, str], ModelCosts | str]
) -> Observation | str:
    for flag in row.flags:
        if flag in _OTHER_CONDITIONS:
            return _OTHER_CONDITIONS[flag]
    key = (row.model, row.weights, likely_kv_cache(row))
    if key not in costs:
        costs[key] = _costs(*key, catalog)
    model = costs[key]
    if isinstance(model, str):
        return model
    try:
        return observe(row, model, catalog.accelerators[row.sku].accelerator)
    except InvalidInputError as error:
        return str(error)


def _costs(model: str, weights: str, kv_cache: str, catalog: Named) -> ModelCosts | str:
    try:
        return model_costs(catalog.models[model].architecture, weights, kv_cache)
    except InvalidInputError as error:
        return f"{model} in {weights} cannot be costed: {error}"
