"""Errors that only a running service has; everything about a request's content is in :mod:`capplan.errors`."""

from __future__ import annotations

from capplan.errors import CapplanError


class UndecodableRequestError(CapplanError):
    """The bytes of a request are no message of the type its method takes."""

    reason = "REQUEST_UNDECODABLE"

    def __init__(self, message_type: str) -> None:
        super().__init__(f"the request does not decode as a {message_type} message")


class OverloadedError(CapplanError):
    """Too many calls of one kind are being worked on or wait; asking again later will do.

    Attributes:
        retry_delay_s: seconds after which to ask again.
    """

    reason = "OVERLOADED"

    def __init__(self, kind: str, limit: int, retry_delay_s: float) -> None:
        self.retry_delay_s = retry_delay_s
        super().__init__(f"{limit} {kind} calls are in progress or waiting already; try again in {retry_delay_s:g} s")


class DeadlineTooNearError(CapplanError):
    """The caller's deadline leaves no time to work out an answer."""

    reason = "DEADLINE_TOO_NEAR"

    def __init__(self, needed_s: float) -> None:
        super().__init__(f"the deadline leaves less than the {needed_s:g} s that an answer may take; allow more time")


class ShuttingDownError(CapplanError):
    """The process is going away; another replica, or the next process, will answer."""

    reason = "SHUTTING_DOWN"

    def __init__(self) -> None:
        super().__init__("this server is shutting down; ask another one")


class AddressInUseError(CapplanError):
    """An address the service is told to listen on cannot be had."""

    reason = "ADDRESS_UNAVAILABLE"

    def __init__(self, purpose: str, address: str) -> None:
        super().__init__(
            f"cannot listen for {purpose} on {address}: the address is taken, not this machine's, or not permitted"
        )
