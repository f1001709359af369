"""What coefficients of a product are told apart by."""

from __future__ import annotations

from dataclasses import replace

from capplan.estimation.device_rates import product_keys
from capplan.estimation.identity import Same
from tests.estimation.measurements import MODELS
from tests.hardware.devices import H100


def test_how_weights_are_stored_is_told_apart_beside_the_arithmetic() -> None:
    # Scales by block and by channel are one arithmetic (FP8 in FP8) and two formats.
    gemm = next(gemm for gemm in MODELS["llama-70b", "fp8"].gemms if gemm.storage.startswith("fp8"))
    keys = [product_keys(replace(gemm, storage=storage), Same(H100)) for storage in ("fp8_block", "fp8_channel")]
    assert [key.arithmetic for key in keys] == ["fp8>fp8"] * 2
    assert [key.format for key in keys] == ["fp8_block>fp8", "fp8_channel>fp8"]
