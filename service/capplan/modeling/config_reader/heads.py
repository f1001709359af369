"""Heads other than a language model's: pooling models have none, classifiers a small one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.modeling.config_reader.decoder import Decoder
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView


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
    return len(labels) if isinstance(labels, Mapping) and labels else 2


def without_head(root: ConfigView, decoder: Decoder) -> Decoder:
    """The decoder with the head of its class, where ``architectures`` names another than a language model."""
    name = architecture_name(root)
    if decoder.head is None and not decoder.tied_head:
        return decoder
    if name.endswith("ForSequenceClassification"):
        score = label_count(root) * decoder.hidden_size
        return replace(decoder, head=None, tied_head=False, head_extra_parameters=score)
    if name.endswith("Model") and not name.endswith("LMHeadModel") and name != "ChatGLMModel":
        return replace(decoder, head=None, tied_head=False)
    return decoder
