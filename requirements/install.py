"""Make the virtual environment of a checkout: the locked requirements and the project itself, editable.

Run by ``make setup`` with the interpreter to build on; it needs nothing but the standard library. A second run does
nothing, and so needs no network, unless the lock, the project's metadata, the interpreter or the checkout's path
changed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
ENVIRONMENT = CHECKOUT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
LOCK = CHECKOUT / "requirements" / "dev.txt"
PROJECT = CHECKOUT / "pyproject.toml"
STAMP = ENVIRONMENT / "capplan-setup"
MINIMUM = (3, 11)
# Run by the environment's own interpreter, build on the one that it was built on.
INTERPRETER: str = getattr(sys, "_base_executable", sys.executable)

NO_PIP = """\
{python} can make no virtual environment: it has neither ensurepip nor pip.
On Debian and Ubuntu install python3-venv (`apt-get install python3-venv`), or name another interpreter:
`make setup PYTHON=/path/to/python3`."""
TOO_OLD = "capplan needs Python {minimum} or newer, and {python} is {version}: name another by `make setup PYTHON=...`."


def has_module(name: str) -> bool:
    """Whether the interpreter to build on can import a module."""
    return subprocess.run([INTERPRETER, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


def identity() -> str:
    """What an environment is tied to and cannot change: the interpreter and, in its scripts' first lines, the path."""
    return f"{sys.version.split()[0]} {CHECKOUT}"


def contents() -> str:
    """What decides which distributions the environment holds."""
    return hashlib.sha256(LOCK.read_bytes() + PROJECT.read_bytes() + Path(__file__).read_bytes()).hexdigest()


def existing_identity() -> str | None:
    """Identity of the environment that is there, None when there is none that works."""
    version = "import platform; print(platform.python_version())"
    try:
        found = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return STAMP.read_text().split("\n")[0] if STAMP.exists() else f"{found} {CHECKOUT}"


def run(*command: str | Path) -> None:
    """Run a command, and end with its exit code if it fails; it has printed why."""
    code = subprocess.run(command, cwd=CHECKOUT, check=False).returncode
    if code:
        raise SystemExit(code)


def create() -> list[str | Path]:
    """Make the environment, or keep the one that fits, and return the pip command that fills it."""
    options = [] if existing_identity() == identity() else ["--clear"]
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    if has_module("ensurepip"):
        run(INTERPRETER, "-m", "venv", *options, ENVIRONMENT)
        return [PYTHON, *pip]
    if has_module("pip"):
        # Debian keeps ensurepip in a package of its own; the system's pip can fill an environment that has none.
        run(INTERPRETER, "-m", "venv", "--without-pip", *options, ENVIRONMENT)
        return [INTERPRETER, *pip, "--python", PYTHON]
    raise SystemExit(NO_PIP.format(python=INTERPRETER))


def main() -> None:
    """Make the environment unless it is already what it should be."""
    if sys.version_info < MINIMUM:
        minimum, version = (".".join(map(str, parts)) for parts in (MINIMUM, sys.version_info[:3]))
        raise SystemExit(TOO_OLD.format(minimum=minimum, python=sys.executable, version=version))
    stamp = f"{identity()}\n{contents()}\n"
    if STAMP.exists() and STAMP.read_text() == stamp and PYTHON.exists():
        return
    pip = create()
    print("Installing the locked requirements into .venv, which takes about a minute ...", flush=True)
    run(*pip, "install", "--require-hashes", "--only-binary", ":all:", "--requirement", LOCK)
    run(*pip, "install", "--no-deps", "--no-build-isolation", "--editable", CHECKOUT)
    STAMP.write_text(stamp)


if __name__ == "__main__":
    main()
