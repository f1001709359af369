"""State-space mixers: Mamba of the first and second kind."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.linear import Component, LinearMap, Vectors
from capplan.modeling.recurrent_map import recurrent_map


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Selective state space of the first kind (Mamba, Falcon-Mamba, Jamba).

    Attributes:
        hidden_size: width of the residual stream.
        inner_size: channels of the recurrence.
        state_size: state per channel.
        kernel: taps of the short convolution.
        time_step_rank: width of the time-step latent.
        conv_bias: bias of the convolution.
        projection_bias: bias of the input and output projections.
        norm_parameters: parameters of norms on time step, B and C (Jamba).
        module: name of the module in checkpoints.
    """

    hidden_size: int
    inner_size: int
    state_size: int
    kernel: int
    time_step_rank: int
    conv_bias: bool = True
    projection_bias: bool = False
    norm_parameters: int = 0
    module: str = "mixer"

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer."""
        inner, bias = self.inner_size, self.projection_bias
        return (
            recurrent_map(f"{self.module}.in_proj", self.hidden_size, 2 * inner, bias=bias),
            recurrent_map(f"{self.module}.x_proj", inner, self.time_step_rank + 2 * self.state_size, split_inputs=True),
            recurrent_map(f"{self.module}.dt_proj", self.time_step_rank, inner, bias=True),
            recurrent_map(f"{self.module}.out_proj", inner, self.hidden_size, bias=bias, split_inputs=True),
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """Convolution, decay (``A``) and skip (``D``) parameters, norms."""
        convolution = self.inner_size * (self.kernel + self.conv_bias)
        found = [Vectors(Component.RECURRENT, convolution + self.inner_size * (self.state_size + 1))]
        if self.norm_parameters:
            found.append(Vectors(Component.NORM, self.norm_parameters))
        return tuple(found)

    @property
    def convolution_state_elements(self) -> int:
        """Convolution columns kept per sequence."""
        return self.inner_size * (self.kernel - 1)

    @property
    def recurrent_state_elements(self) -> int:
        """Recurrence state kept per sequence."""
        return self.inner_size * self.state_size

    @property
    def state_units(self) -> int:
        """Units tensor parallelism can divide the state by."""
        return self.inner_size

    @property
    def flop_per_token(self) -> float:
        """About six FLOP per state element: decay, input, output."""
        return 6.0 * self.inner_size * self.state_size


@dataclass(frozen=True, slots=True)
class Mamba2:
    """State space of the second kind: heads share a scalar decay (Mamba2, Nemotron-H, Granite 4, Bamba, Falcon-H1).

    Attributes:
        hidden_size: width of the residual stream.
        heads: recurrence heads.
        head_dim: channels of one head.
        groups: groups that share the input and output vectors B and C.
        state_size: state per channel.
        kernel: taps of the short convolution.
        conv_bias: bias of the convolution.
        projection_bias: bias of the input and output projections.
        gated_norm: whether a norm over the inner channels precedes the output projection.
        module: name of the module in checkpoints.
    """

    hidden_size: int
    heads: int
    head_dim: int
    groups: int
    state_size: int
    kernel: int
    conv_bias: bool = True
    projection_bias: bool = False
    gated_norm: bool = True
    module: str = "mixer"

    @property
    def inner_size(self) -> int:
        """Channels of the recurrence."""
        return self.heads * self.head_dim

    @property
    def convolution_channels(self) -> int:
        """Channels that pass the short convolution: inputs, B and C."""
        return self.inner_size + 2 * self.groups * self.state_size

    def maps(self) -> tuple[LinearMap, ...]:
        """Projections of one layer."""
        width = self.inner_size + self.convolution_channels + self.heads
        bias = self.projection_bias
        return (
            recurrent_map(f"{self.module}.in_proj", self.hidden_size, width, bias=bias, units=self.heads),
            recurrent_map(
                f"{self.module}.out_proj",
                self.inner_size,
                self.hidden_size,
                bias=bias,
                split_inputs=True,
                units=self.heads,
            ),
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """Convolution, decay, time-step bias and skip parameters, gated norm."""
        found = [
            Vectors(Component.RECURRENT, self.convolution_channels * (self.kernel + self.conv_bias) + 3 * self.heads)
        ]
        if self.gated_norm:
            found.append(Vectors(Component.NORM, self.inner_size))
        return tuple(found)

    @property
    def convolution_state_elements(self) -> int:
        """Convolution columns kept per sequence."""
        return self.convolution_channels * (self.kernel - 1)

    @property
    def recurrent_state_elements(self) -> int:
        """Recurrence state kept per sequence."""
        return self.inner_size * self.state_size

    @property
    def state_units(self) -> int:
        """Units tensor parallelism can divide the state by."""
        return self.heads

    @property
    def flop_per_token(self) -> float:
        """About six FLOP per state element: decay, input, output."""
        return 6.0 * self.inner_size * self.state_size
