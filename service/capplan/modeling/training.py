"""What training a model holds in memory, before anything is sharded: weights, gradients, optimiser, activations.

Per parameter: mixed-precision training with AdamW takes 16 bytes, 2 for the 16-bit weight, 2 for its gradient, 4 for
the fp32 master copy and 8 for the two fp32 moments (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward
Training Trillion Parameter Models", section 3.1); in fp32 it takes 16 as well, 4 + 4 + 8 without a copy. An 8-bit
optimiser keeps each moment in one byte and one fp32 scale for each block of 2,048 values (Dettmers et al. 2022, "8-bit
Optimizers via Block-wise Quantization").

Activations: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models" (arXiv
2205.05198). For a standard layer in 16 bit (multi-head attention, an ungated feed-forward of 4h, two layer norms,
dropout) they count ``s b h (34 + 5 a s / h)`` bytes: with selective recomputation of the attention core ``34 s b h``,
with full recomputation the layer's input alone, ``2 s b h``; outside the layers ``5 s b h + 4 s b v``, the last term
being the fp32 logits. For other shapes the same tensors are counted at their own width:

======================  =====================  ===============================================================
kept for backward       bytes per token        in the standard layer
======================  =====================  ===============================================================
inputs of two norms     4 h
attention: input, mask  2 h + h
queries, keys           2 a d + 2 k d          4 h; grouped-query attention keeps k < a key/value heads
values, heads' output   2 k e + 2 a e          4 h
scores                  5 a s                  softmax, its dropout mask and output; selective recomputation drops it
feed-forward            2 h + 4 f + h          2 h + 16 h + h; a gated one keeps gate, up and product: 6 f
======================  =====================  ===============================================================

A mixture of experts is counted by the same rule: the token's copies going into and coming out of the k experts it
visits, their inner tensors, the shared expert's, and the fp32 router scores. Layers of another kind (latent and linear
attention, recurrence, side-by-side branches, encoder towers, cross-attention) are refused: what they keep is not in the
published count. Models without dropout keep the masks' bytes less; kernels that never write the scores out
(FlashAttention) keep what selective recomputation keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.architecture import Block, ModelArchitecture
from capplan.modeling.attention import SoftmaxAttention
from capplan.modeling.feed_forward import DenseFeedForward, MixtureOfExperts
from capplan.modeling.parameters import total_parameters

OPTIMIZER_FIELD = "training.optimizer"
MODEL_FIELD = "model"

OPTIMIZER_BLOCK_VALUES = 2048
"""Values that share one scale in an 8-bit optimiser (Dettmers et al. 2022, section 2)."""

_FP32_BYTES = 4
_MASK_BYTES = 1


class Optimizer(StrEnum):
    """Optimisers whose memory is known."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw-8bit"


class TrainingPrecision(StrEnum):
    """What weights, gradients and activations are kept in."""

    MIXED = "bf16"
    """16 bit, with an fp32 master copy of the weights."""
    FULL = "fp32"


class Recomputation(StrEnum):
    """What is thrown away in the forward pass and computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    """Attention scores and what follows them, up to the product with the values."""
    FULL = "full"
    """Everything but each layer's input. The layer being recomputed is held on top, one at a time."""


@dataclass(frozen=True, slots=True)
class ParameterMemory:
    """Bytes that training holds for the parameters.

    Attributes:
        precision: what weights and gradients are kept in.
        optimizer: the optimiser.
        weight_bytes: weights the passes compute with.
        gradient_bytes: gradients, in the precision of the weights.
        master_bytes: fp32 copy of 16-bit weights; 0 when they are fp32.
        optimizer_bytes: both moments, and the scales of 8-bit ones.
    """

    precision: TrainingPrecision
    optimizer: Optimizer
    weight_bytes: int
    gradient_bytes: int
    master_bytes: int
    optimizer_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of them."""
        return self.weight_bytes + self.gradient_bytes + self.master_bytes + self.optimizer_bytes


def known_optimizer(name: str) -> Optimizer:
    """The optimiser of a name.

    Raises:
        InvalidInputError: it is not known; names ``training.optimizer`` and what is accepted.
    """
    try:
        return Optimizer(name)
    except ValueError:
        raise InvalidInputError.single(
            OPTIMIZER_FIELD, f"{name!r} is not known; accepted: {', '.join(Optimizer)}"
        ) from None


def parameter_memory(
    architecture: ModelArchitecture,
    precision: TrainingPrecision = TrainingPrecision.MIXED,
    optimizer: Optimizer = Optimizer.ADAMW,
) -> ParameterMemory:
    """What training all parameters of a model holds for them (multi-token-prediction layers excluded)."""
    parameters = total_parameters(architecture)
    element = _element_bytes(precision)
    if optimizer is Optimizer.ADAMW:
        moments = 2 * _FP32_BYTES * parameters
    else:
        scales = -(-parameters // OPTIMIZER_BLOCK_VALUES) * _FP32_BYTES
        moments = 2 * (parameters + scales)
    return ParameterMemory(
        precision=precision,
        optimizer=optimizer,
        weight_bytes=element * parameters,
        gradient_bytes=element * parameters,
        master_bytes=_FP32_BYTES * parameters if precision is TrainingPrecision.MIXED else 0,
        optimizer_bytes=moments,
    )


def activation_bytes(
    architecture: ModelArchitecture,
    batch_size: int,
    sequence_length_tokens: int,
    recomputation: Recomputation = Recomputation.NONE,
    precision: TrainingPrecision = TrainingPrecision.MIXED,
) -> int:
    """Bytes of activations that wait for the backward pass, at their peak between the passes.

    Args:
        architecture: the model.
        batch_size: sequences of one forward pass.
        sequence_length_tokens: tokens of each.
        recomputation: what is computed again instead of kept.
        precision: what activations are kept in; masks take a byte, router scores and logits are fp32 in either.

    Raises:
        UnsupportedModelError: a layer that the published count does not cover; names it.
        ValueError: a size below 1.
    """
    if batch_size < 1 or sequence_length_tokens < 1:
        raise ValueError(f"batch {batch_size} and length {sequence_length_tokens} must both be at least 1")
    refusal = activation_refusal(architecture)
    if refusal is not None:
        raise UnsupportedModelError.single(MODEL_FIELD, refusal)
    element = _element_bytes(precision)
    per_token = _outside_bytes(architecture, element)
    for run in architecture.layers:
        if recomputation is Recomputation.FULL:
            per_token += run.count * element * architecture.hidden_size
            continue
        per_token += run.count * _linear_bytes(run.block, architecture.hidden_size, element)
        if recomputation is Recomputation.NONE:
            per_token += run.count * _score_bytes(run.block, sequence_length_tokens, element)
    return batch_size * sequence_length_tokens * per_token


def activation_refusal(architecture: ModelArchitecture) -> str | None:
    """Why the activations of a model are not counted, as a sentence; ``None`` when they are."""
    what = None
    if architecture.towers:
        what = f"a {architecture.towers[0].name} beside the decoder"
    else:
        what = next(filter(None, (_unlike_standard(run.block) for run in architecture.layers)), None)
    if what is None:
        return None
    return f"the published count of training activations covers standard transformer layers, and this model has {what}"


def _unlike_standard(block: Block) -> str | None:
    """What sets a layer apart from the kind the published count covers."""
    if len(block.mixers) != 1 or len(block.feed_forwards) != 1:
        return f"layers of {len(block.mixers)} mixers and {len(block.feed_forwards)} feed-forwards"
    mixer, feed_forward = block.mixers[0], block.feed_forwards[0]
    if not isinstance(mixer, SoftmaxAttention):
        return f"layers of the kind {type(mixer).__name__}"
    if mixer.cross_tokens or not mixer.projects_key_value:
        return "attention over another layer's or another model's keys and values"
    if mixer.output_gate or block.extra_maps:
        return "gates or low-rank branches beside attention and feed-forward"
    if isinstance(feed_forward, MixtureOfExperts) and feed_forward.latent_size:
        return "experts behind a latent projection"
    return None


def _element_bytes(precision: TrainingPrecision) -> int:
    return 2 if precision is TrainingPrecision.MIXED else 4


def _outside_bytes(architecture: ModelArchitecture, element: int) -> int:
    """Per token: mask of the embedding dropout, inputs of the last norm and of the head, fp32 logits."""
    logits = _FP32_BYTES * architecture.vocabulary_size if architecture.head or architecture.tied_head else 0
    return (_MASK_BYTES + 2 * element) * architecture.hidden_size + logits


def _linear_bytes(block: Block, hidden: int, element: int) -> int:
    """Per token: everything of a layer that grows linearly with the sequence."""
    norms = 2 * element * hidden
    mixer = block.mixers[0]
    assert isinstance(mixer, SoftmaxAttention)  # others are refused before
    heads = mixer.query_heads * (mixer.head_dim + mixer.value_head_dim)
    heads += mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
    attention = (element + _MASK_BYTES) * hidden + element * heads
    return norms + attention + _feed_forward_bytes(block.feed_forwards[0], hidden, element)


def _feed_forward_bytes(feed_forward: DenseFeedForward | MixtureOfExperts, hidden: int, element: int) -> int:
    inner = 3 if feed_forward.gated else 2
    mask = _MASK_BYTES * hidden
    if isinstance(feed_forward, DenseFeedForward):
        return element * (hidden + inner * feed_forward.intermediate_size) + mask
    copies = feed_forward.experts_per_token * (2 * hidden + inner * feed_forward.expert_size)
    shared = inner * feed_forward.shared_size
    return element * (hidden + copies + shared) + _FP32_BYTES * feed_forward.experts + mask


def _score_bytes(block: Block, sequence_length_tokens: int, element: int) -> int:
    """Per token: softmax output, its dropout mask and the dropout's output, over the whole sequence."""
    mixer = block.mixers[0]
    assert isinstance(mixer, SoftmaxAttention)  # others are refused before
    return (2 * element + _MASK_BYTES) * mixer.query_heads * sequence_length_tokens
