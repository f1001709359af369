"""Heads other than a language model's: pooling models have none, classifiers a small one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from capplan.errors import UnsupportedModelError
from capplan.modeling.config_reader.decoder import Decoder
from capplan.modeling.config_reader.view import MAX_COUNT, ConfigView, shown

_EMBEDDING_NAME = re.compile(r"(?<![a-z])embedding(?![a-z])", re.IGNORECASE)


DECODER_CLASSES = ("ForCausalLM", "LMHeadModel", "ForSequenceClassification", "Model")
GENERATOR_CLASSES = ("ForConditionalGeneration", "ForSequenceClassification", "Model")
ENCODER_CLASSES = ("ForMaskedLM", "ForSequenceClassification", "Model")
IMAGE_CLASSES = ("ForImageClassification", "Model")
"""What the classes end in that a kind of model is known by, before shorter endings of the same class."""

# A class is otherwise its model type and one of the endings.
_CLASSES_OF_OTHER_NAMES = {
    "hunyuan_v1_dense": "HunYuanDenseV1",
    "hunyuan_v1_moe": "HunYuanMoEV1",
    "kimi_k2": "DeepseekV3",
    "nemotron-nas": "DeciLM",
}


def architecture_name(root: ConfigView) -> str:
    """The first class named under ``architectures``, empty without."""
    names = root.raw("architectures")
    first = names[0] if isinstance(names, list | tuple) and names else ""
    return first if isinstance(first, str) else ""


def refuse_other_classes(root: ConfigView, endings: tuple[str, ...]) -> None:
    """Refuse a class whose head or body is not the one its model type is known by.

    Args:
        root: the whole config.
        endings: what the known classes end in.

    Raises:
        UnsupportedModelError: a class of another model, or one with a head of another kind (reward models, taggers).
    """
    name = architecture_name(root)
    if not name:
        return
    body = next((name.removesuffix(ending) for ending in endings if name.endswith(ending)), "")
    own = _CLASSES_OF_OTHER_NAMES.get(root.model_type, root.model_type)
    if _plain(body) not in (_plain(own), _plain(own.removesuffix("_text"))):
        raise UnsupportedModelError.single(
            root.field("architectures"),
            f"class {shown(name)} is not known for model type {root.model_type!r}; known are its own classes that end "
            f"in {', '.join(endings)}",
        )


def _plain(name: str) -> str:
    return re.sub(r"[-_]", "", name).lower()


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
