"""Finds the MIG profile a caller means by a name or by ``id:N``."""

from __future__ import annotations

from typing import Final

from capplan.errors import InvalidInputError, NotFoundError
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.mig import MigBoard, MigProfile

ID_PREFIX: Final = "id:"
_MAX_ID_DIGITS: Final = 9


def find_mig_profile(text: str, accelerator: Accelerator, board: MigBoard | None, field: str) -> MigProfile:
    """The profile of a device's board.

    Args:
        text: a profile name such as ``1g.10gb``, or ``id:19``.
        accelerator: the device, for the error.
        board: its MIG tables.
        field: path of the text in the request.

    Raises:
        InvalidInputError: the device has no MIG tables, or the id is no number.
        NotFoundError: the board has no such profile; those it has are named.
    """
    if board is None:
        raise InvalidInputError.single(
            field,
            f"{accelerator.product_name} has no Multi-Instance GPU tables; accepted: nothing, for the whole device",
        )
    if text.startswith(ID_PREFIX):
        digits = text.removeprefix(ID_PREFIX)
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_ID_DIGITS):
            raise InvalidInputError.single(field, "is no profile id; expected id:N with the driver's profile id")
        return board.profile(int(digits))
    for profile in board.profiles:
        if profile.name == text:
            return profile
    raise NotFoundError(f"MIG profile of {board.board}", text, (profile.name for profile in board.profiles))
