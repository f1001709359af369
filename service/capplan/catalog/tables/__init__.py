"""The catalogue's tables. Importing this package registers all of them on the metadata."""

from __future__ import annotations

from capplan.catalog.tables.accelerators import AcceleratorAliasRow, AcceleratorRow
from capplan.catalog.tables.calibrations import CalibrationRow
from capplan.catalog.tables.measurements import MeasurementImportRow, MeasurementRevisionRow, MeasurementRow
from capplan.catalog.tables.mig import MigBoardRow, MigProfileRow, MigProfileStartRow
from capplan.catalog.tables.models import ModelAliasRow, ModelProfileRow
from capplan.catalog.tables.offers import CloudInstanceRow, DevicePriceRow
from capplan.catalog.tables.revision import CatalogRevisionRow

__all__ = [
    "AcceleratorAliasRow",
    "AcceleratorRow",
    "CalibrationRow",
    "CatalogRevisionRow",
    "CloudInstanceRow",
    "DevicePriceRow",
    "MeasurementImportRow",
    "MeasurementRevisionRow",
    "MeasurementRow",
    "MigBoardRow",
    "MigProfileRow",
    "MigProfileStartRow",
    "ModelAliasRow",
    "ModelProfileRow",
]
