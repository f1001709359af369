"""The vocabulary of family habits: norms, biases, gating, windows, experts.

Only what no key of the config tells is listed here. A flag given as ``(key, default)`` is read from the config, with
the default of the family's class in the transformers library where the key is absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Flag = bool | tuple[str, bool]


class QueryKeyNorm(StrEnum):
    """How queries and keys are normalised."""

    NONE = "none"
    HEAD = "head"
    """One weight vector of a head's width each for queries and keys."""
    WIDTH = "width"
    """One over all query heads, one over all key heads."""
    PER_HEAD_WEIGHTS = "per_head_weights"
    """As many weights as WIDTH, stored head by head (Cohere)."""


class WindowRule(StrEnum):
    """Which layers a sliding window applies to when the config lists no layer types."""

    NEVER = "never"
    ALL = "all"
    EVEN_LAYERS = "even_layers"
    """Layers 0, 2, 4 ... (Gemma 2, gpt-oss)."""
    PATTERN = "pattern"
    """All but every n-th layer, n being ``sliding_window_pattern``."""
    AFTER_MAX_WINDOW_LAYERS = "after_max_window_layers"
    """Layers from ``max_window_layers`` on (Qwen2)."""


@dataclass(frozen=True, slots=True)
class ExpertTraits:
    """Habits of a mixture-of-experts family.

    Attributes:
        width_keys: keys of a routed expert's width, first present wins.
        shared_keys: keys of the summed shared width; ``None`` when it is shared experts times expert width.
        shared_default: width of the shared expert in expert widths when no key says so (Llama 4: 1).
        shared_count: a key must say how many shared experts there are.
        layer_keys: one of these keys must say which layers have experts.
        sparse_steps: ``decoder_sparse_step`` and ``mlp_only_layers`` say it, by class default none is dense.
        shared_gate: the shared expert is gated.
        router_bias: trained router bias.
        router_buffer: score-correction buffer.
        expert_bias: biases on routed experts.
        gated: three matrices an expert instead of two.
        module: name of the module in checkpoints.
        shared_module: name of the shared expert in it.
        norm_hidden: norms inside the block, in hidden widths.
        norm_experts: scales inside the block, one an expert.
    """

    width_keys: tuple[str, ...] = ("moe_intermediate_size",)
    shared_keys: tuple[str, ...] | None = None
    shared_default: int = 0
    shared_count: bool = False
    layer_keys: tuple[str, ...] = ()
    sparse_steps: bool = False
    shared_gate: bool = False
    router_bias: Flag = False
    router_buffer: Flag = False
    expert_bias: bool = False
    gated: bool = True
    module: str = "mlp"
    shared_module: str = "shared_experts"
    norm_hidden: int = 0
    norm_experts: int = 0


@dataclass(frozen=True, slots=True)
class FamilyTraits:
    """Habits of a decoder family.

    Attributes:
        norm: parameters of one norm per channel: 1 (RMS), 2 (layer norm with bias), 0 (no weights).
        norms_per_layer: norms of hidden width in a layer.
        parallel_key: key that runs attention and feed-forward side by side, after one norm instead of two.
        multi_head: as many key/value heads as query heads, whatever the config says.
        query_key_norm: norms on queries and keys.
        query_key_norm_flag: whether the model has them, where a key says.
        qkv_bias: biases on query, key and value projections.
        output_bias: bias on the output projection.
        mlp_bias: biases in the feed-forward.
        gated: three feed-forward matrices instead of two.
        tied: default of ``tie_word_embeddings`` in the family's class.
        head_bias: bias on the output head.
        head_dim: default head width of the family's class; ``None`` for hidden size over heads.
        window: where a sliding window applies without a list of layer types.
        window_gate: key that switches windows on.
        pattern: default of ``sliding_window_pattern``.
        sinks: attention sinks.
        output_gate: gate on the attention output made by the query projection.
        latent: the family attends over a latent (MLA).
        position_rows: extra rows of a learned position table over ``max_position_embeddings``; ``None`` without table.
        embedding_norm: a norm follows the embedding.
        ffn_multiple: width of a feed-forward without a key for it, in hidden widths.
        ffn_multiple_key: key that says the multiple.
        activation_parameters: trained parameters of one layer's activation function.
        dense_width_keys: keys of a dense feed-forward's width, first present wins.
        experts: habits of its expert layers; ``None`` for dense families.
    """

    norm: int = 1
    norms_per_layer: int = 2
    parallel_key: str | None = None
    multi_head: bool = False
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    query_key_norm_flag: Flag = True
    qkv_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    gated: bool = True
    tied: bool = False
    head_bias: Flag = False
    head_dim: int | None = None
    window: WindowRule = WindowRule.NEVER
    window_gate: str | None = None
    pattern: int | None = None
    sinks: bool = False
    output_gate: Flag = False
    latent: bool = False
    position_rows: int | None = None
    embedding_norm: bool = False
    ffn_multiple: int | None = None
    ffn_multiple_key: str | None = None
    activation_parameters: int = 0
    dense_width_keys: tuple[str, ...] = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff")
    experts: ExpertTraits | None = None
