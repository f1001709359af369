"""How engines lay a request's cache and state out in the KV pool, and what one request then takes of it.

vLLM's V1 engine cuts the pool into blocks of one size. Layers of unlike kinds (full, windowed, recurrent) are put into
groups of equally many layers, a block serves one group, and a request holds blocks of every group (hybrid KV cache
manager: https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager/, ``vllm/v1/core/kv_cache_utils.py``). SGLang
(``mem_cache``, ``model_runner_kv_cache_mixin``) keeps tokens and states in pools of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from capplan.estimation.cache_groups import CacheGroup, CacheLayout
from capplan.estimation.compressed_paging import compressed_layout
from capplan.estimation.engine_records import MemoryRule, StateRule, WindowRule
from capplan.estimation.footprint import CacheTerm, RankFootprint

_PADDED_GROUP_RATIO = 1.25
# Kinds of nearly equal size become groups of the larger one's layers instead of many of the smaller one's.

_STATE_POOL_RATIO = 0.9
_STATE_SLOTS_PER_REQUEST = 3
# SGLang's --mamba-full-memory-ratio (state pool over KV pool), and the slots it holds per running request for its
# prefix cache (MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO).


def cache_layout(footprint: RankFootprint, rule: MemoryRule, max_num_seqs: int) -> CacheLayout:
    """The layout an engine gives a model's cache on one rank.

    Args:
        footprint: what the rank holds of the model.
        rule: the engine's rules.
        max_num_seqs: most sequences of a step; engines that keep states in slots reserve one for each.
    """
    caches = footprint.caches if _keeps_windows(footprint, rule) else _unwindowed(footprint)
    if not rule.caches_latents:
        caches = tuple(replace(c, bytes_per_token=c.expanded_bytes_per_token or c.bytes_per_token) for c in caches)
    if rule.states is StateRule.PAGES:
        return _paged(caches, footprint, rule)
    layout = _summed(caches, rule)
    if not footprint.states:
        return layout
    if rule.states is StateRule.SLOTS:
        return CacheLayout(layout.block_bytes, layout.groups, reserved_bytes=max_num_seqs * footprint.state_bytes)
    share = _STATE_POOL_RATIO / (1 + _STATE_POOL_RATIO) if caches else 1.0
    return CacheLayout(
        layout.block_bytes,
        layout.groups,
        state_pool_bytes=_STATE_SLOTS_PER_REQUEST * footprint.state_bytes / share,
        kv_pool_factor=1 / (1 - share) if caches else 1.0,
    )


def _paged(caches: tuple[CacheTerm, ...], footprint: RankFootprint, rule: MemoryRule) -> CacheLayout:
    if not caches:
        return (
            CacheLayout(footprint.state_bytes, (CacheGroup(1, 0, None),)) if footprint.states else CacheLayout(0.0, ())
        )
    if footprint.compressed_attention and any(cache.window_tokens is None for cache in caches):
        return compressed_layout(caches)
    if footprint.states or len({cache.window_tokens for cache in caches}) > 1:
        return _grouped(caches, footprint, rule)
    return _uniform(caches, rule)


def _keeps_windows(footprint: RankFootprint, rule: MemoryRule) -> bool:
    if footprint.compressed_attention:
        return True  # whoever runs it has a pool for its windows: they are what the history leaves to cache
    if rule.windows is WindowRule.UNIFORM:
        return not footprint.states and len({cache.window_tokens for cache in footprint.caches}) == 1
    return rule.windows is WindowRule.ALL


def _unwindowed(footprint: RankFootprint) -> tuple[CacheTerm, ...]:
    return tuple(replace(cache, window_tokens=None) for cache in footprint.caches)


def _uniform(caches: tuple[CacheTerm, ...], rule: MemoryRule) -> CacheLayout:
    """All layers keep the same tokens: one group, each layer with its own bytes."""
    bytes_per_token = sum(cache.layers * cache.bytes_per_token for cache in caches)
    if not bytes_per_token:
        return CacheLayout(0.0, ())
    group = CacheGroup(1, rule.block_tokens, caches[0].window_tokens)
    return CacheLayout(bytes_per_token * rule.block_tokens, (group,))


def _summed(caches: tuple[CacheTerm, ...], rule: MemoryRule) -> CacheLayout:
    """Unlike layers without groups: the block is the smallest kind's, others count in multiples of it.

    A layer's rate need not divide another's; counts are rounded up, so the sum is never short.
    """
    rates: dict[int | None, float] = {}
    for cache in caches:
        rates[cache.window_tokens] = rates.get(cache.window_tokens, 0.0) + cache.layers * cache.bytes_per_token
    rates = {window: rate for window, rate in rates.items() if rate}
    if len(rates) <= 1:
        return _uniform(caches, rule)
    unit = min(rates.values()) / _SUMMED_RESOLUTION
    return CacheLayout(
        unit * rule.block_tokens,
        tuple(CacheGroup(math.ceil(rate / unit), rule.block_tokens, window) for window, rate in rates.items()),
    )


_SUMMED_RESOLUTION = 1024
"""Parts of the smallest rate that others are counted in."""


def _kinds(caches: tuple[CacheTerm, ...], footprint: RankFootprint) -> Iterator[tuple[int, float, int | None, bool]]:
    """Layers, bytes (per token, or of a state), window, and whether it is a state, for each kind of layer."""
    layers: dict[tuple[float, int | None, bool], int] = {}
    for cache in caches:
        key = (cache.bytes_per_token, cache.window_tokens, False)
        layers[key] = layers.get(key, 0) + cache.layers
    for state in footprint.states:
        layers[state.bytes_per_layer, None, True] = layers.get((state.bytes_per_layer, None, True), 0) + state.layers
    for (bytes_, window, is_state), count in layers.items():
        yield count, bytes_, window, is_state


def _grouped(caches: tuple[CacheTerm, ...], footprint: RankFootprint, rule: MemoryRule) -> CacheLayout:
    """VLLM's groups: pages of one size, groups of equally many layers.

    The page is the largest of all kinds'. A state that is larger than an attention page makes the attention block grow,
    in steps of the kernel's 16 tokens, until its page holds the state.
    """
    kinds = list(_kinds(caches, footprint))
    page = max(bytes_ * rule.block_tokens for _, bytes_, _, is_state in kinds if not is_state)
    largest_state = max((bytes_ for _, bytes_, _, is_state in kinds if is_state), default=0.0)
    rate = max(bytes_ for _, bytes_, _, is_state in kinds if not is_state)
    if largest_state > page:
        page = math.ceil(largest_state / (rate * rule.block_tokens)) * rule.block_tokens * rate
    counts = [layers for layers, *_ in kinds]
    size = max(counts) if max(counts) < _PADDED_GROUP_RATIO * min(counts) else min(counts)
    groups = []
    for layers, bytes_, window, is_state in kinds:
        block = 0 if is_state else int(page / bytes_) // rule.block_tokens * rule.block_tokens
        groups.append(CacheGroup(math.ceil(layers / size), block, window, rule.state_blocks))
    return CacheLayout(page * size, tuple(groups))
