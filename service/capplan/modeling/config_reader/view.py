"""Strict, typed access to a parsed config: every fault names its field, every key read is remembered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from capplan.errors import InvalidInputError, UnsupportedModelError

MAX_WIDTH = 1 << 24
"""Upper bound of any width or vocabulary that is taken for real."""

MAX_COUNT = 1 << 16
"""Upper bound of layers, heads and experts."""

MAX_TOKENS = 1 << 40
"""Upper bound of a context length."""

_MAX_SHOWN = 10**20

CONFIG_FIELD = "model.config_json"

# A key that says one of these words may change a size. Flags, token ids and training settings are told apart below.
_SIZE_WORDS = re.compile(
    r"(expert|head|layer|dim|size|rank|window|kv|lora|hidden|width|depth|vocab|channel|intermediate|embed|block|group"
    r"|state|conv|bias|norm|tie|latent|mlp|ffn|num_|n_)"
)
_HARMLESS_WORDS = re.compile(
    r"(dropout|_id$|_ids$|token|eps$|epsilon|init|rope|rotary|act$|_fn$|activation|scale|scaling|multiplier|coef|loss"
    r"|theta|version|chunk_size_feed_forward|cache|temperature|penalty|beams|return|output_|prefix|pruned|labels"
    r"|label2id|id2label|softcap|logit|jitter|limit|time_step|freq$|prob$|topk_method|norm_topk|score|scoring|seq_aux"
    r"|n_group$|topk_group|max_length|min_length|problem_type|torch|mup_|layerdrop|position_embedding_type"
    r"|num_logits_to_keep|ngram|implementation|hash|fp32|ep_size|pretraining_tp|query_pre_attn_scalar|max_window_layers"
    r"|model_max_length|seq_length|attn_implementation|rescale_prenorm|mamba_kernels|for_llm_compressor|auto_map"
    r"|partial_|hidden_act|_dtype|chunk_size|norm_type|sparse_disable|mask_|use_bfloat16|gradient|layer_norm_type|beam|^original_|^num_mtp_|^mtp_|vocab_size_per_layer|post_layer_norm|_overlap$|max_distance|quantization|^rmsnorm$|^use_logn_attn$|^dim_model_base$)"
)

_WIDTH_WORDS = re.compile(r"(expert|hidden|intermediate|lora|latent|rank|heads|head_dim|vocab|state_size|shared)")


class ConfigView:
    """One mapping of a parsed config.

    Attributes:
        path: path of the mapping in the request, e.g. ``model.config_json.text_config``.
        model_type: family the faults are reported for.
        read: keys that were looked at.
        defaults: ``key value`` phrases of size-relevant keys that were absent and taken from the family's class.
        remarks: other sentences on what was assumed.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        path: str = CONFIG_FIELD,
        model_type: str = "",
        class_defaults: Mapping[str, object] | None = None,
    ) -> None:
        self._values = values
        self._class_defaults = class_defaults or {}
        self.path = path
        self.model_type = model_type
        self.read: set[str] = set()
        self.defaults: list[str] = []
        self.remarks: list[str] = []

    def field(self, key: str) -> str:
        """Path of a key."""
        return f"{self.path}.{key}"

    def with_value(self, key: str, value: object) -> ConfigView:
        """The same view with one value set; it shares what was read and defaulted."""
        return self._derived({**self._values, key: value})

    def with_default(self, key: str, value: object) -> ConfigView:
        """The same view with a value where the config has none."""
        return self if self.has(key) else self.with_value(key, value)

    def renamed(self, old: str, new: str) -> ConfigView:
        """The same view with a key under another name, where the other is absent."""
        return self.with_value(new, self.raw(old)) if self.has(old) and not self.has(new) else self

    def flattened(self, *keys: str) -> ConfigView:
        """The same view with the entries of nested objects lifted up."""
        values = dict(self._values)
        for key in keys:
            nested = self.sub(key)
            values.update({name: nested.raw(name) for name in nested.names if name != "model_type"})
        return self._derived(values)

    def retyped(self, model_type: str) -> ConfigView:
        """The same view reported under another model type."""
        view = self._derived(self._values)
        view.model_type = model_type
        return view

    def _derived(self, values: Mapping[str, object]) -> ConfigView:
        view = ConfigView(values, self.path, self.model_type, self._class_defaults)
        view.read, view.defaults, view.remarks = self.read, self.defaults, self.remarks
        return view

    @property
    def names(self) -> frozenset[str]:
        """All keys present, null ones included."""
        return frozenset(self._values)

    def has(self, *keys: str) -> bool:
        """Whether any of the keys is present with a value other than null."""
        return self.first(*keys) is not None

    def first(self, *keys: str) -> str | None:
        """The first of the keys that is present with a value other than null."""
        found = None
        for key in keys:
            self.read.add(key)
            if found is None and self._values.get(key) is not None:
                found = key
        if found is not None:
            return found
        for key in keys:
            if key not in self._values and self._class_defaults.get(key) is not None:
                # Published text parts list only what differs from their class.
                self.note_default(key, self._class_defaults[key])
                self._values = {**self._values, key: self._class_defaults[key]}
                return key
        return None

    def raw(self, key: str) -> object:
        """The value as it is, ``None`` when absent."""
        self.read.add(key)
        return self._values.get(key)

    def sub(self, key: str, model_type: str | None = None) -> ConfigView:
        """A nested mapping; raises :class:`InvalidInputError` when it is none."""
        value = self.raw(key)
        if not isinstance(value, Mapping):
            raise InvalidInputError.single(self.field(key), "must be an object")
        return ConfigView(value, self.field(key), self.model_type if model_type is None else model_type)

    def missing(self, *keys: str) -> InvalidInputError:
        """The refusal for a model type whose config lacks a key that nothing else determines."""
        listed = " or ".join(keys)
        return UnsupportedModelError.single(
            self.field(keys[0]), f"model type {self.model_type!r} cannot be sized without {listed}"
        )

    def inconsistent(self, key: str, why: str) -> InvalidInputError:
        """The refusal of a value that contradicts the rest."""
        return InvalidInputError.single(self.field(key), why)

    def note_default(self, key: str, value: object) -> None:
        """Remember that an absent key was taken from the family's class."""
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        self.defaults.append(f"{key} {shown}")

    def _present(self, keys: tuple[str, ...], default: object, *, quiet: bool) -> str | None:
        """The first present key; without any the default is noted, or the absence refused where there is none."""
        key = self.first(*keys)
        if key is None and default is None:
            raise self.missing(*keys)
        if key is None and not quiet:
            self.note_default(keys[0], default)
        return key

    def integer(
        self,
        *keys: str,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = MAX_WIDTH,
        quiet: bool = False,
    ) -> int:
        """The first present of several aliases, as an integer in a sane range.

        Args:
            keys: aliases, the usual spelling first.
            default: the family's class default; without one an absent key is refused.
            minimum: least accepted value.
            maximum: greatest accepted value.
            quiet: leave the default out of :attr:`defaults` (it changes no size, or is the rule and not a choice).
        """
        key = self._present(keys, default, quiet=quiet)
        if key is None:
            assert default is not None  # an absent key without one was refused
            return default
        return self.checked_integer(key, self._values[key], minimum=minimum, maximum=maximum)

    def checked_integer(self, key: str, value: object, *, minimum: int = 1, maximum: int = MAX_WIDTH) -> int:
        """A value of this config as an integer in a sane range."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInputError.single(self.field(key), f"must be an integer, not {shown(value)}")
        if not minimum <= value <= maximum:
            raise InvalidInputError.single(
                self.field(key), f"must be between {minimum} and {maximum}, not {shown(value)}"
            )
        return value

    def optional_integer(self, *keys: str, minimum: int = 1, maximum: int = MAX_WIDTH) -> int | None:
        """Like :meth:`integer`, ``None`` when absent or null."""
        return self.integer(*keys, minimum=minimum, maximum=maximum) if self.has(*keys) else None

    def flag(self, *keys: str, default: bool | None = None, quiet: bool = False) -> bool:
        """The first present of several aliases, as a boolean."""
        key = self._present(keys, default, quiet=quiet)
        if key is None:
            assert default is not None  # an absent key without one was refused
            return default
        value = self._values[key]
        if not isinstance(value, bool):
            raise InvalidInputError.single(self.field(key), f"must be true or false, not {shown(value)}")
        return value

    def text(self, *keys: str, default: str | None = None) -> str:
        """The first present of several aliases, as a string."""
        key = self._present(keys, default, quiet=True)
        if key is None:
            assert default is not None  # an absent key without one was refused
            return default
        value = self._values[key]
        if not isinstance(value, str):
            raise InvalidInputError.single(self.field(key), f"must be a string, not {shown(value)}")
        return value

    def number(self, key: str, *, minimum: float, maximum: float) -> float:
        """A finite number."""
        value = self.raw(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
            raise InvalidInputError.single(
                self.field(key), f"must be a number between {minimum:g} and {maximum:g}, not {shown(value)}"
            )
        return float(value)

    def items(self, key: str, length: int | None = None) -> Sequence[object]:
        """A list, of a given length when one is asked for."""
        value = self.raw(key)
        if not isinstance(value, list | tuple):
            raise InvalidInputError.single(self.field(key), f"must be a list, not {shown(value)}")
        if length is not None and len(value) != length:
            raise InvalidInputError.single(
                self.field(key), f"must have {length} entries, one a layer, not {len(value)}"
            )
        return value

    def unread_size_keys(self) -> tuple[str, ...]:
        """Keys nobody looked at whose name says that they may change a size, with a value that may do so."""
        return tuple(
            sorted(
                key
                for key, value in self._values.items()
                if key not in self.read
                and value not in (None, False, 0, "", [], {})
                and _SIZE_WORDS.search(key.lower())
                and not _HARMLESS_WORDS.search(key.lower())
            )
        )

    def unread_widths(self) -> tuple[str, ...]:
        """Those of :meth:`unread_size_keys` that by name and value can hardly be anything but a count or width."""
        return tuple(
            key
            for key in self.unread_size_keys()
            if isinstance(self._values[key], int)
            and not isinstance(self._values[key], bool)
            and self._values[key] != 1
            and _WIDTH_WORDS.search(key.lower())
        )


def shown(value: object) -> str:
    """A value short enough for a sentence; nothing that could be deep or long is written out."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and not -_MAX_SHOWN <= value <= _MAX_SHOWN:
        return "a number out of range"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
