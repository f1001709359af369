"""What the words of a start-up log mean: published builds of a model, devices, number formats, engine versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from capplan.catalog.names import fold_model_name
from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError, NotFoundError
from capplan.estimation.engine import EngineChoice, engine_name, modelled_versions
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.precision import accepted_weight_precisions, native_precision
from capplan.units import GB, GIB

_FORMAT_WORDS: Final = MappingProxyType(
    {"nvfp4": "nvfp4", "fp4": "nvfp4", "mxfp4": "mxfp4", "fp8": "fp8", "float8": "fp8", "f8": "fp8"}
    | dict.fromkeys(("int8", "w8a8", "w8a16", "8bit", "smoothquant"), "int8")
    | dict.fromkeys(("int4", "w4a16", "4bit", "awq", "gptq", "autoround", "marlin"), "int4")
    | dict.fromkeys(("bf16", "bfloat16"), "bf16")
    | dict.fromkeys(("fp16", "float16", "half"), "fp16")
    | dict.fromkeys(("fp32", "float32"), "fp32")
)
"""Weight precisions by the words publishers put at the end of a build's name, and sources into a table."""

_OTHER_BUILD_WORDS: Final = frozenset(
    {"dynamic", "static", "block", "pertensor", "tensor", "per", "bnb", "unsloth", "hf", "quantized", "class"}
    | {"g128", "g32", "sym", "auto", "round"}
)
"""Words beside those at the end of a build's name that say nothing of the model."""

_CHECKPOINT: Final = frozenset({"", "checkpoint default", "auto", "mixed", "fp8/fp4", "fp4/fp8"})
_KV_WORDS: Final = MappingProxyType(
    {"": "auto", "auto": "auto", "fp8": "fp8", "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16"}
)
_MEMORY_TOLERANCE: Final = 0.1
_DATE: Final = re.compile(r"(?:0[1-9]|1[0-2])[0-3][0-9]", re.ASCII)
"""Month and day of a later build of the same model, ``DeepSeek-V4-Flash-0731``."""
_REMARK: Final = re.compile(r"\([^()]*\)")
_VERSION: Final = re.compile(r"(?<![0-9.])v?(\d{1,3}\.\d{1,3}(?:\.\d{1,4})?)(?![0-9])", re.ASCII)

# When a minor release of vLLM came out, from the dates of its releases on GitHub: for builds and images that name none.
_VLLM_RELEASES: Final = (
    ("2024-03-31", "0.4"),
    ("2024-07-24", "0.5"),
    ("2024-09-05", "0.6"),
    ("2025-01-27", "0.7"),
    ("2025-03-18", "0.8"),
    ("2025-05-28", "0.9"),
    ("2025-07-24", "0.10"),
    ("2025-10-02", "0.11"),
    ("2025-12-03", "0.12"),
    ("2026-03-07", "0.17"),
    ("2026-04-03", "0.19"),
    ("2026-04-28", "0.20"),
    ("2026-05-30", "0.22"),
    ("2026-07-01", "0.24"),
    ("2026-08-26", "0.28"),
    ("2026-09-10", "0.29"),
    ("2026-09-23", "0.30"),
)


class UnresolvedError(Exception):
    """A word that means nothing here; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Build:
    """A published build of a model.

    Attributes:
        profile: catalogue name of the model profile.
        architecture: what it is; without the profile's own quantisation where the build has another.
        weights: weight precision.
        family: family of the profile.
    """

    profile: str
    architecture: ModelArchitecture
    weights: str
    family: str


def weight_word(stated: str) -> str | None:
    """The weight precision a source's words mean, ``None`` for the checkpoint's own.

    Raises:
        UnresolvedError: they mean none that is modelled.
    """
    words = _REMARK.sub("", stated).strip().lower()
    if words in _CHECKPOINT:
        return None
    for part in re.split(r"[^a-z0-9]+", words):
        found = _FORMAT_WORDS.get(part)
        if found is not None:
            return found
    raise UnresolvedError(f"weight format {stated!r} is not modelled")


def cache_word(stated: str) -> str:
    """The KV-cache precision a source's words mean; ``auto`` where it says nothing.

    Raises:
        UnresolvedError: they mean none that is modelled.
    """
    words = stated.strip().lower()
    for part in (words, *re.split(r"[^a-z0-9]+", words)):
        if part in _KV_WORDS:
            return _KV_WORDS[part]
    raise UnresolvedError(f"KV-cache format {stated!r} is not modelled")


class NameReader:
    """Looks names up in one catalogue."""

    def __init__(self, snapshot: CatalogSnapshot) -> None:
        self._snapshot = snapshot
        bases: dict[str, str] = {}
        # A profile in 16 bit stands for its builds before one that is quantised itself.
        for name in sorted(snapshot.models, key=lambda n: snapshot.models[n].architecture.quantization is not None):
            base = _base_words(name)[0]
            bases.setdefault(base, name)
            bases.setdefault(base.rpartition("/")[2], name)
        self._bases = bases

    def build(self, name: str, stated: str) -> Build:
        """The build a published name means.

        Args:
            name: its name; the words at its end that name a format are understood.
            stated: the weight format in the source's words, empty where it is not stated.

        Raises:
            UnresolvedError: no model, or no format it is published in.
        """
        wanted = weight_word(stated)
        profile_name, in_name = self._profile(name)
        profile = self._snapshot.models[profile_name]
        architecture = profile.architecture
        wanted = wanted or in_name
        own = native_precision(architecture)
        if in_name is None and wanted is not None and _mixes_in(architecture, wanted):
            wanted = own
        if wanted is None or wanted == own or wanted in accepted_weight_precisions(architecture):
            return Build(profile_name, architecture, wanted or own, profile.family)
        if in_name is None and architecture.quantization is not None:
            # The checkpoint itself: a format it mixes in is no other build.
            return Build(profile_name, architecture, own, profile.family)
        plain = replace(architecture, quantization=None)
        if wanted not in accepted_weight_precisions(plain):
            raise UnresolvedError(f"{profile_name} is not modelled in {wanted}")
        return Build(profile_name, plain, wanted, profile.family)

    def _profile(self, name: str) -> tuple[str, str | None]:
        """Profile of a name, and the precision its last words say where the profile is not this very build's."""
        missing: NotFoundError | None = None
        for spelling in _spellings(name):
            try:
                return self._snapshot.resolve_model(spelling).name, None
            except NotFoundError as error:
                missing = missing or error
        base, precision = _base_words(_REMARK.sub("", name))
        for spelling in (base, base.rpartition("/")[2]):
            try:
                return self._snapshot.resolve_model(spelling).name, precision
            except NotFoundError:
                found = self._bases.get(spelling) or self._bases.get(spelling.rpartition("/")[2])
                if found is not None:
                    return found, precision
        raise UnresolvedError(str(missing))

    def accelerator(self, name: str, memory_gb: float | None) -> Accelerator:
        """The device a name means, of the stated memory: the one SXM module, else the first of those alike.

        Raises:
            UnresolvedError: none, or several.
        """
        missing: NotFoundError | None = None
        for spelling in dict.fromkeys((name, _REMARK.sub("", name).strip())):
            try:
                found = [self._snapshot.resolve_accelerator(spelling)]
            except NotFoundError as error:
                missing = error
                # Every device of these words, not those few that the error has room to name.
                words = _words(spelling)
                records = self._snapshot.accelerators.items()
                found = [record.accelerator for sku, record in records if words and words <= _words(sku)]
            fitting = [accelerator for accelerator in found if _has_memory(accelerator, memory_gb)]
            modules = [accelerator for accelerator in fitting if "-sxm" in accelerator.sku]
            if len(modules) == 1:
                return modules[0]  # what a bare name means in servers
            if fitting and len({(accelerator.memory_bytes, accelerator.architecture) for accelerator in fitting}) == 1:
                return min(fitting, key=lambda accelerator: accelerator.sku)
            if found and not fitting and memory_gb is not None:
                raise UnresolvedError(f"{name} with {memory_gb:g} GB is not in the catalogue")
        raise UnresolvedError(str(missing))


def _mixes_in(architecture: ModelArchitecture, precision: str) -> bool:
    """Whether a checkpoint stores some of its maps in a format: DeepSeek V4's fp8 has experts in mxfp4."""
    native = architecture.quantization
    return native is not None and any(entry.storage.startswith(precision) for entry in native.maps)


def _spellings(name: str) -> Iterator[str]:
    """A name as it is, without remarks, and without its publisher."""
    plain = _REMARK.sub("", name).strip()
    yield from dict.fromkeys((name, plain, plain.rpartition("/")[2]))


def _base_words(name: str) -> tuple[str, str | None]:
    """A name in folded spelling without the words at its end that name a format, and the precision they mean."""
    publisher, slash, own = name.rpartition("/")
    words = re.sub(r"\b([48])-bit\b", r"\1bit", fold_model_name(own)).split("-")
    precision = None
    while len(words) > 1 and (
        words[-1] in _FORMAT_WORDS or words[-1] in _OTHER_BUILD_WORDS or _DATE.fullmatch(words[-1])
    ):
        precision = _FORMAT_WORDS.get(words.pop(), precision)
    return f"{publisher.casefold()}{slash}{'-'.join(words)}", precision


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name.lower())) - {""}


def _has_memory(accelerator: Accelerator, memory_gb: float | None) -> bool:
    if memory_gb is None or accelerator.memory_bytes is None:
        return True
    # What a source calls GB may be either; the difference between them is inside the tolerance.
    return any(abs(accelerator.memory_bytes / (memory_gb * unit) - 1) <= _MEMORY_TOLERANCE for unit in (GB, GIB))


def engine_release(engine: str, stated: str, date: str) -> EngineChoice:
    """The modelled release that a source's words mean.

    A release between two that are modelled follows the nearest lower one's rules; what lies outside them is taken for
    the oldest or the newest. A build that names no release is taken for the newest at its date (vLLM), else for the
    newest.

    Raises:
        UnresolvedError: the engine is not modelled.
    """
    try:
        name = engine_name(_REMARK.sub("", engine).strip() or "unstated")
    except InvalidInputError:
        raise UnresolvedError(f"engine {engine!r} is not modelled") from None
    oldest, newest = modelled_versions(name)
    words = stated.lower()
    version = _stated_version(words)
    if name == "vllm":
        version = version or _release_at(date) or newest
        if re.search(r"\bv0(?![.0-9])", words) and _numbers(version) >= (0, 8):
            version = "0.7"  # the V0 engine was still there, and its memory is that of the last release without V1
        elif re.search(r"\bv1(?![.0-9])", words) and _numbers(version) < (0, 8):
            version = "0.8"
    version = version or newest
    version = max((oldest, version), key=_numbers)
    version = min((newest, version), key=_numbers)
    return EngineChoice(name=name, version=version)


def states_release(engine: str, stated: str) -> bool:
    """Whether a source names a release that is modelled, and not merely a build, an image or an older release."""
    version = _stated_version(stated.lower())
    if version is None:
        return False
    try:
        oldest, newest = modelled_versions(_REMARK.sub("", engine).strip())
    except InvalidInputError:
        return False
    return _numbers(oldest) <= _numbers(version) and _numbers(version)[:2] <= _numbers(newest)[:2]


def _stated_version(words: str) -> str | None:
    # A build from source calls itself 0.1.dev19262+gb6bbf29dd, which says nothing of the release.
    found = _VERSION.findall(words)
    return found[-1] if found and "+g" not in words else None


def _release_at(date: str) -> str | None:
    day = date.strip().lstrip("~")[:10]
    if not re.fullmatch(r"20\d\d-\d\d(-\d\d)?", day, re.ASCII):
        return None
    return next((version for since, version in reversed(_VLLM_RELEASES) if since <= day), _VLLM_RELEASES[0][1])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
