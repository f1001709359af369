"""Unit constants: decimal for vendors' rates, binary for memory that a driver reports."""

from __future__ import annotations

KB = 1_000
MB = 1_000_000
GB = 1_000_000_000
TB = 1_000_000_000_000
KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TERA = 1e12
MS_PER_S = 1_000.0
