"""Keys that single model types carry: some change no size of theirs, others have the one value that is known.

The reader of a type takes sizes from the keys it reads; those here stand beside them in published files, or in the
type's class of the transformers library. What a table does not list is refused, see :mod:`unexplained`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from capplan.modeling.config_reader.harmless_keys import key_names

_QWEN_VISION = "fullatt_block_indexes spatial_patch_size tokens_per_second window_size"
_KIMI_VISION = (
    "init_pos_emb_time merge_type mm_projector_type pos_emb_type use_unified_vision_chunk video_attn_type "
    "vt_num_attention_heads activation_func pos_emb_interpolation_mode ignore_index"
)
_SPARSE = ("deepseek_sparse_attention", "indexed_attention")
_MOE_MTP = "num_nextn_predict_layers"

CARRIED_KEYS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        model_type: key_names(keys)
        for model_type, keys in {
            "bert": "pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type "
            "directionality",
            "clip": "projection_dim",
            "cohere2": "layer_switch order_of_interleaved_layers",
            "deepseek_v4": f"mlp_layer_types {_MOE_MTP}",
            "distilbert": "sinusoidal_pos_embds",
            "ernie4_5_moe": "compression_ratio freq_allocation moe_capacity moe_gate moe_norm_min moe_use_aux_free "
            f"multi_token_pred_lambda {_MOE_MTP}",
            "exaone_moe": _MOE_MTP,
            # The inner width has a key of its own.
            "falcon_mamba": "expand",
            "falcon_h1": "mamba_expand mamba_norm_before_gate",
            "gemma3": "mm_tokens_per_image",
            "gemma3n_text": "activation_sparsity_pattern altup_coef_clip altup_correct_scale "
            "audio_soft_tokens_per_image vision_soft_tokens_per_image",
            "gemma4": "use_bidirectional_attention vision_soft_tokens_per_image vocab_size_per_layer_input",
            # Which layers own an indexer is listed as indexer_types.
            "glm_moe_dsa": "index_share_for_mtp_iteration index_skip_topk_offset index_topk_freq",
            "gpt2": "n_ctx summary_activation summary_proj_to_labels summary_type summary_use_proj",
            "gpt_bigcode": "n_ctx",
            "gptj": "n_ctx summary_proj_to_labels summary_type summary_use_proj",
            "gpt_neo": "attention_layers attention_types window_size",
            "granitemoehybrid": "layers_block_type",
            "kimi_k25": _KIMI_VISION,
            "kimi_k3": f"{_KIMI_VISION} activation_situ_beta activation_situ_linear_beta full_attn_layers "
            "gate_lower_bound mla_use_nope",
            "kimi_linear": f"full_attn_layers mla_use_nope {_MOE_MTP}",
            "lfm2": "full_attn_idxs block_dim conv_dim conv_dim_out block_mlp_init_scale "
            "block_out_init_scale block_use_swiglu block_use_xavier_init use_pos_enc",
            "llama4_text": "for_llm_compressor no_rope_layer_interval",
            "llava": "ignore_index vision_feature_layer vision_feature_select_strategy image_seq_length "
            "image_grid_pinpoints vocab_size",
            "minimax": "block_size full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor "
            "linear_attn_beta_factor mlp_alpha_factor mlp_beta_factor",
            "minimax_text_01": "layernorm_full_attention_alpha layernorm_full_attention_beta "
            "layernorm_linear_attention_alpha layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta",
            # Drafting modules are no part of the served model.
            "minimax_m2": "mtp_transformer_layers num_mtp_modules use_mtp",
            "mistral3": "vision_feature_layer",
            "mllama": "attention_heads intermediate_layers_indices",
            "mpt": "alibi_bias_max attn_impl embedding_fraction verbose",
            "nemotron_h": "chunk_size expand time_step_rank",
            "mamba2": "chunk_size time_step_rank",
            "phi3": "full_attn_mod interpolate_factor",
            "phi3small": "gegelu_pad_to_256",
            "qwen2_vl": _QWEN_VISION,
            "qwen2_5_vl": _QWEN_VISION,
            "smollm3": "no_rope_layers no_rope_layer_interval",
            "t5": "is_gated_act relative_attention_max_distance scale_decoder_outputs n_positions",
            "mt5": "is_gated_act relative_attention_max_distance scale_decoder_outputs",
            "vit": "encoder_stride pooler_act",
            "whisper": "classifier_proj_size mask_feature_length mask_time_length mask_time_min_masks mask_time_prob "
            "mask_feature_min_masks mask_feature_prob median_filter_width num_hidden_layers",
        }.items()
    }
)
"""Keys by model type that change no size of it."""

# Heads split a tower's width; what its head and its images would be is no part of it.
VISION_KEYS: frozenset[str] = key_names(
    """
    default_output_length depth_multiplier image_seq_length image_size max_position_embeddings num_attention_heads
    num_heads num_key_value_heads pooling_kernel_size projection_dim standardize video_seq_length
    vision_feature_layer vision_feature_select_strategy vocab_size tie_word_embeddings vocab_offset
    num_classes global_head_dim
    """
)
"""Keys that change no size below ``vision_config``, where a reader does not ask for them."""

AUDIO_KEYS: frozenset[str] = key_names(
    """
    conf_attention_chunk_size conf_attention_context_left conf_attention_context_right conf_attention_logit_cap
    conf_conv_kernel_size conf_num_attention_heads conf_reduction_factor conf_residual_weight gradient_clipping
    hidden_size input_feat_size sscp_conv_channel_size sscp_conv_kernel_size sscp_conv_stride_size vocab_offset
    """
)
"""Keys below ``audio_config`` of the one audio tower whose total is published and not computed."""

EXPECTED_VALUES: Mapping[str, Mapping[str, tuple[object, ...]]] = MappingProxyType(
    {
        "bert": {"position_embedding_type": ("absolute",)},
        "bloom": {"apply_residual_connection_post_layernorm": (False,)},
        "camembert": {"position_embedding_type": ("absolute",)},
        "chatglm": {
            "apply_residual_connection_post_layernorm": (False,),
            "interleaved_qkv": (False,),
            "post_layer_norm": (True,),
            "rmsnorm": (True,),
        },
        "clip": {"tie_word_embeddings": (True, False)},
        "cohere2": {
            "position_embedding_type": ("rope_gptj",),
            "use_embedding_sharing": (True,),
            "use_gated_activation": (True,),
            "use_parallel_block": (True,),
            "use_parallel_embedding": (True, False),
        },
        "apertus": {"post_norm": (False,), "qk_norm": (True,)},
        "dbrx": {"ffn_act_fn": ({"name": "silu"},), "moe_normalize_expert_weights": (1, 2)},
        "falcon": {"alibi": (True, False)},
        "deepseek_v32": {"layer_types": _SPARSE},
        "glm_moe_dsa": {"layer_types": _SPARSE, "mlp_bias": (False,)},
        "gpt_neox": {"use_parallel_residual": (True, False)},
        "granitemoehybrid": {
            "normalization_function": ("rmsnorm",),
            "position_embedding_type": ("nope", "rope"),
        },
        "hunyuan_v1_dense": {"use_qk_norm": (True,), "use_cla": (False,)},
        "hunyuan_v1_moe": {"use_qk_norm": (True,), "use_cla": (False,)},
        "jamba": {"attn_implementation": ("eager", "flash_attention_2", "sdpa")},
        "llama4_text": {"use_qk_norm": (True, False)},  # a norm without weights
        "mimo": {"attention_bias": (True,)},
        "minimax_m2": {"attn_type_list": (1,), "qk_norm_type": ("per_layer",)},
        "mpt": {"alibi": (True,), "learned_pos_emb": (True,), "norm_type": ("low_precision_layernorm",)},
        "opt": {
            "_remove_final_layer_norm": (False,),
            "enable_bias": (True,),
            "layer_norm_elementwise_affine": (True,),
        },
        "phi": {"qk_layernorm": (False,)},
        "qwen2": {"attention_bias": (True,), "qkv_bias": (True,)},
        "qwen3": {"use_qk_norm": (True,)},
        "qwen3_moe": {"qkv_bias": (False,), "use_qk_norm": (True,)},
        "roberta": {"position_embedding_type": ("absolute",)},
        "starcoder2": {"mlp_type": ("default",), "norm_type": ("layer_norm",)},
        "t5": {"is_encoder_decoder": (True,)},
        "mt5": {"is_encoder_decoder": (True,)},
        "whisper": {"is_encoder_decoder": (True,)},
        "xlm-roberta": {"position_embedding_type": ("absolute",)},
    }
)
"""Keys by model type that would change a size, with the values that change none of what is read."""
