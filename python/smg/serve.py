"""`smg serve`, also as `python -m smg.serve`: engines and the gateway in front of them."""

from __future__ import annotations

import sys

from smg.cli import start

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it takes longer than all the rest
    from typing import NoReturn


def serve_main(argv: list[str] | None = None) -> NoReturn:
    """Become `smg serve` with argv, or with the arguments of this process."""
    start(["serve", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    serve_main()
