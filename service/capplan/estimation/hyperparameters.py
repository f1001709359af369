"""How much the parts of a log residual vary, and over which distances they persist: what kriging rests on."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from capplan.estimation.sites import Figures


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Standard deviations of the parts of a log residual, and the distances over which they persist.

    Attributes:
        base: what all configurations have in common.
        model: the same model.
        shape: models of like widths.
        engine: the same engine on the same generation.
        weights: the same format on the same generation.
        sku: the same device.
        generation: the same generation.
        spread: the same things dealt out over ranks.
        kind: measured in the same way.
        configuration: the same model, device, engine, format and spread.
        source: measured by the same people; it explains residuals and corrects nothing.
        noise: repeating a measurement.
        octaves: of sequences, prompt, answer and devices at which the correlation has fallen to exp(-1/2).
        shape_octaves: the same for the three numbers of a model's shape.
    """

    base: float
    model: float
    shape: float
    engine: float
    weights: float
    sku: float
    generation: float
    spread: float
    kind: float
    configuration: float
    source: float
    noise: float
    octaves: tuple[float, float, float, float]
    shape_octaves: tuple[float, float, float]


HYPERPARAMETERS: Final = MappingProxyType(
    {
        Figures.PER_TOKEN: Hyperparameters(
            base=0.02,
            model=0.066,
            shape=0.068,
            engine=0.041,
            weights=0.106,
            sku=0.043,
            generation=0.043,
            spread=0.067,
            kind=0.152,
            configuration=0.097,
            source=0.073,
            noise=0.059,
            octaves=(4.8, 10.5, 6.6, 2.4),
            shape_octaves=(1.2, 1.5, 1.6),
        ),
        Figures.FIRST_TOKEN: Hyperparameters(
            base=0.11,
            model=0.165,
            shape=0.17,
            engine=0.21,
            weights=0.15,
            sku=0.15,
            generation=0.21,
            spread=0.19,
            kind=0.22,
            configuration=0.16,
            source=0.21,
            noise=0.23,
            octaves=(4.0, 7.1, 8.5, 3.3),
            shape_octaves=(1.15, 1.5, 1.45),
        ),
    }
)
"""Largest marginal likelihood (with priors of 0.4 to 0.5 on their logs) of the step model's residuals on 700 shipped
measurements of the first kind and 600 of the second."""
