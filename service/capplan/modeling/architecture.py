"""What a model is: a run-length sequence of typed blocks between embeddings and a head.

Everything countable (parameters, bytes, shards, FLOP) derives from the linear maps and vectors the blocks list, so that
two figures about the same model cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.modeling.attention import LatentAttention, SoftmaxAttention
from capplan.modeling.compressed_attention import CompressedAttention
from capplan.modeling.feed_forward import DenseFeedForward, MixtureOfExperts
from capplan.modeling.linear import Component, LinearMap, Shard, Vectors
from capplan.modeling.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    ShortConvolution,
)
from capplan.modeling.state_space import Mamba1, Mamba2

AttentionMixer = SoftmaxAttention | LatentAttention | CompressedAttention
RecurrentMixer = Mamba1 | Mamba2 | GatedDeltaNet | KimiDeltaAttention | LightningAttention | ShortConvolution
Mixer = AttentionMixer | RecurrentMixer
FeedForward = DenseFeedForward | MixtureOfExperts


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of the model.

    Attributes:
        mixers: attention or recurrence; more than one when they run side by side, none in a pure feed-forward layer.
        feed_forwards: feed-forward networks; more than one when they run side by side.
        norm_parameters: parameters of the layer's norms (those inside mixers excluded).
        extra_maps: linear maps of no standard kind (per-layer inputs, low-rank residuals).
    """

    mixers: tuple[Mixer, ...]
    feed_forwards: tuple[FeedForward, ...]
    norm_parameters: int
    extra_maps: tuple[LinearMap, ...] = ()

    def maps(self) -> tuple[LinearMap, ...]:
        """All linear maps of the layer."""
        parts: tuple[Mixer | FeedForward, ...] = (*self.mixers, *self.feed_forwards)
        return (*(m for part in parts for m in part.maps()), *self.extra_maps)

    def vectors(self) -> tuple[Vectors, ...]:
        """All parameters of the layer that are no matrix."""
        parts: tuple[Mixer | FeedForward, ...] = (*self.mixers, *self.feed_forwards)
        inner = tuple(v for part in parts for v in part.vectors())
        return (*inner, Vectors(Component.NORM, self.norm_parameters)) if self.norm_parameters else inner

    @property
    def buffer_parameters(self) -> int:
        """Stored buffers that are not counted as parameters."""
        return sum(f.buffer_parameters for f in self.feed_forwards)


@dataclass(frozen=True, slots=True)
class LayerRun:
    """``count`` equal consecutive layers."""

    block: Block
    count: int


@dataclass(frozen=True, slots=True)
class LayerRange:
    """Layers ``first`` to ``last``, both included, counted from 0."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BlockRuns:
    """A block and the layers it stands in."""

    block: Block
    ranges: tuple[LayerRange, ...]

    @property
    def count(self) -> int:
        """Layers in all."""
        return sum(layers.last - layers.first + 1 for layers in self.ranges)


@dataclass(frozen=True, slots=True)
class QuantizedMap:
    """A linear map that a quantised checkpoint stores in something else than 16 bit.

    Attributes:
        name: name of the linear map.
        storage: storage format.
        layers: in which layers; empty for all that have it, and for maps outside the layers (a head).
    """

    name: str
    storage: str
    layers: tuple[LayerRange, ...]


@dataclass(frozen=True, slots=True)
class NativeQuantization:
    """How the checkpoint itself is quantised.

    Attributes:
        precision: the weight precision it amounts to (``fp8``, ``int8``, ``int4``, ``mxfp4``, ``nvfp4``).
        method: the quantisation method the config names.
        maps: every linear map not kept in 16 bit.
        kv_cache: KV-cache precision the checkpoint asks for, ``None`` when it does not say.
    """

    precision: str
    method: str
    maps: tuple[QuantizedMap, ...]
    kv_cache: str | None


@dataclass(frozen=True, slots=True)
class Embedding:
    """A lookup table (token, position, segment, per-layer inputs)."""

    name: str
    rows: int
    width: int
    shard: Shard = Shard.VOCABULARY

    @property
    def parameters(self) -> int:
        """Entries of the table."""
        return self.rows * self.width


@dataclass(frozen=True, slots=True)
class Tower:
    """A part outside the decoder that runs per request: vision or audio tower, projector, text encoder.

    Attributes:
        name: module name.
        maps: linear maps with how many layers carry them.
        vector_parameters: norms, position tables, convolutions.
    """

    name: str
    maps: tuple[tuple[LinearMap, int], ...]
    vector_parameters: int

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(m.parameters * layers for m, layers in self.maps) + self.vector_parameters


@dataclass(frozen=True, slots=True)
class MultiTokenPrediction:
    """Extra layers that draft tokens; stored in the checkpoint, loaded only with speculation.

    Attributes:
        layers: their blocks.
        extra_parameters: what joins them to the model (projections, norms), and their own embedding and head copies.
    """

    layers: tuple[LayerRun, ...]
    extra_parameters: int


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """A whole model.

    Attributes:
        name: display name.
        family: ``model_type`` of its config.
        hidden_size: width of the residual stream.
        vocabulary_size: rows of the token table.
        max_context_tokens: longest context, ``None`` when the config does not say.
        layers: the blocks, run-length coded.
        embeddings: lookup tables; the first is the token table.
        head: output projection; ``None`` when the token table serves as the head or there is no head.
        tied_head: true when the token table serves as the head.
        head_extra_parameters: parameters around the head that are no projection (pooler, prediction transforms).
        final_norm_parameters: norms before and after the layers.
        outer_maps: linear maps outside the layers (embedding projections).
        towers: multimodal towers and projectors.
        prediction: multi-token prediction layers, not part of the totals.
        dtype: number format of unquantised weights (``bf16``, ``fp16``, ``fp32``).
        state_element_bytes: bytes of one recurrence state element.
        quantization: native quantisation of the checkpoint, ``None`` for 16-bit ones.
        assumptions: sentences about what the config left open.
    """

    name: str
    family: str
    hidden_size: int
    vocabulary_size: int
    max_context_tokens: int | None
    layers: tuple[LayerRun, ...]
    embeddings: tuple[Embedding, ...]
    head: LinearMap | None
    tied_head: bool
    final_norm_parameters: int
    head_extra_parameters: int = 0
    outer_maps: tuple[LinearMap, ...] = ()
    towers: tuple[Tower, ...] = ()
    prediction: MultiTokenPrediction | None = None
    dtype: str = "bf16"
    state_element_bytes: int = 4
    quantization: NativeQuantization | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def layer_count(self) -> int:
        """Layers in all."""
        return sum(run.count for run in self.layers)

    def block_runs(self) -> tuple[BlockRuns, ...]:
        """Each distinct block object with the layers it stands in.

        Told apart by identity: comparing whole blocks costs more than counting an equal one twice.
        """
        found: dict[int, tuple[Block, list[LayerRange]]] = {}
        first = 0
        for run in self.layers:
            ranges = found.setdefault(id(run.block), (run.block, []))[1]
            ranges.append(LayerRange(first, first + run.count - 1))
            first += run.count
        return tuple(BlockRuns(block, tuple(ranges)) for block, ranges in found.values())


def has_routed_experts(layers: tuple[LayerRun, ...]) -> bool:
    """Whether any layer has routed experts."""
    return any(linear.component is Component.ROUTED_EXPERT for run in layers for linear in run.block.maps())


def run_length(blocks: list[Block]) -> tuple[LayerRun, ...]:
    """Run-length code of a list of blocks; equal blocks become one object."""
    runs: list[LayerRun] = []
    distinct: dict[Block, Block] = {}
    for block in (distinct.setdefault(block, block) for block in blocks):
        if runs and runs[-1].block is block:
            runs[-1] = LayerRun(block, runs[-1].count + 1)
        else:
            runs.append(LayerRun(block, 1))
    return tuple(runs)
