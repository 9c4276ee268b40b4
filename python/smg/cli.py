"""The command `smg`."""

from __future__ import annotations

import sys

from smg._check import check
from smg._exec import run

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it takes longer than all the rest
    from typing import NoReturn


def main() -> NoReturn:
    """Become the Go program, with the arguments of this process."""
    start(sys.argv[1:])


def start(args: list[str]) -> NoReturn:
    """Become the Go program with args, unless the launcher refuses them."""
    check(args)
    run("smg", args)


if __name__ == "__main__":
    main()
