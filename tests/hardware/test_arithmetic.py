"""The expected cells are those of vLLM's pages on fp8, int8 and supported hardware, and of its gpt-oss notes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.errors import UnsupportedPrecisionError
from capplan.hardware.arithmetic import (
    STORAGE_FORMATS,
    ArithmeticMode,
    arithmetic_support,
    compute_capability,
    kv_cache_support,
    sixteen_bit_arithmetic,
)
from capplan.modeling.storage import STORAGE_FORMATS as MODEL_STORAGE_FORMATS
from tests.hardware.devices import (
    A40,
    A100,
    B200,
    GAUDI3,
    H100,
    L4,
    MI210,
    MI300X,
    MI355X,
    RTX_5090,
    T4,
    TPU_V6E,
    V100,
    XEON,
)

NATIVE, WEIGHT_ONLY, UNSUPPORTED = ArithmeticMode.NATIVE, ArithmeticMode.WEIGHT_ONLY, ArithmeticMode.UNSUPPORTED
EVERY_DEVICE = (V100, T4, A100, A40, L4, H100, B200, RTX_5090, MI210, MI300X, MI355X, GAUDI3, TPU_V6E, XEON)


@pytest.mark.parametrize(
    ("storage", "device", "mode", "arithmetic"),
    [
        # fp8: native from 8.9 and on MI300, weight-only on 7.5-8.6, nowhere before.
        ("fp8", L4, NATIVE, "fp8"),
        ("fp8", H100, NATIVE, "fp8"),
        ("fp8", RTX_5090, NATIVE, "fp8"),
        ("fp8", MI300X, NATIVE, "fp8"),
        ("fp8", A100, WEIGHT_ONLY, "bf16"),
        ("fp8", A40, WEIGHT_ONLY, "bf16"),
        ("fp8", T4, WEIGHT_ONLY, "fp16"),
        ("fp8", V100, UNSUPPORTED, ""),
        ("fp8", MI210, UNSUPPORTED, ""),
        ("fp8", XEON, UNSUPPORTED, ""),
        ("fp8_block", A100, WEIGHT_ONLY, "bf16"),
        # int8 W8A8: 7.5 to 9.0, not on 10.0 and later, not on AMD.
        ("int8", T4, NATIVE, "int8"),
        ("int8", H100, NATIVE, "int8"),
        ("int8", V100, UNSUPPORTED, ""),
        ("int8", B200, UNSUPPORTED, ""),
        ("int8", RTX_5090, UNSUPPORTED, ""),
        ("int8", MI300X, UNSUPPORTED, ""),
        ("int8", XEON, NATIVE, "int8"),
        # 4-bit floats: tensor path on Blackwell, 16-bit math on Ampere to Hopper.
        ("nvfp4", B200, NATIVE, "fp4"),
        ("nvfp4", RTX_5090, NATIVE, "fp4"),
        ("nvfp4", H100, WEIGHT_ONLY, "bf16"),
        ("nvfp4", A100, WEIGHT_ONLY, "bf16"),
        ("nvfp4", T4, UNSUPPORTED, ""),
        ("nvfp4", MI355X, UNSUPPORTED, ""),
        ("nvfp4_w4a16", B200, WEIGHT_ONLY, "bf16"),
        ("mxfp4", H100, WEIGHT_ONLY, "bf16"),
        ("mxfp4", A100, WEIGHT_ONLY, "bf16"),
        ("mxfp4", MI355X, NATIVE, "fp4"),
        ("mxfp4", B200, NATIVE, "fp8"),
        ("mxfp4", T4, UNSUPPORTED, ""),
        # Always dequantised: Marlin from 8.0, older kernels for GPTQ on Volta and AWQ on Turing.
        ("awq", T4, WEIGHT_ONLY, "fp16"),
        ("awq", V100, UNSUPPORTED, ""),
        ("awq", B200, WEIGHT_ONLY, "bf16"),
        ("gptq", V100, WEIGHT_ONLY, "fp16"),
        ("w4a16", T4, UNSUPPORTED, ""),
        ("w4a16", A100, WEIGHT_ONLY, "bf16"),
        ("bitsandbytes", V100, WEIGHT_ONLY, "fp16"),
        ("gguf", MI300X, WEIGHT_ONLY, "bf16"),
        # Unquantised.
        ("bf16", A100, NATIVE, "bf16"),
        ("bf16", TPU_V6E, NATIVE, "bf16"),
        ("fp16", T4, NATIVE, "fp16"),
        ("fp16", TPU_V6E, UNSUPPORTED, ""),
        ("tf32", A100, NATIVE, "tf32"),
        ("tf32", T4, UNSUPPORTED, ""),
        ("fp32", T4, NATIVE, "fp32"),
        ("fp32", V100, NATIVE, "fp32"),
    ],
)
def test_what_runs_where(storage, device, mode, arithmetic):
    support = arithmetic_support(device, storage)
    assert (support.mode, support.arithmetic) == (mode, arithmetic)
    assert support.supported == (mode is not UNSUPPORTED)


@pytest.mark.parametrize("device", [V100, T4])
def test_bf16_before_ampere_is_fp16_and_says_so(device):
    support = arithmetic_support(device, "bf16")
    assert (support.mode, support.arithmetic) == (ArithmeticMode.CONVERTED, "fp16")
    assert "compute capability 8.0" in support.reason
    assert "fp16" in support.reason


def test_block_fp8_below_hopper_says_it_is_slow():
    assert "Hopper" in arithmetic_support(L4, "fp8_block").reason
    assert arithmetic_support(H100, "fp8_block").reason == ""


@pytest.mark.parametrize("device", EVERY_DEVICE, ids=lambda device: device.sku)
@pytest.mark.parametrize("storage", STORAGE_FORMATS)
def test_answer_is_always_a_listed_peak_or_a_reason(device, storage):
    support = arithmetic_support(device, storage)
    if support.supported:
        assert device.peak_flop_per_s[support.arithmetic] > 0
        assert support.reason or support.mode is NATIVE
    else:
        assert support.arithmetic == ""
        assert support.reason.startswith(f"{storage} on {device.product_name}")


def test_every_storage_format_of_the_models_is_known():
    assert {stored.kernel_format for stored in MODEL_STORAGE_FORMATS.values()} <= set(STORAGE_FORMATS)


def test_missing_peak_is_named_with_those_listed():
    bare = replace(H100, peak_flop_per_s={"bf16": 1e15})
    support = arithmetic_support(bare, "fp8")
    assert support.mode is UNSUPPORTED
    assert "needs a fp8 peak, and the catalogue lists: bf16" in support.reason
    nothing = replace(A100, peak_flop_per_s={})
    assert "needs a 16-bit peak, and the catalogue lists: none" in arithmetic_support(nothing, "awq").reason


def test_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(UnsupportedPrecisionError, match=r"'fp5' is unknown; known formats: awq, .*tf32"):
        arithmetic_support(H100, "fp5")
    with pytest.raises(UnsupportedPrecisionError, match="known formats: bf16, fp16, fp32, fp8"):
        kv_cache_support(H100, "int4")


@pytest.mark.parametrize(
    ("device", "mode", "arithmetic"),
    [
        (H100, NATIVE, "fp8"),
        (L4, NATIVE, "fp8"),
        (MI300X, NATIVE, "fp8"),
        (A100, ArithmeticMode.STORAGE_ONLY, "bf16"),
        (T4, UNSUPPORTED, ""),
        (MI210, UNSUPPORTED, ""),
    ],
)
def test_fp8_cache_is_storage_from_ampere_and_arithmetic_from_ada(device, mode, arithmetic):
    support = kv_cache_support(device, "fp8")
    assert (support.mode, support.arithmetic) == (mode, arithmetic)


def test_sixteen_bit_is_bf16_where_it_has_a_tensor_path():
    assert [sixteen_bit_arithmetic(device) for device in (V100, T4, A100, MI210, XEON)] == [
        "fp16",
        "fp16",
        "bf16",
        "bf16",
        "bf16",
    ]
    assert sixteen_bit_arithmetic(replace(A100, peak_flop_per_s={})) is None


def test_compute_capability_is_nvidia_only():
    assert compute_capability(L4) == 8.9
    assert compute_capability(MI300X) is None
    assert compute_capability(replace(L4, compute_capability=None)) is None
