"""`python -m smg.launch_router`, the same as `smg launch`."""

from __future__ import annotations

import sys
from typing import NoReturn

from smg.cli import start


def main() -> NoReturn:
    """Become `smg launch`, with the arguments of this process."""
    start(["launch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
