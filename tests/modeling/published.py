"""Published model configs, retyped to the fields that determine a size."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

BLOCK_FP8: Config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def decoder(
    model_type: str, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, vocabulary: int, **more: Any
) -> Config:
    """A decoder config with the usual keys."""
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        **more,
    }


LLAMA_3_1_8B = decoder("llama", 32, 4096, 14336, 32, 8, 128256, attention_bias=False, mlp_bias=False)
LLAMA_3_1_70B = decoder("llama", 80, 8192, 28672, 64, 8, 128256, attention_bias=False, mlp_bias=False)
LLAMA_3_1_405B = decoder("llama", 126, 16384, 53248, 128, 8, 128256, attention_bias=False, mlp_bias=False)
LLAMA_3_2_1B = LLAMA_3_1_8B | {
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
LLAMA_2_7B = decoder("llama", 32, 4096, 11008, 32, 32, 32000)
QWEN2_5_7B = decoder("qwen2", 28, 3584, 18944, 28, 4, 152064, sliding_window=131072, use_sliding_window=False)
QWEN2_5_72B = decoder("qwen2", 80, 8192, 29568, 64, 8, 152064)
QWEN3_32B = decoder("qwen3", 64, 5120, 25600, 64, 8, 151936, head_dim=128, attention_bias=False)
QWEN3_30B_A3B = decoder(
    "qwen3_moe",
    48,
    2048,
    6144,
    32,
    4,
    151936,
    head_dim=128,
    attention_bias=False,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=768,
    decoder_sparse_step=1,
    mlp_only_layers=[],
)
QWEN3_235B_A22B = QWEN3_30B_A3B | {
    "num_hidden_layers": 94,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 64,
    "moe_intermediate_size": 1536,
}
MIXTRAL_8X7B = decoder("mixtral", 32, 4096, 14336, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2)
PHI_4 = decoder("phi3", 40, 5120, 17920, 40, 10, 100352, attention_bias=False)
MISTRAL_7B_V0_1 = decoder("mistral", 32, 4096, 14336, 32, 8, 32000, sliding_window=4096)
DEEPSEEK_V3 = decoder(
    "deepseek_v3",
    61,
    7168,
    18432,
    128,
    128,
    129280,
    attention_bias=False,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    moe_layer_freq=1,
    first_k_dense_replace=3,
    topk_method="noaux_tc",
    num_nextn_predict_layers=1,
)
DEEPSEEK_V3_2 = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32",
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}
DEEPSEEK_V2_LITE = DEEPSEEK_V3 | {
    "model_type": "deepseek_v2",
    "num_hidden_layers": 27,
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 102400,
    "q_lora_rank": None,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "topk_method": "greedy",
    "num_nextn_predict_layers": 0,
}
KIMI_K2 = DEEPSEEK_V3 | {
    "model_type": "kimi_k2",
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "vocab_size": 163840,
    "n_routed_experts": 384,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
}
GLM_4_5_AIR = decoder(
    "glm4_moe",
    46,
    4096,
    10944,
    96,
    8,
    151552,
    head_dim=128,
    attention_bias=True,
    use_qk_norm=False,
    n_routed_experts=128,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=1408,
    first_k_dense_replace=1,
    num_nextn_predict_layers=1,
)
GLM_4_5 = GLM_4_5_AIR | {
    "num_hidden_layers": 92,
    "hidden_size": 5120,
    "intermediate_size": 12288,
    "use_qk_norm": True,
    "n_routed_experts": 160,
    "moe_intermediate_size": 1536,
    "first_k_dense_replace": 3,
}
GLM_5_2 = decoder(
    "glm_moe_dsa",
    78,
    6144,
    12288,
    64,
    64,
    154880,
    attention_bias=False,
    q_lora_rank=2048,
    kv_lora_rank=512,
    qk_nope_head_dim=192,
    qk_rope_head_dim=64,
    v_head_dim=256,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    first_k_dense_replace=3,
    index_n_heads=32,
    index_head_dim=128,
    index_topk=2048,
    indexer_types=["full"] * 3 + ["shared" if (n - 2) % 4 else "full" for n in range(3, 78)],
)
GPT_OSS_20B = decoder(
    "gpt_oss",
    24,
    2880,
    2880,
    64,
    8,
    201088,
    head_dim=64,
    attention_bias=True,
    num_local_experts=32,
    num_experts_per_tok=4,
    sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 12,
    quantization_config={
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
)
GPT_OSS_120B = GPT_OSS_20B | {
    "num_hidden_layers": 36,
    "num_local_experts": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}
MINIMAX_M2 = decoder(
    "minimax_m2",
    62,
    3072,
    1536,
    48,
    8,
    200064,
    head_dim=128,
    use_qk_norm=True,
    use_routing_bias=True,
    num_local_experts=256,
    num_experts_per_tok=8,
    shared_intermediate_size=0,
)
DBRX: Config = {
    "model_type": "dbrx",
    "d_model": 6144,
    "n_heads": 48,
    "n_layers": 40,
    "max_seq_len": 32768,
    "vocab_size": 100352,
    "tie_word_embeddings": False,
    "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
}
LLAMA_4_SCOUT: Config = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "num_hidden_layers": 48,
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 202048,
        "attention_bias": False,
        "attention_chunk_size": 8192,
        "max_position_embeddings": 10485760,
        "interleave_moe_layer_step": 1,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "no_rope_layers": [],
    },
    "vision_config": {
        "hidden_size": 1408,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "num_attention_heads": 16,
        "image_size": 336,
        "patch_size": 14,
        "num_channels": 3,
        "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
        "vision_output_dim": 4096,
    },
}
LLAMA_4_MAVERICK: Config = LLAMA_4_SCOUT | {
    "text_config": LLAMA_4_SCOUT["text_config"]
    | {"interleave_moe_layer_step": 2, "num_local_experts": 128, "max_position_embeddings": 1048576}
}
GEMMA_3_27B: Config = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
    },
}
QWEN3_NEXT_80B = decoder(
    "qwen3_next",
    48,
    2048,
    5120,
    16,
    2,
    151936,
    head_dim=256,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    decoder_sparse_step=1,
    full_attention_interval=4,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
)
NEMOTRON_H_56B = decoder(
    "nemotron_h",
    118,
    8192,
    32768,
    64,
    8,
    131072,
    attention_head_dim=128,
    attention_bias=False,
    mlp_bias=False,
    hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-"
    "M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    mamba_num_heads=256,
    mamba_head_dim=64,
    n_groups=8,
    ssm_state_size=256,
    conv_kernel=4,
    use_conv_bias=True,
    mamba_proj_bias=False,
)
MINIMAX_TEXT_01 = decoder(
    "minimax_text_01",
    80,
    6144,
    9216,
    64,
    8,
    200064,
    head_dim=128,
    num_local_experts=32,
    num_experts_per_tok=2,
    shared_intermediate_size=0,
    attn_type_list=([0] * 7 + [1]) * 10,
)
JAMBA_1_5_MINI = decoder(
    "jamba",
    32,
    4096,
    14336,
    32,
    8,
    65536,
    attn_layer_period=8,
    attn_layer_offset=4,
    expert_layer_period=2,
    expert_layer_offset=1,
    num_experts=16,
    num_experts_per_tok=2,
    mamba_d_conv=4,
    mamba_d_state=16,
    mamba_dt_rank=256,
    mamba_expand=2,
    mamba_conv_bias=True,
    mamba_proj_bias=False,
)
JAMBA_1_5_LARGE = JAMBA_1_5_MINI | {
    "num_hidden_layers": 72,
    "hidden_size": 8192,
    "intermediate_size": 24576,
    "num_attention_heads": 64,
    "mamba_dt_rank": 512,
}
GRANITE_4_H_SMALL = decoder(
    "granitemoehybrid",
    40,
    4096,
    768,
    32,
    8,
    100352,
    tie_word_embeddings=True,
    attention_bias=False,
    num_local_experts=72,
    num_experts_per_tok=10,
    shared_intermediate_size=1536,
    layer_types=["attention" if n in (5, 15, 25, 35) else "mamba" for n in range(40)],
    mamba_n_heads=128,
    mamba_d_head=64,
    mamba_n_groups=1,
    mamba_d_state=128,
    mamba_d_conv=4,
    mamba_expand=2,
    mamba_conv_bias=True,
    mamba_proj_bias=False,
)
DEEPSEEK_V4_FLASH: Config = {
    "model_type": "deepseek_v4",
    "num_hidden_layers": 43,
    "hidden_size": 4096,
    "vocab_size": 129280,
    "max_position_embeddings": 1048576,
    "tie_word_embeddings": False,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 1024,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4],
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "hc_mult": 4,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 2048,
    "topk_method": "noaux_tc",
}
WHISPER_LARGE_V3: Config = {
    "model_type": "whisper",
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "encoder_attention_heads": 20,
    "decoder_layers": 32,
    "decoder_ffn_dim": 5120,
    "decoder_attention_heads": 20,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "vocab_size": 51866,
    "tie_word_embeddings": True,
}
BERT_LARGE: Config = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}

ALL: dict[str, Config] = {name: value for name, value in globals().items() if name.isupper() and "model_type" in value}
"""Every config of this module by name."""
