"""The memory of one device or slice, line by line."""

from __future__ import annotations

from rich.console import Console

from capplan.cli.output import new_table, print_heading
from capplan.cli.views.figures import count, figure, gib, percent
from capplan.v1 import placement_pb2


def print_memory(console: Console, memory: placement_pb2.MemoryBreakdown, of_what: str) -> None:
    """The budget and what it is spent on; the parts add up to the budget.

    Args:
        console: where to print.
        memory: the breakdown.
        of_what: e.g. "each device" or "each 1g.10gb slice".
    """
    print_heading(console, f"Memory of {of_what}")
    table = new_table(console, "part", "GiB", "what it is", right=("GiB",))
    share = memory.budget_bytes / memory.device_bytes if memory.device_bytes else 0.0
    rows = (
        ("weights", memory.weight_bytes, "of one rank"),
        ("activations", memory.activation_bytes, "peak while the engine profiles"),
        ("graphs", memory.graph_bytes, "captured graphs counted against the budget"),
        ("runtime", memory.runtime_bytes, "context, libraries, collective buffers"),
        ("KV pool", memory.kv_pool_bytes, "what is left" if memory.kv_pool_bytes >= 0 else "missing"),
    )
    for part, size, what in rows:
        table.add_row(part, gib(size), what)
    table.add_section()
    table.add_row("budget", gib(memory.budget_bytes), f"{percent(share)} of {gib(memory.device_bytes)} GiB")
    console.print(table)
    lines = [f"one request of the longest asked context needs {gib(memory.full_context_request_bytes)} GiB of the pool"]
    if memory.kv_pool_bytes > 0:
        lines.append(
            f"the pool holds {count(memory.kv_pool_tokens)} tokens, or {figure(memory.max_concurrent_requests)} "
            f"requests of mean length; longest context {count(memory.longest_context_tokens)} tokens"
        )
    for line in lines:
        console.print(line)
