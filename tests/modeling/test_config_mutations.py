"""A damaged config of any family gives what the whole one gives, or a refusal, or says what it took for granted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from capplan.errors import CapplanError
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import model_costs
from capplan.modeling.parameters import active_parameters, total_parameters
from capplan.modeling.precision import native_precision
from capplan.modeling.sharding import cache_bytes_per_token_per_rank, state_bytes_per_rank
from tests.modeling import published
from tests.modeling.damage import changed, paths
from tests.modeling.published import Config
from tests.modeling.small_models import SMALL_MODELS
from tests.modeling.test_families import config_of
from tests.modeling.test_quantization_blocks import AWQ, BNB_4BIT, BNB_8BIT, COMPRESSED, GPTQ, NVFP4, OTHER_BLOCKS

FAMILIES: list[tuple[str, Config]] = [
    *published.ALL.items(),
    *(
        (f"{model_type} {number}", config_of(model_type, changes))
        for number, (model_type, changes, _) in enumerate(SMALL_MODELS)
    ),
]

_SMALL = published.decoder("llama", 2, 1024, 2048, 8, 2, 32_000, head_dim=128)
FAMILIES += [
    (f"quantised {number}", _SMALL | {"quantization_config": block})
    for number, block in enumerate((COMPRESSED, GPTQ, AWQ, NVFP4, BNB_4BIT, BNB_8BIT, *OTHER_BLOCKS))
]

# No key of any family means anything by one of these.
CORRUPTIONS: list[Any] = ["4096", "NaN", -1, 1.5, math.nan, math.inf, 10**30, {"a": 1}]


def figures(architecture: ModelArchitecture) -> tuple[float, ...]:
    """Everything a plan takes from a model, the bytes its weights are stored in included."""
    costs = model_costs(architecture, native_precision(architecture))
    return (
        total_parameters(architecture),
        active_parameters(architecture),
        costs.weight_bytes,
        costs.cache_bytes_per_token,
        cache_bytes_per_token_per_rank(costs, 1, context_tokens=1 << 40),
        state_bytes_per_rank(costs, 1),
    )


@pytest.mark.parametrize(("name", "config"), FAMILIES, ids=[name for name, _ in FAMILIES])
def test_no_damage_silently_changes_a_figure(name: str, config: Config) -> None:
    whole = read_config(config)
    for path in paths(config):
        # Without its block a quantised model is the whole config of another one, in 16 bit.
        damaged = [changed(config, path, drop=True)] * (path[-1] != "quantization_config")
        damaged.append(changed(config, path, rename=True))
        damaged += [
            changed(config, path, value=value)
            for value in CORRUPTIONS
            if (path[-1], value) != ("group_size", -1)  # one group a column
        ]
        for other in damaged:
            try:
                found = read_config(other)
            except CapplanError:
                continue
            if figures(found) != figures(whole):
                assert set(found.assumptions) - set(whole.assumptions), f"{name} without {'.'.join(path)}"


GROUPED = [
    "LLAMA_3_1_8B",
    "QWEN2_5_7B",
    "QWEN3_32B",
    "QWEN3_30B_A3B",
    "MISTRAL_7B_V0_1",
    "MIXTRAL_8X7B",
    "PHI_4",
    "GPT_OSS_20B",
    "GLM_4_5",
    "QWEN3_NEXT_80B",
    "NEMOTRON_H_56B",
]


@pytest.mark.parametrize("name", GROUPED)
def test_grouped_heads_are_not_taken_for_single_ones_where_the_key_is_lost(name: str) -> None:
    with pytest.raises(CapplanError, match="num_key_value_heads"):
        read_config(changed(published.ALL[name], ("num_key_value_heads",), drop=True))


def test_the_first_llamas_had_no_such_key() -> None:
    config = changed(published.LLAMA_2_7B, ("num_key_value_heads",), drop=True)
    assert total_parameters(read_config(config)) == 6_738_415_616


def test_a_quantisation_block_under_another_name_is_refused() -> None:
    with pytest.raises(CapplanError, match="quantization_config_x"):
        read_config(changed(published.GPT_OSS_20B, ("quantization_config",), rename=True))
