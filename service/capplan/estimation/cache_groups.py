"""A request's share of a KV pool: blocks of one size, in groups of layers alike."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Groups of layers alike, of which a request holds blocks.

    Attributes:
        count: groups of this kind.
        block_tokens: tokens of one block; 0 for a group of recurrent layers, which holds states.
        window_tokens: tokens kept, ``None`` for all.
        state_blocks: blocks of state one request holds in each group.
    """

    count: int
    block_tokens: int
    window_tokens: int | None
    state_blocks: int = 1

    def blocks(self, tokens: float, chunk_tokens: int) -> int:
        """Blocks of one request of so many tokens, ``chunk_tokens`` of which arrive at once."""
        if not self.block_tokens:
            return self.count * self.state_blocks
        if self.window_tokens is None:
            return self.count * math.ceil(tokens / self.block_tokens)
        # the window may start inside a block, so it touches one block more
        kept = min(self.window_tokens - 1 + chunk_tokens, tokens)
        return self.count * (math.ceil(kept / self.block_tokens) + 1)


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """How requests take up the pool of one rank.

    A request takes ``block_bytes`` for each block of its groups, or, where states have a pool of their own, whichever
    of the two pools it fills more of.

    Attributes:
        block_bytes: bytes of one block over the layers it serves.
        groups: groups by kind.
        state_pool_bytes: bytes of a request's state as its share of the whole pool; 0 without a pool of its own.
        kv_pool_factor: the whole pool over the part that caches tokens.
        reserved_bytes: what is taken from the pool at start, whatever runs.
    """

    block_bytes: float
    groups: tuple[CacheGroup, ...]
    state_pool_bytes: float = 0.0
    kv_pool_factor: float = 1.0
    reserved_bytes: float = 0.0

    def request_bytes(self, tokens: float, chunk_tokens: int = 0) -> float:
        """Pool bytes of one request.

        Args:
            tokens: its context.
            chunk_tokens: prompt tokens that arrive in one step: windowed layers hold them beside the window.
        """
        blocks = sum(group.blocks(tokens, chunk_tokens) for group in self.groups)
        return max(self.block_bytes * blocks * self.kv_pool_factor, self.state_pool_bytes)

    def longest_unwindowed_context(self, pool_bytes: float, chunk_tokens: int) -> int:
        """Longest context of which one request fits, if every window is full by then; else too long a context.

        Arithmetic instead of a search, for layouts with one group that keeps all tokens; 0 for others.
        """
        growing = [group for group in self.groups if group.block_tokens and group.window_tokens is None]
        if len(growing) != 1 or self.state_pool_bytes > pool_bytes:
            return 0
        endless = math.inf
        fixed = sum(group.blocks(endless, chunk_tokens) for group in self.groups if group is not growing[0])
        left = int(pool_bytes / self.kv_pool_factor / self.block_bytes) - fixed
        return max(0, left // growing[0].count * growing[0].block_tokens)

    @property
    def holds_state_in_blocks(self) -> bool:
        """Whether recurrent state takes blocks of the pool."""
        return any(not group.block_tokens for group in self.groups)

    @property
    def group_count(self) -> int:
        """Groups in all."""
        return sum(group.count for group in self.groups)

    @property
    def least_block_tokens(self) -> int:
        """Tokens of the smallest block; 0 when no layer caches tokens."""
        return min((group.block_tokens for group in self.groups if group.block_tokens), default=0)
