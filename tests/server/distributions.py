"""Distributions put where the interpreter finds installed ones: modules, and metadata that names their entry points."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, name: str, entry_points: str, **modules: str) -> None:
    """Lay out an installed distribution, as an installer leaves it behind.

    Args:
        site: folder on the import path.
        name: name of the distribution.
        entry_points: content of ``entry_points.txt``.
        modules: sources of its modules by name.
    """
    metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    files = [f"{metadata.name}/METADATA,,", f"{metadata.name}/entry_points.txt,,", f"{metadata.name}/RECORD,,"]
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, encoding="utf-8")
        files.append(f"{module}.py,,")
    (metadata / "RECORD").write_text("\n".join(files) + "\n", encoding="utf-8")
