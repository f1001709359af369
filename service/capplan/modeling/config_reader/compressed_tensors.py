"""Reads ``config_groups``: what compressed-tensors, and ModelOpt after it, say of the numbers of each group."""

from __future__ import annotations

from capplan.errors import UnsupportedModelError
from capplan.modeling.config_reader.quantized_maps import Scheme
from capplan.modeling.config_reader.view import ConfigView, shown
from capplan.modeling.storage import PACKED_GROUPS, PER_CHANNEL

_FORMATS = (
    "float-quantized",
    "int-quantized",
    "naive-quantized",
    "pack-quantized",
    "mxfp4-pack-quantized",
    "nvfp4-pack-quantized",
)

# Formats that hold more or less by what a group says of its input activations, and what is taken where it says nothing.
_STORED_WITH_ACTIVATIONS = {
    "fp8_tensor": "no stored scale",
    "int8_tensor": "no stored scale",
    "nvfp4": "in nvfp4 too, with a stored scale",
}


def read_config_groups(view: ConfigView, ignored: tuple[str, ...], kv_cache: str | None) -> Scheme:
    """The scheme of a block with one group of quantised linear layers.

    Args:
        view: the quantisation block.
        ignored: modules it leaves in 16 bit.
        kv_cache: KV-cache format it asks for.

    Raises:
        UnsupportedModelError: more than one group, or numbers that cannot be sized.
    """
    groups = view.sub("config_groups")
    names = sorted(groups.names)
    if len(names) != 1:
        raise UnsupportedModelError.single(
            view.field("config_groups"), f"one group is known how to read, not {len(names)}"
        )
    group = groups.sub(names[0])
    weights = group.sub("weights")
    method = view.text("quant_method", default="modelopt")
    if method not in ("compressed-tensors", "modelopt"):
        raise UnsupportedModelError.single(
            view.field("quant_method"), f"{shown(method)} has no config_groups; known: compressed-tensors, modelopt"
        )
    _check_packing(view, group, weights, method)
    precision, storage = _weight_storage(group, weights)
    if storage in _STORED_WITH_ACTIVATIONS and "input_activations" not in group.names:
        view.note_default("input_activations", _STORED_WITH_ACTIVATIONS[storage])
    return Scheme(precision, method, storage, ignored, kv_cache)


def _check_packing(view: ConfigView, group: ConfigView, weights: ConfigView, method: str) -> None:
    """Refuse what makes a group smaller or larger than all linear layers in symmetric numbers."""
    # ModelOpt leaves targets, strategy and symmetry out where they are the only ones it has.
    for place, key in ((group, "targets"), (weights, "strategy"), (weights, "type")):
        if method == "compressed-tensors" and not place.has(key):
            raise UnsupportedModelError.single(place.field(key), "is needed to size the quantised layers")
    if group.has("targets") and group.raw("targets") != ["Linear"]:
        raise UnsupportedModelError.single(group.field("targets"), 'only ["Linear"] is known, with ignore for the rest')
    if not weights.flag("symmetric", default=True, quiet=True):
        raise UnsupportedModelError.single(weights.field("symmetric"), "weights with zero points are not known")
    if weights.flag("dynamic", default=False, quiet=True):
        raise UnsupportedModelError.single(weights.field("dynamic"), "weights quantised at run time are not known")
    weights.expect("scale_dtype", (None, "torch.uint8") if weights.raw("type") == "float" else (None,))
    if weights.raw("actorder") not in (None, False, "weight", "static"):
        raise UnsupportedModelError.single(
            weights.field("actorder"), "stored group indices are not known; known: null, weight, static"
        )
    if weights.raw("block_structure") not in (None, [128, 128]) or (
        weights.raw("strategy") == "block" and not weights.has("block_structure")
    ):
        raise UnsupportedModelError.single(weights.field("block_structure"), "only blocks of [128, 128] are known")
    for place in (view, group):
        place.expect("format", (None, *_FORMATS))
    if view.raw("sparsity_config") not in (None, {}):
        raise UnsupportedModelError.single(view.field("sparsity_config"), "sparse weights are not known")


def _weight_storage(group: ConfigView, weights: ConfigView) -> tuple[str, str]:
    bits, kind = weights.integer("num_bits", maximum=64), weights.text("type", default="int")
    size = weights.optional_integer("group_size", minimum=-1)
    strategy = weights.text("strategy", default="group" if size else "tensor")
    activations = group.sub("input_activations") if group.has("input_activations") else None
    static = activations is not None and not _found_at_run_time(activations)
    if activations is not None and (kind, bits) == ("int", 4):
        raise UnsupportedModelError.single(
            group.field("input_activations"), "quantised activations are not known beside int4 weights; known: null"
        )
    if static and (kind, bits) != ("float", 4) and (kind, strategy) != ("float", "tensor"):
        raise UnsupportedModelError.single(
            group.field("input_activations"),
            f"stored scales of activations are not known beside {bits}-bit {shown(kind)} weights by {shown(strategy)}; "
            "known: dynamic true, or null",
        )
    match kind, bits, strategy, size:
        case "float", 8, "channel", _:
            return "fp8", "fp8_channel"
        case "float", 8, "tensor", _:
            return "fp8", "fp8_tensor_static" if static else "fp8_tensor"
        case "float", 8, "block", _:
            return "fp8", "fp8_block"
        case "float", 8, "group", 32:
            return "fp8", "mxfp8"
        case "float", 4, "group" | "tensor_group", 16:
            weights_alone = "input_activations" in group.names and activations is None
            return "nvfp4", "nvfp4_w4a16" if weights_alone else "nvfp4"
        case "float", 4, "group", 32:
            return "mxfp4", "mxfp4"
        case "int", 8, "channel", _:
            return "int8", "int8_channel"
        case "int", 8, "tensor", _:
            return "int8", "int8_tensor"
        case "int", 4, "group", _ if size in PACKED_GROUPS:
            return "int4", f"w4a16_g{size}"
        case "int", 4, "channel", _:
            return "int4", f"w4a16_{PER_CHANNEL}"
    raise UnsupportedModelError.single(
        weights.field("num_bits"), f"{bits}-bit {shown(kind)} weights by {shown(strategy)} of {size} are not known"
    )


def _found_at_run_time(activations: ConfigView) -> bool:
    """Whether scales of activations are found as the model runs, "local" being those of NVFP4's groups."""
    if not activations.has("dynamic"):
        raise UnsupportedModelError.single(
            activations.field("dynamic"), "is needed to tell whether scales of activations are stored"
        )
    return activations.raw("dynamic") == "local" or activations.flag("dynamic")
