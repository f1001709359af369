"""MIG tables retyped for tests from published ``nvidia-smi mig -lgip`` and ``-lgipp`` listings and the user guide."""

from __future__ import annotations

from capplan.hardware.mig import MigBoard, MigProfile
from capplan.units import MIB

SEVEN = ("1g", "2g", "3g", "4g", "7g")
DOUBLE = "1g double"
MEDIA = "1g+me"

_ENGINES = ("decoder", "encoder", "jpeg", "optical_flow")


def profile(
    profile_id: int,
    name: str,
    compute: int,
    size: int,
    starts: tuple[int, ...],
    count: int,
    *,
    mib: int | None = None,
    sm: int | None = None,
    extension: str | None = None,
    engines: tuple[int, ...] = (),
    driver: str | None = None,
) -> MigProfile:
    return MigProfile(
        profile_id=profile_id,
        name=name,
        compute_slices=compute,
        memory_slices=size,
        memory_bytes=None if mib is None else mib * MIB,
        sm_count=sm,
        max_count=count,
        starts=starts,
        media_extension=extension,
        confidence="measured",
        min_driver=driver,
        media_engines=tuple(zip(_ENGINES, engines, strict=False)),
    )


# A100 80 GB: ids, starts, memory and SM counts as an R580 driver lists them; engines as decoder, encoder, jpeg, OFA.
_A100_80 = {
    "1g": profile(19, "1g.10gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, mib=9728, sm=14, engines=(0, 0, 0, 0)),
    MEDIA: profile(
        20,
        "1g.10gb+me",
        1,
        1,
        (0, 1, 2, 3, 4, 5, 6),
        1,
        mib=9728,
        sm=14,
        extension="me",
        engines=(1, 0, 1, 1),
        driver="R470",
    ),
    DOUBLE: profile(15, "1g.20gb", 1, 2, (0, 2, 4, 6), 4, mib=19968, sm=14, engines=(1, 0, 0, 0), driver="R525"),
    "2g": profile(14, "2g.20gb", 2, 2, (0, 2, 4), 3, mib=19968, sm=28, engines=(1, 0, 0, 0)),
    "3g": profile(9, "3g.40gb", 3, 4, (0, 4), 2, mib=40192, sm=42, engines=(2, 0, 0, 0)),
    "4g": profile(5, "4g.40gb", 4, 4, (0,), 1, mib=40192, sm=56, engines=(2, 0, 0, 0)),
    "7g": profile(0, "7g.80gb", 7, 8, (0,), 1, mib=80384, sm=98, engines=(5, 0, 1, 1)),
}

# H100 SXM: the double-memory profile's 26 SM hold for a compute instance that spans it.
_H100_SXM = {
    "1g": profile(19, "1g.10gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, mib=9984, sm=16),
    DOUBLE: profile(15, "1g.20gb", 1, 2, (0, 2, 4, 6), 4, mib=20096, sm=26),
    "2g": profile(14, "2g.20gb", 2, 2, (0, 2, 4), 3, mib=20096, sm=32),
    "3g": profile(9, "3g.40gb", 3, 4, (0, 4), 2, mib=40448, sm=60),
    "4g": profile(5, "4g.40gb", 4, 4, (0,), 1, mib=40448, sm=64),
    "7g": profile(0, "7g.80gb", 7, 8, (0,), 1, mib=81152, sm=132),
}


def seven_slice(*extra: str, board: str = "a100-80gb") -> MigBoard:
    """A 7-slice board with the plain profiles and, when named, the double-memory and the media one."""
    table = _A100_80 if board.startswith("a100") else _H100_SXM
    profiles = tuple(table[name] for name in (*SEVEN, *extra))
    return MigBoard(board, "A100 80GB" if table is _A100_80 else "H100 80GB SXM5", 8, 7, profiles, "measured")


def a30(media: bool = False) -> MigBoard:
    profiles = [
        profile(14, "1g.6gb", 1, 1, (0, 1, 2, 3), 4, mib=5952, sm=14, engines=(1, 0, 0, 0)),
        profile(5, "2g.12gb", 2, 2, (0, 2), 2, mib=11968, sm=28, engines=(2, 0, 0, 0)),
        profile(0, "4g.24gb", 4, 4, (0,), 1, mib=24000, sm=56, engines=(4, 0, 1, 1)),
    ]
    if media:
        profiles += [
            profile(21, "1g.6gb+me", 1, 1, (0, 1, 2, 3), 1, extension="me", engines=(1, 0, 1, 1)),
            profile(6, "2g.12gb+me", 2, 2, (0, 2), 1, extension="me", engines=(2, 0, 1, 1), driver="R525"),
        ]
    return MigBoard("a30-24gb", "A30 24GB", 4, 4, tuple(profiles), "measured")


def rtx_pro_6000(variants: bool = False) -> MigBoard:
    quarters, halves, whole = (0, 3, 6, 9), (0, 6), (0,)
    profiles = [
        profile(14, "1g.24gb", 1, 3, quarters, 4, mib=24192, sm=46, engines=(1, 1, 1, 0)),
        profile(5, "2g.48gb", 2, 6, halves, 2, mib=48512, sm=94, engines=(2, 2, 2, 0)),
        profile(0, "4g.96gb", 4, 12, whole, 1, mib=97408, sm=188, engines=(4, 4, 4, 1)),
    ]
    if variants:
        profiles += [
            profile(21, "1g.24gb+me", 1, 3, quarters, 1, extension="me", engines=(1, 1, 1, 1)),
            profile(47, "1g.24gb+gfx", 1, 3, quarters, 4, extension="gfx", engines=(1, 1, 1, 0)),
            profile(65, "1g.24gb+me.all", 1, 3, quarters, 1, extension="me.all", engines=(4, 4, 4, 1)),
            profile(67, "1g.24gb-me", 1, 3, quarters, 4, extension="-me", engines=(0, 0, 0, 0)),
            profile(35, "2g.48gb+gfx", 2, 6, halves, 2, extension="gfx", engines=(2, 2, 2, 0)),
            profile(64, "2g.48gb+me.all", 2, 6, halves, 1, extension="me.all", engines=(4, 4, 4, 1)),
            profile(66, "2g.48gb-me", 2, 6, halves, 2, extension="-me", engines=(0, 0, 0, 0)),
            profile(32, "4g.96gb+gfx", 4, 12, whole, 1, extension="gfx", engines=(4, 4, 4, 1)),
        ]
    return MigBoard("rtx-pro-6000-96gb", "RTX PRO 6000 Blackwell 96GB", 12, 4, tuple(profiles), "measured")


def two_halves() -> MigBoard:
    """RTX PRO 5000 and 4500, whose starts were not published: two halves assumed, for counting only."""
    profiles = (profile(14, "1g.24gb", 1, 1, (0, 1), 2), profile(0, "2g.48gb", 2, 2, (0,), 1))
    return MigBoard("two-halves", "RTX PRO 5000 (assumed)", 2, 2, profiles, "assumed")
