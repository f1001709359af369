"""Rewrites of an engine's core, which change its overheads more than any release between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

_VERSION: Final = re.compile(r"v?(\d{1,5})\.(\d{1,5})")
_MONTH: Final = re.compile(r"(20\d\d)-(\d\d)")


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One change of core.

    Attributes:
        before: name of the core before.
        since: name of the core from then on.
        release: ``(major, minor)`` of the first release that runs it by default.
        month: year and month in which deployments of unstated version are taken to have it.
    """

    before: str
    since: str
    release: tuple[int, int]
    month: tuple[int, int]


_REWRITES: Final[Mapping[str, _Rewrite]] = MappingProxyType(
    {
        # vLLM release notes: V1 is the default from 0.8.0, March 2025.
        "vllm": _Rewrite("v0", "v1", (0, 8), (2025, 4)),
        # TensorRT-LLM release notes: the PyTorch backend is the default from 1.0, September 2025.
        "tensorrt-llm": _Rewrite("tensorrt", "pytorch", (1, 0), (2025, 9)),
    }
)


@lru_cache(maxsize=4096)
def runtime_of(engine: str, version: str) -> str:
    """The core that a version of an engine runs, e.g. ``vllm-v1``.

    Empty for an engine without a rewrite, and for a version that is no number.
    """
    rewrite, found = _REWRITES.get(engine), _VERSION.match(version)
    if rewrite is None or found is None:
        return ""
    new = (int(found[1]), int(found[2])) >= rewrite.release
    return f"{engine}-{rewrite.since if new else rewrite.before}"


def dated_version(engine: str, version: str, as_of: str) -> str:
    """The version as stated or, where it is not a number, one that tells the core of that time.

    Args:
        engine: canonical engine name.
        version: as published, ``0.8.5.post1``, ``nightly`` or empty.
        as_of: date of the source; it counts when it begins with year and month.
    """
    rewrite, month = _REWRITES.get(engine), _MONTH.match(as_of)
    if _VERSION.match(version) or rewrite is None or month is None:
        return version
    major, minor = rewrite.release
    if (int(month[1]), int(month[2])) >= rewrite.month:
        return f"{major}.{minor}"
    return f"{major}.{minor - 1}" if minor else f"{major - 1}.99"
