"""The atoms a model is counted in: linear maps (matrices) and vectors (norms, gates, short convolutions)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Component(StrEnum):
    """Which part of the model a tensor belongs to."""

    EMBEDDING = "embedding"
    LM_HEAD = "lm_head"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    DENSE_FFN = "dense_ffn"
    SHARED_EXPERT = "shared_expert"
    ROUTED_EXPERT = "routed_expert"
    ROUTER = "router"
    NORM = "norm"
    MULTIMODAL_ENCODER = "multimodal_encoder"
    MULTI_TOKEN_PREDICTION = "multi_token_prediction"


class Shard(StrEnum):
    """How tensor parallelism divides a tensor over the ranks of a replica."""

    REPLICATED = "replicated"
    """A full copy on every rank (norms, routers, MLA's down projections)."""
    TENSOR = "tensor"
    """Split evenly over the ranks."""
    HEADS = "heads"
    """Split by whole units (key/value heads); with fewer units than ranks the units are copied."""
    VOCABULARY = "vocabulary"
    """Split over the vocabulary, padded to a multiple of 64 rows before the split (as vLLM does)."""


@dataclass(frozen=True, slots=True)
class LinearMap:
    """Equal matrices that occur together in one layer.

    Attributes:
        name: module path below the layer, as checkpoints spell it (``self_attn.q_proj``); experts are written with a
            ``*`` in place of their number. Lists of modules left unquantised are matched against it.
        component: the part of the model it belongs to.
        in_features: input width.
        out_features: output width.
        copies: how many such matrices the layer holds (experts).
        copies_per_token: how many of them one token is multiplied with.
        bias: whether each carries ``out_features`` biases.
        shard: how tensor parallelism divides each matrix.
        split_inputs: true when the input side is divided (row parallel), false for the output side.
        units: indivisible units of the split (heads); 0 when any even split will do.
        quantizable: false for what every published recipe keeps in 16 bit (routers, gates, convolutions, towers).
    """

    name: str
    component: Component
    in_features: int
    out_features: int
    copies: int = 1
    copies_per_token: int = 1
    bias: bool = False
    shard: Shard = Shard.TENSOR
    split_inputs: bool = False
    units: int = 0
    quantizable: bool = True

    @property
    def weights(self) -> int:
        """Weights of all copies, biases left out."""
        return self.copies * self.in_features * self.out_features

    @property
    def biases(self) -> int:
        """Biases of all copies."""
        return self.copies * self.out_features if self.bias else 0

    @property
    def parameters(self) -> int:
        """Weights and biases of all copies."""
        return self.weights + self.biases

    @property
    def active_weights(self) -> int:
        """Weights one token is multiplied with."""
        return self.copies_per_token * self.in_features * self.out_features

    @property
    def idle_parameters(self) -> int:
        """Parameters of the copies one token does not visit."""
        return self.parameters // self.copies * (self.copies - self.copies_per_token)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Parameters that are no matrix: norms, gates, decay rates, short depth-wise convolutions, attention sinks."""

    component: Component
    parameters: int
