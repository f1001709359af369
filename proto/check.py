"""Check the contract: style, format, and that no published message or method was broken.

Without an option, report everything that is wrong and change nothing. ``--format`` rewrites the sources in the standard
format. ``--record`` makes the contract as it is now the one that later changes must not break; run it at a release, or
when a break is meant.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
PUBLISHED = SOURCES / "capplan.v1.binpb"
MODULE = "proto"


def stage(workspace: Path) -> None:
    """Lay out the modules that ``buf.yaml`` names: the contract and the Google sources it imports."""
    shutil.copy(SOURCES / "buf.yaml", workspace)
    for source in SOURCES.rglob("*.proto"):
        _copy(source, workspace / MODULE / source.relative_to(SOURCES))
    distribution = importlib.metadata.distribution("googleapis-common-protos")
    for file in distribution.files or ():
        if file.suffix == ".proto":
            _copy(Path(str(distribution.locate_file(file))), workspace / "googleapis" / file)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def buf(workspace: Path, *arguments: str) -> int:
    """Run buf on the contract's module of a workspace and return its exit code; it prints what it finds."""
    command, *options = arguments
    program = Path(sys.executable).parent / "buf"
    return subprocess.run([program, command, MODULE, *options], cwd=workspace, check=False).returncode


def check(workspace: Path) -> int:
    """Run every check and return how many of them failed."""
    return sum(
        code != 0
        for code in (
            buf(workspace, "lint"),
            buf(workspace, "format", "--diff", "--exit-code"),
            buf(workspace, "breaking", "--against", str(PUBLISHED)),
        )
    )


def reformat(workspace: Path) -> int:
    """Rewrite the sources that are not in the standard format."""
    code = buf(workspace, "format", "--write")
    for source in SOURCES.rglob("*.proto"):
        formatted = (workspace / MODULE / source.relative_to(SOURCES)).read_bytes()
        if formatted != source.read_bytes():
            source.write_bytes(formatted)
    return code


def record(workspace: Path) -> int:
    """Write the descriptor that later versions of the contract are compared with."""
    return buf(workspace, "build", "--exclude-source-info", "--output", str(PUBLISHED))


def main() -> int:
    """Do what the command line asks; the exit code is 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--format", action="store_const", const=reformat, dest="action", help="rewrite the sources")
    action.add_argument("--record", action="store_const", const=record, dest="action", help="publish the contract")
    parser.set_defaults(action=check)
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        return 1 if parser.parse_args().action(Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
