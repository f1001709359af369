"""Reads attention: head counts and widths, biases, norms, latent attention and sparse indexers."""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.attention import LatentAttention, SoftmaxAttention, SparseIndexer
from capplan.modeling.config_reader.traits import FamilyTraits, Flag, QueryKeyNorm
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView, shown

HEAD_KEYS = ("num_attention_heads", "n_heads", "n_head", "num_heads")
KV_HEAD_KEYS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "num_attention_groups", "kv_n_heads")
HEAD_DIM_KEYS = ("head_dim", "attention_head_dim", "kv_channels", "d_kv")


def resolve_flag(view: ConfigView, flag: Flag) -> bool:
    """A family habit: fixed, or read from a key with the family's default."""
    if isinstance(flag, bool):
        return flag
    key, default = flag
    return view.flag(key, default=default)


def read_query_heads(view: ConfigView) -> int:
    """Query heads of a layer."""
    return view.integer(*HEAD_KEYS, maximum=MAX_COUNT)


def read_kv_heads(view: ConfigView, query_heads: int) -> int:
    """Cached heads of a layer; null, or no key where the family knows files without, is as many as query heads."""
    if not view.names.intersection(KV_HEAD_KEYS) and not _may_lack_kv_heads(view):
        raise view.missing(*KV_HEAD_KEYS)
    kv_heads = view.integer(*KV_HEAD_KEYS, default=query_heads, maximum=MAX_COUNT)
    if query_heads % kv_heads:
        key = view.first(*KV_HEAD_KEYS) or KV_HEAD_KEYS[0]
        raise view.inconsistent(key, f"{kv_heads} key/value heads do not divide {query_heads} query heads")
    return kv_heads


def _may_lack_kv_heads(view: ConfigView) -> bool:
    """Families older than grouped heads; a Llama file that states ``attention_bias`` was written since they came."""
    if view.model_type == "llama":
        return "attention_bias" not in view.names
    return view.model_type in ("baichuan", "minicpm", "phi", "qwen", "stablelm") or view.has(*KV_HEAD_KEYS)


def read_head_dim(view: ConfigView, hidden_size: int, query_heads: int, default: int | None = None) -> int:
    """Width of a head: its own key, the family's class default, or hidden size over heads."""
    if view.has(*HEAD_DIM_KEYS):
        return view.integer(*HEAD_DIM_KEYS, maximum=MAX_COUNT)
    if default is not None:
        return view.integer(*HEAD_DIM_KEYS, default=default)
    if hidden_size % query_heads:
        key = view.first(*HEAD_KEYS) or HEAD_KEYS[0]
        raise view.inconsistent(
            key, f"{query_heads} heads do not divide the hidden size {hidden_size} and head_dim is absent"
        )
    return view.integer(*HEAD_DIM_KEYS, default=hidden_size // query_heads)


def norm_parameters(kind: QueryKeyNorm, query_heads: int, kv_heads: int, head_dim: int, per_channel: int = 1) -> int:
    """Parameters of query and key norms in one layer."""
    match kind:
        case QueryKeyNorm.NONE:
            return 0
        case QueryKeyNorm.HEAD:
            return 2 * head_dim * per_channel
        case QueryKeyNorm.WIDTH | QueryKeyNorm.PER_HEAD_WEIGHTS:
            return (query_heads + kv_heads) * head_dim


def read_softmax_attention(view: ConfigView, traits: FamilyTraits, hidden_size: int) -> SoftmaxAttention:
    """Attention of a layer without window."""
    query_heads = read_query_heads(view)
    kv_heads = query_heads if traits.multi_head else read_kv_heads(view, query_heads)
    head_dim = read_head_dim(view, hidden_size, query_heads, traits.head_dim)
    value_head_dim = view.integer("v_head_dim", default=head_dim, maximum=MAX_COUNT, quiet=True)
    kind = traits.query_key_norm
    if kind is not QueryKeyNorm.NONE and not resolve_flag(view, traits.query_key_norm_flag):
        kind = QueryKeyNorm.NONE
    return SoftmaxAttention(
        hidden_size=hidden_size,
        query_heads=query_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_head_dim=value_head_dim,
        input_size=hidden_size,
        qkv_bias=resolve_flag(view, traits.qkv_bias),
        output_bias=resolve_flag(view, traits.output_bias),
        norm_parameters=norm_parameters(kind, query_heads, kv_heads, head_dim),
        sinks=traits.sinks,
        output_gate=resolve_flag(view, traits.output_gate),
    )


def read_latent_attention(
    view: ConfigView, traits: FamilyTraits, hidden_size: int, layers: int
) -> list[LatentAttention]:
    """Latent attention, one a layer (layers differ in whether they own an indexer)."""
    query_heads = read_query_heads(view)
    view.first(*KV_HEAD_KEYS)  # the number of expanded heads; the cache holds one latent whatever it says
    view.first(*HEAD_DIM_KEYS, "qk_head_dim")  # not the cache size in this family
    divides = view.model_type == "minicpm3" and hidden_size % query_heads == 0
    value_default = hidden_size // query_heads if divides else None
    attention = LatentAttention(
        hidden_size=hidden_size,
        query_heads=query_heads,
        q_lora_rank=_query_rank(view),
        kv_lora_rank=view.integer("kv_lora_rank"),
        nope_head_dim=view.integer("qk_nope_head_dim", maximum=MAX_COUNT),
        rope_head_dim=view.integer("qk_rope_head_dim", maximum=MAX_COUNT),
        value_head_dim=view.integer("v_head_dim", default=value_default, maximum=MAX_COUNT),
        bias=resolve_flag(view, traits.qkv_bias),
    )
    if not view.has("index_topk", "index_n_heads", "index_head_dim"):
        return [attention] * layers
    return [replace(attention, indexer=indexer) for indexer in _read_indexers(view, attention, layers)]


def _query_rank(view: ConfigView) -> int | None:
    """Null means direct query projections; an absent key does not say."""
    if "q_lora_rank" not in view.names:
        raise view.missing("q_lora_rank")
    return view.optional_integer("q_lora_rank")


def _read_indexers(view: ConfigView, attention: LatentAttention, layers: int) -> list[SparseIndexer]:
    if attention.q_lora_rank is None:
        raise view.missing("q_lora_rank")
    indexer = SparseIndexer(
        heads=view.integer("index_n_heads", maximum=MAX_COUNT),
        head_dim=view.integer("index_head_dim", maximum=MAX_COUNT),
        topk=view.integer("index_topk"),
        input_size=attention.q_lora_rank,
    )
    if not view.has("indexer_types"):
        if view.has("index_topk_freq", "index_topk_pattern"):
            raise view.missing("indexer_types")
        if view.model_type == "glm_moe_dsa":
            view.note_default("indexer_types", "all full")
        return [indexer] * layers
    found = []
    for kind in view.items("indexer_types", layers):
        if kind not in ("full", "shared"):
            raise view.inconsistent("indexer_types", f"entries must be full or shared, not {shown(kind)}")
        found.append(replace(indexer, owns_weights=kind == "full"))
    return found
