"""Applies a quantisation scheme to the linear maps of a model: which of them, in which layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from capplan.modeling.architecture import LayerRange, LayerRun, QuantizedMap
from capplan.modeling.config_reader.ignored_modules import IgnoredModules
from capplan.modeling.linear import Component, LinearMap


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a quantisation block says, before it is applied to the linear maps.

    Attributes:
        precision: the weight precision it amounts to.
        method: the quantisation method.
        storage: storage format of the quantised maps.
        ignored: modules left in 16 bit.
        kv_cache: KV-cache precision it asks for, ``None`` when it does not say.
        experts_only: only routed experts are quantised.
    """

    precision: str
    method: str
    storage: str
    ignored: tuple[str, ...]
    kv_cache: str | None
    experts_only: bool = False


def quantized_maps(scheme: Scheme, layers: tuple[LayerRun, ...], head: LinearMap | None) -> tuple[QuantizedMap, ...]:
    """Every linear map the scheme stores in something else than 16 bit, sorted by name."""
    ignored = IgnoredModules(scheme.ignored)
    chosen: dict[str, list[int]] = {}
    occurrences: Counter[str] = Counter()
    first = 0
    for run in layers:
        for linear in run.block.maps():
            if not linear.quantizable or (scheme.experts_only and linear.component is not Component.ROUTED_EXPERT):
                continue
            occurrences[linear.name] += run.count
            kept = chosen.setdefault(linear.name, [])
            kept.extend(n for n in range(first, first + run.count) if not ignored.matches_layer(n, linear.name))
        first += run.count
    found = [
        QuantizedMap(name, scheme.storage, () if len(numbers) == occurrences[name] else ranges(numbers))
        for name, numbers in chosen.items()
        if numbers
    ]
    # ModelOpt quantises a head that its list does not name; every other recipe leaves heads alone.
    if head is not None and scheme.method == "modelopt" and scheme.ignored and not ignored.matches(head.name):
        found.append(QuantizedMap(head.name, scheme.storage, ()))
    return tuple(sorted(found, key=lambda entry: entry.name))


def ranges(numbers: Iterable[int]) -> tuple[LayerRange, ...]:
    """Ascending layer numbers as ranges."""
    found: list[LayerRange] = []
    for number in numbers:
        if found and found[-1].last == number - 1:
            found[-1] = LayerRange(found[-1].first, number)
        else:
            found.append(LayerRange(number, number))
    return tuple(found)
