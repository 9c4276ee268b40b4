"""What the launcher refuses by itself; everything else is judged by the Go program.

A policy `bucket` works on a prefill leg alone. The Go program takes it as `--policy`
with a warning, since it has no buckets then; this launcher does not.
"""

from __future__ import annotations

import os
import sys

from smg._flags import CHOICES, DASHED, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# They win over everything else on the line.
ASKS = ("-h", "--help", "-V", "--version", "--version-verbose")


def check(args: list[str]) -> None:
    """End with status 2 and one message where the launcher refuses args of smg."""
    if not args:
        return
    if args[0].startswith("-"):
        prefix, flags = "", args
    elif args[0] in ("launch", "start", "check"):
        prefix, flags = "", args[1:]
    elif args[0] == "serve":
        prefix, flags = "router-", args[1:]
    else:
        return
    found = list(given(flags, prefix))
    if any(name in ASKS or where.startswith("--help=") for name, _, where in found):
        return
    for name, refused in REFUSED.items():
        value, where = "", ""
        for flag, given_value, typed in found:
            if flag == f"--{prefix}{name}":
                value, where = given_value, typed  # the last one counts
        if not where:
            variable = "SMG_FLAG_" + name.upper().replace("-", "_")
            value = os.environ.get(variable, "")
            where = f"{variable}={value}"
        if value in refused:
            print(
                f"error: invalid choice {value!r} (choose from {', '.join(CHOICES[name])})\n"
                f"  {where}\n  hint: use --{prefix}prefill-policy {value}: it serves the prefill leg only",
                file=sys.stderr,
            )
            sys.exit(2)


def given(flags: list[str], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield the flags before a bare `--`: the name, the value where it matters here, and how both are typed."""
    valued = {f"--{prefix}{name}" for name in REFUSED} | {f"--{name}" for name in DASHED}
    tokens = iter(flags)
    for token in tokens:
        if token == "--":
            return
        if not token.startswith("-"):
            continue
        name, equals, value = token.partition("=")
        name = name.replace("_", "-")
        if name in valued and not equals:
            value = next(tokens, "")
            token = f"{token} {value}"
        yield name, value, token
