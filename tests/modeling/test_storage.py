"""Bytes of one matrix in every storage format, against the formats' published packing rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.modeling.storage import STORAGE_FORMATS

# Bits per weight of a matrix whose input width is large enough for index vectors to vanish, from the packing rules.
BITS = {
    "fp32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8_tensor": 8,
    "fp8_tensor_static": 8,
    "fp8_block": 8.001953125,
    "mxfp8": 8.25,
    "awq_int4_g128": 4.15625,
    "w4a16_g128": 4.125,
    "w4a16_g32": 4.5,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
    "bnb_nf4": 4.5,
    "bnb_nf4_double": 4 + 8 / 64 + 32 / (64 * 256),
    "gptq_int8_g128": 8.1875,
    "gptq_int4_g128": 4.15625,
    "gguf_q8_0": 8.5,
    "gguf_q6_k": 6.5625,
    "gguf_q5_k": 5.5,
    "gguf_q5_1": 6,
    "gguf_q5_0": 5.5,
    "gguf_q4_k": 4.5,
    "gguf_q4_0": 4.5,
    "gguf_iq4_nl": 4.5,
    "gguf_iq4_xs": 4.25,
    "gguf_q3_k": 3.4375,
    "gguf_q2_k": 2.625,
}


@pytest.mark.parametrize("name", BITS)
def test_bits_per_weight(name: str) -> None:
    inputs, outputs = 16_384, 16_384
    bits = 8 * STORAGE_FORMATS[name].matrix_bytes(inputs, outputs) / (inputs * outputs)
    index = 32 / outputs if name.startswith("gptq") else 0.0
    assert bits - index == pytest.approx(BITS[name], abs=3e-5)


@pytest.mark.parametrize("name", ["fp8_channel", "int8_channel", "bnb_int8"])
@given(inputs=st.integers(1, 4096), outputs=st.integers(1, 4096))
def test_per_channel_formats_keep_four_bytes_a_row(name: str, inputs: int, outputs: int) -> None:
    assert STORAGE_FORMATS[name].matrix_bytes(inputs, outputs) == inputs * outputs + 4 * outputs


@given(inputs=st.integers(1, 2000), outputs=st.integers(1, 2000))
def test_ragged_edges_cost_a_whole_block(inputs: int, outputs: int) -> None:
    blocks = sum(1 for _ in range(0, inputs, 128)) * sum(1 for _ in range(0, outputs, 128))
    assert STORAGE_FORMATS["fp8_block"].matrix_bytes(inputs, outputs) == inputs * outputs + 4 * blocks


@given(inputs=st.integers(1, 2000), outputs=st.integers(1, 2000), name=st.sampled_from(sorted(STORAGE_FORMATS)))
def test_no_format_is_smaller_than_its_weights(inputs: int, outputs: int, name: str) -> None:
    storage = STORAGE_FORMATS[name]
    assert storage.matrix_bytes(inputs, outputs) * 8 >= inputs * outputs * storage.weight_bits
