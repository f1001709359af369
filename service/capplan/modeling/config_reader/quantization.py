"""Reads how a checkpoint is quantised: method, storage format, and which linear maps stay in 16 bit.

The block sits in ``quantization_config`` (at the top or in the text part), or only in a separate
``hf_quant_config.json`` as NVIDIA's ModelOpt writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.architecture import LayerRange, LayerRun, NativeQuantization, QuantizedMap
from capplan.modeling.config_reader.ignored_modules import IgnoredModules
from capplan.modeling.config_reader.view import ConfigView
from capplan.modeling.linear import Component, LinearMap

HF_QUANT_FIELD = "model.hf_quant_config_json"

NO_EXCLUSIONS = "no module is listed as left in 16 bit: all decoder linear layers are taken as quantised"

_EXCLUSION_KEYS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules")

# DeepSeek's recipe, taken over by others, quantises every linear layer and has no list: its absence says nothing.
_BLOCK_FP8_KEYS = frozenset(("quant_method", "fmt", "activation_scheme", "weight_block_size", "scale_fmt"))


@dataclass(frozen=True, slots=True)
class _Scheme:
    """What a quantisation block says, before it is applied to the linear maps."""

    precision: str
    method: str
    storage: str
    ignored: tuple[str, ...]
    kv_cache: str | None
    experts_only: bool = False


def read_quantization(
    config: ConfigView | None,
    separate: Mapping[str, object] | None,
    layers: tuple[LayerRun, ...],
    head: LinearMap | None,
    family: str,
    *,
    fp4_experts: bool = False,
) -> NativeQuantization | None:
    """How the checkpoint is quantised, ``None`` for a 16-bit one.

    Args:
        config: the ``quantization_config`` block, ``None`` without.
        separate: parsed ``hf_quant_config.json``, ``None`` without.
        layers: the model's layers.
        head: its output head, when it is a matrix of its own.
        family: the model type.
        fp4_experts: routed experts are in mxfp4 whatever the method says of the rest (DeepSeek V4).

    Raises:
        UnsupportedModelError: a method or format that is not known, named by its field.
    """
    scheme = _scheme(config) if config is not None else None
    hint = _separate_scheme(separate) if separate is not None else None
    if scheme is None:
        scheme = hint
    if scheme is None:
        return None
    if family == "llama4" and scheme.method == "compressed-tensors" and not scheme.ignored:
        # Meta's Maverick checkpoint names no module left in 16 bit, yet only its routed experts are in fp8.
        scheme = replace(scheme, experts_only=True)
    if (
        config is not None
        and not scheme.experts_only
        and config.names.isdisjoint(_EXCLUSION_KEYS)
        and not (scheme.storage == "fp8_block" and config.names <= _BLOCK_FP8_KEYS)
    ):
        config.remarks.append(NO_EXCLUSIONS)
    kv_cache = scheme.kv_cache or (hint.kv_cache if hint else None)
    if config is not None and scheme.method == "mxfp4" and not _has_experts(layers):
        raise UnsupportedModelError.single(
            config.field("quant_method"), "mxfp4 is known for routed experts only, of which there are none"
        )
    maps = _quantized_maps(scheme, layers, head)
    if fp4_experts:
        maps = tuple(replace(m, storage="mxfp4") if ".experts." in m.name else m for m in maps)
    return NativeQuantization(scheme.precision, scheme.method, maps, kv_cache)


def _scheme(view: ConfigView) -> _Scheme:
    if view.has("config_groups"):
        return _compressed_tensors(view)
    if view.has("quant_algo"):
        return _model_optimizer(view)
    method = view.text("quant_method")
    ignored = _strings(view, "modules_to_not_convert") + _strings(view, "ignored_layers")
    match method:
        case "fp8":
            return _Scheme("fp8", method, _fp8_storage(view), ignored, None)
        case "fbgemm_fp8":
            # Meta's recipe leaves attention alone; its list names only the layers where the feed-forward stays too.
            return _Scheme("fp8", method, "fp8_channel", (*ignored, "self_attn"), None)
        case "awq" | "gptq":
            return _Scheme(
                "int8" if _bits(view) == 8 else "int4", method, _grouped_storage(view, method), ignored, None
            )
        case "mxfp4":
            return _Scheme("mxfp4", method, "mxfp4", ignored, None, experts_only=True)
        case "bitsandbytes":
            skipped = _strings(view, "llm_int8_skip_modules")
            return _bitsandbytes(view, (*ignored, *skipped))
    raise UnsupportedModelError.single(
        view.field("quant_method"),
        f"quantisation method {method!r} is not known; known: fp8, fbgemm_fp8, awq, gptq, mxfp4, bitsandbytes, "
        "compressed-tensors, modelopt",
    )


def _fp8_storage(view: ConfigView) -> str:
    if view.has("weight_block_size"):
        if list(view.items("weight_block_size")) != [128, 128]:
            raise UnsupportedModelError.single(view.field("weight_block_size"), "only blocks of [128, 128] are known")
        return "fp8_block"
    if "weight_block_size" not in view.names:
        view.note_default("weight_block_size", "none, one scale a matrix")
    if not view.has("activation_scheme"):
        view.note_default("activation_scheme", "dynamic")
    scheme = view.text("activation_scheme", default="dynamic")
    if scheme not in ("dynamic", "static"):
        raise UnsupportedModelError.single(
            view.field("activation_scheme"), f"{scheme!r} is not known; known: dynamic, static"
        )
    return "fp8_tensor_static" if scheme == "static" else "fp8_tensor"


def _bits(view: ConfigView) -> int:
    return view.integer("bits", "w_bit", maximum=64)


def _grouped_storage(view: ConfigView, method: str) -> str:
    if method == "awq" and not view.flag("zero_point", default=True):
        raise UnsupportedModelError.single(view.field("zero_point"), "only awq with zero points (true) is known")
    if view.flag("lm_head", default=False, quiet=True):
        raise UnsupportedModelError.single(view.field("lm_head"), "a quantised output head is not known; known: false")
    if view.raw("dynamic") not in (None, False, {}):
        raise UnsupportedModelError.single(
            view.field("dynamic"), "rules that differ by module are not known how to read; accepted is none"
        )
    bits, group = _bits(view), view.integer("group_size", "q_group_size", minimum=-1)
    name = f"{method}_int{bits}_g{group}"
    if name not in ("awq_int4_g128", "gptq_int4_g128", "gptq_int8_g128"):
        raise UnsupportedModelError.single(
            view.field("bits"), f"{method} with {bits} bits in groups of {group} is not known; known: groups of 128"
        )
    return name


def _bitsandbytes(view: ConfigView, ignored: tuple[str, ...]) -> _Scheme:
    in_4_bit, in_8_bit = (view.flag(key, default=False, quiet=True) for key in ("load_in_4bit", "load_in_8bit"))
    if in_4_bit == in_8_bit:
        raise UnsupportedModelError.single(
            view.field("load_in_4bit"), "exactly one of load_in_4bit and load_in_8bit must be true"
        )
    if view.flag("llm_int8_has_fp16_weight", default=False, quiet=True):
        raise UnsupportedModelError.single(
            view.field("llm_int8_has_fp16_weight"), "weights kept in 16 bit are not known; known: false"
        )
    if in_8_bit:
        return _Scheme("int8", "bitsandbytes", "bnb_int8", ignored, None)
    if view.text("bnb_4bit_quant_type", default="nf4") != "nf4":
        raise UnsupportedModelError.single(view.field("bnb_4bit_quant_type"), "only nf4 is known")
    double = view.flag("bnb_4bit_use_double_quant", default=False)
    return _Scheme("int4", "bitsandbytes", "bnb_nf4_double" if double else "bnb_nf4", ignored, None)


def _compressed_tensors(view: ConfigView) -> _Scheme:
    groups = view.sub("config_groups")
    names = sorted(groups.names)
    if len(names) != 1:
        raise UnsupportedModelError.single(
            view.field("config_groups"), f"one group is known how to read, not {len(names)}"
        )
    group = groups.sub(names[0])
    weights = group.sub("weights")
    ignored = _strings(view, "ignore")
    method = view.text("quant_method", default="modelopt")
    if method not in ("compressed-tensors", "modelopt"):
        raise UnsupportedModelError.single(
            view.field("quant_method"), f"{method!r} has no config_groups; known: compressed-tensors, modelopt"
        )
    _check_packing(view, group, weights, method)
    precision, storage = _weight_storage(group, weights)
    if view.has("quant_algo") and _algorithm(view)[0] != precision:
        raise UnsupportedModelError.single(
            view.field("quant_algo"), f"contradicts config_groups, whose weights are {precision}"
        )
    return _Scheme(precision, method, storage, ignored, _kv_scheme(view))


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
    if weights.raw("actorder") in ("group", True):
        raise UnsupportedModelError.single(
            weights.field("actorder"), "stored group indices are not known; known: null, weight, static"
        )
    if weights.raw("block_structure") not in (None, [128, 128]) or (
        weights.raw("strategy") == "block" and not weights.has("block_structure")
    ):
        raise UnsupportedModelError.single(weights.field("block_structure"), "only blocks of [128, 128] are known")
    for place in (view, group):
        if place.raw("format") in ("dense", "marlin-24", "sparse-24-bitmask", "sparse-bitmask", "mixed-precision"):
            raise UnsupportedModelError.single(place.field("format"), f"{place.text('format')!r} is not known")
    if view.raw("sparsity_config") not in (None, {}):
        raise UnsupportedModelError.single(view.field("sparsity_config"), "sparse weights are not known")


def _weight_storage(group: ConfigView, weights: ConfigView) -> tuple[str, str]:
    bits, kind = weights.integer("num_bits", maximum=64), weights.text("type", default="int")
    size = weights.optional_integer("group_size", minimum=-1)
    strategy = weights.text("strategy", default="group" if size else "tensor")
    match kind, bits, strategy, size:
        case "float", 8, "channel", _:
            return "fp8", "fp8_channel"
        case "float", 8, "tensor", _:
            static = group.has("input_activations") and not group.sub("input_activations").flag("dynamic", default=True)
            return "fp8", "fp8_tensor_static" if static else "fp8_tensor"
        case "float", 8, "block", _:
            return "fp8", "fp8_block"
        case "float", 8, "group", 32:
            return "fp8", "mxfp8"
        case "float", 4, _, 16:
            return "nvfp4", "nvfp4"
        case "float", 4, _, 32:
            return "mxfp4", "mxfp4"
        case "int", 8, "channel" | "tensor", _:
            return "int8", "int8_channel"
        case "int", 4, "group", 32 | 128:
            return "int4", f"w4a16_g{size}"
    raise UnsupportedModelError.single(
        weights.field("num_bits"), f"{bits}-bit {kind} weights by {strategy} of {size} are not known"
    )


def _kv_scheme(view: ConfigView) -> str | None:
    value = view.raw("kv_cache_scheme")
    if value is None:
        return None
    if isinstance(value, str):
        return _kv_name(value, view.field("kv_cache_scheme"))
    scheme = view.sub("kv_cache_scheme")
    if scheme.integer("num_bits", maximum=64) == 8 and scheme.text("type", default="float") == "float":
        return "fp8"
    raise UnsupportedModelError.single(view.field("kv_cache_scheme"), "only 8-bit float KV caches are known")


def _kv_name(value: str, field: str) -> str:
    if value.upper() == "FP8":
        return "fp8"
    raise UnsupportedModelError.single(field, f"KV-cache format {value!r} is not known; known: FP8")


def _algorithm(view: ConfigView) -> tuple[str, str]:
    """Precision and storage of ModelOpt's ``quant_algo``, whose groups have one size each."""
    algorithm = view.text("quant_algo").upper()
    known = {
        "FP8": ("fp8", "fp8_tensor_static", None),
        "NVFP4": ("nvfp4", "nvfp4", 16),
        "W4A16_AWQ": ("int4", "awq_int4_g128", 128),
        "FP8_PB_WO": ("fp8", "fp8_block", None),
    }
    if algorithm not in known:
        raise UnsupportedModelError.single(
            view.field("quant_algo"), f"{algorithm!r} is not known; known: {', '.join(known)}"
        )
    precision, storage, group = known[algorithm]
    stated = view.optional_integer("group_size", minimum=-1)
    if group is not None and stated not in (None, group):
        raise UnsupportedModelError.single(
            view.field("group_size"), f"{algorithm} in groups of {stated} is not known; known: {group}"
        )
    return precision, storage


def _model_optimizer(view: ConfigView) -> _Scheme:
    precision, storage = _algorithm(view)
    ignored = _strings(view, "exclude_modules") + _strings(view, "ignore")
    cache = view.first("kv_cache_quant_algo")
    kv_cache = _kv_name(view.text(cache), view.field(cache)) if cache else _kv_scheme(view)
    return _Scheme(precision, "modelopt", storage, ignored, kv_cache)


def _separate_scheme(separate: Mapping[str, object]) -> _Scheme:
    if not isinstance(separate, Mapping):
        raise InvalidInputError.single(HF_QUANT_FIELD, "must be an object")
    return _model_optimizer(ConfigView(separate, HF_QUANT_FIELD).sub("quantization"))


def _strings(view: ConfigView, key: str) -> tuple[str, ...]:
    if not view.has(key):
        return ()
    values = view.items(key)
    if not all(isinstance(value, str) for value in values):
        raise InvalidInputError.single(view.field(key), "must be a list of module names")
    return tuple(str(value) for value in values)


def _has_experts(layers: tuple[LayerRun, ...]) -> bool:
    return any(linear.component is Component.ROUTED_EXPERT for run in layers for linear in run.block.maps())


def _quantized_maps(scheme: _Scheme, layers: tuple[LayerRun, ...], head: LinearMap | None) -> tuple[QuantizedMap, ...]:
    ignored = IgnoredModules(scheme.ignored)
    chosen: dict[str, list[int]] = {}
    occurrences: Counter[str] = Counter()
    first = 0
    for run in layers:
        for linear in run.block.maps():
            if not linear.quantizable or (scheme.experts_only and linear.component is not Component.ROUTED_EXPERT):
                continue
            occurrences[linear.name] += run.count
            kept = chosen.setdefault(linear.name, [])
            kept.extend(n for n in range(first, first + run.count) if not ignored.matches_layer(n, linear.name))
        first += run.count
    found = [
        QuantizedMap(name, scheme.storage, () if len(numbers) == occurrences[name] else ranges(numbers))
        for name, numbers in chosen.items()
        if numbers
    ]
    # ModelOpt quantises a head that its list does not name; every other recipe leaves heads alone.
    if head is not None and scheme.method == "modelopt" and scheme.ignored and not ignored.matches(head.name):
        found.append(QuantizedMap(head.name, scheme.storage, ()))
    return tuple(sorted(found, key=lambda entry: entry.name))


def ranges(numbers: Iterable[int]) -> tuple[LayerRange, ...]:
    """Ascending layer numbers as ranges."""
    found: list[LayerRange] = []
    for number in numbers:
        if found and found[-1].last == number - 1:
            found[-1] = LayerRange(found[-1].first, number)
        else:
            found.append(LayerRange(number, number))
    return tuple(found)
