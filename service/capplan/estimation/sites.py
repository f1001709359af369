"""Measured sites: where the step model was compared with a measurement, and how far off it was there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from capplan.errors import InvalidInputError
from capplan.estimation.situation import SPREADS, Shape, Situation

SITES_FIELD: Final = "sites"


class Figures(StrEnum):
    """Figures whose errors have a common cause, so that one corrects another."""

    PER_TOKEN = "per_token"
    FIRST_TOKEN = "first_token"


class Kind(StrEnum):
    """How a figure was measured, which shifts it against others."""

    LATENCY = "latency"
    RATE = "rate"
    OFFLINE = "offline"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """One measured configuration.

    Attributes:
        situation: the replica.
        figures: what was measured.
        kind: how.
        running: decoding sequences of one replica.
        input_tokens: mean prompt.
        output_tokens: mean answer.
        log_time: natural log of the factor that the step model's times miss, measured over predicted; of a rate, the
            inverse.
        noise: variance of the figure over that of a well documented one.
        source: rows of one source share its way of measuring.
        engine_version: as published; empty when unknown.
    """

    situation: Situation
    figures: Figures
    kind: Kind
    running: float
    input_tokens: float
    output_tokens: float
    log_time: float
    noise: float
    source: str
    engine_version: str


_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "running": (1e-6, 1e9),
    "input_tokens": (1e-6, 1e9),
    "output_tokens": (1e-6, 1e9),
    "log_time": (-10.0, 10.0),
    "noise": (1e-3, 1e6),
}
"""Columns of numbers with the least and greatest that are accepted: far beyond any measurement's."""

_COLUMNS: Final = ("figures", "kind", *_NUMBERS)
_WORDS: Final = ("model", "weights", "sku", "generation", "engine")
_MAY_BE_EMPTY: Final = ("source", "engine_version")
_RUN_KEYS: Final = (*_WORDS, *_MAY_BE_EMPTY, "shape", "spread", "devices", "rows")
_LARGEST_SHAPE: Final = 64.0
_MOST_DEVICES: Final = 1_000_000

_Member = TypeVar("_Member", bound=StrEnum)


def sites_to_json(sites: Sequence[Site]) -> list[dict[str, Any]]:
    """Sites as JSON values; numbers have six significant digits.

    What sites next to each other have in common, replica, source and engine version, is written once, with one row of
    the remaining columns for each of them.
    """
    return [
        {
            "model": where.model,
            "shape": [compact_number(number) for number in where.shape],
            "weights": where.weights,
            "sku": where.sku,
            "generation": where.generation,
            "engine": where.engine,
            "engine_version": version,
            "spread": where.spread,
            "devices": where.devices,
            "source": source,
            "rows": [
                [site.figures.value, site.kind.value, *(compact_number(getattr(site, name)) for name in _NUMBERS)]
                for site in run
            ],
        }
        for (where, source, version), run in itertools.groupby(
            sites, key=lambda site: (site.situation, site.source, site.engine_version)
        )
    ]


def compact_number(value: float) -> float:
    """A number rounded to six significant digits, whole ones as integers, which JSON writes shorter."""
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def sites_from_json(values: object) -> tuple[Site, ...]:
    """Sites from the values that :func:`sites_to_json` gives.

    Raises:
        InvalidInputError: they are no such values; the first fault is named with its place.
    """
    if not isinstance(values, list):
        raise InvalidInputError.single(SITES_FIELD, f"{values!r:.80} is no list")
    return tuple(site for index, run in enumerate(values) for site in _run(f"{SITES_FIELD}[{index}]", run))


def _run(field: str, run: object) -> list[Site]:
    """Sites of one replica, source and engine version."""
    checked_keys(field, run, _RUN_KEYS)
    assert isinstance(run, Mapping)
    for name in (*_WORDS, *_MAY_BE_EMPTY):
        if not isinstance(run[name], str) or not (run[name] or name in _MAY_BE_EMPTY):
            raise InvalidInputError.single(f"{field}.{name}", f"{run[name]!r:.80} is no name")
    if run["spread"] not in SPREADS:
        raise InvalidInputError.single(f"{field}.spread", f"{run['spread']!r:.80} is none of {', '.join(SPREADS)}")
    devices = run["devices"]
    if not isinstance(devices, int) or isinstance(devices, bool) or not 1 <= devices <= _MOST_DEVICES:
        fault = f"{devices!r:.80} is no whole number from 1 to {_MOST_DEVICES}"
        raise InvalidInputError.single(f"{field}.devices", fault)
    if not isinstance(run["rows"], list):
        raise InvalidInputError.single(f"{field}.rows", f"{run['rows']!r:.80} is no list")
    situation = Situation(
        **{name: run[name] for name in _WORDS},
        shape=_shape(f"{field}.shape", run["shape"]),
        spread=run["spread"],
        devices=devices,
    )
    return [
        _site(f"{field}.rows[{index}]", row, situation, run["source"], run["engine_version"])
        for index, row in enumerate(run["rows"])
    ]


def _shape(field: str, values: object) -> Shape:
    if not isinstance(values, list) or len(values) != 3:
        raise InvalidInputError.single(field, f"{values!r:.80} is no list of three numbers")
    hidden, per_active, experts = (checked_number(field, value, 0.0, _LARGEST_SHAPE) for value in values)
    return hidden, per_active, experts


def _site(field: str, row: object, situation: Situation, source: str, engine_version: str) -> Site:
    if not isinstance(row, list) or len(row) != len(_COLUMNS):
        raise InvalidInputError.single(field, f"{row!r:.80} is no list of {', '.join(_COLUMNS)}")
    figures, kind, *numbers = row
    running, input_tokens, output_tokens, log_time, noise = (
        checked_number(f"{field}.{name}", value, least, greatest)
        for (name, (least, greatest)), value in zip(_NUMBERS.items(), numbers, strict=True)
    )
    return Site(
        situation,
        checked_member(f"{field}.figures", figures, Figures),
        checked_member(f"{field}.kind", kind, Kind),
        running,
        input_tokens,
        output_tokens,
        log_time,
        noise,
        source,
        engine_version,
    )


def checked_keys(field: str, value: object, keys: Sequence[str]) -> None:
    """Refuses what is no object with exactly these keys.

    Raises:
        InvalidInputError: it is none.
    """
    if not isinstance(value, Mapping) or set(value) != set(keys):
        raise InvalidInputError.single(field, f"{value!r:.80} is no object with the keys {', '.join(keys)}")


def checked_number(field: str, value: object, least: float, greatest: float) -> float:
    """A number within its limits.

    Raises:
        InvalidInputError: it is none.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= greatest:
        return float(value)
    raise InvalidInputError.single(field, f"{value!r:.80} is no number from {least:g} to {greatest:g}")


def checked_member(field: str, value: object, of: type[_Member]) -> _Member:
    """A word of a vocabulary.

    Raises:
        InvalidInputError: it is none.
    """
    if isinstance(value, str) and value in set(of):
        return of(value)
    raise InvalidInputError.single(field, f"{value!r:.80} is none of {', '.join(of)}")
