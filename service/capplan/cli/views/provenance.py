"""Where estimates come from and how sure they are, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Console

from capplan.cli.output import print_bullets
from capplan.cli.views.figures import sentence
from capplan.v1 import placement_pb2

ESTIMATES: Final = ("output_tokens_per_s", "requests_per_s", "itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms")
"""Fields of a performance that are estimates, and may have an interval."""

_FARTHEST_SHOWN: Final = 99.0
# What the levels that rest on the fit alone mean, where no measurement of the configuration is known.
_MEANINGS: Final[Mapping[placement_pb2.Provenance.ValueType, str]] = {
    placement_pb2.PROVENANCE_CALIBRATED: " to this GPU generation and engine; no measurement of this configuration is "
    "known",
    placement_pb2.PROVENANCE_ANALYTIC: ": not calibrated to this GPU generation and engine",
}


def has_interval(estimate: placement_pb2.Estimate) -> bool:
    """Whether both ends of its interval are known."""
    return estimate.HasField("lower") and estimate.HasField("upper")


def provenance_word(provenance: placement_pb2.Provenance.ValueType) -> str:
    """Where an estimate comes from, in a word; a number that a newer server sends is told as it is."""
    try:
        return sentence(placement_pb2.Provenance.Name(provenance).removeprefix("PROVENANCE_"))
    except ValueError:
        return f"number {provenance}"


def provenance_sentence(performance: placement_pb2.ReplicaPerformance) -> str:
    """The same in full: ``interpolated, 0.4 from a measurement (vllm 0.8.5 to 0.11.0)``."""
    text = provenance_word(performance.provenance)
    if performance.HasField("distance"):
        text += f", {_distance(performance.distance)} from a measurement"
    else:
        text += _MEANINGS.get(performance.provenance, "")
    return f"{text} ({performance.engine_versions})" if performance.engine_versions else text


def _distance(distance: float) -> str:
    """Two decimals, without zeros at their end: ``0``, ``0.4``, ``2.25``."""
    if distance > _FARTHEST_SHOWN:
        return f"over {_FARTHEST_SHOWN:.0f}"
    return f"{distance:.2f}".rstrip("0").rstrip(".")


def print_provenance(console: Console, columns: Mapping[str, placement_pb2.ReplicaPerformance]) -> None:
    """One line for the columns of a table that come from the same, then what distances and brackets mean, if any.

    Args:
        console: where to print.
        columns: what each column is, to its figures.
    """
    names: dict[str, list[str]] = {}
    for name, performance in columns.items():
        names.setdefault(provenance_sentence(performance), []).append(name)
    print_bullets(console, [f"{', '.join(alike)}: {text}" for text, alike in names.items()])
    loads = list(columns.values())
    if any(load.HasField("distance") for load in loads):
        console.print(
            "distance from a measurement of the same configuration: 0 at it; at 1, 61 % of what it showed beyond the "
            "fit still counts"
        )
    if any(has_interval(getattr(load, name)) for load in loads for name in ESTIMATES):
        console.print("in brackets: 90 % intervals")


def weakest(*performances: placement_pb2.ReplicaPerformance) -> placement_pb2.Provenance.ValueType:
    """The provenance that says least; the contract numbers them from the weakest on."""
    return min(performance.provenance for performance in performances)


def widest_side(estimate: placement_pb2.Estimate) -> str:
    """How far the interval reaches to its wider side, in percent: ``+-11``; empty without one."""
    if not has_interval(estimate) or estimate.value <= 0:
        return ""
    reach = max(estimate.value - estimate.lower, estimate.upper - estimate.value) / estimate.value
    return f"+-{reach * 100:,.0f}"
