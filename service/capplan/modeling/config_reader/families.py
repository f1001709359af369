"""What configs do not say: the habits of known model types (norms, biases, gating, tying).

Only what no key of the config tells is listed here. A flag given as ``(key, default)`` is read from the config, with
the default of the family's class in the transformers library where the key is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from capplan.modeling.config_reader.traits import ExpertTraits, FamilyTraits, Flag, QueryKeyNorm, WindowRule

_LLAMA_BIAS: Flag = ("attention_bias", False)
_LLAMA = FamilyTraits(qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, mlp_bias=("mlp_bias", False))
_MISTRAL = FamilyTraits(window=WindowRule.ALL)
_QWEN2 = FamilyTraits(qkv_bias=True, window=WindowRule.AFTER_MAX_WINDOW_LAYERS, window_gate="use_sliding_window")
_QWEN3 = replace(_QWEN2, qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, query_key_norm=QueryKeyNorm.HEAD, head_dim=128)
_QWEN3_EXPERTS = ExpertTraits(sparse_steps=True)
_GEMMA = FamilyTraits(qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, tied=True, head_dim=256)
_GEMMA2 = replace(_GEMMA, norms_per_layer=4, window=WindowRule.EVEN_LAYERS)
_GEMMA3 = replace(_GEMMA, norms_per_layer=4, query_key_norm=QueryKeyNorm.HEAD, window=WindowRule.PATTERN, pattern=6)
_OLMO2 = FamilyTraits(qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, query_key_norm=QueryKeyNorm.WIDTH)
_FIRST_DENSE = ("first_k_dense_replace", "mlp_layer_types")
_DEEPSEEK_EXPERTS = ExpertTraits(shared_count=True, layer_keys=_FIRST_DENSE, router_buffer=True)
_DEEPSEEK = FamilyTraits(latent=True, qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, experts=_DEEPSEEK_EXPERTS)
_LAYER_NORM = FamilyTraits(norm=2, gated=False)
_GPT = replace(_LAYER_NORM, multi_head=True)

FAMILIES: Mapping[str, FamilyTraits] = MappingProxyType(
    {
        "llama": _LLAMA,
        "mistral": _MISTRAL,
        "ministral": _MISTRAL,
        "ministral3": replace(_MISTRAL, head_dim=128),
        "granite": _LLAMA,
        "smollm3": replace(
            _LLAMA, tied=True, window=WindowRule.AFTER_MAX_WINDOW_LAYERS, window_gate="use_sliding_window"
        ),
        "exaone": FamilyTraits(),
        "exaone4": FamilyTraits(query_key_norm=QueryKeyNorm.HEAD, window=WindowRule.PATTERN, pattern=4),
        "internlm2": FamilyTraits(qkv_bias=("bias", False), output_bias=("bias", False)),
        "internlm3": FamilyTraits(
            qkv_bias=("qkv_bias", False), output_bias=("bias", False), mlp_bias=("bias", False), head_dim=128
        ),
        "baichuan": FamilyTraits(),
        "minicpm": replace(_LLAMA, tied=True),
        "seed_oss": FamilyTraits(
            qkv_bias=("attention_bias", True),
            output_bias=("attention_out_bias", False),
            mlp_bias=("mlp_bias", False),
            head_dim=128,
        ),
        "arcee": replace(_LLAMA, gated=False),
        "hunyuan_v1_dense": FamilyTraits(
            qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, query_key_norm=QueryKeyNorm.HEAD
        ),
        "ernie4_5": FamilyTraits(
            qkv_bias=("use_bias", False),
            output_bias=("use_bias", False),
            mlp_bias=("use_bias", False),
            tied=True,
            head_dim=128,
        ),
        "qwen2": _QWEN2,
        "qwen3": _QWEN3,
        "mimo": _QWEN2,
        "qwen2_moe": replace(
            _QWEN2,
            qkv_bias=("qkv_bias", True),
            experts=ExpertTraits(
                shared_keys=("shared_expert_intermediate_size",),
                sparse_steps=True,
                shared_gate=True,
                shared_module="shared_expert",
            ),
        ),
        "qwen3_moe": replace(_QWEN3, head_dim=None, experts=_QWEN3_EXPERTS),
        "phi3": FamilyTraits(window=WindowRule.ALL),
        "phimoe": FamilyTraits(
            norm=2,
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            head_bias=("lm_head_bias", False),
            window=WindowRule.ALL,
            experts=ExpertTraits(width_keys=("intermediate_size",), module="block_sparse_moe"),
        ),
        "gemma": _GEMMA,
        "gemma2": _GEMMA2,
        "gemma3_text": _GEMMA3,
        "olmo": FamilyTraits(norm=0, qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS),
        "olmo2": _OLMO2,
        "olmo3": replace(_OLMO2, window=WindowRule.PATTERN, pattern=4),
        "olmoe": replace(_OLMO2, experts=ExpertTraits(width_keys=("intermediate_size",))),
        "cohere": FamilyTraits(
            norms_per_layer=1,
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            query_key_norm=QueryKeyNorm.PER_HEAD_WEIGHTS,
            query_key_norm_flag=("use_qk_norm", False),
            tied=True,
        ),
        "cohere2": FamilyTraits(
            norms_per_layer=1,
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            tied=True,
            window=WindowRule.PATTERN,
            pattern=4,
        ),
        "gpt_oss": FamilyTraits(
            qkv_bias=("attention_bias", True),
            output_bias=("attention_bias", True),
            head_dim=64,
            window=WindowRule.EVEN_LAYERS,
            sinks=True,
            experts=ExpertTraits(width_keys=("intermediate_size",), router_bias=True, expert_bias=True),
        ),
        "mixtral": FamilyTraits(
            window=WindowRule.ALL,
            experts=ExpertTraits(width_keys=("intermediate_size",), module="block_sparse_moe"),
        ),
        "dbrx": FamilyTraits(experts=ExpertTraits(width_keys=("ffn_hidden_size",), module="ffn")),
        "granitemoe": replace(
            _LLAMA, experts=ExpertTraits(width_keys=("intermediate_size",), module="block_sparse_moe")
        ),
        "granitemoeshared": replace(
            _LLAMA,
            experts=ExpertTraits(
                width_keys=("intermediate_size",),
                shared_keys=("shared_intermediate_size",),
                module="block_sparse_moe",
            ),
        ),
        "deepseek": FamilyTraits(
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            experts=ExpertTraits(shared_count=True, layer_keys=_FIRST_DENSE),
        ),
        "deepseek_v2": replace(_DEEPSEEK, experts=ExpertTraits(shared_count=True, layer_keys=_FIRST_DENSE)),
        "deepseek_v3": _DEEPSEEK,
        "deepseek_v32": _DEEPSEEK,
        "kimi_k2": _DEEPSEEK,
        "glm4_moe_lite": _DEEPSEEK,
        "glm_moe_dsa": _DEEPSEEK,
        "minicpm3": replace(_DEEPSEEK, experts=None, tied=True),
        "glm4_moe": FamilyTraits(
            qkv_bias=_LLAMA_BIAS,
            query_key_norm=QueryKeyNorm.HEAD,
            query_key_norm_flag=("use_qk_norm", False),
            experts=_DEEPSEEK_EXPERTS,
        ),
        "glm": FamilyTraits(qkv_bias=("attention_bias", True), head_dim=128),
        "glm4": FamilyTraits(norms_per_layer=4, qkv_bias=("attention_bias", True), head_dim=128),
        "chatglm": FamilyTraits(qkv_bias=("add_qkv_bias", False), output_bias=("add_bias_linear", False)),
        "dots1": FamilyTraits(
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            query_key_norm=QueryKeyNorm.HEAD,
            experts=_DEEPSEEK_EXPERTS,
        ),
        "ernie4_5_moe": FamilyTraits(
            qkv_bias=("use_bias", False),
            output_bias=("use_bias", False),
            mlp_bias=("use_bias", False),
            tied=True,
            experts=ExpertTraits(
                shared_count=True, layer_keys=("moe_layer_interval", "first_k_dense_replace"), norm_experts=1
            ),
        ),
        "minimax_m2": FamilyTraits(
            head_dim=128,
            query_key_norm=QueryKeyNorm.WIDTH,
            query_key_norm_flag=("use_qk_norm", True),
            experts=ExpertTraits(
                width_keys=("intermediate_size",), router_buffer=("use_routing_bias", True), module="block_sparse_moe"
            ),
        ),
        "llama4_text": replace(
            _LLAMA,
            head_dim=128,
            mlp_bias=False,
            dense_width_keys=("intermediate_size_mlp",),
            experts=ExpertTraits(
                width_keys=("intermediate_size",),
                layer_keys=("interleave_moe_layer_step", "moe_layers"),
                shared_default=1,
                module="feed_forward",
                shared_module="shared_expert",
            ),
        ),
        "opt": replace(_GPT, qkv_bias=True, output_bias=True, mlp_bias=True, tied=True, position_rows=2),
        "phi": replace(_LAYER_NORM, norms_per_layer=1, qkv_bias=True, output_bias=True, mlp_bias=True, head_bias=True),
        "gpt2": replace(
            _GPT, qkv_bias=True, output_bias=True, mlp_bias=True, tied=True, position_rows=0, ffn_multiple=4
        ),
        "gpt_bigcode": replace(
            _LAYER_NORM, qkv_bias=True, output_bias=True, mlp_bias=True, tied=True, position_rows=0, ffn_multiple=4
        ),
        "gpt_neox": replace(
            _GPT, qkv_bias=("attention_bias", True), output_bias=("attention_bias", True), mlp_bias=True
        ),
        "gptj": replace(_GPT, norms_per_layer=1, mlp_bias=True, head_bias=True, ffn_multiple=4),
        "bloom": replace(
            _GPT, qkv_bias=True, output_bias=True, mlp_bias=True, tied=True, ffn_multiple=4, embedding_norm=True
        ),
        "starcoder2": replace(
            _LAYER_NORM,
            qkv_bias=("use_bias", True),
            output_bias=("use_bias", True),
            mlp_bias=("use_bias", True),
            tied=True,
            window=WindowRule.ALL,
        ),
        "stablelm": FamilyTraits(
            norm=2,
            qkv_bias=("use_qkv_bias", False),
            query_key_norm=QueryKeyNorm.PER_HEAD_WEIGHTS,
            query_key_norm_flag=("qk_layernorm", False),
            parallel_key="use_parallel_residual",
        ),
        "nemotron": replace(_LAYER_NORM, qkv_bias=_LLAMA_BIAS, output_bias=_LLAMA_BIAS, mlp_bias=("mlp_bias", False)),
        "mpt": FamilyTraits(
            gated=False,
            tied=True,
            multi_head=True,
            ffn_multiple=4,
            ffn_multiple_key="expansion_ratio",
            dense_width_keys=(),
        ),
        "falcon": replace(_LAYER_NORM, tied=True, ffn_multiple=4, dense_width_keys=("ffn_hidden_size",)),
        "gpt_neo": replace(_GPT, output_bias=True, mlp_bias=True, tied=True, position_rows=0, ffn_multiple=4),
        "apertus": FamilyTraits(
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            query_key_norm=QueryKeyNorm.HEAD,
            gated=False,
            activation_parameters=2,
        ),
        "cwm": replace(_LLAMA, head_dim=128, window=WindowRule.PATTERN, pattern=4),
        "flex_olmo": replace(_OLMO2, experts=ExpertTraits(width_keys=("intermediate_size",))),
        "exaone_moe": FamilyTraits(
            query_key_norm=QueryKeyNorm.HEAD,
            window=WindowRule.PATTERN,
            pattern=4,
            experts=ExpertTraits(shared_count=True, layer_keys=_FIRST_DENSE, router_buffer=True),
        ),
        "hunyuan_v1_moe": FamilyTraits(
            qkv_bias=_LLAMA_BIAS,
            output_bias=_LLAMA_BIAS,
            query_key_norm=QueryKeyNorm.HEAD,
            experts=ExpertTraits(width_keys=("intermediate_size",), shared_default=1, shared_module="shared_mlp"),
        ),
    }
)
"""Known decoder families by ``model_type``."""

CLASS_FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "LlamaForCausalLM": "llama",
        "MistralForCausalLM": "mistral",
        "MixtralForCausalLM": "mixtral",
        "Qwen2ForCausalLM": "qwen2",
        "Qwen3ForCausalLM": "qwen3",
        "Qwen3MoeForCausalLM": "qwen3_moe",
        "Phi3ForCausalLM": "phi3",
        "GemmaForCausalLM": "gemma",
        "Gemma2ForCausalLM": "gemma2",
        "DeepseekV2ForCausalLM": "deepseek_v2",
        "DeepseekV3ForCausalLM": "deepseek_v3",
        "Glm4MoeForCausalLM": "glm4_moe",
        "GptOssForCausalLM": "gpt_oss",
    }
)
"""Families by the modelling class under ``architectures``: what an unknown ``model_type`` is read as."""
