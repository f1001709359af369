"""A catalogue for the server's tests: the shipped facts, and one model of our own that no shipped fact can move."""

from __future__ import annotations

import datetime
import json
from typing import Any, Final

from sqlalchemy import Engine

from capplan.catalog.editing import put_row
from capplan.catalog.loader import load_catalog
from capplan.catalog.names import fold_model_name
from capplan.catalog.paging import Paginator
from capplan.catalog.snapshot import load_snapshot
from capplan.catalog.tables import ModelAliasRow, ModelProfileRow
from capplan.database import open_engine, session_scope, upgrade
from capplan.modeling.config_reader import read_config
from capplan.modeling.facts import architecture_to_facts
from capplan.server.application import Application

MODEL: Final = "example-org/Example-8B"
MODEL_ALIAS: Final = "example-eight"

# Widths of a plain decoder; what it comes to is written out in MODEL_PARAMETERS.
CONFIG: Final[dict[str, Any]] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
}
CONFIG_JSON: Final = json.dumps(CONFIG)

_ATTENTION = 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 4096  # query, key and value, output
_FEED_FORWARD = 3 * 4096 * 14336
_NORMS = 2 * 4096
MODEL_PARAMETERS: Final = 2 * 128256 * 4096 + 32 * (_ATTENTION + _FEED_FORWARD + _NORMS) + 4096
KV_BYTES_PER_TOKEN: Final = 32 * 2 * 8 * 128 * 2  # layers, keys and values, heads, width, bytes of bf16

_WRITTEN = {"source": "made up for the tests", "as_of": datetime.date(2026, 11, 30)}


def model_row(name: str) -> dict[str, Any]:
    """A row of the catalogue's model table for the configuration above."""
    return {
        "name": name,
        "folded": fold_model_name(name),
        "family": "llama",
        "total_parameters": MODEL_PARAMETERS,
        "parameters_source": "counted in the tests",
        "cache_bytes_per_token_16bit": KV_BYTES_PER_TOKEN,
        "facts": architecture_to_facts(read_config(CONFIG, name=name)),
        "confidence": "high",
        **_WRITTEN,
    }


def prepare(engine: Engine) -> None:
    """Bring a database to the test catalogue."""
    upgrade(engine)
    with session_scope(engine) as session:
        load_catalog(session)
        put_row(session, ModelProfileRow, model_row(MODEL))
        alias = {"folded": fold_model_name(MODEL_ALIAS), "alias": MODEL_ALIAS, "name": MODEL, **_WRITTEN}
        put_row(session, ModelAliasRow, alias)


def make_application(url: str = "sqlite://", *, page_token_key: bytes | None = None) -> Application:
    """An application over the test catalogue."""
    engine = open_engine(url)
    prepare(engine)
    with session_scope(engine) as session:
        snapshot = load_snapshot(session)
    return Application(snapshot, Paginator(page_token_key), engine)
