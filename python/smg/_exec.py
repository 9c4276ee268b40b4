"""Finding a Go program of this package, becoming it, and running it."""

from __future__ import annotations

import os
import sys

from smg import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it takes longer than all the rest
    from typing import NoReturn

# Where a wheel has them. A source checkout has none there.
PACKAGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin")


def find(program: str) -> str | None:
    """Return the path of a program: in the package, else in SMG_BIN_DIR, else None.

    PATH is not searched: what it has under that name may be this very launcher.
    """
    for folder in (PACKAGED, os.environ.get("SMG_BIN_DIR", "")):
        path = os.path.join(folder, program)
        if folder and os.path.isfile(path):
            return path
    return None


def environ() -> dict[str, str]:
    """Return the environment of a program.

    It is told the version of this package, and does nothing where its own is another.
    """
    env = {**os.environ, "SMG_LAUNCHER": "python", "SMG_LAUNCHER_VERSION": __version__}
    if sys.executable:
        env.setdefault("SMG_ENGINE_PYTHON", sys.executable)
    return env


def run(program: str, args: list[str]) -> NoReturn:
    """Replace this process by a Go program, which keeps its id and so its signals.

    Ends with status 1 and one message where the program is missing or does not run.
    """
    path = find(program)
    if path is None:
        fail(*missing(program))
    try:
        os.execve(path, [program, *args], environ())
    except OSError as err:
        fail(f"cannot run {path}: {err.strerror}", "is this package made for another system?")


def missing(program: str) -> tuple[str, str]:
    """Return what to say of a program that is not there, and what to do about it."""
    what = f"{program} is missing: this copy of the package was built without binaries"
    return what, "run make wheel or set SMG_BIN_DIR"


def fail(what: str, hint: str) -> NoReturn:
    """Print an error and what to do about it, and end with status 1."""
    print(f"error: {what}\n  hint: {hint}", file=sys.stderr)
    sys.exit(1)
