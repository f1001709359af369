"""Which storage format each linear map gets, for a weight precision asked of a model, and what the KV cache stores.

A checkpoint that is quantised itself is taken as it is. For a precision asked of a 16-bit checkpoint the recipe that
published checkpoints of that format follow is applied, and named in an assumption. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from capplan.errors import UnsupportedPrecisionError
from capplan.modeling.architecture import LayerRange, ModelArchitecture, has_routed_experts
from capplan.modeling.gguf import GGUF_FAMILIES, GGUF_FILE_TYPES, gguf_storage
from capplan.modeling.linear import Component, LinearMap

WEIGHT_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "mxfp4", "nvfp4")
"""Weight precisions a deployment may be planned in."""

SIZABLE_PRECISIONS = (*WEIGHT_PRECISIONS, *GGUF_FILE_TYPES)
"""Weight precisions a model can be sized in: those of deployments, and GGUF files by their type."""

KV_CACHE_PRECISIONS = ("auto", "bf16", "fp16", "fp8")
"""KV-cache precisions a caller may ask for."""

WEIGHTS_FIELD = "precision.weights"
KV_CACHE_FIELD = "precision.kv_cache"

_BYTES: Mapping[str, int] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
_UNQUANTISED = tuple(_BYTES)
_GROUP_INPUTS = {"awq_int4_g128": 128, "mxfp4": 32, "nvfp4": 16}
# What ModelOpt's nvfp4 checkpoints of latent-attention models leave in 16 bit (nvidia/DeepSeek-V3.1-NVFP4).
_NVFP4_KEEPS = ("self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj")


@dataclass(frozen=True, slots=True)
class _Recipe:
    """What published checkpoints of a precision store a linear map in."""

    storage: str
    sentence: str


_RECIPES: Mapping[str, _Recipe] = {
    "fp8": _Recipe(
        "fp8_channel",
        "fp8 weights are taken as published dynamic fp8 checkpoints store them: all decoder linear layers per channel, "
        "embedding, head, routers and norms in 16 bit",
    ),
    "int8": _Recipe(
        "int8_channel",
        "int8 weights are taken as published w8a8 checkpoints store them: all decoder linear layers per channel, "
        "embedding, head, routers and norms in 16 bit",
    ),
    "int4": _Recipe(
        "awq_int4_g128",
        "int4 weights are taken as published AWQ checkpoints store them: all decoder linear layers in groups of 128, "
        "embedding, head, routers and norms in 16 bit",
    ),
    "mxfp4": _Recipe(
        "mxfp4",
        "mxfp4 weights are taken as the gpt-oss checkpoints store them: routed experts only, all else in 16 bit",
    ),
    "nvfp4": _Recipe(
        "nvfp4",
        "nvfp4 weights are taken as published ModelOpt checkpoints store them: decoder linear layers in groups of 16 "
        "(latent-attention projections, embedding, head, routers and norms in 16 bit)",
    ),
}

_CONVERSIONS: Mapping[tuple[str, str], str] = {
    ("fp8", "bf16"): "the fp8 checkpoint is dequantised to bf16",
    ("mxfp4", "bf16"): "the mxfp4 checkpoint is dequantised to bf16",
    ("fp8", "nvfp4"): "the fp8 checkpoint is requantised to nvfp4",
    ("fp8", "int4"): "the fp8 checkpoint is requantised to int4",
    ("fp8", "mxfp4"): "the fp8 checkpoint is requantised to mxfp4",
    ("int4", "nvfp4"): "the int4 checkpoint is requantised to nvfp4",
}


@dataclass(frozen=True, slots=True)
class StoredShare:
    """How many layers of a run store a linear map in one format."""

    storage: str
    layers: int


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """The storage format of every linear map.

    Attributes:
        precision: the precision asked for.
        base: format of everything unquantised.
        quantized: ``name -> ((storage, layer ranges or None for all layers), ...)``.
        assumptions: sentences on how it was arrived at.
        activations: format of activations and of towers, where it differs from ``base``.
    """

    precision: str
    base: str
    quantized: Mapping[str, tuple[tuple[str, tuple[LayerRange, ...] | None], ...]]
    assumptions: tuple[str, ...]
    activations: str = ""

    @property
    def element_bytes(self) -> int:
        """Bytes of one unquantised element."""
        return _BYTES[self.base]

    @property
    def activation_format(self) -> str:
        """Number format of activations."""
        return self.activations or self.base

    @property
    def activation_element_bytes(self) -> int:
        """Bytes of one element of an activation or a tower."""
        return _BYTES[self.activation_format]

    def shares(self, name: str, layers: tuple[LayerRange, ...]) -> Iterator[StoredShare]:
        """How these layers store the map of that name."""
        left = sum(part.last - part.first + 1 for part in layers)
        for storage, ranges in self.quantized.get(name, ()):
            inside = left if ranges is None else sum(_overlap(r, part) for r in ranges for part in layers)
            left -= inside
            if inside:
                yield StoredShare(storage, inside)
        if left > 0:
            yield StoredShare(self.base, left)

    def outer_storage(self, name: str) -> str:
        """Storage format of a map outside the layers."""
        for storage, _ in self.quantized.get(name, ()):
            return storage
        return self.base


def _overlap(one: LayerRange, other: LayerRange) -> int:
    return max(0, min(one.last, other.last) - max(one.first, other.first) + 1)


def native_precision(architecture: ModelArchitecture) -> str:
    """The weight precision of the checkpoint as published."""
    return architecture.quantization.precision if architecture.quantization is not None else architecture.dtype


def serving_precision(architecture: ModelArchitecture) -> str:
    """The weight precision engines load the checkpoint in when nobody asks for one.

    As published, but 16 bit for a checkpoint stored in fp32: vLLM (``ModelConfig``, dtype ``auto``), SGLang and
    TensorRT-LLM cast those. Which of the two 16-bit formats it is changes no byte.
    """
    native = native_precision(architecture)
    return "bf16" if native == "fp32" else native


def _served_sentence(architecture: ModelArchitecture) -> str:
    native, served = native_precision(architecture), serving_precision(architecture)
    return (
        f"the checkpoint is stored in {native} and taken in {served}, as vLLM, SGLang and TensorRT-LLM load it unless "
        f"told otherwise; ask for {native} to keep it"
    )


def accepted_weight_precisions(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Every weight precision this model may be deployed in."""
    native, experts = architecture.quantization, has_routed_experts(architecture.layers)
    if native is not None:
        reachable = {to for (source, to) in _CONVERSIONS if source == native.precision}
        if not experts:
            reachable.discard("mxfp4")
        if native.precision == "int4" and not (native.method == "compressed-tensors" and experts):
            # Trained in int4 and published again in nvfp4 (Kimi K2.5); never so for AWQ or GPTQ files.
            reachable.discard("nvfp4")
        return tuple(p for p in WEIGHT_PRECISIONS if p == native.precision or p in reachable)
    if experts:
        return WEIGHT_PRECISIONS
    return tuple(p for p in WEIGHT_PRECISIONS if p != "mxfp4")


def sizable_weight_precisions(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Every weight precision :func:`resolve_weights` accepts for this model, GGUF file types included."""
    accepted = accepted_weight_precisions(architecture)
    return (*accepted, *GGUF_FILE_TYPES) if _has_gguf_layout(architecture) else accepted


def _has_gguf_layout(architecture: ModelArchitecture) -> bool:
    return architecture.family in GGUF_FAMILIES and architecture.quantization is None


def resolve_default_weights(architecture: ModelArchitecture) -> WeightPlan:
    """The storage plan for what engines load by default, with a sentence where that is not what is stored."""
    plan = resolve_weights(architecture, serving_precision(architecture))
    if plan.precision == native_precision(architecture):
        return plan
    return replace(plan, assumptions=(*plan.assumptions, _served_sentence(architecture)))


def resolve_weights(architecture: ModelArchitecture, weights: str) -> WeightPlan:
    """The storage plan for a weight precision.

    Raises:
        UnsupportedPrecisionError: unknown precision, or one this checkpoint is not deployed in; names the field
            ``precision.weights`` and what is accepted.
    """
    accepted = sizable_weight_precisions(architecture)
    if weights not in accepted:
        why = "is not known" if weights not in SIZABLE_PRECISIONS else _refusal(architecture, weights)
        raise UnsupportedPrecisionError.single(WEIGHTS_FIELD, f"{weights!r} {why}; accepted: {', '.join(accepted)}")
    native = architecture.quantization
    base = "fp16" if architecture.dtype == "fp16" else "bf16"
    if native is not None and weights == native.precision:
        stored: dict[str, tuple[tuple[str, tuple[LayerRange, ...] | None], ...]] = {}
        for entry in native.maps:
            stored[entry.name] = (*stored.get(entry.name, ()), (entry.storage, entry.layers or None))
        return WeightPlan(weights, base, stored, ())
    assumptions: tuple[str, ...] = ()
    if native is not None:
        assumptions = (f"{architecture.name}: {_CONVERSIONS[native.precision, weights]}",)
    if weights in _UNQUANTISED:
        return WeightPlan(weights, weights, {}, assumptions)
    if weights in GGUF_FILE_TYPES:
        return WeightPlan(weights, "fp32", gguf_storage(architecture, weights), (_gguf_sentence(weights),), base)
    recipe = _RECIPES[weights]
    names, skipped = _recipe_maps(architecture, weights, recipe.storage)
    assumptions = (*assumptions, recipe.sentence)
    if skipped:
        listed = ", ".join(sorted(skipped))
        assumptions = (*assumptions, f"kept in 16 bit, the input width is no multiple of the group: {listed}")
    return WeightPlan(weights, base, dict.fromkeys(names, ((recipe.storage, None),)), assumptions)


def _gguf_sentence(file_type: str) -> str:
    return (
        f"{file_type} weights are taken as llama.cpp's quantize stores them without an importance matrix: token table "
        "and head quantised too, norms, biases and routers in fp32"
    )


def _refusal(architecture: ModelArchitecture, weights: str) -> str:
    if weights in GGUF_FILE_TYPES and architecture.family not in GGUF_FAMILIES:
        known = ", ".join(sorted(GGUF_FAMILIES))
        return f"is a GGUF file type, whose tensors are known for the model types {known}, not {architecture.family}"
    if architecture.quantization is not None:
        return f"is not a format the {native_precision(architecture)} checkpoint {architecture.name} is served in"
    return f"stores routed experts only, and {architecture.name} has none"


def _recipe_maps(architecture: ModelArchitecture, weights: str, storage: str) -> tuple[set[str], set[str]]:
    """Names the recipe quantises, and those it would but for their width."""
    names: set[str] = set()
    skipped: set[str] = set()
    for linear in {m for run in architecture.block_runs() for m in run.block.maps()}:
        if not linear.quantizable or not _in_recipe(linear, weights):
            continue
        if linear.in_features % _GROUP_INPUTS.get(storage, 1):
            skipped.add(linear.name)
        else:
            names.add(linear.name)
    return names - skipped, skipped


def _in_recipe(linear: LinearMap, weights: str) -> bool:
    if weights == "mxfp4":
        return linear.component is Component.ROUTED_EXPERT
    return weights != "nvfp4" or not (linear.name in _NVFP4_KEEPS or linear.name.startswith("self_attn.indexer."))


def resolve_kv_cache(architecture: ModelArchitecture, kv_cache: str, plan: WeightPlan) -> str:
    """The KV-cache format: what was asked for, or for ``auto`` what the checkpoint asks for, else its 16-bit format.

    Raises:
        UnsupportedPrecisionError: unknown format; names the field ``precision.kv_cache`` and what is accepted.
    """
    if kv_cache not in KV_CACHE_PRECISIONS:
        accepted = ", ".join(KV_CACHE_PRECISIONS)
        raise UnsupportedPrecisionError.single(KV_CACHE_FIELD, f"{kv_cache!r} is not known; accepted: {accepted}")
    if kv_cache != "auto":
        return kv_cache
    native = architecture.quantization
    if native is not None and native.kv_cache is not None:
        return native.kv_cache
    return "fp32" if plan.activation_element_bytes == 4 else plan.activation_format
