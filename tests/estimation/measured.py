"""Made-up measured sites with usual values for what a test does not care about."""

from __future__ import annotations

from typing import Any

from capplan.estimation.sites import Figures, Kind, Site
from capplan.estimation.situation import Situation

LLAMA = Situation(
    model="4096x128256:dense",
    shape=(12.0, 0.0, 0.0),
    weights="bf16",
    sku="h100-sxm-80gb",
    generation="hopper",
    engine="vllm",
    spread="plain",
    devices=1,
)
UNLIKE = Situation(
    model="7168x129280:256x8x3755",
    shape=(12.8074, 5.0, 8.0),
    weights="fp4",
    sku="mi355x-288gb",
    generation="cdna4",
    engine="sglang",
    spread="experts+attention",
    devices=8,
)
"""Has nothing in common with :data:`LLAMA`."""


def site(situation: Situation = LLAMA, log_time: float = 0.1, **change: Any) -> Site:
    """One site."""
    usual: dict[str, Any] = {
        "figures": Figures.PER_TOKEN,
        "kind": Kind.LATENCY,
        "running": 16.0,
        "input_tokens": 1024.0,
        "output_tokens": 128.0,
        "noise": 1.0,
        "source": "a report",
        "engine_version": "0.10.0",
    }
    return Site(situation=situation, log_time=log_time, **(usual | change))
