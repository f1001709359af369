"""Every known decoder family against the transformers library's own count of a small model."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.modeling.config_reader import read_config
from capplan.modeling.config_reader.families import FAMILIES
from capplan.modeling.config_reader.known_types import READERS
from capplan.modeling.parameters import total_parameters
from tests.modeling.published import ALL
from tests.modeling.small_models import COMMON, SMALL_MODELS

# Types the library does not have, or not under this name; their published totals are in the shipped profiles.
NOT_IN_THE_LIBRARY = {"internlm2", "baichuan", "minicpm", "mimo", "chatglm", "qwen", "deepseek", "nemotron-nas"}


# Types with windowed layers, which change no count; a config that does not say how wide they are is refused.
WINDOWED = {"gemma2", "gemma3_text", "olmo3", "gpt_oss", "cohere2", "exaone4", "exaone_moe", "llama4_text", "cwm"}


def config_of(model_type: str, changes: dict[str, Any]) -> dict[str, Any]:
    window = {"sliding_window": 64} if model_type in WINDOWED else {}
    config = {"model_type": model_type} | COMMON | window | changes
    return {key: value for key, value in config.items() if value is not None or key == "q_lora_rank"}


@pytest.mark.parametrize(("model_type", "changes", "counted"), SMALL_MODELS, ids=lambda value: str(value)[:40])
def test_a_small_model_has_the_parameters_the_library_counts(
    model_type: str, changes: dict[str, Any], counted: int
) -> None:
    assert total_parameters(read_config(config_of(model_type, changes))) == counted


def test_most_known_types_are_counted_here() -> None:
    counted = {model_type for model_type, _, _ in SMALL_MODELS}
    published = {config["model_type"] for config in ALL.values()}
    published |= {config["text_config"]["model_type"] for config in ALL.values() if "text_config" in config}
    unchecked = (set(FAMILIES) | set(READERS)) - counted - published - NOT_IN_THE_LIBRARY
    # Checked through the shipped profiles, as parts of a larger model, or in test_encoders.
    through_profiles = {
        "kimi_k2",
        "glm4_moe_lite",
        "minimax_text_01",
        "deepseek_v4",
        "qwen3_5_text",
        "qwen3_5_moe_text",
        "gemma4_text",
    }
    encoders = {"roberta", "xlm-roberta", "camembert", "mpnet", "distilbert", "vit"}
    assert unchecked <= through_profiles | encoders | {"mimo_v2_flash"}
