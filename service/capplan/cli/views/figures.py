"""Figures as text. Absent ones are a dash, never a zero."""

from __future__ import annotations

from typing import Final

from capplan.units import GIB
from capplan.v1 import placement_pb2

ABSENT: Final = "-"


def count(value: float) -> str:
    """A whole number with thousands separated: ``12,345``."""
    return f"{value:,.0f}"


def figure(value: float) -> str:
    """Three significant digits below 100, whole numbers from there on: ``0.123``, ``12.3``, ``12,345``."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"


def gib(size_bytes: float) -> str:
    """Bytes in GiB with two decimals: ``79.65``."""
    return f"{size_bytes / GIB:,.2f}"


def usd(value: float) -> str:
    """Dollars: two decimals, more below ten cents."""
    return f"{value:,.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share as whole percent: ``87 %``."""
    return f"{share * 100:.0f} %"


def interval(estimate: placement_pb2.Estimate) -> str:
    """An estimate, with its 90 % interval when it has one: ``12.3 (11.0 to 13.9)``."""
    text = figure(estimate.value)
    if estimate.HasField("lower") and estimate.HasField("upper"):
        text += f" ({figure(estimate.lower)} to {figure(estimate.upper)})"
    return text


def parameters(value: float) -> str:
    """A parameter count in the unit people say it in: ``70.6 billion``."""
    if value >= 1e9:
        return f"{value / 1e9:,.2f} billion"
    if value >= 1e6:
        return f"{value / 1e6:,.2f} million"
    return count(value)


def amount(value: float, unit: str) -> str:
    """A shortfall in words: bytes as GiB, other units as they are.

    Args:
        value: the amount, negative for what is missing; shown without its sign.
        unit: unit of the contract, e.g. ``bytes_per_device``.
    """
    if unit.startswith("bytes"):
        suffix = unit.removeprefix("bytes").replace("_", " ")
        return f"{gib(abs(value))} GiB{suffix}"
    return f"{figure(abs(value))} {unit.replace('_', ' ')}".rstrip()


def short_name(resource_name: str) -> str:
    """The last part of a resource name: ``h100-sxm-80gb`` of ``accelerators/h100-sxm-80gb``."""
    return resource_name.rpartition("/")[2]


def sentence(code: str) -> str:
    """A code as words: ``weights do not fit`` of ``WEIGHTS_DO_NOT_FIT``."""
    return code.replace("_", " ").lower()
