"""Reads state-space models and hybrids of them with attention."""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.architecture import Block, FeedForward, Mixer, MultiTokenPrediction, run_length
from capplan.modeling.config_reader.attention import (
    read_softmax_attention,
)
from capplan.modeling.config_reader.decoder import (
    HIDDEN_KEYS,
    Decoder,
    assemble_decoder,
    read_feed_forwards,
)
from capplan.modeling.config_reader.feed_forward import (
    EXPERT_KEYS,
    SHARED_COUNT_KEYS,
    TOPK_KEYS,
    has_experts,
    read_dense,
    read_experts,
)
from capplan.modeling.config_reader.layers import (
    LINEAR,
    MAMBA,
    read_layer_count,
    read_layer_types,
)
from capplan.modeling.config_reader.traits import ExpertTraits, FamilyTraits
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward, MixtureOfExperts
from capplan.modeling.state_space import Mamba1, Mamba2

_BIASED = FamilyTraits(
    qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), mlp_bias=("mlp_bias", False)
)


def _periodic(view: ConfigView, layers: int, period_key: str, offset_key: str) -> list[bool]:
    period = view.integer(period_key, maximum=MAX_COUNT)
    offset = view.integer(offset_key, minimum=0, maximum=MAX_COUNT)
    return [layer % period == offset for layer in range(layers)]


def read_jamba(view: ConfigView) -> Decoder:
    """Jamba: Mamba1 with norms on time step, B and C; attention and experts every few layers."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    rank = view.integer("mamba_dt_rank")
    state = view.integer("mamba_d_state")
    mamba = Mamba1(
        hidden_size=hidden,
        inner_size=view.integer("mamba_expand", maximum=64) * hidden,
        state_size=state,
        kernel=view.integer("mamba_d_conv", maximum=64),
        time_step_rank=rank,
        conv_bias=view.flag("mamba_conv_bias"),
        projection_bias=view.flag("mamba_proj_bias"),
        norm_parameters=rank + 2 * state,
        module="mamba",
    )
    attention = read_softmax_attention(view, FamilyTraits(), hidden)
    attends = _periodic(view, layers, "attn_layer_period", "attn_layer_offset")
    experts = ExpertTraits(width_keys=("intermediate_size",), module="feed_forward")
    networks = read_feed_forwards(view, FamilyTraits(experts=experts), hidden, layers)
    blocks = [
        Block((attention if full else mamba,), network, 2 * hidden)
        for full, network in zip(attends, networks, strict=True)
    ]
    return assemble_decoder(view, hidden, blocks, tied_default=False)


def read_mamba1(view: ConfigView) -> Decoder:
    """Mamba and Falcon-Mamba: nothing but Mamba1 blocks."""
    hidden = view.integer(*HIDDEN_KEYS)
    # Falcon-Mamba's "expand" is unused: the inner width has its own key.
    expand = None if view.model_type == "falcon_mamba" else view.integer("expand", default=2, maximum=64)
    mamba = Mamba1(
        hidden_size=hidden,
        inner_size=view.integer(
            "intermediate_size", "d_inner", default=expand * hidden if expand else None, quiet=True
        ),
        state_size=view.integer("state_size"),
        kernel=view.integer("conv_kernel", maximum=64),
        time_step_rank=view.integer("time_step_rank", default=-(-hidden // 16), quiet=True),
        conv_bias=view.flag("use_conv_bias", default=True),
        projection_bias=view.flag("use_bias", default=False),
    )
    blocks = [Block((mamba,), (), hidden)] * read_layer_count(view)
    return assemble_decoder(view, hidden, blocks, tied_default=True)


_NEMOTRON_LETTERS = {"M": "mamba", "-": "mlp", "*": "attention", "E": "moe"}
_NEMOTRON_SPELLINGS = {"linear_attention": "mamba", "full_attention": "attention"}


def _nemotron_kinds(view: ConfigView, list_key: str, pattern_key: str) -> list[str]:
    if view.has(list_key):
        kinds = [_NEMOTRON_SPELLINGS.get(kind, kind) for kind in view.items(list_key) if isinstance(kind, str)]
        if len(kinds) != len(view.items(list_key)) or set(kinds) - set(_NEMOTRON_LETTERS.values()):
            raise view.inconsistent(list_key, "entries must be mamba, mlp, attention or moe")
        return kinds
    pattern = view.text(pattern_key)
    if not pattern or set(pattern) - set(_NEMOTRON_LETTERS):
        raise view.inconsistent(pattern_key, "must be made of M (mamba), - (feed-forward), * (attention), E (experts)")
    return [_NEMOTRON_LETTERS[letter] for letter in pattern]


def _mamba2(view: ConfigView, hidden: int, prefix: str, state_key: str) -> Mamba2:
    """Mamba2 under the keys of Nemotron-H and Mamba2, which differ in what stands before heads and state."""
    return Mamba2(
        hidden_size=hidden,
        heads=view.integer(f"{prefix}num_heads", maximum=MAX_COUNT),
        head_dim=view.integer(f"{prefix}head_dim", maximum=MAX_COUNT),
        groups=view.integer("n_groups", maximum=MAX_COUNT),
        state_size=view.integer(state_key, maximum=MAX_COUNT),
        kernel=view.integer("conv_kernel", maximum=64),
        conv_bias=view.flag("use_conv_bias", default=True),
        projection_bias=view.flag("use_bias", default=False),
    )


def read_nemotron_h(view: ConfigView) -> Decoder:
    """Nemotron-H and Nemotron 3: one operator per block, by a pattern."""
    hidden = view.integer(*HIDDEN_KEYS)
    kinds = _nemotron_kinds(view, "layers_block_type", "hybrid_override_pattern")
    stated = view.optional_integer("num_hidden_layers", maximum=MAX_COUNT)
    if stated is not None and stated != len(kinds):
        raise view.inconsistent("num_hidden_layers", f"is {stated}, but the block pattern has {len(kinds)} entries")
    view.first("intermediate_size")  # width of dense blocks, of which there may be none
    parts = _nemotron_blocks(view, hidden, set(kinds))
    decoder = assemble_decoder(view, hidden, [parts[kind] for kind in kinds], tied_default=False)
    if not view.has("num_nextn_predict_layers") or not view.has("mtp_layers_block_type", "mtp_hybrid_override_pattern"):
        return decoder
    drafts = _nemotron_kinds(view, "mtp_layers_block_type", "mtp_hybrid_override_pattern")
    drafted = _nemotron_blocks(view, hidden, set(drafts))
    # The first drafting block carries two norms and the projection that joins embedding and hidden state.
    prediction = MultiTokenPrediction(run_length([drafted[kind] for kind in drafts]), 2 * hidden * hidden + 3 * hidden)
    return replace(decoder, prediction=prediction)


def _nemotron_blocks(view: ConfigView, hidden: int, kinds: set[str]) -> dict[str, Block]:
    blocks: dict[str, Block] = {}
    if "mamba" in kinds:
        view.first("mamba_proj_bias")  # its class stores the key and gives both projections use_bias instead
        mamba = _mamba2(view, hidden, "mamba_", "ssm_state_size")
        blocks["mamba"] = Block((mamba,), (), hidden)
    if "attention" in kinds:
        attention = replace(read_softmax_attention(view, _BIASED, hidden), module="mixer")
        blocks["attention"] = Block((attention,), (), hidden)
    if "mlp" in kinds:
        bias = view.flag("mlp_bias", default=False)
        dense = DenseFeedForward(hidden, view.integer("intermediate_size"), gated=False, bias=bias, module="mixer")
        blocks["mlp"] = Block((), (dense,), hidden)
    if "moe" in kinds:
        blocks["moe"] = Block((), (_nemotron_experts(view, hidden),), hidden)
    return blocks


def _nemotron_experts(view: ConfigView, hidden: int) -> MixtureOfExperts:
    shared = view.integer(*SHARED_COUNT_KEYS, minimum=0, maximum=1024)
    experts = view.integer(*EXPERT_KEYS, maximum=MAX_COUNT)
    topk = view.integer(*TOPK_KEYS, maximum=experts)
    return MixtureOfExperts(
        hidden_size=hidden,
        experts=experts,
        experts_per_token=topk,
        expert_size=view.integer("moe_intermediate_size"),
        shared_size=shared * view.integer("moe_shared_expert_intermediate_size"),
        gated=False,
        router_buffer=True,
        latent_size=view.integer("moe_latent_size", default=0, minimum=0, quiet="moe_latent_size" in view.names),
        module="mixer",
    )


def _mamba2_by_d_keys(view: ConfigView, hidden: int, *, gated_norm: bool = True, inner: int | None = None) -> Mamba2:
    """Mamba2 under the keys of Bamba, Granite 4 and Falcon-H1."""
    heads = view.integer("mamba_n_heads", maximum=MAX_COUNT)
    width = view.integer("mamba_expand", default=2, maximum=64) * hidden if inner is None else inner
    head_dim = view.raw("mamba_d_head")
    if head_dim in (None, "auto"):
        if width % heads:
            raise view.inconsistent("mamba_n_heads", f"{heads} heads do not divide the inner width {width}")
        head_dim = width // heads
    head_dim = view.checked_integer("mamba_d_head", head_dim, maximum=MAX_COUNT)
    if heads * head_dim != width:
        raise view.inconsistent("mamba_d_head", f"{heads} heads of {head_dim} do not make the inner width {width}")
    return Mamba2(
        hidden_size=hidden,
        heads=heads,
        head_dim=head_dim,
        groups=view.integer("mamba_n_groups", maximum=MAX_COUNT),
        state_size=view.integer("mamba_d_state", maximum=MAX_COUNT),
        kernel=view.integer("mamba_d_conv", maximum=64),
        conv_bias=view.flag("mamba_conv_bias", default=True),
        projection_bias=view.flag("mamba_proj_bias", default=False),
        gated_norm=gated_norm,
        module="mamba",
    )


def read_granite_hybrid(view: ConfigView) -> Decoder:
    """Granite 4: Mamba2 or attention, then routed experts beside a shared feed-forward, in every layer."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    kinds = read_layer_types(view.renamed("layers_block_type", "layer_types"), layers)
    if kinds is None:
        raise view.missing("layer_types")
    shared = view.integer("shared_intermediate_size")
    network: FeedForward
    if has_experts(view):
        traits = ExpertTraits(
            width_keys=("intermediate_size",), shared_keys=("shared_intermediate_size",), module="block_sparse_moe"
        )
        network = read_experts(view, FamilyTraits(), traits, hidden)
    else:
        view.first("intermediate_size")  # width of the experts that are not there
        network = DenseFeedForward(hidden, shared, module="shared_mlp")
    recurs = [kind in (MAMBA, LINEAR) for kind in kinds]
    attention: Mixer = read_softmax_attention(view, _BIASED, hidden)
    mamba: Mixer = _mamba2_by_d_keys(view, hidden) if any(recurs) else attention
    blocks = [Block((mamba if recurrent else attention,), (network,), 2 * hidden) for recurrent in recurs]
    return assemble_decoder(view, hidden, blocks, tied_default=False)


def read_bamba(view: ConfigView) -> Decoder:
    """Bamba: Mamba2 with attention in listed layers."""
    hidden = view.integer(*HIDDEN_KEYS)
    layers = read_layer_count(view)
    listed = view.items("attn_layer_indices")
    attends = {view.checked_integer("attn_layer_indices", n, minimum=0, maximum=layers - 1) for n in listed}
    attention, mamba = read_softmax_attention(view, _BIASED, hidden), _mamba2_by_d_keys(view, hidden)
    dense = read_dense(view, FamilyTraits(mlp_bias=("mlp_bias", False)), hidden)
    blocks = [Block((attention if n in attends else mamba,), (dense,), 2 * hidden) for n in range(layers)]
    return assemble_decoder(view, hidden, blocks, tied_default=False)


def read_falcon_h1(view: ConfigView) -> Decoder:
    """Falcon-H1: attention and Mamba2 side by side in every layer."""
    hidden = view.integer(*HIDDEN_KEYS)
    inner = view.optional_integer("mamba_d_ssm")
    mamba = _mamba2_by_d_keys(view, hidden, gated_norm=view.flag("mamba_rms_norm", default=False), inner=inner)
    attention = read_softmax_attention(view, _BIASED, hidden)
    dense = read_dense(view, FamilyTraits(mlp_bias=("mlp_bias", False)), hidden)
    blocks = [Block((attention, mamba), (dense,), 2 * hidden)] * read_layer_count(view)
    return assemble_decoder(view, hidden, blocks, tied_default=False)


def read_mamba2(view: ConfigView) -> Decoder:
    """Mamba2 models: nothing but Mamba2 blocks."""
    hidden = view.integer(*HIDDEN_KEYS)
    mamba = _mamba2(view, hidden, "", "state_size")
    inner = view.integer("expand", default=2, maximum=64) * hidden
    if mamba.inner_size != inner:
        raise view.inconsistent("num_heads", f"heads times head_dim is {mamba.inner_size}, not the inner width {inner}")
    blocks = [Block((mamba,), (), hidden)] * read_layer_count(view)
    return assemble_decoder(view, hidden, blocks, tied_default=False)
