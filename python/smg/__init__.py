"""smg, a load-balancing gateway in front of LLM inference engines.

The gateway is a set of programs written in Go, which lie in this package; the
Python side starts them and knows nothing of routing.
"""

from __future__ import annotations

try:
    from smg._version import __version__
except ModuleNotFoundError:  # a source checkout: only a build writes that module
    import pathlib

    __version__ = (
        (pathlib.Path(__file__).parents[2] / "cmd" / "internal" / "version" / "VERSION")
        .read_text(encoding="utf-8")
        .strip()
    )

__all__ = ["__version__"]
