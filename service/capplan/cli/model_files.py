"""A model named on the command line: a catalogue name, or a config file recognised by being one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from capplan.cli.failures import UsageError
from capplan.cli.questions import read_text
from capplan.v1 import model_pb2

_CONFIG_SUFFIX: Final = ".json"
_QUANTIZATION_SUFFIX: Final = ".hf_quant_config.json"


def named_model(argument: str, quantization_config: str | None) -> model_pb2.ModelSelection:
    """The model an argument means: a path if it exists as a file or ends in ``.json``, else a catalogue name.

    A file ``<stem>.hf_quant_config.json`` beside ``<stem>.json`` goes with it. The model is called by the file's stem,
    or by its folder when the file is a plain ``config.json``.

    Args:
        argument: the argument.
        quantization_config: path of a separate hf_quant_config.json, instead of the one beside the file.

    Raises:
        UsageError: a file cannot be read, is a quantisation config itself, or the argument is a catalogue name and
            ``quantization_config`` is given.
    """
    if not (argument.endswith(_CONFIG_SUFFIX) or os.path.isfile(argument)):
        if quantization_config is not None:
            raise UsageError(f"--quantization-config goes with a config file; {argument} is a catalogue name")
        return model_pb2.ModelSelection(name=argument)
    if argument.endswith(_QUANTIZATION_SUFFIX):
        stem = argument.removesuffix(_QUANTIZATION_SUFFIX)
        raise UsageError(f"{argument} is a quantisation config; name {stem}{_CONFIG_SUFFIX}, it is read with it")
    selection = model_pb2.ModelSelection(config_json=read_text(argument, "MODEL"), display_name=_display_name(argument))
    beside = quantization_config or _sibling(argument)
    if beside is not None:
        selection.quantization_config_json = read_text(beside, "--quantization-config")
    return selection


def _sibling(path: str) -> str | None:
    """The separate quantisation config beside a config file, ``None`` without."""
    candidate = path.removesuffix(_CONFIG_SUFFIX) + _QUANTIZATION_SUFFIX
    return candidate if os.path.isfile(candidate) else None


def _display_name(path: str) -> str:
    file = Path(path)
    name = file.absolute().parent.name if file.name == "config.json" else file.stem
    # Not every file name prints; the model then goes by its type.
    return name if name.isprintable() else ""
