"""Three real vLLM engines on the CPU and gateways in front of them.

SMG_TEST_VLLM_URLS=PLAIN,PRODUCER,CONSUMER names engines that run already, started as
below: a start takes minutes, too long to wait for at every change of a test.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import sys
import time
from dataclasses import dataclass

import openai
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "real"))

import procs  # noqa: E402
from engines import LEASE, Engine, command, environment, handing_over  # noqa: E402

REPORT: list[str] = []
START_LIMIT = 900


def pytest_terminal_summary(terminalreporter):
    for line in REPORT:
        terminalreporter.write_line(line)


@dataclass
class Fleet:
    plain: Engine  # hands nothing over
    producer: Engine  # prefill
    consumer: Engine  # decode

    def all(self) -> list[Engine]:
        return [self.plain, self.producer, self.consumer]


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """The engines, all started at once."""
    if urls := os.environ.get("SMG_TEST_VLLM_URLS"):
        yield Fleet(*map(Engine, urls.split(",")))
        return
    roles = {
        "plain": [],
        "producer": [*handing_over("kv_producer", kv_lease_duration=LEASE), "--enable-scale-out"],
        "consumer": handing_over("kv_consumer"),
    }
    started, engines = [], []
    with contextlib.ExitStack() as stack:
        for name, args in roles.items():
            port, side = procs.free_port(), procs.free_port()
            log = tmp_path_factory.mktemp(name) / "log"
            started.append(procs.Program(command(port, *args), log, env=environment(side)))
            stack.callback(started[-1].stop)
            engines.append(Engine(f"http://{procs.HOST}:{port}"))
        took = sum(p.wait_ready(e.url + "/health", START_LIMIT) for p, e in zip(started, engines))
        REPORT.append(f"three engines ready after {took:.0f} s")
        yield Fleet(*engines)
        gone = [p.tail() for p in started if p.process.poll() is not None]
        below = set().union(*(procs.children(p.process.pid) for p in started))
    assert not gone, "an engine ended by itself\n" + "\n".join(gone)
    procs.eventually("nothing is left of the engines", lambda: not [p for p in below if procs.alive(p)], 10)


@pytest.fixture
def start_gateway(tmp_path):
    """Return a function that starts `smg launch` with the flags it is given."""
    count, running = itertools.count(), []

    def start(*args: str) -> procs.Gateway:
        port, metrics_port = procs.free_port(), procs.free_port()
        argv = [
            str(procs.bin_dir() / "smg"), "launch", *args,
            "--host", procs.HOST, "--port", str(port), "--load-monitor-interval", "1",
            "--prometheus-host", procs.HOST, "--prometheus-port", str(metrics_port),
        ]  # fmt: skip
        url = f"http://{procs.HOST}:{port}"
        metrics_url = f"http://{procs.HOST}:{metrics_port}/metrics"
        gw = procs.Gateway(argv, tmp_path / f"gateway{next(count)}", url=url, metrics_url=metrics_url)
        running.append(gw)
        gw.wait_ready(url + "/readiness", 60)
        return gw

    yield start
    codes = [gw.stop() for gw in running]
    assert all(c in (0, 143) for c in codes), f"exit codes {codes} after SIGTERM"


@pytest.fixture
def new_client():
    """Return a function that makes an OpenAI client of a gateway or an engine."""
    made = []

    def new(target: Engine | procs.Gateway) -> openai.OpenAI:
        # No retries: a test must see the first answer.
        made.append(openai.OpenAI(base_url=target.url + "/v1", api_key="none", max_retries=0, timeout=180))
        return made[-1]

    yield new
    for client in made:
        client.close()


@pytest.fixture
def prompt():
    """Return a function that makes a prompt of some blocks of KV that nobody has seen before."""

    def new(what: str = "tell") -> str:
        return f"{time.time_ns()}: " + " ".join(f"{what} {i}" for i in range(60))

    return new
