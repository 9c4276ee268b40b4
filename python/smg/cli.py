"""The command `smg`."""

from __future__ import annotations

import sys
from typing import NoReturn

from smg._exec import run


def main() -> NoReturn:
    """Become the Go program, with the arguments of this process."""
    run("smg", sys.argv[1:])
