"""Keys of quantisation blocks that change neither what is stored nor how wide: calibration, kernels, bookkeeping."""

from __future__ import annotations

from capplan.modeling.config_reader.harmless_keys import key_names

QUANTIZATION_KEYS: frozenset[str] = key_names(
    """
    _load_in_4bit _load_in_8bit activation_scale_ub amp backend batch_size block_name_to_quantize
    bnb_4bit_compute_dtype bnb_4bit_quant_storage cache_block_outputs damp_auto_increment damp_percent dataset
    desc_act disable_exllama do_fuse enable_minmax_tuning enable_quanted_input exllama_config fuse_max_seq_len
    global_compression_ratio gptq_version gradient_accumulate_steps iters llm_int8_enable_fp32_cpu_offload
    llm_int8_threshold low_gpu_mem_usage lr max_input_length meta minmax_lr model_file_base_name model_name_or_path
    model_seqlen module_name_preceding_first_block modules_to_fuse mse nsamples observer observer_kwargs
    offload_to_disk pad_token_id producer quantization_status quantizer run_commands seqlen static_groups sym
    tokenizer true_sequential use_cuda_fp16 use_exllama version_name
    """
)
"""Known by GPTQModel, AutoGPTQ, AutoAWQ, AutoRound, bitsandbytes, compressed-tensors, fbgemm and ModelOpt's blocks."""

ACTIVATION_KEYS: frozenset[str] = key_names(
    """
    actorder block_structure dynamic group_size num_bits observer observer_kwargs scale_dtype strategy symmetric
    type zp_dtype
    """
)
"""What a group says of its input activations, or a block of the KV cache: no weights."""

WEIGHT_KEYS: frozenset[str] = key_names(
    """
    observer observer_kwargs
    """
)
"""What a group says of how its weights' scales were found."""
