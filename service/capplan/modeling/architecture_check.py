"""What must hold of any architecture, wherever it comes from: nothing that is counted or divided by may be zero."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Final

from capplan.errors import InvalidInputError
from capplan.modeling.architecture import ModelArchitecture, NativeQuantization
from capplan.modeling.feed_forward import MixtureOfExperts
from capplan.modeling.linear import LinearMap
from capplan.modeling.storage import STORAGE_FORMATS

_DTYPES: Final = ("bf16", "fp16", "fp32")
_KV_CACHES: Final = ("fp8", "bf16", "fp16")
_PRECISIONS: Final = ("fp8", "int8", "int4", "mxfp4", "nvfp4")

_POSITIVE: Final = frozenset(
    {
        "copies", "copies_per_token", "count", "element_bytes", "expert_size", "experts", "experts_per_token", "groups",
        "head_dim", "heads", "hidden_size", "in_features", "inner_size", "input_size", "intermediate_size", "kernel",
        "key_head_dim", "key_heads", "kv_heads", "kv_lora_rank", "out_features", "output_groups", "output_rank",
        "query_heads", "rows", "state_element_bytes", "state_size", "topk", "value_head_dim", "value_heads", "width",
        "window_tokens", "max_context_tokens", "vocabulary_size", "q_lora_rank", "time_step_rank",
    }
)  # fmt: skip
"""Fields that are counted with or divided by; zero in them means a broken description."""


def check_architecture(architecture: ModelArchitecture, path: str) -> None:
    """Refuse an architecture that cannot be costed.

    Args:
        architecture: what to check.
        path: field the faults are reported under.

    Raises:
        InvalidInputError: naming the first field at fault.
    """
    _check_object(architecture, path)
    if architecture.dtype not in _DTYPES:
        raise InvalidInputError.single(f"{path}.dtype", f"must be one of {', '.join(_DTYPES)}")
    if architecture.tied_head and not architecture.embeddings:
        raise InvalidInputError.single(f"{path}.embeddings", "must hold the table that serves as the head")
    if not architecture.layers:
        raise InvalidInputError.single(f"{path}.layers", "must hold at least one layer")
    if architecture.quantization is not None:
        _check_quantization(architecture.quantization, f"{path}.quantization")


def _check_object(value: Any, path: str) -> None:
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            _check_object(item, f"{path}[{index}]")
        return
    if not is_dataclass(value):
        return
    for field in fields(value):
        item = getattr(value, field.name)
        if field.name in _POSITIVE and item == 0 and not isinstance(item, bool):
            raise InvalidInputError.single(f"{path}.{field.name}", "must be at least 1")
        _check_object(item, f"{path}.{field.name}")
    _check_ratios(value, path)


def _check_ratios(value: Any, path: str) -> None:
    if isinstance(value, LinearMap) and value.copies_per_token > value.copies:
        raise InvalidInputError.single(f"{path}.copies_per_token", f"must be at most the {value.copies} copies")
    if isinstance(value, MixtureOfExperts) and value.experts_per_token > value.experts:
        raise InvalidInputError.single(f"{path}.experts_per_token", f"must be at most the {value.experts} experts")


def _check_quantization(quantization: NativeQuantization, path: str) -> None:
    if quantization.precision not in _PRECISIONS:
        raise InvalidInputError.single(f"{path}.precision", f"must be one of {', '.join(_PRECISIONS)}")
    if quantization.kv_cache is not None and quantization.kv_cache not in _KV_CACHES:
        raise InvalidInputError.single(f"{path}.kv_cache", f"must be one of {', '.join(_KV_CACHES)}")
    for index, entry in enumerate(quantization.maps):
        if entry.storage not in STORAGE_FORMATS:
            known = ", ".join(STORAGE_FORMATS)
            raise InvalidInputError.single(f"{path}.maps[{index}].storage", f"must be one of {known}")
        if any(layers.first > layers.last for layers in entry.layers):
            raise InvalidInputError.single(f"{path}.maps[{index}].layers", "must run from first to last")
