"""From a run as a file states it to rows of the measurements, or to the reason why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any, Final

from capplan.catalog.importers.runs import Facts, Figure, Run
from capplan.catalog.measurements import measurement_key
from capplan.catalog.names import fold_model_name
from capplan.catalog.repository import table_of
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.catalog.tables import MeasurementRow
from capplan.catalog.tables.measurements import MAX_DEVICES
from capplan.errors import InvalidInputError, NotFoundError
from capplan.estimation.measurement import (
    LOAD_KINDS,
    METRICS,
    OWN_TRUST,
    SLO_BOUND_STATISTICS,
    STATISTICS,
)
from capplan.modeling.precision import resolve_kv_cache, resolve_weights

Values = dict[str, Any]

_NAMES: Final = frozenset({"model", "accelerator", "engine", "source", "source_url", "as_of"})
"""What an argument may say differently from the file: a served model's name, say, is anything. All else must agree."""

_MAX_CACHED: Final = 4_096
_MAX_TOKENS: Final = 1e9
_MAX_VALUE: Final = 1e12
_LENGTHS: Final = {
    column.name: column.type.length  # type: ignore[attr-defined]
    for column in table_of(MeasurementRow).columns
    if getattr(column.type, "length", None)
}


class Resolver:
    """Turns runs into rows, with what a person gave in addition to the file."""

    def __init__(self, snapshot: CatalogSnapshot, given: Facts, source: str, today: str) -> None:
        """Prepares for one file.

        Args:
            snapshot: the catalogue that names are looked up in.
            given: facts for every run of the file.
            source: title of the source of runs that state none.
            today: date of the runs that state none.
        """
        self._snapshot = snapshot
        self._given = given
        self._defaults = Facts(
            source=source,
            as_of=today,
            kv_cache="auto",
            pipeline_parallel=1,
            expert_parallel=1,
            attention_data_parallel=1,
        )
        # A file names few models and devices, but names each many times; what is refused is kept too.
        self._model = lru_cache(maxsize=_MAX_CACHED)(partial(_attempt, self._resolve_model))
        self._sku = lru_cache(maxsize=_MAX_CACHED)(partial(_attempt, self._resolve_sku))

    def rows(self, run: Run) -> tuple[list[Values], str]:
        """The rows of a run's figures, without the import they belong to, and why some of them could not be used.

        The reason is empty when all could be.
        """
        try:
            base = self._configuration(run)
        except _RefusedError as refused:
            return [], str(refused)
        if not run.figures:
            return [], "has no figure that can be used"
        rows, faults = [], []
        for figure in run.figures:
            fault = _figure_fault(figure, base)
            if fault is not None:
                faults.append(fault)
                continue
            row = base | {"metric": figure.metric, "statistic": figure.statistic or None, "value": figure.value}
            rows.append(row | {"key": measurement_key(row)})
        # A load that is not stated is one fault, however many figures there are.
        return rows, "; ".join(dict.fromkeys(faults))

    def _configuration(self, run: Run) -> Values:
        known, faults, notes = _merge(run, self._given, self._defaults)
        faults += [
            f"{name} is stated neither in the file nor beside it"
            for name in ("model", "accelerator", "engine", "weights", "load_kind")
            if known[name] is None
        ]
        if faults:
            raise _RefusedError(faults)
        if known["devices"] is None and known["tensor_parallel"] is not None:
            # A deployment whose size is not stated is one replica.
            known["devices"] = _ranks(known)
        model, accelerator = known.pop("model"), known.pop("accelerator")
        known |= {name: known[name].lower() for name in ("engine", "weights", "kv_cache")}
        known |= {"trust": OWN_TRUST, "flags": " ".join(run.flags) or None}
        known |= {"notes": "; ".join((*notes, *run.notes)) or None}
        faults = [*_load_faults(known), *_width_faults(known), *_length_faults(known), *_text_faults(known)]
        if any(flag.split() != [flag] for flag in run.flags):
            faults.append("a flag must be one word")
        known["model"], model_fault = self._model(model, known["weights"], known["kv_cache"])
        known["sku"], sku_fault = self._sku(accelerator, known["mig_profile"])
        faults += [fault for fault in (model_fault, sku_fault) if fault]
        if faults:
            raise _RefusedError(faults)
        return known

    def _resolve_model(self, name: str, weights: str, kv_cache: str) -> str:
        profile = self._snapshot.resolve_model(name)
        plan = resolve_weights(profile.architecture, weights)
        resolve_kv_cache(profile.architecture, kv_cache, plan)
        return profile.name

    def _resolve_sku(self, name: str, mig_profile: str | None) -> str:
        accelerator = self._snapshot.resolve_accelerator(name)
        if mig_profile is not None:
            board = self._snapshot.mig_board_of(accelerator)
            known = [profile.name for profile in board.profiles] if board is not None else []
            if mig_profile not in known:
                accepted = f"accepted: {', '.join(known)}" if known else "it has no MIG profiles"
                raise InvalidInputError.single(
                    "mig_profile", f"{accelerator.sku} has no MIG profile {mig_profile!r}; {accepted}"
                )
        return accelerator.sku


class _RefusedError(Exception):
    def __init__(self, reasons: Iterable[str]) -> None:
        super().__init__("; ".join(reasons))


def _attempt(resolve: Callable[..., str], *arguments: str | None) -> tuple[str | None, str | None]:
    """A name, or why there is none."""
    try:
        return resolve(*arguments), None
    except NotFoundError as error:
        return None, str(error)
    except InvalidInputError as error:
        return None, "; ".join(violation.description for violation in error.violations)


def _merge(run: Run, given: Facts, defaults: Facts) -> tuple[Values, list[str], list[str]]:
    """What is known of a run: what is given, else what the file says, else the default; with faults and notes."""
    values: Values = {}
    faults, notes = [], []
    for name in (field.name for field in fields(Facts)):
        said, argument = getattr(run.facts, name), getattr(given, name)
        values[name] = next((v for v in (argument, said, getattr(defaults, name)) if v is not None), None)
        if argument is None or said is None or argument == said:
            continue
        if name not in _NAMES:
            faults.append(f"{name} is {said} in the file, but {argument} was given")
        elif name == "model" and fold_model_name(argument) != fold_model_name(said):
            notes.append(f"served as {said}")
    return values, faults, notes


def _ranks(known: Values) -> int:
    """Ranks of one replica."""
    ranks: int = known["tensor_parallel"] * known["pipeline_parallel"] * known["attention_data_parallel"]
    return ranks


def _width_faults(known: Values) -> list[str]:
    if known["devices"] is None:
        return ["neither devices nor tensor_parallel is stated, in the file or beside it"]
    widths = ("devices", "tensor_parallel", "pipeline_parallel", "expert_parallel", "attention_data_parallel")
    faults = [
        f"{name} is {known[name]}; accepted: 1 to {MAX_DEVICES}"
        for name in widths
        if known[name] is not None and not 1 <= known[name] <= MAX_DEVICES
    ]
    if not faults and known["tensor_parallel"] is not None and _ranks(known) > known["devices"]:
        faults.append(f"a replica has {_ranks(known)} ranks, the deployment only {known['devices']} devices")
    return faults


def _length_faults(known: Values) -> list[str]:
    return [
        f"{name} is {known[name]:g}; accepted: above 0 and below {_MAX_TOKENS:g}"
        for name in ("input_tokens", "output_tokens")
        if known[name] is not None and not 0 < known[name] < _MAX_TOKENS
    ]


def _load_faults(known: Values) -> list[str]:
    if known["load_kind"] not in LOAD_KINDS:
        return [f"load_kind is {known['load_kind']!r}; accepted: {', '.join(LOAD_KINDS)}"]
    if known["load_value"] is not None and not 0 < known["load_value"] < _MAX_TOKENS:
        return [f"load_value is {known['load_value']:g}; accepted: above 0 and below {_MAX_TOKENS:g}"]
    return []


def _text_faults(known: Values) -> list[str]:
    return [
        f"{name} has {len(known[name])} characters, at most {longest} are accepted"
        for name, longest in _LENGTHS.items()
        if isinstance(known.get(name), str) and len(known[name]) > longest
    ]


def _figure_fault(figure: Figure, base: Mapping[str, Any]) -> str | None:
    if figure.metric not in METRICS:
        return f"metric is {figure.metric!r}; accepted: {', '.join(METRICS)}"
    if figure.statistic and figure.statistic not in STATISTICS:
        return f"statistic is {figure.statistic!r}; accepted: {', '.join(STATISTICS)}"
    if not (math.isfinite(figure.value) and 0 < figure.value < _MAX_VALUE):
        return f"{figure.metric} ({figure.statistic or 'not stated'}) is {figure.value:g}, not above 0"
    loadless = base["load_kind"] == "offline_max" or figure.statistic in SLO_BOUND_STATISTICS
    if base["load_value"] is None and not loadless:
        return f"load_value is not stated, and {base['load_kind']} needs one"
    return None
