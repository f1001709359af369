"""Compressed attention (DeepSeek V4): one shared key-value vector an entry, in a window and over compressed history.

Every layer attends to the last ``window_tokens`` tokens as they are. Layers with a compression ratio also keep one
entry for every ``ratio`` tokens of the whole context; at the smaller ratio an indexer picks the entries to attend to.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.linear import Component, LinearMap, Shard, Vectors


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """One layer of compressed attention.

    Attributes:
        hidden_size: width of the residual stream.
        query_heads: query heads.
        head_dim: width of a query head and of the shared key-value vector.
        rope_head_dim: part of it with rotary embedding, kept in 16 bit by fp8 caches.
        q_lora_rank: width of the query latent.
        output_groups: groups of heads in the output projection.
        output_rank: width of the output latent of one group.
        window_tokens: recent tokens every layer attends to.
        ratio: tokens folded into one compressed entry; 0 for layers without.
        index_heads: heads of the indexer; 0 for layers without.
        index_head_dim: width of an indexer head and of its one cached key.
        index_topk: compressed entries an indexed layer attends to.
    """

    hidden_size: int
    query_heads: int
    head_dim: int
    rope_head_dim: int
    q_lora_rank: int
    output_groups: int
    output_rank: int
    window_tokens: int
    ratio: int = 0
    index_heads: int = 0
    index_head_dim: int = 0
    index_topk: int = 0

    @property
    def _fold(self) -> int:
        """Entries are made from overlapping pairs where an indexer follows."""
        return 2 if self.index_heads else 1

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer, compressor and indexer included."""
        hidden, heads = self.hidden_size, self.query_heads * self.head_dim
        latent = self.output_groups * self.output_rank
        found = [
            self._replicated("q_a_proj", hidden, self.q_lora_rank),
            self._divided("q_b_proj", self.q_lora_rank, heads),
            self._replicated("kv_proj", hidden, self.head_dim),
            self._divided("o_a_proj", heads // self.output_groups, latent),
            self._divided("o_b_proj", latent, hidden, split_inputs=True),
        ]
        if self.ratio:
            width = self._fold * self.head_dim
            found += [self._replicated(f"compressor.{name}", hidden, width) for name in ("kv_proj", "gate_proj")]
        if self.index_heads:
            width = self._fold * self.index_head_dim
            found += [self._replicated(f"indexer.{name}", hidden, width) for name in ("kv_proj", "gate_proj")]
            found.append(self._replicated("indexer.q_b_proj", self.q_lora_rank, self.index_heads * self.index_head_dim))
            found.append(self._replicated("indexer.weights_proj", hidden, self.index_heads))
        return tuple(found)

    def _replicated(self, name: str, inputs: int, outputs: int) -> LinearMap:
        kept = name.startswith(("compressor.", "indexer.weights"))
        return LinearMap(
            f"self_attn.{name}",
            Component.ATTENTION,
            inputs,
            outputs,
            shard=Shard.REPLICATED,
            quantizable=not kept,
        )

    def _divided(self, name: str, inputs: int, outputs: int, *, split_inputs: bool = False) -> LinearMap:
        return LinearMap(f"self_attn.{name}", Component.ATTENTION, inputs, outputs, split_inputs=split_inputs)

    def vectors(self) -> tuple[Vectors, ...]:
        """Norms, sinks and position biases."""
        norms = self.q_lora_rank + self.head_dim
        biases = self.query_heads
        if self.ratio:
            norms += self.head_dim
            biases += self.ratio * self._fold * self.head_dim
        if self.index_heads:
            norms += self.index_head_dim
            biases += self.ratio * self._fold * self.index_head_dim
        return Vectors(Component.NORM, norms), Vectors(Component.ATTENTION, biases)

    @property
    def cache_elements_per_token(self) -> float:
        """Compressed entries and indexer keys one layer keeps, per token of context; the window is not in it."""
        return (self.head_dim + self.index_head_dim) / self.ratio if self.ratio else 0.0

    @property
    def flop_per_entry(self) -> float:
        """FLOP one query token spends per entry it attends to, all heads."""
        return 4.0 * self.query_heads * self.head_dim
