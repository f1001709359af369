"""Checks of shipped facts beyond what a constraint on one row can say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from capplan.catalog.calibrations import parse_calibration
from capplan.catalog.conversion import Row, to_accelerator, to_mig_board_record
from capplan.catalog.names import fold_accelerator_name
from capplan.catalog.shipped import ShippedCatalog
from capplan.errors import FieldViolation, InvalidInputError
from capplan.hardware.checks import check_accelerator
from capplan.hardware.mig import check_board


def verify_shipped(facts: ShippedCatalog) -> None:
    """Refuse facts that contradict each other.

    Raises:
        InvalidInputError: with every fault found.
    """
    faults = [
        *_accelerator_faults(facts),
        *_board_faults(facts),
        *_alias_faults(facts),
        *_measurement_faults(facts),
        *_calibration_faults(facts),
    ]
    if faults:
        raise InvalidInputError(faults)


def _accelerator_faults(facts: ShippedCatalog) -> list[FieldViolation]:
    return [
        FieldViolation(f"accelerators[{row['sku']}]", finding)
        for row in facts.accelerators
        for finding in check_accelerator(to_accelerator(row), row["boost_clock_mhz"])
    ]


def _board_faults(facts: ShippedCatalog) -> list[FieldViolation]:
    profiles: defaultdict[str, list[tuple[Row, tuple[int, ...]]]] = defaultdict(list)
    for row in facts.mig_profiles:
        profiles[row["board"]].append((row, facts.mig_profile_starts[row["board"], row["profile_id"]]))
    records = [to_mig_board_record(board, profiles[board["board"]]) for board in facts.mig_boards]
    return [fault for record in records if record.tables is not None for fault in check_board(record.tables)]


def _alias_faults(facts: ShippedCatalog) -> list[FieldViolation]:
    """An alias must not be listed twice, nor take the name of another entry."""
    accelerators = [(fold_accelerator_name(row["sku"]), row["sku"]) for row in facts.accelerators]
    models = [(row["folded"], row["name"]) for row in facts.model_profiles]
    return [
        *_claims("accelerator_aliases", accelerators, [(row, row["sku"]) for row in facts.accelerator_aliases]),
        *_claims("model_aliases", models, [(row, row["name"]) for row in facts.model_aliases]),
    ]


def _claims(
    table: str, names: Iterable[tuple[str, str]], aliases: Iterable[tuple[Row, str]]
) -> Iterator[FieldViolation]:
    """Faults of aliases whose folded spelling means another entry already."""
    owners = dict(names)
    for row, entry in aliases:
        owner = owners.setdefault(row["folded"], entry)
        if owner != entry:
            yield FieldViolation(f"{table}[{row['alias']}]", f"means {entry}, but is a name of {owner} already")


def _measurement_faults(facts: ShippedCatalog) -> Iterator[FieldViolation]:
    """A measurement must be of an accelerator and a model of the catalogue, and no figure may be listed twice."""
    skus = {row["sku"] for row in facts.accelerators}
    models = {row["name"] for row in facts.model_profiles}
    keys: set[str] = set()
    for row in facts.measurements:
        field = f"measurements[{row['key']}]"
        if row["sku"] not in skus:
            yield FieldViolation(field, f"no accelerator {row['sku']!r}")
        if row["model"] not in models:
            yield FieldViolation(field, f"no model {row['model']!r}")
        if row["key"] in keys:
            yield FieldViolation(field, "listed twice")
        keys.add(row["key"])


def _calibration_faults(facts: ShippedCatalog) -> Iterator[FieldViolation]:
    """At most one calibration is shipped, and its coefficients are the step model's."""
    if len(facts.calibrations) > 1:
        yield FieldViolation("calibrations", f"{len(facts.calibrations)} are shipped, at most one can be")
    for content in facts.calibrations:
        try:
            parse_calibration(content)
        except InvalidInputError as error:
            yield from error.violations
