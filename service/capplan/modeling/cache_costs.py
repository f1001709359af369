"""Caches and states as costs: attention layers grouped by how they cache, recurrent layers by how they keep state."""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.architecture import AttentionMixer, ModelArchitecture, RecurrentMixer
from capplan.modeling.attention import LatentAttention, SoftmaxAttention
from capplan.modeling.compressed_attention import CompressedAttention
from capplan.modeling.cost_records import AttentionCost, StateCost

CACHE_ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of one cached element by KV-cache format."""

CONVOLUTION_STATE_ELEMENT_BYTES = 2
"""Convolution columns are kept in the model's 16-bit format."""

INDEXER_SCALE_BYTES = 4
"""The indexer caches its key in fp8 with one fp32 scale, whatever the KV-cache format."""


def _latent_cache_bytes(mixer: LatentAttention, kv_precision: str) -> float:
    own: float = mixer.cache_elements_per_token * CACHE_ELEMENT_BYTES[kv_precision]
    if mixer.indexer is None:
        return own
    if kv_precision == "fp8":
        # vLLM's fp8_ds_mla entry, 656 bytes for rank 512: fp8 latent, an fp32 scale per 128 of it, rotary part in bf16.
        own = mixer.kv_lora_rank + mixer.kv_lora_rank / 128 * 4 + mixer.rope_head_dim * 2
    return own + (mixer.indexer.head_dim + INDEXER_SCALE_BYTES if mixer.indexer.owns_weights else 0)


def _softmax_cost(mixer: SoftmaxAttention, kv_precision: str) -> AttentionCost:
    return AttentionCost(
        layers=1,
        query_heads=mixer.query_heads,
        kv_heads=mixer.kv_heads,
        cache_bytes_per_token=float(mixer.cache_elements_per_token * CACHE_ELEMENT_BYTES[kv_precision]),
        window_tokens=mixer.window_tokens,
        latent=False,
        decode_flop_per_context_token=mixer.flop_per_context_token,
        prefill_flop_per_context_token=mixer.flop_per_context_token,
    )


def _latent_cost(mixer: LatentAttention, kv_precision: str) -> AttentionCost:
    indexer = mixer.indexer
    scores = indexer is not None and indexer.owns_weights
    return AttentionCost(
        layers=1,
        query_heads=mixer.query_heads,
        kv_heads=1,
        cache_bytes_per_token=_latent_cache_bytes(mixer, kv_precision),
        window_tokens=None,
        latent=True,
        decode_flop_per_context_token=mixer.decode_flop_per_context_token,
        prefill_flop_per_context_token=mixer.prefill_flop_per_context_token,
        attended_tokens_limit=indexer.topk if indexer else None,
        indexer_flop_per_context_token=2.0 * indexer.heads * indexer.head_dim if indexer and scores else 0.0,
    )


def _compressed_costs(mixer: CompressedAttention, kv_precision: str) -> tuple[AttentionCost, ...]:
    """The window and the compressed history of one layer, as two groups; one copy of each on every rank."""
    entry: float = mixer.head_dim * CACHE_ELEMENT_BYTES[kv_precision]
    if kv_precision == "fp8":
        entry = mixer.head_dim + mixer.rope_head_dim  # the rotary part stays in 16 bit
    window = AttentionCost(
        layers=1,
        query_heads=mixer.query_heads,
        kv_heads=1,
        cache_bytes_per_token=float(entry),
        window_tokens=mixer.window_tokens,
        latent=True,
        decode_flop_per_context_token=mixer.flop_per_entry,
        prefill_flop_per_context_token=mixer.flop_per_entry,
    )
    if not mixer.ratio:
        return (window,)
    key = mixer.index_head_dim + INDEXER_SCALE_BYTES if mixer.index_heads else 0
    history = AttentionCost(
        layers=1,
        query_heads=mixer.query_heads,
        kv_heads=1,
        cache_bytes_per_token=(entry + key) / mixer.ratio,
        window_tokens=None,
        latent=True,
        decode_flop_per_context_token=mixer.flop_per_entry / mixer.ratio,
        prefill_flop_per_context_token=mixer.flop_per_entry / mixer.ratio,
        attended_tokens_limit=mixer.index_topk * mixer.ratio if mixer.index_heads else None,
        indexer_flop_per_context_token=2.0 * mixer.index_heads * mixer.index_head_dim / mixer.ratio,
    )
    return window, history


def _attention_layer_costs(mixer: AttentionMixer, kv_precision: str) -> tuple[AttentionCost, ...]:
    match mixer:
        case SoftmaxAttention():
            # Cross-attention keeps a fixed cache for the request and is a state instead.
            return () if mixer.cross_tokens else (_softmax_cost(mixer, kv_precision),)
        case LatentAttention():
            return (_latent_cost(mixer, kv_precision),)
        case CompressedAttention():
            return _compressed_costs(mixer, kv_precision)


def attention_costs(architecture: ModelArchitecture, kv_precision: str) -> tuple[AttentionCost, ...]:
    """Attention layers grouped by how they cache, in the resolved KV-cache format."""
    layers: dict[AttentionCost, int] = {}
    for run in architecture.block_runs():
        for mixer in run.block.mixers:
            if isinstance(mixer, AttentionMixer):
                for unit in _attention_layer_costs(mixer, kv_precision):
                    layers[unit] = layers.get(unit, 0) + run.count
    return tuple(replace(unit, layers=count) for unit, count in layers.items())


def state_costs(architecture: ModelArchitecture, kv_precision: str) -> tuple[StateCost, ...]:
    """Recurrent layers, and cross-attention caches that a request holds whole, grouped by how they keep state."""
    found: dict[object, StateCost] = {}
    for run in architecture.block_runs():
        for mixer in run.block.mixers:
            if isinstance(mixer, RecurrentMixer):
                convolution = mixer.convolution_state_elements * CONVOLUTION_STATE_ELEMENT_BYTES
                recurrence = mixer.recurrent_state_elements * architecture.state_element_bytes
                unit = StateCost(1, convolution + recurrence, mixer.state_units, mixer.flop_per_token)
            elif isinstance(mixer, SoftmaxAttention) and mixer.cross_tokens:
                elements = mixer.cross_tokens * mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
                flop = mixer.cross_tokens * mixer.flop_per_context_token
                unit = StateCost(1, elements * CACHE_ELEMENT_BYTES[kv_precision], mixer.kv_heads, flop, True)
            else:
                continue
            known = found.get(unit, replace(unit, layers=0, bytes_per_sequence=0, flop_per_token=0.0))
            found[unit] = replace(
                known,
                layers=known.layers + run.count,
                bytes_per_sequence=known.bytes_per_sequence + unit.bytes_per_sequence * run.count,
                flop_per_token=known.flop_per_token + unit.flop_per_token * run.count,
            )
    return tuple(found.values())
