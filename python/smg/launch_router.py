"""`python -m smg.launch_router`, the same as `smg launch`, and a gateway for programs in Python."""

from __future__ import annotations

import sys

from smg.cli import start

TYPE_CHECKING = False
if TYPE_CHECKING:  # the command alone does not need them, and is to start soon
    import argparse
    from typing import NoReturn

    from smg.router_args import RouterArgs


def launch_router(args: RouterArgs | argparse.Namespace) -> int:
    """Run a gateway until it ends, and return its exit code: 0 after a signal to stop.

    SIGINT, SIGTERM and SIGHUP to this process reach the gateway where this is called in
    the main thread; what the process did with them before, it does again afterwards.
    Raises KeyError for a policy that there is not, ValueError for other values that
    cannot be put on a command line, FileNotFoundError where the gateway's program is
    missing. What the gateway itself refuses it reports on standard error, with code 1
    or 2.
    """
    from smg._child import call
    from smg.router_args import RouterArgs

    if not isinstance(args, RouterArgs):
        args = RouterArgs.from_cli_args(args)
    argv, env = args.to_command()
    return call("smg", ["launch", *argv], env)


def parse_router_args(args: list[str]) -> RouterArgs:
    """Parse the flags of `smg launch`; ends with status 2 where one is not known."""
    import argparse

    from smg.router_args import RouterArgs

    parser = argparse.ArgumentParser(prog="smg launch", usage="%(prog)s [flags]", allow_abbrev=False)
    RouterArgs.add_cli_args(parser)
    return RouterArgs.from_cli_args(parser.parse_args(args))


def main() -> NoReturn:
    """Become `smg launch`, with the arguments of this process."""
    start(["launch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
