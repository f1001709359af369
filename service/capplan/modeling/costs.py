"""What one model, stored and cached in given formats, costs to hold and to run: the estimator's view of a model."""

from __future__ import annotations

from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.cache_costs import attention_costs, state_costs
from capplan.modeling.cost_records import AttentionCost, GemmCost, ModelCosts, SplitRule, StateCost
from capplan.modeling.linear import Component, Shard
from capplan.modeling.parameters import active_parameters, total_parameters
from capplan.modeling.precision import resolve_default_weights, resolve_kv_cache, resolve_weights
from capplan.modeling.weight_costs import gemm_costs, split_rules, vector_bytes

__all__ = [
    "AttentionCost",
    "Component",
    "GemmCost",
    "ModelCosts",
    "Shard",
    "SplitRule",
    "StateCost",
    "model_costs",
]


def model_costs(architecture: ModelArchitecture, weights: str | None = None, kv_cache: str = "auto") -> ModelCosts:
    """What a model costs, stored and cached in the given formats.

    Args:
        architecture: the model.
        weights: weight precision, one of :data:`capplan.modeling.precision.SIZABLE_PRECISIONS`; ``None`` for what
            engines load by default (:func:`capplan.modeling.precision.serving_precision`).
        kv_cache: KV-cache format, one of :data:`capplan.modeling.precision.KV_CACHE_PRECISIONS`.

    Raises:
        UnsupportedPrecisionError: a precision that is unknown or that this checkpoint is not served in.
    """
    plan = resolve_default_weights(architecture) if weights is None else resolve_weights(architecture, weights)
    kv_precision = resolve_kv_cache(architecture, kv_cache, plan)
    return ModelCosts(
        model=architecture.name,
        weight_precision=plan.precision,
        kv_precision=kv_precision,
        assumptions=(*architecture.assumptions, *plan.assumptions),
        gemms=gemm_costs(architecture, plan),
        attentions=attention_costs(architecture, kv_precision),
        states=state_costs(architecture, kv_precision),
        replicated_bytes=vector_bytes(architecture, plan),
        layers=architecture.layer_count,
        hidden_size=architecture.hidden_size,
        vocabulary_size=architecture.vocabulary_size,
        max_context_tokens=architecture.max_context_tokens,
        total_parameters=total_parameters(architecture),
        active_parameters=active_parameters(architecture),
        activation_element_bytes=plan.activation_element_bytes,
        splits=split_rules(architecture, plan),
    )
