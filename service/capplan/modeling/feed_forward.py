"""Feed-forward blocks: dense, and mixtures of experts."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.linear import Component, LinearMap, Shard, Vectors


def _expert_maps(
    prefix: str,
    component: Component,
    inputs: int,
    width: int,
    *,
    gated: bool,
    bias: bool,
    copies: int = 1,
    copies_per_token: int = 1,
) -> tuple[LinearMap, ...]:
    """The two or three matrices of (each copy of) one feed-forward network."""
    up = tuple(
        LinearMap(
            f"{prefix}.{name}", component, inputs, width, copies=copies, copies_per_token=copies_per_token, bias=bias
        )
        for name in (("gate_proj", "up_proj") if gated else ("up_proj",))
    )
    down = LinearMap(
        f"{prefix}.down_proj",
        component,
        width,
        inputs,
        copies=copies,
        copies_per_token=copies_per_token,
        bias=bias,
        split_inputs=True,
    )
    return (*up, down)


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    """One feed-forward network that every token passes.

    Attributes:
        hidden_size: input and output width.
        intermediate_size: inner width.
        gated: three matrices (gate, up, down) instead of two.
        bias: biases on all matrices.
        module: name of the module in checkpoints.
    """

    hidden_size: int
    intermediate_size: int
    gated: bool = True
    bias: bool = False
    module: str = "mlp"

    def maps(self) -> tuple[LinearMap, ...]:
        """Matrices of one layer."""
        return _expert_maps(
            self.module,
            Component.DENSE_FFN,
            self.hidden_size,
            self.intermediate_size,
            gated=self.gated,
            bias=self.bias,
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """None: norms belong to the block."""
        return ()

    @property
    def buffer_parameters(self) -> int:
        """No buffers."""
        return 0


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Routed experts, with or without shared ones that every token passes.

    Attributes:
        hidden_size: width of the residual stream.
        experts: routed experts.
        experts_per_token: routed experts one token visits.
        expert_size: inner width of a routed expert.
        shared_size: summed inner width of the shared experts; 0 without.
        gated: gated experts (three matrices each).
        expert_bias: biases on the routed experts.
        router_bias: the router has a trained bias.
        router_buffer: a score-correction bias is kept as a buffer (counted apart from the parameters).
        shared_gate: the shared expert's output is gated by one more row (``hidden -> 1``).
        latent_size: width the routed experts act on when it is not ``hidden_size``; 0 otherwise. A down and an up
            projection around the experts come with it.
        latent_quantizable: false where recipes leave those two in 16 bit whatever their list says (Kimi-K3).
        norm_parameters: norms and scales inside the block (latent norm, router input scale, per-expert scales).
        module: name of the module in checkpoints.
        experts_module: name of the experts below it.
        shared_module: name of the shared expert below it.
    """

    hidden_size: int
    experts: int
    experts_per_token: int
    expert_size: int
    shared_size: int = 0
    gated: bool = True
    expert_bias: bool = False
    router_bias: bool = False
    router_buffer: bool = False
    shared_gate: bool = False
    latent_size: int = 0
    latent_quantizable: bool = True
    norm_parameters: int = 0
    module: str = "mlp"
    experts_module: str = "experts"
    shared_module: str = "shared_experts"

    def maps(self) -> tuple[LinearMap, ...]:
        """Router, shared experts, latent projections and routed experts of one layer."""
        found = [self._replicated("gate", self.experts, bias=self.router_bias)]
        if self.shared_size:
            found.extend(
                _expert_maps(
                    f"{self.module}.{self.shared_module}",
                    Component.SHARED_EXPERT,
                    self.hidden_size,
                    self.shared_size,
                    gated=self.gated,
                    bias=False,
                )
            )
        if self.shared_gate:
            found.append(self._replicated(f"{self.shared_module}_gate", 1))
        if self.latent_size:
            found.append(self._latent_map("fc1_latent_proj", self.hidden_size, self.latent_size))
            found.append(self._latent_map("fc2_latent_proj", self.latent_size, self.hidden_size))
        found.extend(
            _expert_maps(
                f"{self.module}.{self.experts_module}.*",
                Component.ROUTED_EXPERT,
                self.latent_size or self.hidden_size,
                self.expert_size,
                gated=self.gated,
                bias=self.expert_bias,
                copies=self.experts,
                copies_per_token=self.experts_per_token,
            )
        )
        return tuple(found)

    def _latent_map(self, name: str, inputs: int, outputs: int) -> LinearMap:
        return LinearMap(
            f"{self.module}.{name}",
            Component.SHARED_EXPERT,
            inputs,
            outputs,
            shard=Shard.REPLICATED,
            quantizable=self.latent_quantizable,
        )

    def _replicated(self, name: str, outputs: int, *, bias: bool = False) -> LinearMap:
        return LinearMap(
            f"{self.module}.{name}",
            Component.ROUTER,
            self.hidden_size,
            outputs,
            bias=bias,
            shard=Shard.REPLICATED,
            quantizable=False,
        )

    def vectors(self) -> tuple[Vectors, ...]:
        """Norms and scales inside the block."""
        return (Vectors(Component.NORM, self.norm_parameters),) if self.norm_parameters else ()

    @property
    def buffer_parameters(self) -> int:
        """Score-correction biases, which checkpoints store but parameter counts leave out."""
        return self.experts if self.router_buffer else 0
