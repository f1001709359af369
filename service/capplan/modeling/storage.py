"""Storage formats: exactly how many bytes a matrix takes, scales, zero points and group indices included.

Bits per parameter and the exact checks behind them are those of published checkpoints: DeepSeek-V3 (block fp8),
Granite-3.3-8B-FP8 (per channel), Devstral-Small-2 (static per tensor), Qwen3-32B-AWQ, gpt-oss (mxfp4),
Qwen3-235B-NVFP4, and the packing rules of AutoGPTQ, compressed-tensors, bitsandbytes and GGUF.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


def _ceil(value: int, step: int) -> int:
    return -(-value // step)


def _no_scales(_inputs: int, _outputs: int) -> float:
    return 0.0


def _per_tensor(bytes_per_tensor: int) -> Callable[[int, int], float]:
    return lambda _inputs, _outputs: float(bytes_per_tensor)


def _per_output_row(bytes_per_row: int) -> Callable[[int, int], float]:
    return lambda _inputs, outputs: float(outputs * bytes_per_row)


def _per_block(rows: int, columns: int, bytes_per_block: int) -> Callable[[int, int], float]:
    return lambda inputs, outputs: float(_ceil(outputs, rows) * _ceil(inputs, columns) * bytes_per_block)


def _per_group(
    group: int, bytes_per_group: float, *, per_tensor: int = 0, per_input: int = 0
) -> Callable[[int, int], float]:
    return lambda inputs, outputs: _ceil(inputs, group) * outputs * bytes_per_group + per_tensor + per_input * inputs


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """One way to store a matrix.

    Attributes:
        name: key of the table.
        weight_bits: bits of one weight.
        scale_bytes: bytes of scales, zero points and indices of one ``(in_features, out_features)`` matrix.
        arithmetic: number format asked of the tensor cores (weight-only formats multiply in 16 bit).
        input_granule: a rank's share of the input width must be a multiple of this (group or block along the input).
        output_granule: the same for the output width.
        pads_experts: the granules bind dense layers only; kernels of routed experts fill a ragged share up themselves.
        kernel: the format by which devices know the kernels that run it, where that is not its own name (groups of
            another size run on the same ones).
    """

    name: str
    weight_bits: int
    scale_bytes: Callable[[int, int], float]
    arithmetic: str
    input_granule: int = 1
    output_granule: int = 1
    pads_experts: bool = False
    kernel: str = ""

    @property
    def kernel_format(self) -> str:
        """The format by which devices know the kernels that run it."""
        return self.kernel or self.name

    def matrix_bytes(self, in_features: int, out_features: int) -> int:
        """Bytes of one matrix, rounded up to whole bytes."""
        weights = in_features * out_features * self.weight_bits
        return -(-weights // 8) + round(self.scale_bytes(in_features, out_features))


PACKED_GROUPS = (32, 64, 128)
"""Group sizes that packed integer checkpoints come in, besides one scale a column (:data:`PER_CHANNEL`)."""

PER_CHANNEL = "channel"
"""What stands in a packed format's name for one group as long as the whole input."""

_LONGEST_INPUT = 1 << 40


def _packed(
    name: str, bits: int, arithmetic: str, *, zero_points: bool, per_input: int = 0, own: tuple[str, ...] = ("g128",)
) -> tuple[StorageFormat, ...]:
    """Packed integers by group: 16-bit scales, zero points as wide as a weight, GPTQ's index of four bytes an input.

    Shapes are those of AutoGPTQ's and AutoAWQ's linear layers (``qweight``, ``scales``, ``qzeros``, ``g_idx``) and of
    compressed-tensors' pack-quantized ones (``weight_packed``, ``weight_scale``). Kernels are the same for all groups;
    ``own`` are the ones devices know by name.
    """
    per_group = 2 + (bits / 8 if zero_points else 0)
    shapes: dict[str, tuple[int, int]] = {f"g{group}": (group, group) for group in PACKED_GROUPS}
    shapes[PER_CHANNEL] = (_LONGEST_INPUT, 1)
    return tuple(
        StorageFormat(
            f"{name}_{suffix}",
            bits,
            _per_group(group, per_group, per_input=per_input),
            arithmetic,
            input_granule=granule,
            kernel="" if suffix in own else f"{name}_g128",
        )
        for suffix, (group, granule) in shapes.items()
    )


def _gguf(name: str, bits: int, block: int, bytes_per_block: int) -> StorageFormat:
    """A GGUF block type: blocks along the input, each with its scales and minima (ggml-common.h)."""
    return StorageFormat(f"gguf_{name}", bits, _per_group(block, bytes_per_block), "fp16", input_granule=block)


_FORMATS = (
    StorageFormat("fp32", 32, _no_scales, "fp32"),
    StorageFormat("tf32", 32, _no_scales, "tf32"),
    StorageFormat("bf16", 16, _no_scales, "bf16"),
    StorageFormat("fp16", 16, _no_scales, "fp16"),
    StorageFormat("fp8_tensor", 8, _per_tensor(4), "fp8"),
    # A static checkpoint also stores the activation scale of each linear.
    StorageFormat("fp8_tensor_static", 8, _per_tensor(8), "fp8"),
    StorageFormat("fp8_channel", 8, _per_output_row(4), "fp8"),
    StorageFormat("fp8_block", 8, _per_block(128, 128, 4), "fp8", input_granule=128, output_granule=128),
    StorageFormat("mxfp8", 8, _per_group(32, 1), "fp8", input_granule=32),
    StorageFormat("int8_channel", 8, _per_output_row(4), "int8"),
    StorageFormat("int8_tensor", 8, _per_tensor(4), "int8", kernel="int8_channel"),
    *_packed("gptq_int8", 8, "bf16", zero_points=True, per_input=4),
    StorageFormat("bnb_int8", 8, _per_output_row(4), "int8"),
    *_packed("awq_int4", 4, "fp16", zero_points=True),
    *_packed("gptq_int4", 4, "fp16", zero_points=True, per_input=4),
    *_packed("w4a16", 4, "bf16", zero_points=False, own=("g32", "g128")),
    # vLLM's and SGLang's expert kernels round a rank's width up to 64, 128 or 256 by backend (their
    # layers/quantization/mxfp4.py), so that gpt-oss runs on 4 and 8 ranks with 720 and 360 of its 2,880 on each.
    StorageFormat("mxfp4", 4, _per_group(32, 1), "bf16", input_granule=32, pads_experts=True),
    StorageFormat("nvfp4", 4, _per_group(16, 1, per_tensor=8), "fp4", input_granule=16),
    # Weights only: no scale of the activations.
    StorageFormat("nvfp4_w4a16", 4, _per_group(16, 1, per_tensor=4), "bf16", input_granule=16),
    # bitsandbytes counts blocks of 64 over the flattened matrix.
    StorageFormat("bnb_nf4", 4, lambda i, o: _ceil(i * o, 64) * 4.0, "bf16"),
    StorageFormat("bnb_nf4_double", 4, lambda i, o: _ceil(i * o, 64) + _ceil(_ceil(i * o, 64), 256) * 4.0, "bf16"),
    _gguf("q8_0", 8, 32, 2),
    _gguf("q6_k", 6, 256, 18),
    _gguf("q5_k", 5, 256, 16),
    _gguf("q5_1", 5, 32, 4),
    _gguf("q5_0", 5, 32, 2),
    _gguf("q4_k", 4, 256, 16),
    _gguf("q4_0", 4, 32, 2),
    _gguf("iq4_nl", 4, 32, 2),
    _gguf("iq4_xs", 4, 256, 8),
    _gguf("q3_k", 3, 256, 14),
    _gguf("q2_k", 2, 256, 20),
)

STORAGE_FORMATS: Mapping[str, StorageFormat] = MappingProxyType({f.name: f for f in _FORMATS})
"""All storage formats by name."""
