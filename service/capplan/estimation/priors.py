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
        ramp_offset_tokens: rows of a matrix product below which a smaller product is no less efficient.
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
    ramp_offset_tokens: float
    attention_decode_fraction: float
    attention_prefill_fraction: float
    step_s: float
    layer_s: float
    expert_layer_s: float


PRIORS = StepPriors(
    sharpness=4.0,
    weight_read_factor=1.0,
    gemm_factor=0.7,
    half_rate_factor=0.4,
    ramp_offset_tokens=32.0,
    attention_decode_fraction=0.5,
    attention_prefill_fraction=0.6,
    step_s=0.2e-3,
    layer_s=30e-6,
    expert_layer_s=45e-6,
)
"""Round figures, one set for every device and model, chosen on published measurements that state the layout.

Matrix products inside an engine reach about 0.7 of what the micro-benchmarks of :mod:`capplan.hardware.efficiency`
reach, since clocks drop under sustained load; a layer makes about ten launches of 1-3 us, one with routed experts more.
"""
