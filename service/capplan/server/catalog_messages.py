"""The catalogue as the contract shows it: every message of one revision, made once, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.server.conversion.catalog import (
    to_accelerator,
    to_instance_prices,
    to_mig_profiles,
    to_model_profile,
    to_summary_price,
)
from capplan.v1 import catalog_pb2

_Named = TypeVar("_Named", catalog_pb2.Accelerator, catalog_pb2.MigProfile, catalog_pb2.ModelProfile, catalog_pb2.Price)


@dataclass(frozen=True, slots=True)
class CatalogMessages:
    """One revision of the catalogue. Every mapping is by resource name; no message is changed once it is in here.

    Attributes:
        snapshot: what the messages were made from.
    """

    snapshot: CatalogSnapshot
    accelerators: Mapping[str, catalog_pb2.Accelerator]
    mig_profiles: Mapping[str, catalog_pb2.MigProfile]
    model_profiles: Mapping[str, catalog_pb2.ModelProfile]
    prices: Mapping[str, catalog_pb2.Price]

    @classmethod
    def of(cls, snapshot: CatalogSnapshot) -> CatalogMessages:
        """The messages of a snapshot."""
        return cls(
            snapshot=snapshot,
            accelerators=_by_name(to_accelerator(record) for record in snapshot.accelerators.values()),
            mig_profiles=_by_name(
                profile for record in snapshot.mig_boards.values() for profile in to_mig_profiles(record)
            ),
            model_profiles=_by_name(to_model_profile(profile) for profile in snapshot.models.values()),
            prices=_by_name(
                [
                    *(to_summary_price(record) for record in snapshot.prices.values()),
                    *(price for instance in snapshot.instances for price in to_instance_prices(instance)),
                ]
            ),
        )


def _by_name(messages: Iterable[_Named]) -> Mapping[str, _Named]:
    return MappingProxyType({message.name: message for message in messages})
