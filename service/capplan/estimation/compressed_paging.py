"""VLLM's blocks for compressed attention (DeepSeek V4): windows, histories, and what is not compressed yet.

A layer caches the last tokens as they are (the window) and every ``ratio`` tokens as one entry (the history), with an
indexer's key beside it where the layer picks its entries. Until tokens are compressed, their keys, values and scores
are held in fp32: state of a window of ``ratio`` tokens, twice as many where neighbouring entries overlap. vLLM cuts all
of it into blocks of one size, although the blocks of the state hold 4 or 8 tokens where those of the history hold 256:
a prompt that arrives in chunks takes a block for every 4 tokens of a chunk, so that short requests take gigabytes.

Sources: groups, page sizes and block sizes that vLLM makes of DeepSeek-V4-Flash (vLLM issue 54703); what they come to
is 6.66 GiB for 30,000 tokens in chunks of 16,384 (issue 44376), 6.32 GiB for 912,128 in chunks of 8,192 (issue 51041).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from capplan.estimation.cache_groups import CacheGroup, CacheLayout
from capplan.estimation.footprint import CacheTerm

_PAGE_MULTIPLE_BYTES = 576
_HISTORY_BLOCK_TOKENS, _WINDOW_BLOCK_TOKENS = 256, 64
_OVERLAPPING_RATIO = 4
_STATE_BLOCK_TOKENS = {True: 4, False: 8}
"""By whether entries overlap."""

# The kernels are written for one geometry, whatever KV-cache format is asked for: entries of 448 fp8 elements, 64 of
# 16 bit and 8 bytes of scales, and an indexer's keys of 128 with a scale.
_HEAD_DIM, _INDEX_HEAD_DIM = 512, 128
_ENTRY_BYTES = 448 + 2 * 64 + 8
_INDEX_KEY_BYTES = _INDEX_HEAD_DIM + 4
_STATE_ELEMENT_BYTES = 4
_STATE_PARTS = 2
"""Keys with values, and scores."""


def compressed_layout(caches: Sequence[CacheTerm]) -> CacheLayout:
    """The layout of a model whose layers have a window each, and all or most of them a history.

    Args:
        caches: windows and histories, as two terms for layers alike.
    """
    windows = [cache for cache in caches if cache.window_tokens is not None]
    histories = [cache for cache in caches if cache.window_tokens is None]
    entry = max(cache.bytes_per_token for cache in windows)
    ratios = {cache: _ratio(cache, entry) for cache in histories}
    block = sum(cache.layers * _history_page(cache, ratio) for cache, ratio in ratios.items())
    page = _aligned(_WINDOW_BLOCK_TOKENS * _ENTRY_BYTES)
    groups = [CacheGroup(1, _HISTORY_BLOCK_TOKENS, None)]
    groups += [
        CacheGroup(_groups(cache.layers, page, block), _WINDOW_BLOCK_TOKENS, cache.window_tokens) for cache in windows
    ]
    for cache, ratio in ratios.items():
        overlaps = ratio == _OVERLAPPING_RATIO
        held = 2 * ratio if overlaps else ratio
        count = _groups(cache.layers, _state_page(cache, overlaps=overlaps), block)
        groups.append(CacheGroup(count, _STATE_BLOCK_TOKENS[overlaps], held))
    return CacheLayout(block, tuple(groups))


def _aligned(page_bytes: float) -> int:
    return math.ceil(page_bytes / _PAGE_MULTIPLE_BYTES) * _PAGE_MULTIPLE_BYTES


def _groups(layers: int, page: int, block: int) -> int:
    """Over how many groups layers are spread so that the pages of one stay within a block."""
    return math.ceil(layers / max(1, block // page))


def _ratio(history: CacheTerm, entry_bytes: float) -> int:
    """Tokens that become one entry, of which ``entry_bytes`` is the size in the model's own KV-cache format."""
    return max(1, round((entry_bytes + (_INDEX_KEY_BYTES if history.indexed else 0)) / history.bytes_per_token))


def _history_page(history: CacheTerm, ratio: int) -> int:
    entries = _HISTORY_BLOCK_TOKENS / ratio
    keys = _aligned(entries * _INDEX_KEY_BYTES) if history.indexed else 0
    return _aligned(entries * _ENTRY_BYTES) + keys


def _state_page(history: CacheTerm, *, overlaps: bool) -> int:
    tokens = _STATE_BLOCK_TOKENS[overlaps]
    element_bytes = tokens * _STATE_PARTS * (2 if overlaps else 1) * _STATE_ELEMENT_BYTES
    return _aligned(element_bytes * _HEAD_DIM) + (_aligned(element_bytes * _INDEX_HEAD_DIM) if history.indexed else 0)
