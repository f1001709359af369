"""Reads feed-forward layers: dense widths, routed and shared experts, and which layers are dense."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.modeling.config_reader.attention import resolve_flag
from capplan.modeling.config_reader.traits import ExpertTraits, FamilyTraits
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView
from capplan.modeling.feed_forward import DenseFeedForward, MixtureOfExperts

EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
TOPK_KEYS = (
    "num_experts_per_tok",
    "moe_topk",
    "num_experts_per_token",
    "top_k_experts",
    "moe_top_k",
    "moe_k",
    "experts_per_token",
)
SHARED_COUNT_KEYS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")


def read_dense(view: ConfigView, traits: FamilyTraits, hidden_size: int) -> DenseFeedForward:
    """The dense feed-forward of a layer."""
    multiple = traits.ffn_multiple
    if traits.ffn_multiple_key is not None:
        multiple = view.integer(traits.ffn_multiple_key, default=multiple, maximum=64)
    default = multiple * hidden_size if multiple else None
    if default is not None and not traits.dense_width_keys:
        width = default
    else:
        width = view.integer(*traits.dense_width_keys, default=default)
    return DenseFeedForward(hidden_size, width, traits.gated, resolve_flag(view, traits.mlp_bias))


def has_experts(view: ConfigView) -> bool:
    """Whether the config declares routed experts (absent, null or 0 counts as none)."""
    return view.has(*EXPERT_KEYS) and view.integer(*EXPERT_KEYS, minimum=0, maximum=MAX_COUNT) > 0


def read_experts(view: ConfigView, traits: FamilyTraits, experts: ExpertTraits, hidden_size: int) -> MixtureOfExperts:
    """The expert layer of a model."""
    count = view.integer(*EXPERT_KEYS, maximum=MAX_COUNT)
    topk = view.integer(*TOPK_KEYS, maximum=MAX_COUNT)
    if topk > count:
        raise view.inconsistent(
            view.first(*TOPK_KEYS) or TOPK_KEYS[0], f"a token cannot visit {topk} of {count} experts"
        )
    width = view.integer(*experts.width_keys)
    view.first(*traits.dense_width_keys)  # the width of dense layers, of which there may be none
    return MixtureOfExperts(
        hidden_size=hidden_size,
        experts=count,
        experts_per_token=topk,
        expert_size=width,
        shared_size=_shared_size(view, experts, width),
        gated=traits.gated and experts.gated,
        expert_bias=experts.expert_bias,
        router_bias=resolve_flag(view, experts.router_bias),
        router_buffer=_corrects_scores(view, usual=resolve_flag(view, experts.router_buffer)),
        shared_gate=experts.shared_gate,
        norm_parameters=experts.norm_hidden * hidden_size + experts.norm_experts * count,
        module=experts.module,
        shared_module=experts.shared_module,
    )


def _corrects_scores(view: ConfigView, *, usual: bool) -> bool:
    """Whether routers hold a score correction: the family's habit, which ``topk_method`` may switch off."""
    method = view.text("topk_method", default="noaux_tc" if usual else "greedy")
    if method not in ("noaux_tc", "greedy", "group_limited_greedy"):
        raise view.inconsistent("topk_method", "must be noaux_tc, greedy or group_limited_greedy")
    if method == "noaux_tc" and not usual:
        raise view.inconsistent("topk_method", f"noaux_tc is not known for model type {view.model_type!r}")
    return method == "noaux_tc"


def _shared_size(view: ConfigView, experts: ExpertTraits, width: int) -> int:
    if experts.shared_keys is not None:
        return view.integer(*experts.shared_keys, minimum=0)
    if not experts.shared_count:
        return experts.shared_default * width
    if not view.names.intersection(SHARED_COUNT_KEYS):
        raise view.missing(*SHARED_COUNT_KEYS)
    return view.integer(*SHARED_COUNT_KEYS, default=0, minimum=0, maximum=1024, quiet=True) * width


def expert_layers(
    view: ConfigView, layers: int, require: tuple[str, ...] = (), *, sparse_steps: bool = False
) -> list[bool]:
    """For each layer whether it has experts, from whichever keys the config uses.

    Args:
        view: the config.
        layers: number of layers.
        require: keys of which one must be present where no list says it layer by layer.
        sparse_steps: the family's class has defaults for its keys, which are named where they are taken.
    """
    first_dense = view.integer("first_k_dense_replace", default=0, minimum=0, maximum=MAX_COUNT, quiet=True)
    if first_dense > layers:
        raise view.inconsistent("first_k_dense_replace", f"{first_dense} dense layers are more than {layers} layers")
    dense = set(range(first_dense))
    if sparse_steps and "mlp_only_layers" not in view.names:
        view.note_default("mlp_only_layers", "none")
    if view.has("mlp_only_layers"):
        dense |= _layer_numbers(view, "mlp_only_layers", view.items("mlp_only_layers"), layers)
    chosen = {
        key: [expert and layer not in dense for layer, expert in enumerate(flags)]
        for key, flags in (*_listed_layers(view, layers), *_periodic_layers(view, layers))
    }
    listed = {"mlp_layer_types", "moe_layers_enum", "moe_layer_interval"}
    said = listed & chosen.keys() or isinstance(view.raw("moe_layer_freq"), list) or view.has(*require)
    if require and not said:
        raise view.missing(*require)
    if not chosen:
        if sparse_steps:
            view.note_default("decoder_sparse_step", 1)
        return [layer not in dense for layer in range(layers)]
    (key, found), *others = chosen.items()
    for other, flags in others:
        if flags != found:
            raise view.inconsistent(other, f"gives experts to other layers than {key}; they must agree")
    return found


def _listed_layers(view: ConfigView, layers: int) -> Iterator[tuple[str, list[bool]]]:
    """Which layers have experts, from each key that says it layer by layer."""
    if view.has("mlp_layer_types"):
        kinds = view.items("mlp_layer_types", layers)
        if not all(kind in ("dense", "sparse") for kind in kinds):
            raise view.inconsistent("mlp_layer_types", "entries must be dense or sparse")
        yield "mlp_layer_types", [kind == "sparse" for kind in kinds]
    if view.has("moe_layers_enum"):
        numbers = _layer_numbers(view, "moe_layers_enum", view.text("moe_layers_enum").split(","), layers)
        yield "moe_layers_enum", [layer in numbers for layer in range(layers)]
    if isinstance(view.raw("moe_layer_freq"), list):
        flags = view.items("moe_layer_freq", layers)
        if any(isinstance(flag, bool) or flag not in (0, 1) for flag in flags):
            raise view.inconsistent("moe_layer_freq", "entries must be 0 or 1")
        yield "moe_layer_freq", [flag == 1 for flag in flags]
    if view.has("moe_layers"):
        numbers = _layer_numbers(view, "moe_layers", view.items("moe_layers"), layers)
        yield "moe_layers", [layer in numbers for layer in range(layers)]


def _periodic_layers(view: ConfigView, layers: int) -> Iterator[tuple[str, list[bool]]]:
    """Which layers have experts, from each key that gives a step between them."""
    if view.has("moe_layer_freq") and not isinstance(view.raw("moe_layer_freq"), list):
        step = view.integer("moe_layer_freq", maximum=MAX_COUNT)
        yield "moe_layer_freq", [layer % step == 0 for layer in range(layers)]
    if view.has("interleave_moe_layer_step"):
        step = view.integer("interleave_moe_layer_step", maximum=MAX_COUNT)
        # Llama 4 counts from the end of each step, DeepSeek from the first layer.
        yield "interleave_moe_layer_step", [layer % step == step - 1 for layer in range(layers)]
    if view.has("expert_layer_period"):
        period = view.integer("expert_layer_period", maximum=MAX_COUNT)
        offset = view.integer("expert_layer_offset", minimum=0, maximum=MAX_COUNT)
        yield "expert_layer_period", [layer % period == offset for layer in range(layers)]
    if view.has("decoder_sparse_step"):
        step = view.integer("decoder_sparse_step", maximum=MAX_COUNT)
        yield "decoder_sparse_step", [(layer + 1) % step == 0 for layer in range(layers)]
    if view.has("moe_layer_interval"):
        step = view.integer("moe_layer_interval", maximum=MAX_COUNT)
        start = view.integer("moe_layer_start_index", default=0, minimum=0, maximum=MAX_COUNT)
        end = view.integer("moe_layer_end_index", default=layers - 1, minimum=-1, maximum=MAX_COUNT)
        last = layers - 1 if end == -1 else end
        yield (
            "moe_layer_interval",
            [(layer + 1) % step == 0 and start <= layer <= last for layer in range(layers)],
        )


def _layer_numbers(view: ConfigView, key: str, values: object, layers: int) -> set[int]:
    found: set[int] = set()
    for value in values if isinstance(values, list | tuple) else ():
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        found.add(view.checked_integer(key, number, minimum=0, maximum=layers - 1))
    return found
