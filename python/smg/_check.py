"""What the launcher refuses by itself; everything else is judged by the Go program.

A policy `bucket` works on a prefill leg alone. The Go program takes it as `--policy`
with a warning, since it has no buckets then; this launcher does not.
"""

from __future__ import annotations

import os
import sys

POLICIES = (
    "random", "round_robin", "passthrough", "cache_aware", "power_of_two",
    "least_load", "prefix_hash", "consistent_hashing", "manual", "bucket",
)  # fmt: skip

REFUSED = "bucket"

# What may stand in place of the refused one.
CHOICES = {
    "policy": tuple(p for p in POLICIES if p != REFUSED),
    "decode-policy": tuple(p for p in POLICIES if p not in (REFUSED, "passthrough")),
}

# The flags of serve whose value may begin with a dash.
DASHED = ("max-concurrent-requests", "prefill-args", "decode-args", "encode-args")

# They win over everything else on the line.
ASKS = ("-h", "--help", "-V", "--version", "--version-verbose")


def check(args: list[str]) -> None:
    """End with status 2 and one message where the launcher refuses args of smg."""
    if not args:
        return
    if args[0].startswith("-"):
        prefix, flags = "", args
    elif args[0] in ("launch", "start"):
        prefix, flags = "", args[1:]
    elif args[0] == "serve":
        prefix, flags = "router-", args[1:]
    else:
        return
    if "--" in flags:
        flags = flags[: flags.index("--")]
    if any(token.replace("_", "-") in ASKS or token.startswith("--help=") for token in flags):
        return
    for name, choices in CHOICES.items():
        where, value = given(flags, prefix + name)
        if not where:
            variable = "SMG_FLAG_" + name.upper().replace("-", "_")
            value = os.environ.get(variable, "")
            where = f"{variable}={value}"
        if value == REFUSED:
            print(
                f"error: invalid choice {value!r} (choose from {', '.join(choices)})\n"
                f"  {where}\n  hint: use --{prefix}prefill-policy {REFUSED}: it serves the prefill leg only",
                file=sys.stderr,
            )
            sys.exit(2)


def given(flags: list[str], name: str) -> tuple[str, str]:
    """Return how the last occurrence of a flag is typed, and its value; empty without one."""
    found = ("", "")
    tokens = iter(flags)
    for token in tokens:
        if not token.startswith("--"):
            continue
        flag, equals, value = token[2:].partition("=")
        flag = flag.replace("_", "-")
        if not equals and flag in (name, *DASHED):
            value = next(tokens, "")
            token = f"{token} {value}"
        if flag == name:
            found = (token, value)
    return found
