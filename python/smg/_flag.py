"""What the package knows of one flag."""

from __future__ import annotations

from typing import NamedTuple


class Flag(NamedTuple):
    """A flag of `smg launch`."""

    name: str
    aliases: tuple[str, ...]
    kind: str  # bool, scalar, list, repeated or url_and_port
    type: type  # of a value
    choices: tuple[str, ...]  # all values, empty if they cannot be listed
    placeholder: str
    secret: bool
    help: str
