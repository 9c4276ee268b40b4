"""Finding a Go program of this package and becoming it."""

from __future__ import annotations

import os
import sys
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


def run(program: str, args: list[str]) -> NoReturn:
    """Replace this process by a Go program, which keeps its id and so its signals.

    Ends with status 1 and one message where the program is missing or does not run.
    """
    path = find(program)
    if path is None:
        fail(
            f"{program} is missing: this copy of the package was built without binaries",
            "run make wheel or set SMG_BIN_DIR",
        )
    os.environ["SMG_LAUNCHER"] = "python"
    if sys.executable:
        os.environ.setdefault("SMG_ENGINE_PYTHON", sys.executable)
    try:
        os.execv(path, [program, *args])
    except OSError as err:
        fail(f"cannot run {path}: {err.strerror}", "is this package made for another system?")


def fail(what: str, hint: str) -> NoReturn:
    """Print an error and what to do about it, and end with status 1."""
    print(f"error: {what}\n  hint: {hint}", file=sys.stderr)
    sys.exit(1)
