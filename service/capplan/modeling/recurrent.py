"""Linear-attention and convolution mixers: a fixed state per sequence instead of a cache that grows with the context.

State sizes: a short convolution keeps ``kernel - 1`` columns of its channels, the recurrence a matrix per head.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.linear import Component, LinearMap, Shard, Vectors
from capplan.modeling.recurrent_map import recurrent_map


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Gated delta rule (Qwen3-Next, Qwen3.5).

    Attributes:
        hidden_size: width of the residual stream.
        key_heads: key (and query) heads.
        value_heads: value heads; each keeps a ``key_head_dim x value_head_dim`` state.
        key_head_dim: width of a key head.
        value_head_dim: width of a value head.
        kernel: taps of the short convolution.
        split_projections: true when the checkpoint stores qkv, gate, beta and decay projections apart (Qwen3.5).
    """

    hidden_size: int
    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int
    split_projections: bool = False

    @property
    def convolution_channels(self) -> int:
        """Channels that pass the short convolution: queries, keys, values."""
        return 2 * self.key_heads * self.key_head_dim + self.value_heads * self.value_head_dim

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer."""
        values = self.value_heads * self.value_head_dim
        hidden = self.hidden_size
        inputs: tuple[LinearMap, ...]
        if self.split_projections:
            inputs = (
                recurrent_map("linear_attn.in_proj_qkv", hidden, self.convolution_channels, units=self.key_heads),
                recurrent_map("linear_attn.in_proj_z", hidden, values, units=self.value_heads),
                recurrent_map(
                    "linear_attn.in_proj_b", hidden, self.value_heads, units=self.value_heads, quantizable=False
                ),
                recurrent_map(
                    "linear_attn.in_proj_a", hidden, self.value_heads, units=self.value_heads, quantizable=False
                ),
            )
        else:
            inputs = (
                recurrent_map(
                    "linear_attn.in_proj_qkvz", hidden, self.convolution_channels + values, units=self.key_heads
                ),
                recurrent_map(
                    "linear_attn.in_proj_ba", hidden, 2 * self.value_heads, units=self.value_heads, quantizable=False
                ),
            )
        output = recurrent_map("linear_attn.out_proj", values, hidden, split_inputs=True, units=self.value_heads)
        return (*inputs, output)

    def vectors(self) -> tuple[Vectors, ...]:
        """Convolution, decay and time-step parameters, per-head output norm."""
        return (
            Vectors(Component.RECURRENT, self.convolution_channels * self.kernel + 2 * self.value_heads),
            Vectors(Component.NORM, self.value_head_dim),
        )

    @property
    def convolution_state_elements(self) -> int:
        """Convolution columns kept per sequence."""
        return self.convolution_channels * (self.kernel - 1)

    @property
    def recurrent_state_elements(self) -> int:
        """Recurrence state kept per sequence."""
        return self.value_heads * self.key_head_dim * self.value_head_dim

    @property
    def state_units(self) -> int:
        """Units tensor parallelism can divide the state by."""
        return self.key_heads

    @property
    def flop_per_token(self) -> float:
        """About eight FLOP per state element: decay, delta correction, input, output."""
        return 8.0 * self.recurrent_state_elements


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention:
    """Kimi delta attention (KDA): a delta rule with a decay per channel.

    Attributes:
        hidden_size: width of the residual stream.
        heads: heads; each keeps a ``head_dim x head_dim`` state.
        head_dim: width of a query, key or value head.
        kernel: taps of the three short convolutions.
        full_rank_gate: true when the output gate is one full matrix instead of a low-rank pair (Kimi-K3).
    """

    hidden_size: int
    heads: int
    head_dim: int
    kernel: int
    full_rank_gate: bool = False

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer."""
        width, hidden, low = self.heads * self.head_dim, self.hidden_size, self.head_dim
        found = [
            recurrent_map(f"self_attn.{name}", hidden, width, units=self.heads)
            for name in ("q_proj", "k_proj", "v_proj")
        ]
        found.append(recurrent_map("self_attn.f_a_proj", hidden, low, shard=Shard.REPLICATED))
        found.append(recurrent_map("self_attn.f_b_proj", low, width, units=self.heads))
        found.append(recurrent_map("self_attn.b_proj", hidden, self.heads, units=self.heads, quantizable=False))
        if self.full_rank_gate:
            found.append(recurrent_map("self_attn.g_proj", hidden, width, units=self.heads))
        else:
            found.append(recurrent_map("self_attn.g_a_proj", hidden, low, shard=Shard.REPLICATED))
            found.append(recurrent_map("self_attn.g_b_proj", low, width, units=self.heads))
        found.append(recurrent_map("self_attn.o_proj", width, hidden, split_inputs=True, units=self.heads))
        return tuple(found)

    def vectors(self) -> tuple[Vectors, ...]:
        """Three convolutions, decay and time-step parameters, per-head output norm."""
        width = self.heads * self.head_dim
        # Kimi-K3 stores as many decay rates as a head is wide, of which its heads use the first.
        decays = self.head_dim if self.full_rank_gate else self.heads
        return (
            Vectors(Component.RECURRENT, 3 * width * self.kernel + decays + width),
            Vectors(Component.NORM, self.head_dim),
        )

    @property
    def convolution_state_elements(self) -> int:
        """Convolution columns kept per sequence."""
        return 3 * self.heads * self.head_dim * (self.kernel - 1)

    @property
    def recurrent_state_elements(self) -> int:
        """Recurrence state kept per sequence."""
        return self.heads * self.head_dim * self.head_dim

    @property
    def state_units(self) -> int:
        """Units tensor parallelism can divide the state by."""
        return self.heads

    @property
    def flop_per_token(self) -> float:
        """About eight FLOP per state element: decay, delta correction, input, output."""
        return 8.0 * self.recurrent_state_elements


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """Linear attention with a fixed decay (MiniMax-Text-01).

    Attributes:
        hidden_size: width of the residual stream.
        heads: heads; each keeps a ``head_dim x head_dim`` state.
        head_dim: width of a head.
    """

    hidden_size: int
    heads: int
    head_dim: int

    def maps(self) -> tuple[LinearMap, ...]:
        """Fused query/key/value, output and output-gate projections of one layer."""
        width = self.heads * self.head_dim
        return (
            recurrent_map("self_attn.qkv_proj", self.hidden_size, 3 * width, units=self.heads),
            recurrent_map("self_attn.output_gate", self.hidden_size, width, units=self.heads),
            recurrent_map("self_attn.out_proj", width, self.hidden_size, split_inputs=True, units=self.heads),
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """The norm over all heads' outputs."""
        return (Vectors(Component.NORM, self.heads * self.head_dim),)

    @property
    def convolution_state_elements(self) -> int:
        """No convolution."""
        return 0

    @property
    def recurrent_state_elements(self) -> int:
        """Recurrence state kept per sequence."""
        return self.heads * self.head_dim * self.head_dim

    @property
    def state_units(self) -> int:
        """Units tensor parallelism can divide the state by."""
        return self.heads

    @property
    def flop_per_token(self) -> float:
        """About four FLOP per state element: input, output."""
        return 4.0 * self.recurrent_state_elements


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """Gated short convolution (LFM2).

    Attributes:
        hidden_size: width of the residual stream and of the convolution.
        kernel: taps.
        bias: biases of projections and convolution.
    """

    hidden_size: int
    kernel: int
    bias: bool = False

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer."""
        hidden = self.hidden_size
        return (
            recurrent_map("conv.in_proj", hidden, 3 * hidden, bias=self.bias),
            recurrent_map("conv.out_proj", hidden, hidden, bias=self.bias, split_inputs=True),
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """Convolution taps."""
        return (Vectors(Component.RECURRENT, self.hidden_size * (self.kernel + self.bias)),)

    @property
    def convolution_state_elements(self) -> int:
        """Convolution columns kept per sequence."""
        return self.hidden_size * (self.kernel - 1)

    @property
    def recurrent_state_elements(self) -> int:
        """No recurrence beside the convolution."""
        return 0

    @property
    def state_units(self) -> int:
        """Units tensor parallelism can divide the state by."""
        return self.hidden_size

    @property
    def flop_per_token(self) -> float:
        """One multiply-add per tap and channel."""
        return 2.0 * self.hidden_size * self.kernel
