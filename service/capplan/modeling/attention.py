"""Attention mixers: softmax attention in all its head layouts, and multi-head latent attention (MLA).

Formulas for cache sizes and FLOP: one query head spends ``2 * (key_dim + value_dim)`` FLOP per attended token.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.linear import Component, LinearMap, Shard, Vectors


@dataclass(frozen=True, slots=True)
class SoftmaxAttention:
    """Multi-head, grouped-query or multi-query attention.

    Attributes:
        hidden_size: width of the residual stream.
        query_heads: query heads.
        kv_heads: cached key/value heads.
        head_dim: width of one query and key head.
        value_head_dim: width of one value head.
        input_size: width the keys and values are made from; differs from ``hidden_size`` in cross-attention.
        qkv_bias: biases on the query, key and value projections.
        key_bias: false where a family leaves out the key bias alone (Whisper).
        output_bias: bias on the output projection.
        shared_key_value: true when one projection makes both (the cache still holds both).
        norm_parameters: parameters of query, key (and value) norms.
        sinks: one learned sink logit per query head.
        output_gate: true when the query projection also makes an elementwise output gate of the same width.
        window_tokens: tokens a query sees at most (sliding or chunked); ``None`` for all.
        owns_cache: false for layers that reuse another layer's cache, or cache nothing (encoders, cross-attention).
        projects_key_value: false for layers that reuse another layer's keys and values and have no projection for them.
        causal: false in encoders.
        cross_tokens: for cross-attention, encoder positions whose keys and values are kept per request; else 0.
        module: name of the attention module in checkpoints.
    """

    hidden_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    input_size: int
    qkv_bias: bool = False
    key_bias: bool = True
    output_bias: bool = False
    shared_key_value: bool = False
    norm_parameters: int = 0
    sinks: bool = False
    output_gate: bool = False
    window_tokens: int | None = None
    owns_cache: bool = True
    projects_key_value: bool = True
    causal: bool = True
    cross_tokens: int = 0
    module: str = "self_attn"

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer."""
        gate = 2 if self.output_gate else 1
        query = self.query_heads * self.head_dim * gate
        key = self.kv_heads * self.head_dim
        value = self.kv_heads * self.value_head_dim
        output = LinearMap(
            f"{self.module}.o_proj",
            Component.ATTENTION,
            self.query_heads * self.value_head_dim,
            self.hidden_size,
            bias=self.output_bias,
            split_inputs=True,
            units=self.query_heads,
        )
        q_proj = LinearMap(
            f"{self.module}.q_proj",
            Component.ATTENTION,
            self.hidden_size,
            query,
            bias=self.qkv_bias,
            units=self.query_heads,
        )
        if not self.projects_key_value:
            return q_proj, output
        k_proj = self._key_value_map("k_proj", key, self.qkv_bias and self.key_bias)
        if self.shared_key_value:
            return q_proj, k_proj, output
        return q_proj, k_proj, self._key_value_map("v_proj", value, self.qkv_bias), output

    def _key_value_map(self, name: str, width: int, bias: bool) -> LinearMap:
        return LinearMap(
            f"{self.module}.{name}",
            Component.ATTENTION,
            self.input_size,
            width,
            bias=bias,
            shard=Shard.HEADS,
            units=self.kv_heads,
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """Query/key norms and sinks of one layer."""
        found = []
        if self.norm_parameters:
            found.append(Vectors(Component.NORM, self.norm_parameters))
        if self.sinks:
            found.append(Vectors(Component.ATTENTION, self.query_heads))
        return tuple(found)

    @property
    def cache_elements_per_token(self) -> int:
        """Key and value elements one layer keeps for one token."""
        return self.kv_heads * (self.head_dim + self.value_head_dim) if self.owns_cache else 0

    @property
    def flop_per_context_token(self) -> float:
        """FLOP one query token spends per attended token, all heads."""
        return 2.0 * self.query_heads * (self.head_dim + self.value_head_dim)


@dataclass(frozen=True, slots=True)
class SparseIndexer:
    """The scorer of DeepSeek sparse attention: picks the ``topk`` cached tokens a query attends to.

    Attributes:
        heads: scoring heads.
        head_dim: width of a scoring head and of the one cached key.
        topk: tokens kept.
        input_size: width its query projection reads (the query latent).
        owns_weights: false for layers that reuse the choice of an earlier layer (they cache and hold nothing).
    """

    heads: int
    head_dim: int
    topk: int
    input_size: int
    owns_weights: bool = True

    def maps(self, hidden_size: int) -> tuple[LinearMap, ...]:
        """Projections of one layer's indexer, replicated on every rank as engines do."""
        if not self.owns_weights:
            return ()
        shapes = (
            ("self_attn.indexer.wq_b", self.input_size, self.heads * self.head_dim, True),
            ("self_attn.indexer.wk", hidden_size, self.head_dim, True),
            ("self_attn.indexer.weights_proj", hidden_size, self.heads, False),
        )
        return tuple(
            LinearMap(name, Component.ATTENTION, inputs, outputs, shard=Shard.REPLICATED, quantizable=quantizable)
            for name, inputs, outputs, quantizable in shapes
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """The key's layer norm (weight and bias)."""
        return (Vectors(Component.NORM, 2 * self.head_dim),) if self.owns_weights else ()


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: one latent per token is cached, heads are expanded from it.

    Attributes:
        hidden_size: width of the residual stream.
        query_heads: query heads.
        q_lora_rank: width of the query latent; ``None`` when queries are projected directly.
        kv_lora_rank: width of the cached latent.
        nope_head_dim: part of a query head without rotary embedding.
        rope_head_dim: part with it; its key is shared by all heads and cached beside the latent.
        value_head_dim: width of a value head.
        bias: biases on the down projections and the output projection.
        output_gate: true when a full-rank output gate exists (``hidden -> heads * value_head_dim``).
        indexer: sparse indexer, or ``None``.
    """

    hidden_size: int
    query_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    bias: bool = False
    output_gate: bool = False
    indexer: SparseIndexer | None = None

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer, indexer included."""
        heads = self.query_heads
        query_width = heads * (self.nope_head_dim + self.rope_head_dim)
        found: list[LinearMap] = []
        if self.q_lora_rank is None:
            found.append(self._head_map("q_proj", self.hidden_size, query_width))
        else:
            found.append(self._down_map("q_a_proj", self.q_lora_rank))
            found.append(self._head_map("q_b_proj", self.q_lora_rank, query_width))
        found.append(self._down_map("kv_a_proj_with_mqa", self.kv_lora_rank + self.rope_head_dim))
        found.append(self._head_map("kv_b_proj", self.kv_lora_rank, heads * (self.nope_head_dim + self.value_head_dim)))
        if self.output_gate:
            found.append(self._head_map("g_proj", self.hidden_size, heads * self.value_head_dim))
        found.append(
            LinearMap(
                "self_attn.o_proj",
                Component.ATTENTION,
                heads * self.value_head_dim,
                self.hidden_size,
                bias=self.bias,
                split_inputs=True,
                units=heads,
            )
        )
        if self.indexer is not None:
            found.extend(self.indexer.maps(self.hidden_size))
        return tuple(found)

    def _head_map(self, name: str, inputs: int, outputs: int) -> LinearMap:
        return LinearMap(f"self_attn.{name}", Component.ATTENTION, inputs, outputs, units=self.query_heads)

    def _down_map(self, name: str, outputs: int) -> LinearMap:
        return LinearMap(
            f"self_attn.{name}",
            Component.ATTENTION,
            self.hidden_size,
            outputs,
            bias=self.bias,
            shard=Shard.REPLICATED,
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """Norms of the latents, and the indexer's."""
        latents = self.kv_lora_rank + (self.q_lora_rank or 0)
        own = (Vectors(Component.NORM, latents),)
        return own if self.indexer is None else own + self.indexer.vectors()

    @property
    def cache_elements_per_token(self) -> int:
        """Latent and shared rotary key one layer keeps for one token."""
        return self.kv_lora_rank + self.rope_head_dim

    @property
    def decode_flop_per_context_token(self) -> float:
        """FLOP per cached token when the up projections are absorbed into query and output, all heads."""
        return 2.0 * self.query_heads * (2 * self.kv_lora_rank + self.rope_head_dim)

    @property
    def prefill_flop_per_context_token(self) -> float:
        """FLOP per attended token with keys and values expanded, all heads."""
        return 2.0 * self.query_heads * (self.nope_head_dim + self.rope_head_dim + self.value_head_dim)
