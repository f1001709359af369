"""How the demonstration fails."""

from __future__ import annotations

from capplan.errors import CapplanError


class DemoError(CapplanError):
    """A step did not do what it is there to show."""

    reason = "DEMO_FAILED"


def check(holds: bool, claim: str) -> None:
    """Ends the demonstration unless a claim holds.

    Args:
        holds: whether it does.
        claim: what should be so.

    Raises:
        DemoError: it does not hold.
    """
    if not holds:
        raise DemoError(f"the demonstration expected that {claim}")
