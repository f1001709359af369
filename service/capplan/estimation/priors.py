"""Coefficients of the step model that device facts do not give, before any calibration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepPriors:
    """Global coefficients of the step model.

    Attributes:
        sharpness: exponent p of the smooth roofline ``(t_mem^p + t_flop^p)^(1/p)``.
        weight_read_factor: multiplies the measured weight-read fraction.
        gemm_factor: multiplies the measured fraction of peak of large matrix products.
        half_rate_factor: multiplies the measured half-rate token count.
        attention_decode_fraction: share of 16-bit peak reached by attention in decode.
        attention_prefill_fraction: share of 16-bit peak reached by attention in prefill.
        step_s: scheduling and sampling of one step, seconds.
        layer_s: launches and element-wise work of one layer, seconds.
        expert_layer_s: routing and permutation of one mixture-of-experts layer, seconds.
    """

    sharpness: float
    weight_read_factor: float
    gemm_factor: float
    half_rate_factor: float
    attention_decode_fraction: float
    attention_prefill_fraction: float
    step_s: float
    layer_s: float
    expert_layer_s: float


PRIORS = StepPriors(
    sharpness=4.0,
    weight_read_factor=0.9,
    gemm_factor=0.85,
    half_rate_factor=1.0,
    attention_decode_fraction=0.4,
    attention_prefill_fraction=0.45,
    step_s=0.8e-3,
    layer_s=25e-6,
    expert_layer_s=25e-6,
)
"""Starting values: kernels inside an engine reach somewhat less than the micro-benchmarks in
:mod:`capplan.hardware.efficiency`; a graph launch is 1-2 us and a transformer layer makes about ten."""
