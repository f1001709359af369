"""Encoders and two-transformer models against the transformers library's counts of their default configs."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from capplan.modeling.parameters import total_parameters

BERT: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
DISTILBERT: dict[str, Any] = {
    "model_type": "distilbert",
    "dim": 768,
    "hidden_dim": 3072,
    "n_layers": 6,
    "n_heads": 12,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
}
XLM_ROBERTA = BERT | {
    "model_type": "xlm-roberta",
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "vocab_size": 250002,
}
MPNET = BERT | {
    "model_type": "mpnet",
    "max_position_embeddings": 514,
    "relative_attention_num_buckets": 32,
    "vocab_size": 30527,
}
VIT: dict[str, Any] = {
    "model_type": "vit",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 16,
    "qkv_bias": True,
}
TOWER: dict[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
}
SIGLIP: dict[str, Any] = {
    "model_type": "siglip",
    "text_config": TOWER | {"vocab_size": 32000, "max_position_embeddings": 64},
    "vision_config": TOWER | {"image_size": 384, "patch_size": 14},
}
T5: dict[str, Any] = {
    "model_type": "t5",
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 12,
    "num_decoder_layers": 12,
    "num_heads": 12,
    "feed_forward_proj": "gated-gelu",
    "relative_attention_num_buckets": 32,
    "n_positions": 512,
    "vocab_size": 32128,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("config", "architecture", "counted"),
    [
        (BERT, "BertModel", 109_482_240),
        (BERT, "BertForMaskedLM", 109_514_298),
        (BERT | {"num_labels": 2}, "BertForSequenceClassification", 109_483_778),
        (DISTILBERT, "DistilBertModel", 66_362_880),
        (DISTILBERT, "DistilBertForMaskedLM", 66_985_530),
        # BAAI/bge-reranker-base, one label.
        (XLM_ROBERTA | {"id2label": {"0": "LABEL_0"}}, "XLMRobertaForSequenceClassification", 278_044_417),
        (MPNET, "MPNetModel", 109_486_464),  # sentence-transformers/all-mpnet-base-v2
        (VIT | {"num_labels": 1000}, "ViTForImageClassification", 86_567_656),
        (VIT, "ViTModel", 86_389_248),
        (SIGLIP, "SiglipModel", 877_960_498),  # so400m, 14 pixels, 384
        (T5, "T5ForConditionalGeneration", 247_577_856),  # google/flan-t5-base, head not shared
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_encoder_has_the_parameters_the_library_counts(
    config: dict[str, Any], architecture: str, counted: int
) -> None:
    assert total_parameters(read_config(config | {"architectures": [architecture]})) == counted


def test_encoders_cache_nothing() -> None:
    costs = model_costs(read_config(BERT | {"architectures": ["BertModel"]}), "fp16")
    assert costs.cache_bytes_per_token == 0
    assert costs.states == ()


def test_two_reserved_positions_are_no_context() -> None:
    # bge-m3 says 8,194 and XLM-R 514: two of them stand before the first token.
    assert read_config(XLM_ROBERTA).max_context_tokens == 512
    assert read_config(BERT).max_context_tokens == 512
