"""Coefficients of the step model: pooled values with deviations by device generation, engine and arithmetic.

A coefficient is the product of a pooled value and of one factor for each key that applies, so that a generation,
engine or format nobody measured falls back to the pooled value instead of to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from capplan.errors import FieldViolation, InvalidInputError
from capplan.estimation.corrections import NO_CORRECTIONS, Corrections


@dataclass(frozen=True, slots=True)
class Coefficient:
    """What one coefficient means and which deviations it may have.

    Attributes:
        name: identifier.
        start: value before calibration.
        low: least plausible pooled value.
        high: greatest plausible pooled value.
        keys: what it may deviate by: ``generation``, ``engine``, ``runtime`` (the core of an engine), ``arithmetic``,
            ``format``.
        meaning: one sentence.
    """

    name: str
    start: float
    low: float
    high: float
    keys: tuple[str, ...]
    meaning: str


_ENGINE = ("engine", "runtime")
_PRODUCT = ("generation", "arithmetic")
_FORMAT = (*_PRODUCT, "format")

COEFFICIENTS: tuple[Coefficient, ...] = (
    Coefficient(
        "weight_read", 1.0, 0.5, 1.3, (*_PRODUCT, *_ENGINE), "weight reads over the micro-benchmarked bandwidth"
    ),
    Coefficient("gemm_rate", 0.7, 0.3, 1.3, (*_FORMAT, *_ENGINE), "products over micro-benchmarked large ones"),
    Coefficient("half_rate", 0.4, 0.05, 4.0, ("arithmetic",), "rows at half rate over the micro-benchmarked ones"),
    Coefficient("ramp_offset_tokens", 32.0, 8.0, 512.0, (), "rows below which a smaller product is no less efficient"),
    Coefficient("narrow_width", 64.0, 1.0, 2_000.0, (), "output width of a rank's product at half rate"),
    Coefficient("expert_read", 1.0, 0.3, 1.5, _FORMAT, "expert reads over other weight reads"),
    Coefficient("expert_rate", 1.0, 0.2, 1.5, _FORMAT, "expert products over other products"),
    Coefficient("kv_read", 1.0, 0.4, 1.5, ("generation", *_ENGINE), "cache reads over the micro-benchmarked bandwidth"),
    Coefficient(
        "attention_decode", 0.5, 0.05, 1.0, ("generation",), "share of 16-bit peak that attention reaches in decode"
    ),
    Coefficient(
        "attention_prefill", 0.6, 0.1, 1.0, ("generation",), "share of 16-bit peak that attention reaches in prefill"
    ),
    Coefficient("collective", 1.0, 0.3, 3.0, (*_ENGINE, "generation"), "all-reduces over the measured curves"),
    Coefficient("imbalance", 1.1, 1.0, 2.5, (), "load of the busiest expert-parallel rank over the mean"),
    Coefficient("step_s", 0.2e-3, 0.02e-3, 8e-3, _ENGINE, "scheduling and sampling of one step, seconds"),
    Coefficient("layer_s", 30e-6, 3e-6, 150e-6, (*_ENGINE, *_PRODUCT), "launches of one layer, seconds"),
    Coefficient("expert_layer_s", 45e-6, 1e-6, 200e-6, (*_ENGINE, *_FORMAT), "routing of one expert layer, seconds"),
    Coefficient("request_s", 15e-3, 1e-3, 500e-3, _ENGINE, "handling of one request before its first token, seconds"),
    Coefficient("burst_share", 0.1, 0.02, 0.9, _ENGINE, "share of a benchmark's requests that arrive in bursts"),
    Coefficient("sequence_s", 2e-6, 0.05e-6, 60e-6, _ENGINE, "host work per running sequence and step, seconds"),
)
BY_NAME: Mapping[str, Coefficient] = {coefficient.name: coefficient for coefficient in COEFFICIENTS}


def deviation_key(name: str, kind: str, value: str) -> str:
    """Key of a factor, e.g. ``gemm_rate|engine=vllm``."""
    return f"{name}|{kind}={value}"


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Values of all coefficients.

    Attributes:
        values: pooled values by coefficient name and factors by :func:`deviation_key`; what is missing is the start
            value, and a factor of 1.
        generations: device generations that took part in the fit.
        engines: engines that took part.
        corrections: what measurements say beside the coefficients.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    generations: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()
    corrections: Corrections = field(default=NO_CORRECTIONS, hash=False)

    def of(self, name: str, **keys: str) -> float:
        """A coefficient for the given ``generation``, ``engine``, ``runtime``, ``arithmetic`` and ``format``."""
        coefficient = BY_NAME[name]
        value = self.values.get(name, coefficient.start)
        for kind in coefficient.keys:
            if kind in keys:
                value *= self.values.get(deviation_key(name, kind, keys[kind]), 1.0)
        return value


UNFITTED = Coefficients()
"""The start values: round figures, one set for every device and engine."""


def checked_coefficients(
    values: Mapping[str, object],
    generations: Iterable[str] = (),
    engines: Iterable[str] = (),
    corrections: Corrections = NO_CORRECTIONS,
) -> Coefficients:
    """Coefficients from stored values, with corrections that were checked already.

    Raises:
        InvalidInputError: a name is no coefficient's nor a deviation's that it may have, or a value is not a finite
            positive number; every fault is listed.
    """
    faults = [FieldViolation(f"coefficients[{name}]", fault) for name in values if (fault := _name_fault(name))]
    numbers: dict[str, float] = {}
    for name, value in values.items():
        # Compared before it is converted: an integer may be too large for a float.
        if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value <= sys.float_info.max:
            numbers[name] = float(value)
        else:
            faults.append(FieldViolation(f"coefficients[{name}]", f"{value!r:.40} is no finite number above 0"))
    if faults:
        raise InvalidInputError(faults)
    return Coefficients(numbers, frozenset(generations), frozenset(engines), corrections)


def _name_fault(key: str) -> str | None:
    name, _, deviation = key.partition("|")
    if name not in BY_NAME:
        return f"no coefficient of this name; one of {', '.join(BY_NAME)}"
    kind, _, value = deviation.partition("=")
    if key != name and (kind not in BY_NAME[name].keys or not value):
        return f"may deviate by {', '.join(BY_NAME[name].keys) or 'nothing'} only, as in {name}|kind=value"
    return None
