"""The table of shipped models: what each computes to, against the figure its source publishes.

Run with ``python -m tests.modeling.report_counts``. A row is *exact* when the computed total is the source's own,
*explained* when the source counts something that is no parameter of the model and says how much (buffers stored as
tensors, a drafting layer), and *wrong* otherwise, or when cache or state differ.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from capplan.modeling.architecture import AttentionMixer, ModelArchitecture, RecurrentMixer
from capplan.modeling.facts import architecture_from_facts
from capplan.modeling.parameters import total_parameters

_COUNTED_BESIDE = re.compile(r"safetensors index less (?P<before>\d+)?.*?(?:\((?P<after>\d+)\))?$")


@dataclass(frozen=True, slots=True)
class Row:
    """One shipped model: computed figures, the source's total, and how the two stand to each other."""

    name: str
    parameters: int
    cache_bytes_per_token: float
    state_bytes: int
    published_parameters: int
    verdict: str
    source: str


def shipped_profiles() -> list[dict[str, Any]]:
    """All shipped profiles, as stored."""
    lines = (files("capplan.catalog") / "data" / "model_profiles.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def cache_bytes_per_token(architecture: ModelArchitecture) -> float:
    """KV bytes of one token in 16 bit, windows open."""
    return 2 * sum(
        mixer.cache_elements_per_token * run.count
        for run in architecture.layers
        for mixer in run.block.mixers
        if isinstance(mixer, AttentionMixer)
    )


def state_bytes_per_sequence(architecture: ModelArchitecture) -> int:
    """Recurrent state of one sequence: convolutions in 16 bit, recurrences in 32."""
    return sum(
        (2 * mixer.convolution_state_elements + 4 * mixer.recurrent_state_elements) * run.count
        for run in architecture.layers
        for mixer in run.block.mixers
        if isinstance(mixer, RecurrentMixer)
    )


def counted_beside(source: str) -> int:
    """How much of its total a source says is no parameter of the model; 0 when it counts parameters only."""
    found = _COUNTED_BESIDE.match(source)
    return int(found["before"] or found["after"]) if found else 0


def count(profiles: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """A row for each profile."""
    for profile in profiles:
        architecture = architecture_from_facts(profile["facts"])
        beside = counted_beside(profile["parameters_source"])
        found = (
            total_parameters(architecture),
            cache_bytes_per_token(architecture),
            state_bytes_per_sequence(architecture),
        )
        published = (
            profile["total_parameters"],
            profile["cache_bytes_per_token_16bit"],
            profile["state_bytes_per_sequence"],
        )
        verdict = "wrong" if found != published else "explained" if beside else "exact"
        source = profile["parameters_source"]
        yield Row(profile["name"], *found, profile["total_parameters"] + beside, verdict, source)


def summary(rows: Iterable[Row]) -> str:
    """The last line of the table."""
    verdicts = Counter(row.verdict for row in rows)
    return f"{verdicts['exact']} exact, {verdicts['explained']} explained, {verdicts['wrong']} wrong"


def main() -> None:
    """Print the table."""
    rows = list(count(shipped_profiles()))
    width = max(len(row.name) for row in rows)
    titles = ("parameters", "published", "KV B/token", "state B/seq")
    print(f"{'model':{width}}", *(f"{title:>17}" for title in titles), "verdict   source")
    for row in rows:
        figures = (row.parameters, row.published_parameters, round(row.cache_bytes_per_token), row.state_bytes)
        print(f"{row.name:{width}}", *(f"{figure:>17,}" for figure in figures), f"{row.verdict:9} {row.source}")
    print(summary(rows))


if __name__ == "__main__":
    main()
