"""Accelerators and the names they go by."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, CheckConstraint, Double, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from capplan.catalog.tables.columns import Provenance, at_least, between, not_blank, one_of, provenance_checks
from capplan.database import Base

VENDORS: Final = ("amd", "apple", "aws", "google", "intel", "nvidia")
CONFIDENCES: Final = ("high", "medium", "low")
ARITHMETIC_FORMATS: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp6", "fp4")
ALIAS_KINDS: Final = ("driver-name", "kubernetes-label", "spelling")

_GIGA: Final = 1e9
_PETA: Final = 1e15


class AcceleratorRow(Provenance, Base):
    """One accelerator as the operating system sees it; the columns mean what ``hardware.Accelerator`` says.

    Attributes:
        device_name: the name the driver's tool prints.
        memory_basis: ``driver`` when ``memory_bytes`` is what a driver reports, ``vendor`` when it is the capacity on
            the data sheet, which is no smaller.
        sparsity_multiplier: what a with-sparsity peak on the data sheet must be divided by to get the dense one.
        peak_fp64_flop_per_s: dense peaks, one column per arithmetic format; null where the format is not native or no
            figure was published.
        cross_check: what the source was compared with.
        notes: what a planner must know and no column says.
    """

    __tablename__ = "accelerators"

    sku: Mapped[str] = mapped_column(String(64), primary_key=True)
    vendor: Mapped[str] = mapped_column(String(16))
    product_name: Mapped[str] = mapped_column(String(128))
    device_name: Mapped[str | None] = mapped_column(String(128))
    architecture: Mapped[str] = mapped_column(String(32))
    compute_capability: Mapped[str | None] = mapped_column(String(16))
    release_year: Mapped[int]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    memory_basis: Mapped[str | None] = mapped_column(String(16))
    memory_technology: Mapped[str] = mapped_column(String(32))
    memory_bandwidth_bytes_per_s: Mapped[float] = mapped_column(Double)
    sm_count: Mapped[int | None]
    boost_clock_mhz: Mapped[int | None]
    l2_bytes: Mapped[int | None] = mapped_column(BigInteger)
    peak_fp64_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_fp32_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_tf32_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_fp16_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_bf16_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_fp8_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_int8_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_int4_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_fp6_flop_per_s: Mapped[float | None] = mapped_column(Double)
    peak_fp4_flop_per_s: Mapped[float | None] = mapped_column(Double)
    sparsity_multiplier: Mapped[float] = mapped_column(Double)
    interconnect: Mapped[str] = mapped_column(String(32))
    link_bytes_per_s: Mapped[float | None] = mapped_column(Double)
    link_domain_size: Mapped[int]
    pcie_bytes_per_s: Mapped[float | None] = mapped_column(Double)
    board_power_w: Mapped[float | None] = mapped_column(Double)
    idle_power_w: Mapped[float | None] = mapped_column(Double)
    form_factor: Mapped[str] = mapped_column(String(32))
    mig_board: Mapped[str | None] = mapped_column(ForeignKey("mig_boards.board"))
    kubernetes_product_label: Mapped[str | None] = mapped_column(String(128))
    pci_device_id: Mapped[str | None] = mapped_column(String(8))
    confidence: Mapped[str] = mapped_column(String(16))
    cross_check: Mapped[str | None] = mapped_column(String(512))
    notes: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        not_blank("sku"),
        CheckConstraint("sku = lower(sku)", "sku_lower_case"),
        one_of("vendor", VENDORS),
        not_blank("product_name"),
        not_blank("architecture"),
        between("release_year", 2000, 2100),
        between("memory_bytes", _GIGA, 100e12),
        one_of("memory_basis", ("driver", "vendor")),
        CheckConstraint("(memory_bytes IS NULL) = (memory_basis IS NULL)", "memory_has_a_basis"),
        between("memory_bandwidth_bytes_per_s", _GIGA, _PETA),
        at_least("sm_count", 1),
        between("boost_clock_mhz", 100, 10_000),
        between("l2_bytes", 1 << 10, 100e9),
        *(between(f"peak_{name}_flop_per_s", _GIGA, 1e18) for name in ARITHMETIC_FORMATS),
        between("sparsity_multiplier", 1, 4),
        not_blank("interconnect"),
        between("link_bytes_per_s", _GIGA, _PETA),
        CheckConstraint("link_bytes_per_s IS NULL OR interconnect NOT IN ('none', 'pcie')", "link_has_a_kind"),
        at_least("link_domain_size", 1),
        between("pcie_bytes_per_s", _GIGA, _PETA),
        between("board_power_w", 1, 100_000),
        between("idle_power_w", 1, 100_000),
        CheckConstraint("idle_power_w IS NULL OR idle_power_w < board_power_w", "idles_below_its_cap"),
        one_of("confidence", CONFIDENCES),
        *provenance_checks(),
    )


class AcceleratorAliasRow(Provenance, Base):
    """One more name of an accelerator. The folded spelling is the key, so a name can mean one accelerator only."""

    __tablename__ = "accelerator_aliases"

    folded: Mapped[str] = mapped_column(String(128), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128))
    sku: Mapped[str] = mapped_column(ForeignKey("accelerators.sku", ondelete="CASCADE"), index=True)
    kind: Mapped[str] = mapped_column(String(32))

    __table_args__ = (
        not_blank("folded"),
        not_blank("alias"),
        one_of("kind", ALIAS_KINDS),
        *provenance_checks(),
    )
