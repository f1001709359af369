"""Reads multi-token prediction layers: they sit in the checkpoint, but load only with speculation.

A drafting layer is one more block of the model, a projection that joins embedding and hidden state (twice the hidden
size to the hidden size) and three norms. The parameter counts were checked against published safetensors totals of
DeepSeek-R1, GLM-4.5-Air, GLM-5, Qwen3.5 and MiMo-7B.
"""

from __future__ import annotations

from dataclasses import replace

from capplan.modeling.architecture import Block, LayerRun, MultiTokenPrediction
from capplan.modeling.attention import LatentAttention, SoftmaxAttention
from capplan.modeling.config_reader.decoder import Decoder
from capplan.modeling.config_reader.view import ConfigView

_OWN_TABLES = ("deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe", "glm4_moe_lite")
"""Model types whose drafting layers store copies of embedding and head."""

_SHARED_TABLES = ("glm_moe_dsa", "mimo", "qwen3_5_text", "qwen3_5_moe_text")


def with_prediction(view: ConfigView, decoder: Decoder) -> Decoder:
    """The decoder with the drafting layers its config declares, where their shape is known."""
    if decoder.prediction is not None or view.model_type not in (*_OWN_TABLES, *_SHARED_TABLES):
        return decoder
    layers = view.integer(
        "num_nextn_predict_layers", "mtp_num_hidden_layers", default=0, minimum=0, maximum=64, quiet=True
    )
    block = _attending_block(decoder)
    if not layers or block is None:
        return decoder
    hidden = decoder.hidden_size
    tables = 2 * decoder.vocabulary_size * hidden if view.model_type in _OWN_TABLES else 0
    extra = layers * (2 * hidden * hidden + 3 * hidden + tables)
    return replace(decoder, prediction=MultiTokenPrediction((LayerRun(block, layers),), extra))


def _attending_block(decoder: Decoder) -> Block | None:
    """The last block that attends, with an indexer of its own where the model has indexers."""
    for block in reversed(decoder.blocks):
        mixer = block.mixers[0] if block.mixers else None
        if isinstance(mixer, LatentAttention) and mixer.indexer is not None:
            owned = replace(mixer, indexer=replace(mixer.indexer, owns_weights=True))
            return replace(block, mixers=(owned,))
        if isinstance(mixer, LatentAttention | SoftmaxAttention):
            return block
    return None
