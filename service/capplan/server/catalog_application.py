"""What ``CatalogService`` answers, from the catalogue in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, Protocol, TypeVar

from capplan.catalog.filtering import FilterField, parse_filter
from capplan.catalog.names import MAX_NEAR_NAMES
from capplan.catalog.paging import Page, Paginator
from capplan.catalog.tables.accelerators import ARITHMETIC_FORMATS
from capplan.errors import NotFoundError
from capplan.server.catalog_messages import CatalogMessages
from capplan.server.message_filter import filter_fields
from capplan.server.resource_names import (
    MIG_PROFILES,
    accelerator_name,
    mig_board_name,
    model_name,
    parse_accelerator,
    parse_mig_parent,
    parse_mig_profile,
    parse_model,
    parse_price,
)
from capplan.server.validation.checks import Violations
from capplan.server.validation.parts import MAX_NAME_CHARACTERS
from capplan.v1 import catalog_pb2, catalog_service_pb2

_Named = TypeVar("_Named", catalog_pb2.Accelerator, catalog_pb2.MigProfile, catalog_pb2.ModelProfile, catalog_pb2.Price)
_Fields = Mapping[str, FilterField[_Named]]

_ACCELERATOR_FIELDS: Final[_Fields[catalog_pb2.Accelerator]] = filter_fields(
    catalog_pb2.Accelerator.DESCRIPTOR, map_keys=ARITHMETIC_FORMATS
)
_MIG_PROFILE_FIELDS: Final[_Fields[catalog_pb2.MigProfile]] = filter_fields(
    catalog_pb2.MigProfile.DESCRIPTOR, zero_is_a_value={"profile_id"}
)
_MODEL_PROFILE_FIELDS: Final[_Fields[catalog_pb2.ModelProfile]] = filter_fields(catalog_pb2.ModelProfile.DESCRIPTOR)
_PRICE_FIELDS: Final[_Fields[catalog_pb2.Price]] = filter_fields(catalog_pb2.Price.DESCRIPTOR)


class _PageRequest(Protocol):
    """What every request of a listing has."""

    page_size: int
    page_token: str
    filter: str


class CatalogApplication:
    """One method for each of the service's."""

    def __init__(self, messages: Callable[[], CatalogMessages], paginator: Paginator) -> None:
        """Answer from what ``messages`` gives at the time of the call."""
        self._messages = messages
        self._paginator = paginator

    def get_accelerator(
        self, request: catalog_service_pb2.GetAcceleratorRequest
    ) -> catalog_service_pb2.GetAcceleratorResponse:
        """One accelerator.

        Raises:
            InvalidInputError: the name is empty or malformed.
            NotFoundError: it means none, or several.
        """
        _require_name(request.name, "accelerators/{sku}, a SKU or an alias")
        messages = self._messages()
        sku = messages.snapshot.resolve_accelerator(parse_accelerator(request.name, "name")).sku
        return catalog_service_pb2.GetAcceleratorResponse(accelerator=messages.accelerators[accelerator_name(sku)])

    def list_accelerators(
        self, request: catalog_service_pb2.ListAcceleratorsRequest
    ) -> catalog_service_pb2.ListAcceleratorsResponse:
        """A page of accelerators.

        Raises:
            InvalidInputError: the filter, page size or page token.
        """
        page = self._page(self._messages().accelerators.values(), _ACCELERATOR_FIELDS, "accelerators", request)
        return catalog_service_pb2.ListAcceleratorsResponse(
            accelerators=page.items, next_page_token=page.next_page_token
        )

    def get_mig_profile(
        self, request: catalog_service_pb2.GetMigProfileRequest
    ) -> catalog_service_pb2.GetMigProfileResponse:
        """One MIG profile.

        Raises:
            InvalidInputError: the name is empty or malformed.
            NotFoundError: there is no such board or profile.
        """
        _require_name(request.name, "migBoards/{board}/profiles/{id}")
        board, profile_id = parse_mig_profile(request.name, "name")
        messages = self._messages()
        profile = messages.mig_profiles.get(f"{mig_board_name(board)}/{MIG_PROFILES}/{profile_id}")
        if profile is None:
            _require_board(messages, board)
            near = (name for name in messages.mig_profiles if name.startswith(f"{mig_board_name(board)}/"))
            raise NotFoundError("MIG profile", request.name, near)
        return catalog_service_pb2.GetMigProfileResponse(mig_profile=profile)

    def list_mig_profiles(
        self, request: catalog_service_pb2.ListMigProfilesRequest
    ) -> catalog_service_pb2.ListMigProfilesResponse:
        """A page of the MIG profiles of one board or of all.

        Raises:
            InvalidInputError: the parent, filter, page size or page token.
            NotFoundError: there is no such board.
        """
        board = parse_mig_parent(request.parent, "parent")
        messages = self._messages()
        rows: Iterable[catalog_pb2.MigProfile] = messages.mig_profiles.values()
        collection = "migProfiles"
        if board is not None:
            _require_board(messages, board)
            prefix = f"{mig_board_name(board)}/"
            rows = (row for row in rows if row.name.startswith(prefix))
            collection = f"{prefix}{collection}"
        page = self._page(rows, _MIG_PROFILE_FIELDS, collection, request)
        return catalog_service_pb2.ListMigProfilesResponse(
            mig_profiles=page.items, next_page_token=page.next_page_token
        )

    def get_model_profile(
        self, request: catalog_service_pb2.GetModelProfileRequest
    ) -> catalog_service_pb2.GetModelProfileResponse:
        """One model profile.

        Raises:
            InvalidInputError: the name is empty or malformed.
            NotFoundError: it means none, or several.
        """
        _require_name(request.name, "models/{id}, a hub id or an alias")
        messages = self._messages()
        hub_id = messages.snapshot.resolve_model(parse_model(request.name, "name")).name
        return catalog_service_pb2.GetModelProfileResponse(model_profile=messages.model_profiles[model_name(hub_id)])

    def list_model_profiles(
        self, request: catalog_service_pb2.ListModelProfilesRequest
    ) -> catalog_service_pb2.ListModelProfilesResponse:
        """A page of model profiles.

        Raises:
            InvalidInputError: the filter, page size or page token.
        """
        page = self._page(self._messages().model_profiles.values(), _MODEL_PROFILE_FIELDS, "models", request)
        return catalog_service_pb2.ListModelProfilesResponse(
            model_profiles=page.items, next_page_token=page.next_page_token
        )

    def get_price(self, request: catalog_service_pb2.GetPriceRequest) -> catalog_service_pb2.GetPriceResponse:
        """One price.

        Raises:
            InvalidInputError: the name is empty or malformed.
            NotFoundError: there is no such price.
        """
        _require_name(request.name, "prices/{id}")
        messages = self._messages()
        price = messages.prices.get(parse_price(request.name, "name"))
        if price is None:
            # A price's name begins with what it is the price of.
            subject = request.name.partition("~")[0]
            near = (name for name in messages.prices if name.partition("~")[0] == subject)
            raise NotFoundError("price", request.name, islice(near, MAX_NEAR_NAMES))
        return catalog_service_pb2.GetPriceResponse(price=price)

    def list_prices(self, request: catalog_service_pb2.ListPricesRequest) -> catalog_service_pb2.ListPricesResponse:
        """A page of prices.

        Raises:
            InvalidInputError: the filter, page size or page token.
        """
        page = self._page(self._messages().prices.values(), _PRICE_FIELDS, "prices", request)
        return catalog_service_pb2.ListPricesResponse(prices=page.items, next_page_token=page.next_page_token)

    def _page(
        self, rows: Iterable[_Named], fields: _Fields[_Named], collection: str, request: _PageRequest
    ) -> Page[_Named]:
        return self._paginator.page(
            parse_filter(request.filter, fields).apply(rows),
            key=lambda row: (row.name,),
            collection=collection,
            filter_text=request.filter,
            page_size=request.page_size,
            page_token=request.page_token,
        )


def _require_name(name: str, expected: str) -> None:
    violations = Violations()
    violations.text("name", name, most_characters=MAX_NAME_CHARACTERS, required=expected)
    violations.refuse()


def _require_board(messages: CatalogMessages, board: str) -> None:
    boards = messages.snapshot.mig_boards
    if board not in boards:
        raise NotFoundError("MIG board", mig_board_name(board), (mig_board_name(known) for known in boards))
