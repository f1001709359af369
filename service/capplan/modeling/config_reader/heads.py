"""Heads other than a language model's: pooling models have none, classifiers a small one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from capplan.modeling.config_reader.decoder import Decoder
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView

_EMBEDDING_NAME = re.compile(r"(?<![a-z])embedding(?![a-z])", re.IGNORECASE)


def architecture_name(root: ConfigView) -> str:
    """The first class named under ``architectures``, empty without."""
    names = root.raw("architectures")
    first = names[0] if isinstance(names, list | tuple) and names else ""
    return first if isinstance(first, str) else ""


def label_count(root: ConfigView) -> int:
    """Outputs of a classifier: its own key, the length of the label table, else the library's two."""
    if root.has("num_labels"):
        return root.integer("num_labels", maximum=MAX_COUNT)
    labels = root.raw("id2label")
    if isinstance(labels, Mapping) and labels:
        return len(labels)
    root.note_default("num_labels", 2)
    return 2


def with_own_head(root: ConfigView, decoder: Decoder, name: str | None) -> tuple[Decoder, tuple[str, ...]]:
    """The decoder with the head its checkpoint has, and what was assumed.

    Classes under ``architectures`` other than a language model's have a small head or none. Embedding models made of
    language models keep the class, though their files hold no head (Qwen3-Embedding); nothing but the name tells.

    Args:
        root: the whole config.
        decoder: the decoder, with a language model's head.
        name: the model's display name, ``None`` when it has none.
    """
    class_name = architecture_name(root)
    if decoder.head is None and not decoder.tied_head:
        return decoder, ()
    headless = replace(decoder, head=None, tied_head=False)
    if class_name.endswith("ForSequenceClassification"):
        return replace(headless, head_extra_parameters=label_count(root) * decoder.hidden_size), ()
    if class_name.endswith("Model") and not class_name.endswith("LMHeadModel") and class_name != "ChatGLMModel":
        return headless, ()
    if decoder.head is not None and class_name.endswith("ForCausalLM") and _EMBEDDING_NAME.search(name or ""):
        sentence = f"by its name an embedding model, whose files hold no output head: that of {class_name} is left out"
        return headless, (sentence,)
    return decoder, ()
