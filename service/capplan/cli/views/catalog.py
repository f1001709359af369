"""Listings and single entries of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import Message
from rich.console import Console

from capplan.cli.output import new_table
from capplan.cli.views.figures import ABSENT, count, figure, gib, parameters, short_name, usd
from capplan.units import TERA
from capplan.v1 import catalog_pb2


def print_accelerators(console: Console, rows: Sequence[catalog_pb2.Accelerator]) -> None:
    """One line for each accelerator; peaks are dense."""
    right = ("memory\nGiB", "TB/s", "bf16\nTFLOP/s", "fp8\nTFLOP/s")
    table = new_table(console, "accelerator", "generation", *right, "MIG board", right=right)
    for row in rows:
        table.add_row(
            short_name(row.name),
            row.architecture,
            gib(row.memory_bytes) if row.memory_bytes else ABSENT,
            figure(row.memory_bandwidth_bytes_per_s / TERA) if row.memory_bandwidth_bytes_per_s else ABSENT,
            _peak(row, "bf16"),
            _peak(row, "fp8"),
            short_name(row.mig_board) or ABSENT,
        )
    console.print(table)


def _peak(row: catalog_pb2.Accelerator, arithmetic: str) -> str:
    return count(row.peak_flop_per_s[arithmetic] / TERA) if arithmetic in row.peak_flop_per_s else ABSENT


def print_mig_profiles(console: Console, rows: Sequence[catalog_pb2.MigProfile]) -> None:
    """One line for each GPU instance profile; slices are compute slices and memory units."""
    right = ("id", "compute", "memory", "GiB", "SM", "max")
    table = new_table(console, "board", "profile", "id", "compute", "memory", "GiB", "SM", "max", "starts", right=right)
    for row in rows:
        table.add_row(
            row.name.split("/")[1],
            row.profile,
            str(row.profile_id),
            str(row.compute_slice_count),
            f"{row.memory_slice_count}/{row.grid_unit_count}",
            gib(row.memory_bytes) if row.memory_bytes else ABSENT,
            str(row.sm_count) if row.sm_count else ABSENT,
            str(row.max_count),
            " ".join(str(start) for start in row.starts),
        )
    console.print(table)


def print_models(console: Console, rows: Sequence[catalog_pb2.ModelProfile]) -> None:
    """One line for each model."""
    table = new_table(console, "model", "family", "parameters", "published in", right=("parameters",))
    for row in rows:
        table.add_row(row.hub_id, row.family, parameters(row.total_parameter_count), row.native_weights)
    console.print(table)


def print_prices(console: Console, rows: Sequence[catalog_pb2.Price]) -> None:
    """One line for each price of one device."""
    table = new_table(console, "price", "accelerator", "market", "$/device-h", "as of", right=("$/device-h",))
    for row in rows:
        table.add_row(
            short_name(row.name), short_name(row.accelerator), row.market, usd(row.usd_per_device_h), row.source.as_of
        )
    console.print(table)


def print_entry(console: Console, entry: Message) -> None:
    """Every known field of one entry, named as in the contract; empty fields are left out."""
    table = new_table(console, "field", "value")
    for name, value in _known_fields(entry):
        table.add_row(name, value)
    console.print(table)


def _known_fields(message: Message, prefix: str = "") -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        name = f"{prefix}{field.name}"
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from ((f"{name}.{key}", _value(name, value[key])) for key in sorted(value))
        elif field.is_repeated:
            yield name, ", ".join(_value(name, item) for item in value)
        elif isinstance(value, Message):
            yield from _known_fields(value, f"{name}.")
        else:
            yield name, _value(name, value)


def _value(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value:,} ({gib(value)} GiB)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) and abs(value) < 1e6 else _large(value)


def _large(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
