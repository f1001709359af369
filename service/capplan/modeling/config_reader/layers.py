"""Reads layer patterns: which layer attends in full, in a window, or recurs."""

from __future__ import annotations

from capplan.modeling.config_reader.traits import FamilyTraits, WindowRule
from capplan.modeling.config_reader.view import MAX_COUNT, MAX_TOKENS, ConfigView, shown

MAX_LAYERS = 2048
"""Upper bound of layers that is taken for real; the deepest published model has 126."""

LAYER_COUNT_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
    "model_max_length",
    "max_target_positions",
)
WINDOW_KEYS = ("sliding_window", "sliding_window_size", "attention_chunk_size")

FULL, SLIDING, LINEAR, CONVOLUTION, MAMBA = "full", "sliding", "linear", "convolution", "mamba"

_KINDS = {
    "full_attention": FULL,
    "global_attention": FULL,
    "attention": FULL,
    "deepseek_sparse_attention": FULL,
    "sliding_attention": SLIDING,
    "chunked_attention": SLIDING,
    "linear_attention": LINEAR,
    "conv": CONVOLUTION,
    "mamba": MAMBA,
}


def read_layer_count(view: ConfigView) -> int:
    """Number of layers."""
    return view.integer(*LAYER_COUNT_KEYS, maximum=MAX_LAYERS)


def read_max_context(view: ConfigView) -> int | None:
    """Longest context, ``None`` when the config does not say.

    Files carry what the tokenizer or the training took beside it, so the keys need not agree.
    """
    return view.optional_integer(*CONTEXT_KEYS, maximum=MAX_TOKENS, agree=False)


def read_layer_types(view: ConfigView, layers: int) -> list[str] | None:
    """The kinds of a ``layer_types`` list, ``None`` when the config has none."""
    key = view.first("layer_types")
    if key is None:
        return None
    view.first(
        "sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval"
    )  # what the list was made from
    found = []
    for kind in view.items(key, layers):
        if not isinstance(kind, str) or kind not in _KINDS:
            raise view.inconsistent(key, f"layer kind {shown(kind)} is not known; known: {', '.join(_KINDS)}")
        found.append(_KINDS[kind])
    return found


def read_window(view: ConfigView) -> int | None:
    """Width of the sliding or chunked window, ``None`` when there is none or it spans the whole context."""
    view.first(*WINDOW_KEYS)
    for key in WINDOW_KEYS:
        window = view.optional_integer(key, minimum=0, maximum=MAX_TOKENS)
        if window:
            context = read_max_context(view)
            return None if context is not None and window >= context else window
    return None


def windows_by_layer(view: ConfigView, traits: FamilyTraits, layers: int) -> list[int | None]:
    """The window of each layer, ``None`` where it attends to everything.

    A window is applied where the config lists layer types or the family is known to use one; a class default for the
    mere width is never taken.
    """
    gate = traits.window_gate
    kinds = read_layer_types(view, layers)
    window = read_window(view)
    # The class leaves windows off; it matters, and is said, where one is stated.
    gated_off = gate is not None and not view.flag(gate, default=False, quiet=window is None)
    if view.model_type == "llama4_text":
        if not view.names.intersection(WINDOW_KEYS):
            raise view.missing("attention_chunk_size")
        return _llama4_windows(view, layers, window)
    if kinds is not None:
        if SLIDING in kinds and window is None and not view.has(*WINDOW_KEYS):
            raise view.missing(*WINDOW_KEYS)
        return [window if kind == SLIDING else None for kind in kinds]
    if not view.names.intersection(WINDOW_KEYS):
        if gate is not None and not gated_off:
            raise view.missing(*WINDOW_KEYS)
        if traits.window in (WindowRule.PATTERN, WindowRule.EVEN_LAYERS):
            raise view.missing(*WINDOW_KEYS)
        if traits.window is WindowRule.ALL:
            view.remarks.append("no key states a sliding window: full attention is taken in every layer")
    if window is None or gated_off or traits.window is WindowRule.NEVER:
        return [None] * layers
    return [window if _slides(view, traits, layer) else None for layer in range(layers)]


def _slides(view: ConfigView, traits: FamilyTraits, layer: int) -> bool:
    match traits.window:
        case WindowRule.ALL:
            return True
        case WindowRule.EVEN_LAYERS:
            return layer % 2 == 0
        case WindowRule.AFTER_MAX_WINDOW_LAYERS:
            return layer >= view.integer("max_window_layers", default=0, minimum=0, maximum=MAX_COUNT)
        case WindowRule.PATTERN:
            pattern = view.raw("sliding_window_pattern")
            if isinstance(pattern, str):
                if not pattern or set(pattern) - {"L", "G"}:
                    raise view.inconsistent("sliding_window_pattern", "must be an integer or made of L and G")
                return pattern[layer % len(pattern)] == "L"
            keys = ("sliding_window_pattern", "_sliding_window_pattern", "layer_switch")
            return (layer + 1) % view.integer(*keys, default=traits.pattern, quiet=True) != 0
        case WindowRule.NEVER:
            return False


def _llama4_windows(view: ConfigView, layers: int, window: int | None) -> list[int | None]:
    """Layers with rotary embedding attend in chunks, those without to everything; every fourth by default."""
    if view.raw("no_rope_layers"):
        flags = view.items("no_rope_layers", layers)
        if any(isinstance(flag, bool) or flag not in (0, 1) for flag in flags):
            raise view.inconsistent("no_rope_layers", "entries must be 0 or 1")
        return [window if flag else None for flag in flags]
    interval = view.integer("no_rope_layer_interval", "nope_layer_interval", default=4, maximum=MAX_COUNT, quiet=True)
    return [window if (layer + 1) % interval else None for layer in range(layers)]
