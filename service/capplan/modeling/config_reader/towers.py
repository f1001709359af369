"""Reads vision and audio towers and their projectors into counted linear maps.

Shapes follow the transformers library's modules of the same ``model_type``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from capplan.modeling.architecture import Tower
from capplan.modeling.config_reader.gemma3n import gemma3n_towers
from capplan.modeling.config_reader.layers import read_layer_count
from capplan.modeling.config_reader.tower_parts import (
    Stack,
    assemble,
    patch_count,
    patch_inputs,
    tower_map,
    vit_stack,
)
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView
from capplan.modeling.linear import LinearMap


def _qwen2_vl(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    view = root.sub("vision_config")
    width = view.integer("embed_dim", default=1280)
    layers = view.integer("depth", default=32, maximum=MAX_COUNT)
    inner = width * view.integer("mlp_ratio", default=4, maximum=MAX_COUNT)
    outer = _qwen2_merger(view, width, view.integer("hidden_size", default=hidden_size))
    stack = Stack(layers, width, inner, norm=4 * width)
    return (assemble("visual", (stack,), outer, 2 * width),)


def _qwen2_5_vl(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    view = root.sub("vision_config")
    width = view.integer("hidden_size", default=1280)
    layers = view.integer("depth", default=32, maximum=MAX_COUNT)
    inner = view.integer("intermediate_size", default=3420)
    outer = _qwen2_merger(view, width, view.integer("out_hidden_size", default=hidden_size))
    stack = Stack(layers, width, inner, gated=True, norm=2 * width)
    return (assemble("visual", (stack,), outer, width),)


def _qwen2_merger(view: ConfigView, width: int, output: int) -> tuple[LinearMap, ...]:
    """Patch embedding, and the projector that makes one token of several patches."""
    merged = width * view.integer("spatial_merge_size", default=2, maximum=64) ** 2
    return (
        tower_map("visual.patch_embed", patch_inputs(view.with_default("temporal_patch_size", 2)), width, bias=False),
        tower_map("visual.merger.0", merged, merged, bias=True),
        tower_map("visual.merger.2", merged, output, bias=True),
    )


def _qwen3_vl(root: ConfigView, _hidden_size: int) -> tuple[Tower, ...]:
    view = root.sub("vision_config")
    width = view.integer("hidden_size")
    merged = width * view.integer("spatial_merge_size", maximum=64) ** 2
    output = view.integer("out_hidden_size")
    stack = Stack(view.integer("depth", maximum=MAX_COUNT), width, view.integer("intermediate_size"), norm=4 * width)
    required = ("temporal_patch_size", "deepstack_visual_indexes")[: 2 if root.model_type.startswith("qwen3_vl") else 1]
    for key in required:
        if key not in view.names:
            raise view.missing(key)
    taps = len(view.items("deepstack_visual_indexes")) if view.has("deepstack_visual_indexes") else 0
    outer = [tower_map("visual.patch_embed", patch_inputs(view), width, bias=True)]
    for number in range(taps + 1):
        outer.append(tower_map(f"visual.merger{number}.linear_fc1", merged, merged, bias=True))
        outer.append(tower_map(f"visual.merger{number}.linear_fc2", merged, output, bias=True))
    vectors = view.integer("num_position_embeddings") * width + 2 * width + taps * 2 * merged
    return (assemble("visual", (stack,), tuple(outer), vectors),)


def _siglip(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    """SigLIP under a Gemma 3 projector."""
    view = root.sub("vision_config")
    stack = vit_stack(view)
    outer = (
        tower_map("vision_tower.patch_embedding", patch_inputs(view), stack.width, bias=True),
        tower_map("multi_modal_projector.mm_input_projection", stack.width, hidden_size, bias=False),
    )
    vectors = patch_count(view) * stack.width + 2 * stack.width + stack.width
    return (assemble("vision_tower", (stack,), outer, vectors),)


def clip_vision(view: ConfigView, name: str) -> Tower:
    """CLIP's vision tower: class token, positions, norms before and after the layers."""
    stack = vit_stack(view)
    outer = (tower_map(f"{name}.patch_embedding", patch_inputs(view), stack.width, bias=False),)
    return assemble(name, (stack,), outer, stack.width + (patch_count(view) + 1) * stack.width + 4 * stack.width)


def _llava(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    view = root.sub("vision_config")
    kind = view.text("model_type", default="clip_vision_model")
    if kind not in ("clip_vision_model", "pixtral"):
        raise view.inconsistent("model_type", "only clip_vision_model and pixtral are known under llava")
    width = view.integer("hidden_size")
    bias = root.flag("multimodal_projector_bias", default=True, quiet=True)
    projector = assemble(
        "multi_modal_projector",
        (),
        (
            tower_map("multi_modal_projector.linear_1", width, hidden_size, bias=bias),
            tower_map("multi_modal_projector.linear_2", hidden_size, hidden_size, bias=bias),
        ),
        0,
    )
    tower = _pixtral_tower(view, ()) if kind == "pixtral" else clip_vision(view, "vision_tower")
    return tower, projector


def _pixtral(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    """Pixtral's tower under a Mistral 3 projector with patch merging."""
    view = root.sub("vision_config")
    width = view.integer("hidden_size")
    bias = root.flag("multimodal_projector_bias", default=False, quiet=True)
    merge = root.integer("spatial_merge_size", default=2, maximum=64, quiet=True) ** 2
    projector = (
        tower_map("multi_modal_projector.merging_layer", width * merge, width, bias=False),
        tower_map("multi_modal_projector.linear_1", width, hidden_size, bias=bias),
        tower_map("multi_modal_projector.linear_2", hidden_size, hidden_size, bias=bias),
    )
    norm = Tower("multi_modal_projector.norm", (), width)
    return _pixtral_tower(view, projector), norm


def _pixtral_tower(view: ConfigView, projector: tuple[LinearMap, ...]) -> Tower:
    width = view.integer("hidden_size")
    heads = view.integer("num_attention_heads", maximum=MAX_COUNT)
    head_width = heads * view.integer("head_dim", default=width // heads, quiet=True)
    stack = Stack(
        read_layer_count(view),
        width,
        view.integer("intermediate_size"),
        gated=True,
        attention_bias=False,
        mlp_bias=False,
        norm=2 * width,
        attention_width=head_width,
    )
    patches = tower_map("vision_tower.patch_conv", patch_inputs(view), width, bias=False)
    return assemble("vision_tower", (stack,), (patches, *projector), width)


def _llama4(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    view = root.sub("vision_config")
    stack = vit_stack(view)
    ratio = view.number("pixel_shuffle_ratio", minimum=0.01, maximum=1)
    shuffled = round(stack.width / ratio**2)
    hidden, output = view.integer("projector_input_dim"), view.integer("projector_output_dim")
    if shuffled != stack.inner:
        raise view.inconsistent("intermediate_size", f"must be the shuffled patches' width {shuffled}")
    if hidden != output:
        raise view.inconsistent("projector_output_dim", f"must be projector_input_dim {hidden}")
    outer = (
        tower_map("vision_model.patch_embedding", patch_inputs(view), stack.width, bias=False),
        tower_map("vision_model.vision_adapter.fc1", shuffled, hidden, bias=False),
        tower_map("vision_model.vision_adapter.fc2", hidden, output, bias=False),
        tower_map("multi_modal_projector.linear_1", view.integer("vision_output_dim"), hidden_size, bias=False),
    )
    vectors = stack.width + (patch_count(view) + 1) * stack.width + 4 * stack.width
    return (assemble("vision_model", (stack,), outer, vectors),)


def mllama_patch_tokens(root: ConfigView) -> int:
    """Vision tokens of one tile: its patches and the class token."""
    return patch_count(root.sub("vision_config")) + 1


def mllama_tiles(root: ConfigView) -> int:
    """Most tiles one image is cut into."""
    return root.sub("vision_config").integer("max_num_tiles", maximum=64)


def _mllama(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    view = root.sub("vision_config")
    width = view.integer("hidden_size")
    inner = view.integer("intermediate_size")
    local = Stack(read_layer_count(view), width, inner, attention_bias=False, norm=4 * width)
    global_layers = view.integer("num_global_layers", maximum=MAX_COUNT)
    gated = Stack(global_layers, width, inner, attention_bias=False, norm=4 * width + 2)
    tiles, tokens = mllama_tiles(root), mllama_patch_tokens(root)
    shapes = len(view.items("supported_aspect_ratios")) + 1
    positions = tokens * width + shapes * tiles * tokens * width + 2 * shapes * tiles * width + 3
    outer = (
        tower_map("vision_model.patch_embedding", patch_inputs(view), width, bias=False),
        tower_map("multi_modal_projector", view.integer("vision_output_dim"), hidden_size, bias=True),
    )
    return (assemble("vision_model", (local, gated), outer, width + positions + 4 * width),)


def _kimi(root: ConfigView, _hidden_size: int) -> tuple[Tower, ...]:
    """MoonViT with a patch merger (Kimi K2.5 and K2.6)."""
    view = root.sub("vision_config")
    width = view.integer("vt_hidden_size")
    stack = Stack(
        view.integer("vt_num_hidden_layers", maximum=MAX_COUNT),
        width,
        view.integer("vt_intermediate_size"),
        norm=4 * width,
    )
    merged = view.integer("mm_hidden_size") * _merged_patches(view)
    outer = (
        tower_map("vision_tower.patch_embed", patch_inputs(view), width, bias=True),
        tower_map("mm_projector.linear_1", merged, merged, bias=True),
        tower_map("mm_projector.linear_2", merged, view.integer("text_hidden_size"), bias=True),
    )
    positions = view.integer("init_pos_emb_height") * view.integer("init_pos_emb_width") * width
    vectors = positions + 2 * width + 2 * view.integer("mm_hidden_size")
    return (assemble("vision_tower", (stack,), outer, vectors),)


def _kimi_k3(root: ConfigView, _hidden_size: int) -> tuple[Tower, ...]:
    """MoonViT with RMS norms and no biases, heads wider than the residual stream, and a merger normed at its end."""
    view = root.sub("vision_config")
    for key, known in (("norm_type", "rmsnorm"), ("mlp_type", "mlp2"), ("mm_projector_type", "patchmergerv2")):
        if view.text(key, default=known) != known:
            raise view.inconsistent(key, f"only {known} is known for this model type")
    for key in ("attn_bias", "linear_bias", "patch_embed_proj_bias"):
        if view.flag(key, default=False, quiet=True):
            raise view.inconsistent(key, "only false is known for this model type")
    width = view.integer("vt_hidden_size")
    stack = Stack(
        view.integer("vt_num_hidden_layers", maximum=MAX_COUNT),
        width,
        view.integer("vt_intermediate_size"),
        attention_bias=False,
        mlp_bias=False,
        norm=2 * width,
        attention_width=view.integer("qkv_hidden_size"),
    )
    merged = view.integer("mm_hidden_size") * _merged_patches(view)
    text_width = view.integer("text_hidden_size")
    outer = (
        tower_map("vision_tower.patch_embed", patch_inputs(view), width, bias=False),
        tower_map("mm_projector.linear_1", merged, merged, bias=False),
        tower_map("mm_projector.linear_2", merged, text_width, bias=False),
    )
    positions = view.integer("init_pos_emb_height") * view.integer("init_pos_emb_width") * width
    return (assemble("vision_tower", (stack,), outer, positions + width + text_width),)


def _merged_patches(view: ConfigView) -> int:
    """Patches that become one token."""
    sides = view.items("merge_kernel_size", 2)
    rows, columns = (view.checked_integer("merge_kernel_size", side, maximum=64) for side in sides)
    return rows * columns


def _gemma4(root: ConfigView, hidden_size: int) -> tuple[Tower, ...]:
    if root.has("audio_config"):
        raise root.inconsistent("audio_config", "gemma4 with an audio tower cannot be sized yet; null is accepted")
    view = root.sub("vision_config")
    width = view.integer("hidden_size")
    heads = view.integer("num_attention_heads", maximum=MAX_COUNT)
    head_dim = view.integer("head_dim", maximum=MAX_COUNT)
    stack = Stack(
        read_layer_count(view),
        width,
        view.integer("intermediate_size"),
        gated=True,
        attention_bias=view.flag("attention_bias", default=False, quiet=True),
        mlp_bias=False,
        norm=4 * width + 2 * head_dim,
        attention_width=heads * head_dim,
    )
    outer = (
        tower_map("vision_tower.patch_embedder", patch_inputs(view), width, bias=False),
        tower_map("embed_vision.embedding_projection", width, hidden_size, bias=False),
    )
    return (assemble("vision_tower", (stack,), outer, 2 * view.integer("position_embedding_size") * width),)


TOWERS: Mapping[str, Callable[[ConfigView, int], tuple[Tower, ...]]] = MappingProxyType(
    {
        "qwen2_vl": _qwen2_vl,
        "qwen2_5_vl": _qwen2_5_vl,
        "qwen3_vl": _qwen3_vl,
        "qwen3_vl_moe": _qwen3_vl,
        "qwen3_5": _qwen3_vl,
        "qwen3_5_moe": _qwen3_vl,
        "gemma3": _siglip,
        "gemma3n": gemma3n_towers,
        "gemma4": _gemma4,
        "llava": _llava,
        "mistral3": _pixtral,
        "llama4": _llama4,
        "mllama": _mllama,
        "kimi_k25": _kimi,
        "kimi_k3": _kimi_k3,
    }
)
"""Readers of the towers of known multimodal model types: ``(root view, text hidden size) -> towers``."""

TEXT_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "qwen2_vl": "qwen2",
        "qwen2_vl_text": "qwen2",
        "qwen2_5_vl": "qwen2",
        "qwen2_5_vl_text": "qwen2",
        "qwen3_vl_text": "qwen3",
        "qwen3_vl_moe_text": "qwen3_moe",
        "mllama_text_model": "mllama_text",
    }
)
"""Which decoder family the text part of a multimodal type is."""
