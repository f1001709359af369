"""From flags and files to the contract's requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import typer
from google.protobuf import json_format
from google.protobuf.message import Message

from capplan.cli.failures import UsageError
from capplan.v1 import model_pb2, placement_pb2

_MessageT = TypeVar("_MessageT", bound=Message)

_ASKING_FLAGS = frozenset({"--output", "--local", "--address", "--timeout-s", "--all-rejections"})
"""Flags that are about asking and printing, not about the question."""

_STANDARD_INPUT = "-"
_MAX_FILE_BYTES = 16_000_000
"""A config.json has kilobytes; a larger file is a wrong one, e.g. the weights."""


@contextmanager
def building_request() -> Iterator[None]:
    """Turns a value that a protobuf field cannot hold into a usage error."""
    try:
        yield
    except UnicodeEncodeError:
        raise UsageError("a value on the command line is not valid UTF-8") from None
    except (ValueError, TypeError) as error:
        raise UsageError(f"a value cannot be sent in a request: {error}") from None


def read_text(path: str, flag: str) -> str:
    """The text of a file, or of standard input for ``-``.

    Args:
        path: file.
        flag: flag that named it, for the message.

    Raises:
        UsageError: it cannot be read, is too large or is not UTF-8.
    """
    try:
        if path == _STANDARD_INPUT:
            text = sys.stdin.read(_MAX_FILE_BYTES + 1)
        else:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(_MAX_FILE_BYTES + 1)
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: {path} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"{flag}: cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{flag}: {path!r} is no path: {error}") from None
    if len(text) > _MAX_FILE_BYTES:
        raise UsageError(f"{flag}: {path} is larger than {_MAX_FILE_BYTES} bytes")
    return text


def read_lines(path: str, flag: str) -> Iterator[bytes]:
    """The lines of a file, or of standard input for ``-``, as they come.

    Args:
        path: file.
        flag: flag that named it, for the message.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        if path == _STANDARD_INPUT:
            yield from sys.stdin.buffer
        else:
            with Path(path).open("rb") as file:
                yield from file
    except OSError as error:
        raise UsageError(f"{flag}: cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{flag}: {path!r} is no path: {error}") from None


def parse_json(text: str, message: _MessageT, what: str) -> _MessageT:
    """Fills a message from the contract's JSON, with field names in snake_case or lowerCamelCase.

    Args:
        text: JSON.
        message: message to fill.
        what: what the text is, for the message of a refusal.

    Raises:
        UsageError: it is not JSON, or has a field or value the message has not.
    """
    # The parser takes an empty list for an empty message.
    if not text.lstrip().startswith("{"):
        raise UsageError(f"{what} is not a {message.DESCRIPTOR.name} as JSON: it is no object")
    try:
        return json_format.Parse(text, message)
    except (json_format.ParseError, UnicodeEncodeError, RecursionError) as error:
        raise UsageError(f"{what} is not a {message.DESCRIPTOR.name} as JSON: {error}") from None


def refuse_question_flags(context: typer.Context, flag: str) -> None:
    """Refuses every flag and argument of the question beside ``flag``, which brings the whole question.

    Args:
        context: of the running command.
        flag: the flag that brings the question.

    Raises:
        UsageError: another part of the question is given.
    """
    given = [
        parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.opts[0].upper()
        for parameter in context.command.params
        if getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
        and parameter.opts[0] not in {*_ASKING_FLAGS, flag}
    ]
    if given:
        raise UsageError(f"{flag} brings the whole question; leave out {', '.join(given)}")


def positive(flag: str, value: float | None) -> float:
    """The value of a flag where the request's zero means "not given"; zero for ``None``.

    Raises:
        UsageError: it is not above zero.
    """
    if value is None:
        return 0.0
    if not value > 0:
        raise UsageError(f"{flag} must be above zero, not {value:g}")
    return value


def model_selection(name: str | None, config: str | None, quantization_config: str | None) -> model_pb2.ModelSelection:
    """The model of a question: a catalogue name, or a config file with an optional display name.

    Raises:
        UsageError: neither or a file that cannot be read.
    """
    if config is None:
        if quantization_config is not None:
            raise UsageError("--quantization-config needs --config: a catalogue model brings its own")
        if not name:
            raise UsageError("name a MODEL (`capplan catalog models` lists them), or give its --config FILE")
        return model_pb2.ModelSelection(name=name)
    if config == quantization_config == _STANDARD_INPUT:
        raise UsageError("--config and --quantization-config cannot both read standard input")
    selection = model_pb2.ModelSelection(config_json=read_text(config, "--config"), display_name=name or "")
    if quantization_config is not None:
        selection.quantization_config_json = read_text(quantization_config, "--quantization-config")
    return selection


def workload(
    input_tokens: float | None,
    output_tokens: float | None,
    max_context_tokens: int | None,
    prefix_cache_hit_share: float | None,
) -> placement_pb2.Workload:
    """The shape of one request.

    Raises:
        UsageError: a mean length is missing.
    """
    missing = [
        flag for flag, value in (("--input-tokens", input_tokens), ("--output-tokens", output_tokens)) if value is None
    ]
    if missing:
        raise UsageError(f"say the shape of one request: {' and '.join(missing)} missing")
    return placement_pb2.Workload(
        input_tokens=input_tokens or 0.0,
        output_tokens=output_tokens or 0.0,
        max_context_tokens=max_context_tokens or 0,
        prefix_cache_hit_share=prefix_cache_hit_share or 0.0,
    )


def engine_selection(
    name: str | None,
    version: str | None,
    gpu_memory_utilization: float | None,
    mem_fraction_static: float | None,
    free_gpu_memory_fraction: float | None,
    max_num_seqs: int | None,
    max_num_batched_tokens: int | None,
) -> placement_pb2.EngineSelection:
    """The engine and its pinned settings."""
    return placement_pb2.EngineSelection(
        name=name or "",
        version=version or "",
        gpu_memory_utilization=positive("--gpu-memory-utilization", gpu_memory_utilization),
        mem_fraction_static=positive("--mem-fraction-static", mem_fraction_static),
        free_gpu_memory_fraction=positive("--free-gpu-memory-fraction", free_gpu_memory_fraction),
        max_num_seqs=max_num_seqs or 0,
        max_num_batched_tokens=max_num_batched_tokens or 0,
    )


def precision(weights: str | None, kv_cache: str | None) -> model_pb2.Precision:
    """The number formats of a question."""
    return model_pb2.Precision(weights=weights or "", kv_cache=kv_cache or "")
