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
            base=0.002,
            model=0.009,
            shape=0.007,
            engine=0.037,
            weights=0.006,
            sku=0.004,
            generation=0.004,
            spread=0.006,
            kind=0.071,
            configuration=0.15,
            source=0.077,
            noise=0.068,
            octaves=(4.95, 8.46, 5.57, 2.19),
            shape_octaves=(1.09, 1.52, 1.56),
        ),
        Figures.FIRST_TOKEN: Hyperparameters(
            base=0.012,
            model=0.029,
            shape=0.05,
            engine=0.05,
            weights=0.037,
            sku=0.03,
            generation=0.028,
            spread=0.047,
            kind=0.05,
            configuration=0.315,
            source=0.169,
            noise=0.248,
            octaves=(6.3, 7.31, 7.09, 3.19),
            shape_octaves=(0.9, 1.47, 1.52),
        ),
    }
)
"""Lengths, sources and noise of the largest marginal likelihood (with priors of 0.4 to 0.5 on their logs) of the step
model's residuals on 700 shipped measurements of the first kind and 600 of the second. The same likelihood would let
residuals carry over from one model, device and format to others more than they do when groups are left out, so those
parts are scaled down, and that of the same configuration up, to what leaves the least error on groups left out."""
