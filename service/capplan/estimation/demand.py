"""What a rank asks of whatever device it runs on: weights, activations, graphs, and how requests take up its pool."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capplan.estimation.cache_groups import CacheLayout
from capplan.estimation.engine_records import EngineSettings, StateRule
from capplan.estimation.footprint import RankFootprint
from capplan.estimation.paging import cache_layout

_MXFP4_HIDDEN_MULTIPLE = 256
# From Hopper on, mxfp4 expert kernels pad the hidden width to a multiple of 256, and the expert's own by version:
# gpt-oss-120b (2,880 to 3,072) takes 64.4 GiB on H100 where its file has 60.8; on an RTX 3090 gpt-oss-20b takes its
# file's size (start-up logs).

_ACTIVATION_WIDTHS = 3
# Live activations of one forward pass: residual, normalised input and attention output (3 hidden widths), then the
# feed-forward's, split by tensor parallelism. Peaks of the V0 engine over unchunked prefills bear it out: Llama-3.1-8B
# 2.07 GiB at 20,000 tokens and 110 KB for each further one (vLLM issue 10517): 3 * 4,096 * 2 + 3 * 14,336 * 2 bytes.

_COMPRESSED_WIDTHS = 16
_COMPRESSED_WORKSPACE_BYTES = 900_000
# Models with compressed attention (DeepSeek V4) have four residual streams, and their attention and indexer a workspace
# that grows with the width: V4-Pro peaks at 8.9 GiB with steps of 8,192 tokens and 11.44 with 16,384 (InferenceX,
# perf-changelog, MI355X), V4-Flash at 5.30 with 8,224 (DeepSeek-v4-Flash-One-DGX-Spark issue 4).


def activation_bytes(footprint: RankFootprint, settings: EngineSettings) -> int:
    """Peak activation bytes the engine sees while profiling.

    Two peaks compete: the sampler over ``max_num_seqs`` rows of full-vocabulary fp32 logits, and the widest layer of a
    forward pass over ``max_num_batched_tokens`` tokens. A multimodal tower, and the workspace of compressed attention,
    come on top.
    """
    tokens, rule = settings.max_num_batched_tokens, settings.memory
    sequences = min(settings.max_num_seqs, tokens)
    residual = tokens * footprint.hidden_size * footprint.element_bytes
    sampler = rule.sampler_logit_copies * sequences * footprint.vocabulary_size * 4 + residual
    widths = _COMPRESSED_WIDTHS if footprint.compressed_attention else _ACTIVATION_WIDTHS
    forward = widths * residual + tokens * footprint.element_bytes * footprint.widest_ffn_elements
    beside = rule.encoder_bytes if footprint.multimodal else 0
    if footprint.compressed_attention:
        beside += _COMPRESSED_WORKSPACE_BYTES * footprint.hidden_size
    return beside + int(max(sampler, rule.forward_share * forward))


def graph_bytes(footprint: RankFootprint, settings: EngineSettings) -> int:
    """Bytes of captured graphs; 0 when none are captured."""
    sizes, rule = settings.graph_sizes, settings.memory.graphs
    if not sizes:
        return 0
    recurrent = sum(state.layers for state in footprint.states)
    experts = max(0, footprint.expert_layers - recurrent)
    dense = max(0, footprint.layers - recurrent - experts)
    per_size = (
        dense * rule.dense_bytes_per_size
        + experts * rule.expert_bytes_per_size
        + recurrent * rule.recurrent_bytes_per_size
    )
    return rule.base_bytes + rule.layer_bytes * footprint.layers + sizes * per_size


def _mxfp4_padding_bytes(footprint: RankFootprint, width_multiple: int) -> int:
    if not footprint.mxfp4_expert_bytes or not footprint.mxfp4_width:
        return 0
    hidden = math.ceil(footprint.hidden_size / _MXFP4_HIDDEN_MULTIPLE) * _MXFP4_HIDDEN_MULTIPLE
    width = math.ceil(footprint.mxfp4_width / width_multiple) * width_multiple
    growth = hidden / footprint.hidden_size * width / footprint.mxfp4_width
    return int((growth - 1.0) * footprint.mxfp4_expert_bytes)


@dataclass(frozen=True, slots=True)
class RankDemand:
    """What a rank asks of whatever device it runs on, with one set of engine settings but for the memory fraction.

    Attributes:
        weight_bytes: weights as stored.
        padded_weight_bytes: weights where the kernels pad mxfp4 experts.
        table_bytes: tables that are loaded with the weights.
        activation_bytes: peak activations.
        graph_bytes: captured graphs.
        multimodal: whether the model has towers.
        layout: how requests take up the pool.
        paged: whether recurrent state is kept in the pool's blocks, so that requests take whole blocks of it.
        reserved_bytes: what is taken from the pool at start, whatever runs.
        chunk_tokens: prompt tokens of one request that a step may hold.
        context_tokens: full context one request must be able to reach.
        request_bytes: pool bytes of one request of that context.
        live_request_bytes: pool bytes of one request of mean live length.
        ceiling_tokens: longest context of the model, or the asked one when it does not say.
        ceiling_request_bytes: pool bytes of one request of that length.
        state_bounds_sequences: whether the engine refuses to start with fewer blocks than ``max_num_seqs``.
    """

    weight_bytes: int
    padded_weight_bytes: int
    table_bytes: int
    activation_bytes: int
    graph_bytes: int
    multimodal: bool
    layout: CacheLayout
    paged: bool
    reserved_bytes: int
    chunk_tokens: int
    context_tokens: int
    request_bytes: float
    live_request_bytes: int
    ceiling_tokens: int
    ceiling_request_bytes: float
    state_bounds_sequences: bool


def rank_demand(
    footprint: RankFootprint, settings: EngineSettings, *, context_tokens: int, live_tokens: float
) -> RankDemand:
    """Works out what a rank asks of a device.

    Args:
        footprint: what the rank holds of the model.
        settings: resolved engine settings.
        context_tokens: full context one request must be able to reach.
        live_tokens: mean context of a running request.
    """
    rule = settings.memory
    layout = cache_layout(footprint, rule, settings.max_num_seqs)
    # a step never holds more prompt tokens of one request than its budget, nor than the request has
    chunk = settings.max_num_batched_tokens
    ceiling = footprint.max_context_tokens or context_tokens
    weights = footprint.weight_bytes
    return RankDemand(
        weight_bytes=weights,
        padded_weight_bytes=weights + _mxfp4_padding_bytes(footprint, rule.mxfp4_width_multiple),
        table_bytes=footprint.table_bytes,
        activation_bytes=activation_bytes(footprint, settings),
        graph_bytes=graph_bytes(footprint, settings),
        multimodal=footprint.multimodal,
        layout=layout,
        paged=rule.states is StateRule.PAGES,
        reserved_bytes=int(layout.reserved_bytes),
        chunk_tokens=chunk,
        context_tokens=context_tokens,
        request_bytes=layout.request_bytes(context_tokens, chunk),
        live_request_bytes=int(layout.request_bytes(live_tokens)),
        ceiling_tokens=ceiling,
        ceiling_request_bytes=layout.request_bytes(ceiling, chunk),
        state_bounds_sequences=(
            rule.state_blocks_bound_sequences and settings.graph_sizes > 0 and layout.holds_state_in_blocks
        ),
    )
