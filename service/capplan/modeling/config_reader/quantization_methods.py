"""Reads a quantisation block by its method: fp8, fbgemm, AWQ, GPTQ, mxfp4, bitsandbytes, ModelOpt's algorithms."""

from __future__ import annotations

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.config_reader.compressed_tensors import read_config_groups
from capplan.modeling.config_reader.quantized_maps import Scheme
from capplan.modeling.config_reader.view import ConfigView, shown
from capplan.modeling.storage import PACKED_GROUPS, PER_CHANNEL

_KNOWN_METHODS = ("fp8", "fbgemm_fp8", "awq", "gptq", "mxfp4", "bitsandbytes", "compressed-tensors", "modelopt")


def read_scheme(view: ConfigView) -> Scheme:
    """What a ``quantization_config`` says.

    Raises:
        UnsupportedModelError: a method or format that is not known, named by its field.
    """
    if view.has("config_groups"):
        scheme = read_config_groups(view, module_names(view, "ignore"), read_kv_hint(view))
        if view.has("quant_algo") and _algorithm(view)[0] != scheme.precision:
            raise UnsupportedModelError.single(
                view.field("quant_algo"), f"contradicts config_groups, whose weights are {scheme.precision}"
            )
        return scheme
    if view.has("quant_algo"):
        return read_model_optimizer(view)
    method = view.text("quant_method")
    ignored = module_names(view, "modules_to_not_convert") + module_names(view, "ignored_layers")
    hint = read_kv_hint(view)
    match method:
        case "fp8":
            return Scheme("fp8", method, _fp8_storage(view), ignored, hint)
        case "fbgemm_fp8":
            # Meta's recipe leaves attention alone; its list names only the layers where the feed-forward stays too.
            return Scheme("fp8", method, "fp8_channel", (*ignored, "self_attn"), hint)
        case "awq" | "gptq":
            bits, storage = _grouped_storage(view, method)
            return Scheme("int8" if bits == 8 else "int4", method, storage, ignored, hint)
        case "mxfp4":
            view.expect("dequantize", (None, False))
            return Scheme("mxfp4", method, "mxfp4", ignored, hint, experts_only=True)
        case "bitsandbytes":
            return _bitsandbytes(view, (*ignored, *module_names(view, "llm_int8_skip_modules")), hint)
    raise UnsupportedModelError.single(
        view.field("quant_method"),
        f"quantisation method {shown(method)} is not known; known: {', '.join(_KNOWN_METHODS)}",
    )


def _fp8_storage(view: ConfigView) -> str:
    view.expect("fmt", (None, "e4m3", "float8_e4m3fn"))
    view.expect("scale_fmt", (None, "ue8m0"))
    view.expect("dequantize", (None, False))
    if view.has("weight_block_size"):
        if list(view.items("weight_block_size")) != [128, 128]:
            raise UnsupportedModelError.single(view.field("weight_block_size"), "only blocks of [128, 128] are known")
        view.expect("activation_scheme", (None, "dynamic"))
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


def _grouped_storage(view: ConfigView, method: str) -> tuple[int, str]:
    """Bits and storage format of AWQ and GPTQ, whose groups run along the input; -1 is one group a column."""
    if method == "awq" and not view.flag("zero_point", default=True):
        raise UnsupportedModelError.single(view.field("zero_point"), "only awq with zero points (true) is known")
    # Other layouts drop zero points or indices, or pad them.
    view.expect("checkpoint_format", (None, "gptq", "gptq_v2") if method == "gptq" else (None,))
    view.expect("is_marlin_format", (None, False))
    view.expect("version", (None, "gemm", "GEMM") if method == "awq" else (None,))
    view.expect("pack_dtype", (None, "int32"))
    view.expect("modules_in_block_to_quantize", (None,))
    view.expect("format", (None, "gptq", "gptq_v2") if method == "gptq" else (None, "gemm"))
    if view.flag("lm_head", default=False, quiet=True):
        raise UnsupportedModelError.single(view.field("lm_head"), "a quantised output head is not known; known: false")
    if view.raw("dynamic") not in (None, False, {}):
        raise UnsupportedModelError.single(
            view.field("dynamic"), "rules that differ by module are not known how to read; accepted is none"
        )
    bits = view.integer("bits", "w_bit", maximum=64)
    known_bits = (4,) if method == "awq" else (4, 8)
    if bits not in known_bits:
        listed = " and ".join(map(str, known_bits))
        raise UnsupportedModelError.single(view.field("bits"), f"{method} in {bits} bits is not known; known: {listed}")
    key = view.first("group_size", "q_group_size") or "group_size"
    group = view.integer("group_size", "q_group_size", minimum=-1)
    if group != -1 and group not in PACKED_GROUPS:
        listed = ", ".join(map(str, PACKED_GROUPS))
        raise UnsupportedModelError.single(
            view.field(key), f"{method} in groups of {group} is not known; known: {listed}, and -1 for one a column"
        )
    return bits, f"{method}_int{bits}_{PER_CHANNEL if group == -1 else f'g{group}'}"


def _bitsandbytes(view: ConfigView, ignored: tuple[str, ...], hint: str | None) -> Scheme:
    in_4_bit, in_8_bit = (view.flag(key, default=False, quiet=True) for key in ("load_in_4bit", "load_in_8bit"))
    if in_4_bit == in_8_bit:
        raise UnsupportedModelError.single(
            view.field("load_in_4bit"), "exactly one of load_in_4bit and load_in_8bit must be true"
        )
    for key, flag in (("_load_in_4bit", in_4_bit), ("_load_in_8bit", in_8_bit)):
        view.expect(key, (None, flag))
    if view.flag("llm_int8_has_fp16_weight", default=False, quiet=True):
        raise UnsupportedModelError.single(
            view.field("llm_int8_has_fp16_weight"), "weights kept in 16 bit are not known; known: false"
        )
    if in_8_bit:
        return Scheme("int8", "bitsandbytes", "bnb_int8", ignored, hint)
    if view.text("bnb_4bit_quant_type", default="nf4") != "nf4":
        raise UnsupportedModelError.single(view.field("bnb_4bit_quant_type"), "only nf4 is known")
    double = view.flag("bnb_4bit_use_double_quant", default=False)
    return Scheme("int4", "bitsandbytes", "bnb_nf4_double" if double else "bnb_nf4", ignored, hint)


def _algorithm(view: ConfigView) -> tuple[str, str]:
    """Precision and storage of ModelOpt's ``quant_algo``, whose groups have one size each."""
    algorithm = view.text("quant_algo").upper()
    known = {
        "FP8": ("fp8", "fp8_tensor_static", None),
        "NVFP4": ("nvfp4", "nvfp4", 16),
        "FP8_PB_WO": ("fp8", "fp8_block", 128),
    }
    if algorithm not in known:
        raise UnsupportedModelError.single(
            view.field("quant_algo"), f"{shown(algorithm)} is not known; known: {', '.join(known)}"
        )
    precision, storage, group = known[algorithm]
    stated = view.optional_integer("group_size", minimum=-1)
    if stated not in (None, group):
        raise UnsupportedModelError.single(
            view.field("group_size"), f"{algorithm} in groups of {stated} is not known; known: {group or 'null'}"
        )
    return precision, storage


def read_model_optimizer(view: ConfigView) -> Scheme:
    """What ModelOpt's keys say, in a ``quantization_config`` or a ``hf_quant_config.json``."""
    method = view.text("quant_method", default="modelopt")
    if method not in ("modelopt", "modelopt_fp4"):
        raise UnsupportedModelError.single(
            view.field("quant_method"), f"{shown(method)} has no quant_algo; known with it: modelopt"
        )
    precision, storage = _algorithm(view)
    ignored = module_names(view, "exclude_modules") + module_names(view, "ignore")
    return Scheme(precision, "modelopt", storage, ignored, read_kv_hint(view))


def read_kv_hint(view: ConfigView) -> str | None:
    """The KV-cache format a block asks for under either of its keys, ``None`` where it asks for none."""
    hints = {}
    for key in ("kv_cache_quant_algo", "kv_cache_scheme"):
        value = view.raw(key)
        if value in (None, {}):
            continue
        hints[key] = _kv_name(value, view.field(key)) if isinstance(value, str) else _kv_numbers(view, key)
    if len(set(hints.values())) > 1:
        raise UnsupportedModelError.single(
            view.field("kv_cache_quant_algo"), "contradicts kv_cache_scheme; accepted is one of them"
        )
    return next(iter(hints.values()), None)


def _kv_numbers(view: ConfigView, key: str) -> str:
    scheme = view.sub(key)
    if scheme.integer("num_bits", maximum=64) == 8 and scheme.text("type", default="float") == "float":
        return "fp8"
    raise UnsupportedModelError.single(view.field(key), "only 8-bit float KV caches are known")


def _kv_name(value: str, field: str) -> str:
    if value.upper() == "FP8":
        return "fp8"
    raise UnsupportedModelError.single(field, f"KV-cache format {shown(value)} is not known; known: FP8")


def module_names(view: ConfigView, key: str) -> tuple[str, ...]:
    """A list of module names, empty when the key is absent or null."""
    if not view.has(key):
        return ()
    values = view.items(key)
    if not all(isinstance(value, str) for value in values):
        raise InvalidInputError.single(view.field(key), "must be a list of module names")
    return tuple(str(value) for value in values)
