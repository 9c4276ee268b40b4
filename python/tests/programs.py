"""Running the programs of a wheel and looking at what they leave behind."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

# How long tests wait for what must come; it only catches hangs.
PATIENCE = 60.0


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, below those that the system gives to clients."""
    begin = 20000 + os.getpid() * 7 % 10000
    for port in range(begin, begin + 2000):
        if port in taken:
            continue
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        taken.add(port)
        return port
    raise AssertionError("there is no free port")


taken: set[int] = set()


def environment(**more: str) -> dict[str, str]:
    """Return an environment without variables of smg and of Python, besides those that are given."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SMG_", "PYTHON"))}
    return {**env, "NO_COLOR": "1", **more}


def heed() -> None:
    """Have a program heed the signals that whoever runs the tests ignores, as a shell does in the background."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Program:
    """A program that runs; what it says on standard error is kept. To be used in a `with`."""

    def __init__(self, *argv: object, env: dict[str, str] | None = None, **how: object) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [str(a) for a in argv],
            env=environment() if env is None else env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed,
            **how,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def read(self) -> None:
        with self.process.stderr as err:
            for line in err:
                self.lines.append(line.rstrip("\n"))

    def says(self, pattern: str) -> re.Match:
        """Wait for a line that matches."""
        end = time.monotonic() + PATIENCE
        while True:
            over = self.process.poll() is not None and not self.reader.is_alive()
            for line in list(self.lines):
                if m := re.search(pattern, line):
                    return m
            assert not over, f"it ended with {self.process.returncode} and never said {pattern!r}:\n{self.text()}"
            assert time.monotonic() < end, f"it never said {pattern!r}:\n{self.text()}"
            time.sleep(0.005)

    def ends(self) -> int:
        """Wait for the end and return the exit code, as a shell has it."""
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return 128 - code if code < 0 else code

    def text(self) -> str:
        return "\n".join(self.lines)


def post(url: str, body: object) -> dict:
    """Send JSON and return the JSON of a good answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def chat(gateway: str) -> str:
    """Return the text of a completion."""
    body = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}
    return post(f"{gateway}/v1/chat/completions", body)["choices"][0]["message"]["content"]


def listens(port: int) -> bool:
    """Say whether somebody listens on a port of 127.0.0.1."""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def marked(mark: str) -> dict[int, str]:
    """Return the command lines of the processes that have a variable, by their ids (Linux)."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if line := (folder / "cmdline").read_bytes():  # one that nobody has reaped has none
                found[int(folder.name)] = line.replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def gone(mark: str) -> dict[int, str]:
    """Wait until no process has the variable, and return those that are left."""
    end = time.monotonic() + 20
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return left
