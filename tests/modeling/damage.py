"""Ways to damage a config: lose a key, rename it, or give it another value."""

from __future__ import annotations

import copy
from typing import Any

from tests.modeling.published import Config


def paths(config: Config, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of all keys but the model types, however deep."""
    found: list[tuple[str, ...]] = []
    for key, value in config.items():
        found += [(*above, key)] * (key != "model_type")
        found += paths(value, (*above, key)) if isinstance(value, dict) else []
    return found


def changed(
    config: Config, path: tuple[str, ...], *, drop: bool = False, rename: bool = False, value: Any = None
) -> Config:
    """A copy without the key, with it under another name, or with another value."""
    copied = copy.deepcopy(config)
    place = copied
    for key in path[:-1]:
        place = place[key]
    old = place.pop(path[-1])
    if rename:
        place[f"{path[-1]}_x"] = old
    elif not drop:
        place[path[-1]] = value
    return copied
