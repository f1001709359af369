"""What a device and an engine reach under the fitted coefficients: rates of products and caches, and overheads.

Everything here depends on the catalogue and the coefficients alone, and is remembered from question to question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.identity import Same
from capplan.hardware.accelerator import Accelerator
from capplan.hardware.arithmetic import arithmetic_support, sixteen_bit_arithmetic
from capplan.hardware.collectives import all_reduce_ranks_limit, all_reduce_s
from capplan.hardware.efficiency import Efficiency, efficiency
from capplan.modeling.costs import GemmCost, ModelCosts
from capplan.modeling.linear import Component

MESSAGE_LOG2_BYTES = np.arange(10.0, 33.0)
"""Grid on which all-reduce times are tabulated: 1 KiB to 4 GiB, one point per octave."""

MOST_OF_BANDWIDTH = 0.95
"""Largest share of a device's peak bandwidth that any coefficients may claim; the best published reads reach 0.93."""


class Kind(NamedTuple):
    """What of a replica decides on rates and overheads: its device, whole or sliced, and its engine."""

    accelerator: Same[Accelerator]
    engine: str
    runtime: str


@dataclass(frozen=True, slots=True)
class _Product:
    """How a device multiplies with weights in a storage format: in which arithmetic, and what it achieves."""

    arithmetic: str
    peak_flop_per_s: float
    achieved: Efficiency


@lru_cache(maxsize=8192)
def _product(same: Same[Accelerator], storage: str) -> _Product:
    support = arithmetic_support(same.value, storage)
    return _Product(
        support.arithmetic,
        same.value.peak_flop_per_s[support.arithmetic],
        efficiency(same.value, support.arithmetic),
    )


class ProductKeys(NamedTuple):
    """What coefficients of a product deviate by beside device and engine.

    Attributes:
        arithmetic: what the format asks for and what the device computes in: weight-only kernels behave differently.
        format: how the weights are stored and what the device computes in: scales by block cost more than by channel.
    """

    arithmetic: str
    format: str


_NO_PRODUCT = ProductKeys("", "")


def product_keys(gemm: GemmCost, accelerator: Same[Accelerator]) -> ProductKeys:
    """The keys of a product on a device."""
    return _product_keys(gemm.storage, gemm.arithmetic, accelerator)


def _product_keys(storage: str, arithmetic: str, accelerator: Same[Accelerator]) -> ProductKeys:
    computed_in = _product(accelerator, storage).arithmetic
    return ProductKeys(f"{arithmetic}>{computed_in}", f"{storage}>{computed_in}")


@lru_cache(maxsize=4096)
def _coefficients(
    fitted: Same[Coefficients],
    names: tuple[str, ...],
    generation: str,
    engine: str,
    runtime: str,
    product: ProductKeys = _NO_PRODUCT,
) -> tuple[float, ...]:
    """Coefficients of some names for one set of keys."""
    keys = {"generation": generation, "engine": engine, "runtime": runtime, **product._asdict()}
    return tuple(fitted.value.of(name, **keys) for name in names)


_GEMM_RATES = ("weight_read", "gemm_rate", "half_rate")
_EXPERT_RATES = ("expert_read", "expert_rate")


class GemmRates(NamedTuple):
    """How products with weights of one format run on a kind of replica.

    Attributes:
        read: share of the bandwidth that weight reads achieve.
        peak: FLOP per second of the arithmetic, before what is achieved of it.
        compute: share of it that wide products of many tokens achieve.
        half_rate_tokens: tokens at which half of that would be reached.
    """

    read: float
    peak: float
    compute: float
    half_rate_tokens: float


def gemm_rates(gemm: GemmCost, kind: Kind, fitted: Same[Coefficients]) -> GemmRates:
    """Works out how products of a group run on a kind of replica; the same for all of one format and arithmetic."""
    return _gemm_rates(gemm.storage, gemm.arithmetic, gemm.experts > 0, kind, fitted)


@lru_cache(maxsize=8192)
def _gemm_rates(storage: str, arithmetic: str, experts: bool, kind: Kind, fitted: Same[Coefficients]) -> GemmRates:
    product = _product(kind.accelerator, storage)
    of_product = _product_keys(storage, arithmetic, kind.accelerator)
    keys = (kind.accelerator.value.architecture, kind.engine, kind.runtime, of_product)
    weight_read, gemm_rate, half_rate = _coefficients(fitted, _GEMM_RATES, *keys)
    read, rate = product.achieved.memory_fraction * weight_read, product.achieved.compute_fraction * gemm_rate
    if experts:
        expert_read, expert_rate = _coefficients(fitted, _EXPERT_RATES, *keys)
        read, rate = read * expert_read, rate * expert_rate
    half = product.achieved.half_rate_tokens * half_rate
    return GemmRates(min(read, MOST_OF_BANDWIDTH), product.peak_flop_per_s, rate, half)


_BY_ENGINE = (
    "kv_read",
    "attention_decode",
    "attention_prefill",
    "collective",
    "step_s",
    "sequence_s",
    "request_s",
)


class StepFigures(NamedTuple):
    """What the step of a kind of replica takes beside its products.

    Attributes:
        cache_read: share of the bandwidth that cache reads achieve.
        attention_peak: FLOP per second of the arithmetic that attention runs in, before what is achieved of it.
        attention_decode: share of it achieved in decode.
        attention_prefill: share of it achieved in prefill.
        collective: factor on all-reduces.
        overhead_s: launches and scheduling of one step.
        sequence_s: host work per running sequence.
        request_s: handling of one request before its first token.
    """

    cache_read: float
    attention_peak: float
    attention_decode: float
    attention_prefill: float
    collective: float
    overhead_s: float
    sequence_s: float
    request_s: float


class StepDemand(NamedTuple):
    """What of a model decides on the rates of a step beside its products, and on its overheads.

    Attributes:
        layers: layers in all.
        expert_layers: layers with routed experts.
        fp8_cache: whether keys and values are kept in 8 bits.
        attention: storage and arithmetic of the attention's products; ``None`` without any.
        experts: the same of routed experts.
    """

    layers: int
    expert_layers: int
    fp8_cache: bool
    attention: tuple[str, str] | None
    experts: tuple[str, str] | None

    @classmethod
    def of(cls, model: ModelCosts) -> StepDemand:
        """What a model asks."""
        formats: dict[Component, tuple[str, str]] = {}
        for gemm in model.gemms:
            if gemm.active_parameters and gemm.layers:
                formats.setdefault(gemm.component, (gemm.storage, gemm.arithmetic))
        return cls(
            model.layers,
            max((gemm.layers for gemm in model.gemms if gemm.component is Component.ROUTED_EXPERT), default=0),
            model.kv_precision == "fp8",
            formats.get(Component.ATTENTION),
            formats.get(Component.ROUTED_EXPERT),
        )


@lru_cache(maxsize=8192)
def step_figures(demand: StepDemand, kind: Kind, fitted: Same[Coefficients]) -> StepFigures:
    """Works out what the step of a kind of replica takes beside its products."""
    accelerator = kind.accelerator.value
    keys = (accelerator.architecture, kind.engine, kind.runtime)

    def launches(name: str, formats: tuple[str, str] | None) -> float:
        of_product = _NO_PRODUCT if formats is None else _product_keys(*formats, kind.accelerator)
        (seconds,) = _coefficients(fitted, (name,), *keys, of_product)
        return seconds

    kv_read, decode, prefill, collective, step, per_sequence, request = _coefficients(fitted, _BY_ENGINE, *keys)
    layer, expert_layer = launches("layer_s", demand.attention), launches("expert_layer_s", demand.experts)
    overhead = step + layer * demand.layers + expert_layer * demand.expert_layers
    arithmetic = sixteen_bit_arithmetic(accelerator) or "fp32"
    achieved, peak = efficiency(accelerator, arithmetic), accelerator.peak_flop_per_s[arithmetic]
    fraction = achieved.kv_fp8_memory_fraction if demand.fp8_cache else achieved.kv_memory_fraction
    read = min(fraction * kv_read, MOST_OF_BANDWIDTH)
    return StepFigures(read, peak, decode, prefill, collective, overhead, per_sequence, request)


_NO_TIME_LOG = -1e4
"""Log of a time that is none, finite so that interpolation stays free of invalid values."""


@lru_cache(maxsize=4096)
def collective_log_s(same: Same[Accelerator], ranks: int) -> NDArray[np.float64]:
    """Natural log of one all-reduce's seconds on the message grid, as far as devices of the kind reach each other."""
    if ranks == 1:
        return np.full(len(MESSAGE_LOG2_BYTES), _NO_TIME_LOG)
    ranks = min(ranks, all_reduce_ranks_limit(same.value))
    times: NDArray[np.float64] = np.log(all_reduce_s(same.value, ranks, np.exp2(MESSAGE_LOG2_BYTES)))
    return times
