"""Running a Go program beside this process."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from types import FrameType

from smg._exec import environ, find, missing

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def call(program: str, args: list[str], env: dict[str, str]) -> int:
    """Run a program with more variables until it ends, and return its exit code; 128 + n where signal n ended it.

    It has a session of its own: what a terminal sends to all processes in front reaches
    it once, through this one. It stops when this process is killed (on Linux).
    """
    path = find(program)
    if path is None:
        what, hint = missing(program)
        raise FileNotFoundError(f"{what}; {hint}")
    early: list[int] = []
    child: subprocess.Popen | None = None

    def forward(number: int, _: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in FORWARDED:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup, and what is not Python's
                before[number] = signal.signal(number, forward)
    try:
        child = subprocess.Popen(
            [program, *args],
            executable=path,
            env={**environ(), **env, "SMG_LAUNCHER_PID": str(os.getpid())},
            start_new_session=True,
        )
        for number in early:
            child.send_signal(number)
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code
