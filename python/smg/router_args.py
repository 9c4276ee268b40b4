"""The settings of a gateway as a Python object."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from smg._fields import FLAGS, Fields
from smg._flags import CHOICES, REFUSED

# Fields without a flag: the one value that may stand there besides None, and what to do instead.
FLAGLESS = {
    "bootstrap_port_annotation": ("sglang.ai/bootstrap-port", "it cannot be changed"),
    "served_model_name": (None, "name the model with model_alias"),
}

# Flags of serve too, which therefore has no others with a prefix.
UNPREFIXED = ("host", "port", "worker_urls")

MAX_PORT = 65535

ROLES = ("admin", "user")


class RouterArgs(Fields):
    """The flags of `smg launch` as fields, with the same defaults.

    What is None or as the default says is not put on the command line, so that there
    the gateway's environment counts. The order of fields does not change; new ones come
    last.
    """

    @staticmethod
    def add_cli_args(
        parser: argparse.ArgumentParser, use_router_prefix: bool = False, exclude_host_port: bool = False
    ) -> None:
        """Add the flags of `smg launch` to a parser, on request as `--router-…` and without `--host` and `--port`."""
        for field, flag in FLAGS.items():
            if exclude_host_port and field in ("host", "port"):
                continue
            prefix = "router-" if use_router_prefix and field not in UNPREFIXED else ""
            how: dict[str, Any] = {"dest": prefix.replace("-", "_") + field, "help": flag.help.replace("%", "%%")}
            if flag.kind == "bool":
                how["action"] = "store_true"
            else:
                how.update(metavar=flag.placeholder.partition(" ")[0].rstrip("."), default=default(field))
            if flag.kind == "scalar":
                how["type"] = flag.type
                if flag.choices:
                    how["choices"] = CHOICES.get(flag.name, flag.choices)
            elif flag.kind == "list":
                how.update(action="extend", nargs="*", type=flag.type, default=None if default(field) else [])
            elif flag.kind == "repeated":
                how.update(action="append", default=None)
            elif flag.kind == "url_and_port":
                how.update(action="append", nargs="+", default=None)
            parser.add_argument(*(f"--{prefix}{n}" for n in (flag.name, *flag.aliases)), **how)

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace, use_router_prefix: bool = False) -> RouterArgs:
        """Take the fields out of what a parser has returned; what is not in there has its default."""
        found = {}
        for field in (f.name for f in dataclasses.fields(cls)):
            flag = FLAGS[field].name.replace("-", "_") if field in FLAGS else field
            names = (field, flag)
            if use_router_prefix:
                names = (f"router_{field}", f"router_{flag}", *names)
            for name in names:
                value = getattr(args, name, None)
                if value is not None:
                    found[field] = taken(FLAGS[field].kind, value) if field in FLAGS else value
                    break
        return cls(**found)

    def to_argv(self) -> list[str]:
        """Return the arguments of `smg launch` for these settings.

        Raises KeyError for a policy that there is not, ValueError for one that stands in a
        wrong place, for ports out of range, for values of a wrong type, and for those that
        no argument can express.
        """
        return [word for field in self._set() for word in arguments(field, getattr(self, field))]

    def to_command(self) -> tuple[list[str], dict[str, str]]:
        """Return the arguments without secrets, which all users of a machine could read, and variables with them."""
        argv, env = [], {}
        for field in self._set():
            flag, value = FLAGS[field], getattr(self, field)
            if flag.secret and flag.kind == "scalar":
                env["SMG_FLAG_" + flag.name.upper().replace("-", "_")] = str(value)
            else:
                argv += arguments(field, value)
        return argv, env

    def __repr__(self) -> str:
        """Return all fields, without what is secret in them."""
        shown = []
        for field in (f.name for f in dataclasses.fields(self)):
            value = getattr(self, field)
            hidden = value and field in FLAGS and FLAGS[field].secret
            shown.append(f"{field}={'***' if hidden else repr(value)}")
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _set(self) -> Iterator[str]:
        """Yield the fields that are not as the default says."""
        for field in (f.name for f in dataclasses.fields(self)):
            value = getattr(self, field)
            if value is None or value == default(field):
                continue
            if field in FLAGS:
                yield field
                continue
            usual, instead = FLAGLESS[field]
            if value != usual:
                raise ValueError(f"{field}={value!r}: {instead}")


DEFAULTS = RouterArgs()


def default(field: str) -> Any:
    """Return the default of a field; it is not to be changed."""
    return getattr(DEFAULTS, field)


def taken(kind: str, value: Any) -> Any:
    """Return what a parser has found as a field has it."""
    if kind == "repeated":  # some parsers make a list of each
        return [v[0] if isinstance(v, (list, tuple)) else v for v in value]
    if kind == "url_and_port":
        return [worker(v) for v in value]
    return value


def worker(value: Any) -> tuple[str, int | None]:
    """Return the URL and the bootstrap port of a worker, given as either or both, the port also as text."""
    if isinstance(value, str):
        return value, None
    url, *ports = value
    if len(ports) > 1:
        raise ValueError(f"{' '.join(map(str, ports[1:]))}: a worker is a URL and one bootstrap port")
    port = ports[0] if ports else None
    if port is None or str(port).lower() == "none":
        return url, None
    try:
        return url, int(str(port))
    except ValueError:
        raise ValueError(f"invalid bootstrap port {port!r}: it must be a number or 'none'") from None


def arguments(field: str, value: Any) -> list[str]:
    """Return the arguments for a field that is set."""
    known = FLAGS[field]
    flag = f"--{known.name}"
    if known.kind == "bool":
        if value not in (True, False):
            raise ValueError(f"{field}={value!r}: it must be True or False")
        return [flag if value else f"{flag}=false"]
    if known.kind == "scalar":
        if known.name.endswith("policy") and value not in known.choices:
            raise KeyError(f"{field}={value!r}: choose from {', '.join(known.choices)}")
        if value in REFUSED.get(known.name, ()):
            raise ValueError(f"{field}={value!r}: choose from {', '.join(CHOICES[known.name])}; {value} serves the prefill leg only")
        if known.type in (int, float):
            number(field, value)
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        return [f"{flag}={value}"]
    if known.kind == "url_and_port":
        out = []
        for url, port in map(worker, value):
            if port is not None and not 1 <= port <= MAX_PORT:
                raise ValueError(f"{field}: bootstrap port {port} of {url}: a port is from 1 to {MAX_PORT}")
            out += [flag, url, *([] if port is None else [str(port)])]
        return out
    values = texts(field, value)
    if known.kind == "repeated" or any(v.startswith("-") for v in values):
        return [f"{flag}={v}" for v in values]
    return [flag, *values]


def number(field: str, value: Any) -> None:
    """Raise ValueError for what is no number of the kind that a field has, or no port where it is to be one."""
    known = FLAGS[field]
    try:
        parsed = known.type(str(value))  # text is taken as well, and 1.5 is no whole number
    except ValueError:
        what = "a whole number" if known.type is int else "a number"
        raise ValueError(f"{field}={value!r}: it must be {what}") from None
    least = 0 if known.name == "prometheus-port" else 1  # 0 takes a free one
    if known.name.endswith("port") and not least <= parsed <= MAX_PORT:
        raise ValueError(f"{field}={value!r}: a port is from {least} to {MAX_PORT}")


def texts(field: str, value: Any) -> list[str]:
    """Return the values of a list, each as the command line has it."""
    if isinstance(value, str):
        raise ValueError(f"{field}={value!r}: it must be a list")
    if isinstance(value, Mapping):
        value = [f"{k}={v}" for k, v in value.items()]
    out = []
    for v in value:
        if field == "control_plane_api_keys":
            v = key(v)
        v = str(v)
        left, equals, right = v.partition("=")
        if field in ("model_alias", "jwt_role_mapping") and not (left and equals and right):
            raise ValueError(f"{field}: {v!r} is not of the form NAME=VALUE")
        if field == "jwt_role_mapping" and right.lower() not in ROLES:
            raise ValueError(f"{field}: {right!r} is none of the roles {', '.join(ROLES)}")
        out.append(v)
    return out


def key(value: Any) -> str:
    """Return a key of an administrator, given as such a text or as (id, name, key, role)."""
    if isinstance(value, str):
        parts = value.split(":", 3)
        role = parts[2] if len(parts) == 4 else ""
    else:
        parts = [str(v) for v in value]
        role = parts[3] if len(parts) == 4 else ""
        parts = [*parts[:2], role, *parts[2:3]]
    if len(parts) != 4 or not all(parts) or role.lower() not in ROLES:
        raise ValueError("control_plane_api_keys: a key is not of the form ID:NAME:ROLE:KEY with a role admin or user")
    return ":".join(parts)
