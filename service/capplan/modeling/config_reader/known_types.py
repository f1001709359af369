"""Model types that need a reader of their own, and class defaults of nested text parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from capplan.modeling.architecture import Tower
from capplan.modeling.config_reader import (
    adapted,
    encoders,
    gemma3n,
    hybrids,
    irregular,
    linear_hybrids,
    vision_models,
)
from capplan.modeling.config_reader.decoder import Decoder
from capplan.modeling.config_reader.view import ConfigView

READERS: Mapping[str, Callable[[ConfigView], Decoder]] = MappingProxyType(
    {
        "jamba": hybrids.read_jamba,
        "mamba": hybrids.read_mamba1,
        "falcon_mamba": hybrids.read_mamba1,
        "nemotron_h": hybrids.read_nemotron_h,
        "qwen3_next": linear_hybrids.read_qwen3_next,
        "qwen3_5_text": linear_hybrids.read_qwen3_next,
        "qwen3_5_moe_text": linear_hybrids.read_qwen3_next,
        "kimi_linear": linear_hybrids.read_kimi_linear,
        "minimax": linear_hybrids.read_minimax_text,
        "minimax_text_01": linear_hybrids.read_minimax_text,
        "granitemoehybrid": hybrids.read_granite_hybrid,
        "bamba": hybrids.read_bamba,
        "falcon_h1": hybrids.read_falcon_h1,
        "lfm2": linear_hybrids.read_lfm2,
        "lfm2_moe": linear_hybrids.read_lfm2_moe,
        "mamba2": hybrids.read_mamba2,
        "nemotron-nas": irregular.read_nemotron_nas,
        "mimo_v2_flash": irregular.read_mimo_v2,
        "gemma4_text": irregular.read_gemma4,
        "gemma3n_text": gemma3n.read_gemma3n_text,
        "qwen": adapted.read_qwen1,
        "deepseek_v4": irregular.read_deepseek_v4,
        "dbrx": adapted.read_dbrx,
        "chatglm": adapted.read_chatglm,
        "falcon": adapted.read_falcon,
        "gpt_bigcode": adapted.read_gpt_bigcode,
        "opt": adapted.read_opt,
        "mpt": adapted.read_mpt,
        "phi3small": adapted.read_phi3small,
        "vit": vision_models.read_vit,
        **dict.fromkeys(encoders.BERT_FAMILIES, encoders.read_bert),
    }
)
"""Readers by ``model_type`` for what the table of families does not cover."""

ENCODER_DECODERS: Mapping[str, Callable[[ConfigView], tuple[Decoder, tuple[Tower, ...]]]] = MappingProxyType(
    {
        "clip": encoders.read_clip,
        "siglip": vision_models.read_siglip,
        "whisper": encoders.read_whisper,
        "t5": encoders.read_t5,
        "mt5": encoders.read_t5,
    }
)
"""Readers of models with a second transformer, by model type."""

TEXT_KEYS = ("text_config", "llm_config", "language_config")
"""Keys under which multimodal configs keep their text part."""

_LLAMA_CLASS = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}

CLASS_DEFAULTS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "llama": _LLAMA_CLASS,
        "mistral": _LLAMA_CLASS | {"intermediate_size": 14336, "num_key_value_heads": 8},
        "gemma3n_text": {
            "vocab_size": 262400,
            "vocab_size_per_layer_input": 262144,
            "hidden_size": 2048,
            "hidden_size_per_layer_input": 256,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "sliding_window": 512,
            "max_position_embeddings": 32768,
            "altup_num_inputs": 4,
            "laurel_rank": 64,
        },
        "gemma3_text": {
            "vocab_size": 262208,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
            "max_position_embeddings": 131072,
        },
    }
)
"""Defaults of the library's config classes, for nested text parts, which are published as differences from them."""
