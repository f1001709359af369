"""Estimators to ask for a second opinion: the built-in one and those that installed distributions bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from types import MappingProxyType
from typing import Any, Final, cast

from capplan.errors import FieldViolation, InvalidInputError
from capplan.estimation.estimator import ANALYTIC, Estimator
from capplan.estimation.opinion import failure_text
from capplan.server.validation.checks import shown

ENTRY_POINT_GROUP: Final = "capplan.estimators"
"""Group of the entry points that name an estimator, or a factory of one without arguments."""


@dataclass(frozen=True, slots=True)
class Estimators:
    """What can be asked for a second opinion.

    Attributes:
        available: estimators by name.
        unavailable: why those cannot be asked that were installed and failed to load, by name.
    """

    available: Mapping[str, Estimator]
    unavailable: Mapping[str, str]

    def named(self, names: Iterable[str], path: str) -> Mapping[str, Estimator]:
        """The estimators of a request, in its order.

        Args:
            names: their names.
            path: field of the request that lists them.

        Raises:
            InvalidInputError: one is not known, or could not be loaded; it says why, and which ones there are.
        """
        found: dict[str, Estimator] = {}
        faults = []
        accepted = ", ".join(sorted(self.available))
        for index, name in enumerate(names):
            if name in self.available:
                found[name] = self.available[name]
                continue
            why = self.unavailable.get(name)
            what = f"the estimator {shown(name)} is " + ("not known" if why is None else f"installed, but {why}")
            faults.append(FieldViolation(f"{path}[{index}]", f"{what}; accepted: {accepted}"))
        if faults:
            raise InvalidInputError(faults)
        return MappingProxyType(found)


BUILT_IN: Final = Estimators(MappingProxyType({ANALYTIC.name: ANALYTIC}), MappingProxyType({}))
"""What there is without any installed one."""


def load_estimators() -> Estimators:
    """Loads what is installed; an estimator that fails to load is listed with the reason instead."""
    available, unavailable = dict(BUILT_IN.available), {}
    points = tuple(_entry_points())
    counts = Counter(point.name for point, _ in points)
    for point, distribution in points:
        if point.name in BUILT_IN.available:
            unavailable[f"{point.name} of {distribution}"] = "its name is that of a built-in estimator"
        elif counts[point.name] > 1:
            owners = ", ".join(sorted(owner for other, owner in points if other.name == point.name))
            unavailable[point.name] = f"its name is given more than once, by {owners}"
        else:
            try:
                available[point.name] = _estimator(point)
            except (Exception, SystemExit) as error:  # another's module may fail in any way
                unavailable[point.name] = f"failed to load: {failure_text(error)}"
    return Estimators(MappingProxyType(available), MappingProxyType(unavailable))


def _entry_points() -> Iterator[tuple[metadata.EntryPoint, str]]:
    """Entry points of the group with their distribution; of a distribution found twice the first counts."""
    seen = set()
    for distribution in metadata.distributions():
        try:
            name = distribution.metadata["Name"].casefold()
            points = tuple(distribution.entry_points.select(group=ENTRY_POINT_GROUP))
        except Exception:  # damaged metadata of a distribution that may have nothing to do with this
            continue
        if name not in seen:
            seen.add(name)
            yield from ((point, name) for point in points)


def _estimator(point: metadata.EntryPoint) -> Estimator:
    """The estimator of an entry point.

    Raises:
        TypeError: it is none.
        Exception: whatever its module or factory raises.
    """
    found: Any = point.load()
    if isinstance(found, type) or not _is_estimator(found):
        found = found()
    if not _is_estimator(found):
        raise TypeError(f"{point.value} is a {type(found).__name__} without a name and an estimate method")
    if found.name != point.name:
        raise ValueError(f"its name is {found.name!r}, its entry point's {point.name!r}")
    return cast(Estimator, found)


def _is_estimator(found: Any) -> bool:
    return isinstance(getattr(found, "name", None), str) and callable(getattr(found, "estimate", None))
