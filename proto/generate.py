"""Generate the Python code of the contract: messages, gRPC classes and their type stubs.

Run it by ``make proto`` after every change of a ``.proto`` file and commit what it writes. ``--check`` writes nothing
and fails when the committed code is not what the sources say.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).resolve().parent
OUTPUT = SOURCES.parent / "service"
GENERATED_PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def contract_files() -> list[Path]:
    """The contract's sources, relative to their import root."""
    return sorted(path.relative_to(SOURCES) for path in SOURCES.rglob("*.proto"))


def include_paths() -> list[Path]:
    """Import roots of a compilation: the contract, google/api and google/rpc, and google/protobuf."""
    googleapis = importlib.metadata.distribution("googleapis-common-protos").locate_file("")
    return [SOURCES, Path(str(googleapis)), Path(protoc.__file__).parent / "_proto"]


def generate(output: Path) -> None:
    """Compile every source of the contract.

    Args:
        output: import root under which the packages are written; it must exist.

    Raises:
        SystemExit: the compiler refused a source; it has printed why.
    """
    # The plug-ins stand beside the interpreter, which need not be on the search path.
    scripts = Path(sys.executable).parent
    arguments = [
        "protoc",
        *(f"--proto_path={path}" for path in include_paths()),
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--python_out={output}",
        f"--grpc_python_out={output}",
        f"--mypy_out=quiet:{output}",
        f"--mypy_grpc_out=quiet:{output}",
        *(str(path) for path in contract_files()),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("the contract does not compile")


def generated_files(root: Path) -> dict[Path, bytes]:
    """Content of every generated file of the contract's packages under an import root, by relative path."""
    packages = {root / source.parent for source in contract_files()}
    paths = (path for package in packages for pattern in GENERATED_PATTERNS for path in package.glob(pattern))
    return {path.relative_to(root): path.read_bytes() for path in paths}


def stale_files(committed: dict[Path, bytes], fresh: dict[Path, bytes]) -> list[Path]:
    """Files that are missing, left over or different, in order."""
    return sorted(path for path in committed.keys() | fresh.keys() if committed.get(path) != fresh.get(path))


def main() -> int:
    """Generate, or check what was generated; the exit code is 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed code and write nothing")
    check: bool = parser.parse_args().check

    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = generated_files(Path(folder))
    stale = stale_files(generated_files(OUTPUT), fresh)
    if check:
        for path in stale:
            print(f"{OUTPUT.name}/{path} is not what the contract generates: run `make proto`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        target = OUTPUT / path
        if path in fresh:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(fresh[path])
        else:
            target.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
