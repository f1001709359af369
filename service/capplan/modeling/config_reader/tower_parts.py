"""The parts of vision and audio towers: linear maps, stacks of equal layers, patches.

Towers run once per image or sound, stay in 16 bit and are copied onto every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.architecture import Tower
from capplan.modeling.config_reader.layers import read_layer_count
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView
from capplan.modeling.linear import Component, LinearMap, Shard


def tower_map(name: str, inputs: int, outputs: int, *, bias: bool) -> LinearMap:
    """One linear map of a tower: 16 bit, on every rank."""
    return LinearMap(
        name,
        Component.MULTIMODAL_ENCODER,
        inputs,
        outputs,
        bias=bias,
        shard=Shard.REPLICATED,
        quantizable=False,
    )


@dataclass(frozen=True, slots=True)
class Stack:
    """Equal transformer layers of a tower.

    Attributes:
        layers: how many.
        width: width of the residual stream.
        inner: width of the feed-forward.
        gated: three feed-forward matrices instead of two.
        attention_bias: biases on query, value and output.
        key_bias: bias on the key (Whisper has none).
        mlp_bias: biases in the feed-forward.
        norm: parameters of all norms and scales of one layer.
        attention_width: summed width of the heads where it is not ``width``.
    """

    layers: int
    width: int
    inner: int
    gated: bool = False
    attention_bias: bool = True
    key_bias: bool = True
    mlp_bias: bool = True
    norm: int = 0
    attention_width: int = 0

    def maps(self, prefix: str) -> tuple[tuple[LinearMap, int], ...]:
        """Linear maps with the number of layers that carry them."""
        heads = self.attention_width or self.width
        found = [
            tower_map(f"{prefix}.q_proj", self.width, heads, bias=self.attention_bias),
            tower_map(f"{prefix}.k_proj", self.width, heads, bias=self.attention_bias and self.key_bias),
            tower_map(f"{prefix}.v_proj", self.width, heads, bias=self.attention_bias),
            tower_map(f"{prefix}.o_proj", heads, self.width, bias=self.attention_bias),
            tower_map(f"{prefix}.up_proj", self.width, self.inner, bias=self.mlp_bias),
            tower_map(f"{prefix}.down_proj", self.inner, self.width, bias=self.mlp_bias),
        ]
        if self.gated:
            found.append(tower_map(f"{prefix}.gate_proj", self.width, self.inner, bias=self.mlp_bias))
        return tuple((linear, self.layers) for linear in found)

    @property
    def vectors(self) -> int:
        """Norm parameters of all layers."""
        return self.layers * self.norm


def assemble(name: str, stacks: tuple[Stack, ...], outer: tuple[LinearMap, ...], vectors: int) -> Tower:
    """A tower of stacks, single maps and vectors."""
    maps = tuple(entry for number, stack in enumerate(stacks) for entry in stack.maps(f"{name}.layers{number or ''}"))
    return Tower(name, (*maps, *((m, 1) for m in outer)), vectors + sum(stack.vectors for stack in stacks))


def vit_stack(view: ConfigView, **changes: bool) -> Stack:
    """Layers of a plain vision transformer: two layer norms, biases everywhere."""
    width = view.integer("hidden_size")
    return Stack(read_layer_count(view), width, view.integer("intermediate_size"), norm=4 * width, **changes)


def patch_count(view: ConfigView) -> int:
    """Patches of one square image."""
    side = view.integer("image_size") // view.integer("patch_size", maximum=MAX_COUNT)
    return side * side


def patch_inputs(view: ConfigView) -> int:
    """Values of one patch."""
    channels = view.integer("num_channels", "in_channels", "in_chans", default=3, maximum=MAX_COUNT, quiet=True)
    frames = view.integer("temporal_patch_size", default=1, maximum=MAX_COUNT, quiet=True)
    patch = view.integer("patch_size", maximum=MAX_COUNT)
    return channels * frames * patch * patch
