"""A fleet's own measurements beside a calibration: they correct estimates as soon as they are in the database."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capplan.catalog.observations import Named, observe_all
from capplan.estimation.coefficients import Coefficients
from capplan.estimation.measurement import Measurement
from capplan.estimation.observation import Observation
from capplan.estimation.site_selection import LARGEST_LOG, compared, select_sites, yielding
from capplan.estimation.sites import Site

_LOGGER: Final = logging.getLogger(__name__)

_OFF: Final = f"off the step model by more than a factor of {np.exp(LARGEST_LOG):.1f}, so not what the row says"
_ODD: Final = "no figure of a deployment: the step model has no answer for it"
_ENOUGH: Final = "enough others like it do"
_ODD_ROW: Final = (ArithmeticError, LookupError, ValueError)
"""What arithmetic far from anything served ends in: a prompt of a millionth of a token, a million stages."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Own rows against the step model.

    Attributes:
        sites: what rows say of its errors, S of them.
        observations: the row of each site.
        log_residuals: (S,) logs of predicted over measured, before corrections.
        sequences: (S,) decoding sequences of one replica.
        idle: rows that make no site, by reason; most frequent first.
    """

    sites: tuple[Site, ...]
    observations: tuple[Observation, ...]
    log_residuals: NDArray[np.float64]
    sequences: NDArray[np.float64]
    idle: Mapping[str, int]


def with_own_sites(fitted: Coefficients, own: Sequence[Measurement], catalog: Named) -> Coefficients:
    """Coefficients whose corrections know a fleet's own measurements, which outweigh published ones beside them.

    Rows that cannot be compared with the step model are left out.

    Args:
        fitted: coefficients with the published sites of their calibration.
        own: the fleet's own measurements.
        catalog: the models and accelerators that they name.
    """
    if not own:
        return fitted
    found = compare(fitted, own, catalog)
    for reason, rows in found.idle.items():
        _LOGGER.debug("%d own measurements correct nothing: %s", rows, reason)
    if not found.sites:
        return fitted
    published = replace(fitted.corrections, sites=yielding(fitted.corrections.sites, found.sites))
    return replace(fitted, corrections=published.with_sites(found.sites))


def compare(fitted: Coefficients, own: Sequence[Measurement], catalog: Named) -> Compared:
    """Compares what can be; no row, however odd, keeps others from being compared.

    Args:
        fitted: coefficients of the step model.
        own: the fleet's own measurements.
        catalog: the models and accelerators that they name.
    """
    try:
        return _compare_all(fitted, own, catalog)
    except _ODD_ROW:
        sound = [row for row in own if _is_sound(fitted, row, catalog)]
        found = _compare_all(fitted, sound, catalog)
        return replace(found, idle=MappingProxyType({**found.idle, _ODD: len(own) - len(sound)}))


def _is_sound(fitted: Coefficients, row: Measurement, catalog: Named) -> bool:
    try:
        _compare_all(fitted, [row], catalog)
    except _ODD_ROW as error:
        _LOGGER.debug("own measurement %s: %s", row.key, error)
        return False
    return True


def _compare_all(fitted: Coefficients, own: Sequence[Measurement], catalog: Named) -> Compared:
    rows = observe_all(own, catalog)
    residuals, sequences = compared(rows.observations, fitted)
    selection = select_sites(rows.observations, residuals, sequences)
    unused = np.setdiff1d(np.arange(len(residuals)), selection.rows)
    off = int(np.sum(~(np.abs(residuals[unused]) <= LARGEST_LOG)))
    idle = Counter(rows.excluded) + Counter({_OFF: off, _ENOUGH: len(unused) - off})
    return Compared(
        selection.sites,
        tuple(rows.observations[row] for row in selection.rows),
        residuals[selection.rows],
        sequences[selection.rows],
        MappingProxyType(dict(sorted(idle.items(), key=lambda pair: (-pair[1], pair[0])))),
    )
