"""Config keys that change no size whatever the model: the one list of them, by why they do not.

A key is here only if no known modelling code makes or drops a parameter, a cached value or a layer for it. Anything
that is neither read, nor here, nor among a family's own keys (:mod:`family_keys`) is refused by name when it says
something, see :mod:`unexplained`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType


def key_names(listed: str) -> frozenset[str]:
    """The keys of a list written as words."""
    return frozenset(listed.split())


_BECAUSE: Mapping[str, str] = MappingProxyType(
    {
        "what the transformers library writes for itself": """
            _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash
            _experts_implementation _flash_attn_2_enabled _from_model_config _name_or_path architectures
            attn_implementation auto_map chunk_size_feed_forward custom_pipelines dtype finetuning_task id2label
            is_composition label2id label_names model_type name_or_path num_labels output_attentions
            output_hidden_states output_past output_scores problem_type return_dict return_dict_in_generate
            sentence_transformers task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript
            transformers.js_config transformers_version unsloth_fixed unsloth_version use_bfloat16 use_cache
        """,
        "how text is generated": """
            bad_words_ids begin_suppress_tokens cache_implementation diversity_penalty do_sample early_stopping
            encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id forced_decoder_ids
            forced_eos_token_id generation_config length_penalty max_generation_length max_length max_new_tokens
            min_length no_repeat_ngram_size num_beam_groups num_beams num_logits_to_keep num_return_sequences prefix
            remove_invalid_values repetition_penalty suppress_tokens temperature top_k top_p typical_p
        """,
        "how text and images are cut into tokens": """
            image_placeholder model_input_names tokenizer_model_max_length tokenizer_padding_side
            tokenizer_image_token video_placeholder
        """,
        "training only": """
            apply_spec_augment attention_dropout attn_pdrop aux_loss_alpha bias_dropout_fusion dropout dropout_rate
            embd_pdrop embed_dropout embed_pdrop gradient_checkpointing init_device init_method init_std
            initializer_factor initializer_range input_jitter_noise label_smoothing layerdrop neftune_noise_alpha
            output_router_logits pretraining_tp rescale_prenorm_residual resid_pdrop residual_dropout
            router_aux_loss_coef router_jitter_noise router_z_loss_coef seq_aux use_gradient_checkpointing
            z_loss_weight
        """,
        "the activation function; gated ones are told apart by family": """
            activation activation_function dense_act_fn hidden_act hidden_activation mamba_hidden_act mlp_hidden_act
            projector_hidden_act
        """,
        "constants in a formula": """
            attention_in_multiplier attention_multiplier attention_out_multiplier attention_value_scale attn_factor
            attn_logit_softcapping attn_scale attn_temperature_tuning clip_qkv dim_model_base embedding_multiplier
            final_logit_softcapping floor_scale gegelu_limit hc_eps key_multiplier lm_head_multiplier logit_scale
            logit_scale_init_value logits_scaling mlp_multipliers mup_attn_multiplier mup_denominator
            mup_embedding_multiplier mup_use_scaling mup_width_multiplier query_pre_attn_scalar residual_multiplier
            scale_depth scale_emb scale_embedding ssm_in_multiplier ssm_multipliers ssm_out_multiplier swiglu_alpha
            swiglu_limit time_step_floor time_step_init_scheme time_step_limit time_step_max time_step_min
            time_step_scale mamba_dt_max mamba_dt_min mamba_dt_init_floor router_temperature
        """,
        "how experts are chosen and their outputs summed": """
            expert_group_score_func moe_renormalize moe_router_activation_func n_group norm_topk_prob
            normalize_expert_weights num_expert_group routed_scaling_factor score_function scoring_func topk_group
            use_grouped_topk
        """,
        "positions by rotation or bias, which have no parameters": """
            compress_rope_theta global_rope_theta indexer_rope_interleave initial_context_length local_rope_theta
            mrope_section original_max_position_embeddings original_rope partial_rotary_factor rope_embedding_base
            rope_interleave rope_interleaved rope_local_base_freq rope_parameters rope_pct rope_position_scale
            rope_ratio rope_scaling rope_theta rope_type rotary rotary_base rotary_dim rotary_emb_base
            rotary_emb_fraction rotary_pct rotary_percent rotary_scaling_factor swa_rope_theta use_dynamic_ntk
            use_logn_attn use_mrope yarn_factor
        """,
        "windows, for readers that found none to apply it to": "max_window_layers",
        "which kernel computes it, and in what precision": """
            apply_query_key_layer_scaling attention_softmax_in_fp32 bf16 enable_lm_head_fp32 ep_size fp16 fp32
            fp32_residual_connection mamba_chunk_size moe_router_dtype moe_shared_expert_overlap
            pad_sequence_to_multiple_of_64 reorder_and_upcast_attn residual_in_fp32 router_dtype
            scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights slow_but_exact
            use_associative_scan use_flash_attn use_flash_attn_2 use_mamba_kernels use_mambapy
        """,
    }
)

HARMLESS_KEYS: frozenset[str] = frozenset[str]().union(*map(key_names, _BECAUSE.values()))
"""Keys that change no size whatever the model."""

_HARMLESS_ENDINGS = re.compile(
    r"(_token_id|_token_ids|_token_index"  # numbers of words
    r"|_dropout|_dropout_prob|_dropout_rate"  # training
    r"|_eps|_epsilon"  # constants under a root
    r"|_aux_loss_coef|_z_loss_coef|_loss_coef|_loss_weight)$"  # training
)

LEFT_BLANK: tuple[object, ...] = (None, False, 0, "", [], {})
"""Values that ask for nothing."""

# Such a key asks for something by being false: no gate, an untied head, a norm without weights.
_FALSE_ASKS = re.compile(
    r"(?:^|_)(glu|swiglu|geglu|gated|gate|gating|tie|tied|sharing|affine|learned|learnable)(?:_|$)"
)


def is_harmless(key: str) -> bool:
    """Whether a key changes no size whatever the model and the value."""
    return key in HARMLESS_KEYS or _HARMLESS_ENDINGS.search(key) is not None


def asks_for_nothing(key: str, value: object) -> bool:
    """Whether a value says that what the key stands for is not there."""
    return value in LEFT_BLANK and not (value is False and _FALSE_ASKS.search(key) and key != "tie_encoder_decoder")
