"""Strict, typed access to a parsed config: every fault names its field, every key read is remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capplan.errors import InvalidInputError, UnsupportedModelError
from capplan.modeling.config_reader.harmless_keys import is_harmless
from capplan.modeling.config_reader.ledger import ReadLedger

MAX_WIDTH = 1 << 24
"""Upper bound of any width or vocabulary that is taken for real."""

MAX_COUNT = 1 << 16
"""Upper bound of layers, heads and experts."""

MAX_TOKENS = 1 << 40
"""Upper bound of a context length."""

_MAX_SHOWN = 10**20

CONFIG_FIELD = "model.config_json"


class ConfigView:
    """One mapping of a parsed config.

    Attributes:
        path: path of the mapping in the request, e.g. ``model.config_json.text_config``.
        model_type: family the faults are reported for.
        ledger: what was read of the whole config, shared by all its views.
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
        ledger: ReadLedger | None = None,
    ) -> None:
        self._values = values
        self._class_defaults = class_defaults or {}
        self.path = path
        self.model_type = model_type
        self.ledger = ReadLedger() if ledger is None else ledger
        self.read = self.ledger.keys_read(path)
        self.defaults = self.ledger.defaults_taken(path)
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
            for name in nested.names:
                if is_harmless(name):
                    continue
                value = nested.peek(name)
                if name in self._values and self._values[name] != value:
                    raise nested.inconsistent(name, f"contradicts {name} outside {key}")
                values[name] = value
            self.ledger.lift(nested.path, self.path)
        return self._derived(values)

    def retyped(self, model_type: str) -> ConfigView:
        """The same view reported under another model type."""
        view = self._derived(self._values)
        view.model_type = model_type
        return view

    def _derived(self, values: Mapping[str, object]) -> ConfigView:
        view = ConfigView(values, self.path, self.model_type, self._class_defaults, self.ledger)
        view.remarks = self.remarks
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

    def unread(self) -> Iterator[tuple[str, str, object]]:
        """Every ``(path, key, value)`` of this mapping and of those opened below it that nobody looked at."""
        return self.ledger.unread(self._values, self.path)

    def peek(self, key: str) -> object:
        """The value as it is, without counting it as read."""
        return self._values.get(key)

    def raw(self, key: str) -> object:
        """The value as it is, ``None`` when absent."""
        self.read.add(key)
        return self._values.get(key)

    def sub(self, key: str, model_type: str | None = None) -> ConfigView:
        """A nested mapping; raises :class:`InvalidInputError` when it is none."""
        value = self.raw(key)
        if not isinstance(value, Mapping):
            raise InvalidInputError.single(self.field(key), "must be an object")
        return self.below(key, value, model_type)

    def below(self, key: str, values: Mapping[str, object], model_type: str | None = None) -> ConfigView:
        """A view of a mapping that stands below this one, sharing its record of what was read."""
        kind = self.model_type if model_type is None else model_type
        return ConfigView(values, self.field(key), kind, ledger=self.ledger)

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

    def _present(self, keys: tuple[str, ...], default: object, *, quiet: bool, agree: bool = True) -> str | None:
        """The first present key; without any the default is noted, or the absence refused where there is none.

        Aliases that are present too must agree: nothing says which of two values the model was built with.
        """
        key = self.first(*keys)
        if key is None:
            if default is None:
                raise self.missing(*keys)
            if not quiet:
                self.note_default(keys[0], default)
            return None
        for other in keys if agree else ():
            if self.peek(other) not in (None, self._values[key]):
                raise self.inconsistent(other, f"is another word for {key}, and they must agree")
        return key

    def integer(
        self,
        *keys: str,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = MAX_WIDTH,
        quiet: bool = False,
        agree: bool = True,
    ) -> int:
        """The first present of several aliases, as an integer in a sane range.

        Args:
            keys: aliases, the usual spelling first.
            default: the family's class default; without one an absent key is refused.
            minimum: least accepted value.
            maximum: greatest accepted value.
            quiet: leave the default out of :attr:`defaults` (it changes no size, or is the rule and not a choice).
            agree: refuse aliases of different values; otherwise the first present wins.
        """
        key = self._present(keys, default, quiet=quiet, agree=agree)
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

    def optional_integer(
        self, *keys: str, minimum: int = 1, maximum: int = MAX_WIDTH, agree: bool = True
    ) -> int | None:
        """Like :meth:`integer`, ``None`` when absent or null."""
        return self.integer(*keys, minimum=minimum, maximum=maximum, agree=agree) if self.has(*keys) else None

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

    def expect(self, key: str, known: Sequence[object]) -> None:
        """Refuse any value of a key but the known ones, where others would change what is stored.

        Args:
            key: the key.
            known: accepted values, ``None`` for an absent or null one.

        Raises:
            UnsupportedModelError: another value, with the known ones.
        """
        value = self.raw(key)
        if not is_one_of(value, known):
            listed = ", ".join(shown(item) for item in known if item is not None)
            raise UnsupportedModelError.single(
                self.field(key), f"{shown(value)} is not known; known: {listed or 'null'}"
            )

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


def is_one_of(value: object, known: Sequence[object]) -> bool:
    """Whether a value is one of those known; true is not 1 here."""
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in known)


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
