"""Starting and stopping the programs under test, and looking at them from outside."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


def free_range(width: int) -> int:
    """Return the first of `width` neighbouring ports that were free a moment ago."""
    for _ in range(100):
        base = free_port()
        if base + width > 65535:
            continue
        try:
            for port in range(base, base + width):
                with socket.socket() as s:
                    s.bind((HOST, port))
        except OSError:
            continue
        return base
    raise RuntimeError(f"no {width} neighbouring free ports")


def get(url: str, timeout: float = 5.0) -> tuple[int, bytes]:
    """Return status and body of a GET; status 0 means that nothing answered."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as err:
        return err.code, err.read()
    except OSError:
        return 0, b""


def metrics(url: str) -> dict[str, float]:
    """Read a Prometheus page: sample, labels included, to value."""
    status, body = get(url)
    assert status == 200, f"GET {url}: {status}"
    out = {}
    for line in body.decode().splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            out[name] = float(value)
    return out


def eventually(what: str, check, timeout: float, gap: float = 0.1):
    """Call check until it returns something true, and return that."""
    deadline = time.monotonic() + timeout
    while True:
        got = check()
        if got:
            return got
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(gap)


def children(pid: int) -> set[int]:
    """Return the processes below pid, at any depth (Linux)."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        # The name in parentheses may hold anything; the parent is the second field after it.
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    out: set[int] = set()
    grown = {pid}
    while grown:
        grown = {p for p, parent in parents.items() if parent in grown} - out
        out |= grown
    return out


def alive(pid: int) -> bool:
    """Tell whether pid runs; one that has ended and waits to be reaped does not."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@dataclass
class Engine:
    """One llama-server, seen through its own port."""

    url: str

    def sample(self, name: str) -> float:
        return metrics(self.url + "/metrics")[f"llamacpp:{name}"]

    def processing(self) -> float:
        """Return how many requests it works on."""
        return self.sample("requests_processing")

    def generated(self) -> float:
        """Return the tokens of all answers that have ended."""
        return self.sample("tokens_predicted_total")

    def prompts(self) -> float:
        """Return the prompt tokens it has seen, cached ones included."""
        got = metrics(self.url + "/metrics")
        return got["llamacpp:prompt_tokens_total"] + got["llamacpp:prompt_tokens_cached_total"]


@dataclass
class Program:
    """A program under test, with its log."""

    argv: list[str]
    log: pathlib.Path
    env: dict[str, str] | None = None
    process: subprocess.Popen = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                self.argv, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )

    def wait_ready(self, url: str, timeout: float) -> float:
        """Wait for a 200 from url; return the seconds since this call."""
        start = time.monotonic()

        def ready() -> bool:
            assert self.process.poll() is None, f"exit {self.process.returncode} during start\n{self.tail()}"
            return get(url)[0] == 200

        try:
            eventually(f"200 from {url}", ready, timeout, gap=0.05)
        except AssertionError as err:
            raise AssertionError(f"{err}\n{self.tail()}") from None
        return time.monotonic() - start

    def stop(self, timeout: float = 60.0) -> int:
        """Send SIGTERM, wait, and return the exit code as a shell shows it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running {timeout:g} s after SIGTERM\n{self.tail()}") from None
        return 128 - code if code < 0 else code

    def tail(self, lines: int = 40) -> str:
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- last lines of {' '.join(self.argv[:3])} …", *text[-lines:]])


@dataclass
class Gateway(Program):
    """`smg serve` or `smg launch` in front of engines."""

    url: str = ""
    metrics_url: str = ""
    started_in: float = 0.0

    def engines(self) -> list[Engine]:
        """Return the engines behind it, as its admin API lists them."""
        status, body = get(self.url + "/workers")
        assert status == 200, f"GET /workers: {status} {body!r}"
        return [Engine(w["url"]) for w in json.loads(body)["workers"]]

    def active(self) -> float:
        """Return the requests that the gateway counts as in flight, over all workers."""
        got = metrics(self.metrics_url)
        return sum(v for k, v in got.items() if k.startswith("smg_worker_requests_active"))

    def selections(self) -> float:
        got = metrics(self.metrics_url)
        return sum(v for k, v in got.items() if k.startswith("smg_worker_selection_total"))

    def below(self) -> set[int]:
        """Return the process ids of its engines and of what they started."""
        return children(self.process.pid)


def bin_dir() -> pathlib.Path:
    """Return the folder of the built programs: SMG_BIN_DIR or bin/ of the repository."""
    default = pathlib.Path(__file__).resolve().parents[2] / "bin"
    return pathlib.Path(os.environ.get("SMG_BIN_DIR", default))
