"""The catalogue in memory: one revision of it, immutable, with names resolved. Requests read this, not the database."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self, TypeVar

import numpy as np
from sqlalchemy.orm import Session

from capplan.catalog import repository
from capplan.catalog.calibrations import CalibrationRecord, read_active_calibration
from capplan.catalog.measurements import read_own_measurements
from capplan.catalog.names import NameIndex, fold_accelerator_name, fold_model_name
from capplan.catalog.own_sites import with_own_sites
from capplan.catalog.records import (
    AcceleratorRecord,
    CloudInstance,
    Market,
    MigBoardRecord,
    ModelProfile,
    PriceRecord,
    PriceTerm,
)
from capplan.errors import CapplanError, InvalidInputError
from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.corrections import points_at
from capplan.estimation.sites import Figures, Kind
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard
from capplan.planning.query import DevicePrice, SupplyItem

_READ_ATTEMPTS = 5


class CatalogBusyError(CapplanError):
    """The catalogue changed under every attempt to read it whole; reading again later will do."""

    reason = "CATALOG_BUSY"


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """One revision of the catalogue. Every mapping is read-only and ordered by key.

    Attributes:
        revision: the catalogue's revision.
        updated_at: when that revision was made (UTC).
        accelerators: accelerator records by SKU.
        mig_boards: board records by key; those without tables included.
        prices: summary prices by (SKU, term, market).
        instances: cloud shapes by cloud, type and region.
        models: model profiles by name.
        calibration: what estimates rest on; ``None`` where the catalogue has no calibration.
        coefficients: those of the step model, with the corrections that measurements make, a fleet's own included.
    """

    revision: int
    updated_at: datetime.datetime
    accelerators: Mapping[str, AcceleratorRecord]
    mig_boards: Mapping[str, MigBoardRecord]
    prices: Mapping[tuple[str, PriceTerm, Market], PriceRecord]
    instances: tuple[CloudInstance, ...]
    models: Mapping[str, ModelProfile]
    calibration: CalibrationRecord | None
    coefficients: Coefficients
    _accelerator_names: NameIndex
    _model_names: NameIndex

    @classmethod
    def build(
        cls,
        revision: repository.Revision,
        accelerators: Iterable[AcceleratorRecord],
        mig_boards: Iterable[MigBoardRecord],
        prices: Iterable[PriceRecord],
        instances: Iterable[CloudInstance],
        models: Iterable[ModelProfile],
        calibration: CalibrationRecord | None,
    ) -> Self:
        """A snapshot of the given records, without the corrections of own measurements."""
        by_sku = {record.accelerator.sku: record for record in accelerators}
        by_name = {model.name: model for model in models}
        return cls(
            revision=revision.number,
            updated_at=revision.updated_at,
            accelerators=MappingProxyType(dict(sorted(by_sku.items()))),
            mig_boards=MappingProxyType(dict(sorted((record.board, record) for record in mig_boards))),
            prices=MappingProxyType(
                {(record.sku, PriceTerm(record.price.term), record.market): record for record in prices}
            ),
            instances=tuple(instances),
            models=MappingProxyType(dict(sorted(by_name.items()))),
            calibration=calibration,
            coefficients=_fitted(calibration),
            _accelerator_names=_accelerator_names(by_sku),
            _model_names=_model_names(by_name),
        )

    @property
    def fitted(self) -> Coefficients:
        """Coefficients as the active calibration has them, else the start values."""
        return _fitted(self.calibration)

    def sharing(self, other: Self) -> Self:
        """The same with the very coefficients of another one where both are equal: what was solved for them holds."""
        return replace(self, coefficients=other.coefficients) if self.coefficients == other.coefficients else self

    def warm(self) -> None:
        """Solves the regression over the measured sites, most of a second of work, so that no estimate waits for it."""
        corrections = self.coefficients.corrections
        if not corrections.sites:
            return
        where = [corrections.sites[0].situation]
        corrections.log_factors(where, 1.0, 1.0)
        corrections.first_token_log_factors(where, 1.0, 1.0)
        for figures in Figures:
            corrections.judge(figures, points_at(where, Kind.LATENCY, np.ones(1), 1.0, 1.0))

    def resolve_accelerator(self, name: str) -> Accelerator:
        """The accelerator a SKU, driver name, node label or common spelling means.

        Raises:
            NotFoundError: no accelerator, or several; ``near`` names them.
        """
        return self.accelerators[self._accelerator_names.resolve(name)].accelerator

    def resolve_model(self, name: str) -> ModelProfile:
        """The model a published name or alias means; the organisation may be left out where one model remains.

        Raises:
            NotFoundError: no model, or several; ``near`` names them.
        """
        return self.models[self._model_names.resolve(name)]

    def mig_board_of(self, accelerator: Accelerator) -> MigBoard | None:
        """The tables to place MIG instances by; ``None`` without MIG or without published tables."""
        if accelerator.mig_board is None:
            return None
        record = self.mig_boards.get(accelerator.mig_board)
        return record.tables if record is not None else None

    def price(self, sku: str, term: str, market: str = Market.TYPICAL) -> DevicePrice | None:
        """The summary price of a device; ``None`` when the catalogue has none.

        Raises:
            InvalidInputError: the term or the market is unknown.
        """
        record = self.prices.get((sku, _known(PriceTerm, "price_term", term), _known(Market, "market", market)))
        return record.price if record is not None else None

    def supply(
        self,
        price_term: str = PriceTerm.ON_DEMAND,
        *,
        allowed: Collection[str] = (),
        denied: Collection[str] = (),
        market: str = Market.TYPICAL,
    ) -> tuple[SupplyItem, ...]:
        """The devices a planner may use, by SKU.

        Args:
            price_term: ``on_demand`` or ``spot``.
            allowed: names of accelerators; when empty, all are.
            denied: names of accelerators to leave out.
            market: which summary price to take.

        Raises:
            NotFoundError: a name that means no accelerator, or several.
            InvalidInputError: the term or the market is unknown.
        """
        only = {self.resolve_accelerator(name).sku for name in allowed} or self.accelerators.keys()
        never = {self.resolve_accelerator(name).sku for name in denied}
        return tuple(
            SupplyItem(
                accelerator=record.accelerator,
                mig_board=self.mig_board_of(record.accelerator),
                price=self.price(sku, price_term, market),
            )
            for sku, record in self.accelerators.items()
            if sku in only and sku not in never
        )


def _fitted(calibration: CalibrationRecord | None) -> Coefficients:
    return calibration.calibration.coefficients if calibration is not None else UNFITTED


_Choice = TypeVar("_Choice", PriceTerm, Market)


def _known(kind: type[_Choice], field: str, value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInputError.single(field, f"{value!r} is unknown; one of {', '.join(kind)}") from None


def _accelerator_names(records: Mapping[str, AcceleratorRecord]) -> NameIndex:
    # SKUs come first: an alias never takes a SKU's own name away.
    pairs = [(sku, sku) for sku in records]
    pairs += [(alias, sku) for sku, record in records.items() for alias in record.aliases]
    return NameIndex.build("accelerator", fold_accelerator_name, pairs)


def _model_names(models: Mapping[str, ModelProfile]) -> NameIndex:
    pairs = [(name, name) for name in models]
    pairs += [(alias, name) for name, model in models.items() for alias in model.aliases]
    short = Counter(fold_model_name(name.rpartition("/")[2]) for name in models)
    pairs += [(bare, name) for name in models if short[fold_model_name(bare := name.rpartition("/")[2])] == 1]
    return NameIndex.build("model", fold_model_name, pairs)


def load_snapshot(session: Session) -> CatalogSnapshot:
    """Read the whole catalogue at one revision; its own measurements correct its estimates.

    Raises:
        CatalogBusyError: it changed under every attempt.
    """
    for _ in range(_READ_ATTEMPTS):
        # Neither SQLite's driver nor PostgreSQL's default isolation gives several reads one view.
        before = repository.read_revision(session)
        snapshot = CatalogSnapshot.build(
            before,
            repository.read_accelerators(session),
            repository.read_mig_boards(session),
            repository.read_prices(session),
            repository.read_cloud_instances(session),
            repository.read_models(session),
            read_active_calibration(session),
        )
        own = [record.measurement for record in read_own_measurements(session)]
        if repository.read_revision(session) == before:
            return replace(snapshot, coefficients=with_own_sites(snapshot.fitted, own, snapshot))
    raise CatalogBusyError(f"the catalogue changed during each of {_READ_ATTEMPTS} attempts to read it")
