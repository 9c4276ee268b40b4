"""`smg serve`: engines and the gateway in front of them."""

from __future__ import annotations

import sys
from typing import NoReturn

from smg.cli import start


def serve_main(argv: list[str] | None = None) -> NoReturn:
    """Become `smg serve` with argv, or with the arguments of this process."""
    start(["serve", *(sys.argv[1:] if argv is None else argv)])
