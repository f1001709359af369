"""What is remembered by identity is never mixed up with what is merely equal, or has the same name."""

from __future__ import annotations

from dataclasses import replace

from capplan.estimation.device import whole_device
from capplan.estimation.engine import EngineChoice, resolve_settings
from capplan.estimation.identity import Same
from capplan.estimation.legality import ModelFormats, format_faults
from tests.hardware.devices import H100


def test_a_key_equals_itself_only() -> None:
    twin = replace(H100)
    assert twin == H100
    assert Same(H100) == Same(H100)
    assert Same(H100) != Same(twin)
    assert Same(H100) != H100


def test_an_edited_device_under_the_same_name_is_another_device() -> None:
    smaller = replace(H100, memory_bytes=40 << 30)
    whole, half = whole_device(H100), whole_device(smaller)
    assert whole is not None
    assert half is not None
    assert half.memory_bytes < 40 << 30 < whole.memory_bytes
    # vLLM: 1,024 sequences from 70 GiB on, else 256
    assert resolve_settings(EngineChoice(), H100, whole.memory_bytes).max_num_seqs == 1_024
    assert resolve_settings(EngineChoice(), smaller, half.memory_bytes).max_num_seqs == 256


def test_an_edited_device_is_asked_anew_what_it_runs() -> None:
    fp8 = ModelFormats(("fp8_channel",), "fp8", "bf16")
    older = replace(H100, architecture="volta", compute_capability="7.0")
    assert format_faults(fp8, H100, EngineChoice()) == ()
    assert format_faults(fp8, older, EngineChoice()) != ()
