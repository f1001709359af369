"""How sure estimates are and what they rest on: the measured corrections asked about replicas at a load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.corrections import Judgement, Nearness, points_at
from capplan.estimation.replica import Replica
from capplan.estimation.sites import Figures, Kind
from capplan.estimation.situation import situation_of
from capplan.estimation.steady_state import Request
from capplan.modeling.costs import ModelCosts


@dataclass(frozen=True, slots=True)
class Confidence:
    """What is known beside the figures of one replica at one load.

    Attributes:
        token_log_reach: half width of the 90 % interval of the log of times per token, and of rates; ``None`` where
            none is known.
        first_token_log_reach: the same of times to first token.
        nearness: how near the nearest measurement of the configuration is.
        distance: how far it is, in the lengths over which residuals persist; ``None`` without any.
        engine_versions: oldest and newest version that the figures rest on measurements of, in words; empty when none
            is known.
    """

    token_log_reach: float | None
    first_token_log_reach: float | None
    nearness: Nearness
    distance: float | None
    engine_versions: str


_UNKNOWN = Confidence(None, None, Nearness.FAR, None, "")


def confidences(
    model: ModelCosts,
    replicas: Sequence[Replica],
    request: Request,
    batch: NDArray[np.float64],
    fitted: Coefficients,
) -> list[list[Confidence]]:
    """How sure the estimates of replicas are, by replica and load.

    Args:
        model: the model in its formats.
        replicas: C ways to run it.
        request: mean lengths.
        batch: (C, B) decoding sequences, positive.
        fitted: coefficients of the step model with the measured corrections.
    """
    loads = batch.shape[1]
    if not fitted.corrections.sites:
        return [[_UNKNOWN] * loads for _ in replicas]
    situations = [situation_of(model, replica) for replica in replicas for _ in range(loads)]
    at = points_at(situations, Kind.LATENCY, batch.ravel(), request.input_tokens, request.output_tokens)
    tokens, firsts = (fitted.corrections.judge(figures, at) for figures in (Figures.PER_TOKEN, Figures.FIRST_TOKEN))
    found = [
        _confidence(replicas[index // loads], situations[index].engine, token, first, fitted)
        for index, (token, first) in enumerate(zip(tokens, firsts, strict=True))
    ]
    return [found[start : start + loads] for start in range(0, len(found), loads)]


def _confidence(replica: Replica, core: str, token: Judgement, first: Judgement, fitted: Coefficients) -> Confidence:
    # far from all measurements of the configuration it is those of the engine that the coefficients were fitted to
    versions = token.engine_versions or fitted.corrections.engine_versions(core)
    return Confidence(
        token.log_reach,
        first.log_reach,
        token.nearness,
        token.distance if math.isfinite(token.distance) else None,
        versions_in_words(replica.settings.name, versions),
    )


def versions_in_words(engine: str, versions: Sequence[str]) -> str:
    """``vllm 0.8.5 to 0.11.0`` from versions, oldest first; empty without any.

    Versions that are no numbers, such as builds of a night, do not count.
    """
    numbered = [version for version in versions if version.removeprefix("v")[:1].isdecimal()]
    if not numbered:
        return ""
    return f"{engine} {numbered[0]}" if len(numbered) == 1 else f"{engine} {numbered[0]} to {numbered[-1]}"
