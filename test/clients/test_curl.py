"""curl, with HTTP/2 from the first byte on and with HTTP/1.1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import procs
import pytest
from conftest import MODEL

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.fixture(params=["2", "1.1"])
def curl(fleet, request):
    # Without TLS nobody can agree on HTTP/2.
    how = ["--http1.1"] if request.param == "1.1" else ["--http2" if fleet.certificate else "--http2-prior-knowledge"]
    if fleet.certificate:
        how += ["--cacert", str(fleet.certificate)]

    def run(path: str, body: dict | None = None, *args: str) -> subprocess.CompletedProcess:
        argv = ["curl", "-sS", "-N", *how, *args]
        if body is not None:
            argv += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        return subprocess.run([*argv, fleet.url + path], capture_output=True, text=True, timeout=60, check=False)

    run.version = request.param
    return run


def chat(**more) -> dict:
    return {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, **more}


def test_chat(curl):
    got = curl("/v1/chat/completions", chat(), "-w", "\n%{http_version} %{http_code}")
    body, _, last = got.stdout.rpartition("\n")
    assert last == f"{curl.version} 200", got.stderr
    assert json.loads(body)["choices"]


def test_stream(curl):
    got = curl("/v1/chat/completions", chat(stream=True), "-w", "%{stderr}%{http_version}")
    assert got.returncode == 0, got.stderr
    assert got.stderr == curl.version
    assert got.stdout.endswith("data: [DONE]\n\n")


def test_certificate_that_is_not_trusted(fleet):
    if not fleet.certificate:
        pytest.skip("needs TLS")
    argv, env = ["curl", "-sS", fleet.url + "/health"], {"PATH": os.environ["PATH"]}
    got = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert got.returncode == 60, f"{got.returncode}: {got.stderr}"


def test_large_body(fleet, curl, tmp_path):
    body = tmp_path / "body"
    body.write_text(json.dumps(chat(note="x" * 2_000_000)))
    got = curl("/v1/chat/completions", None, "-H", "Content-Type: application/json", "--data-binary", f"@{body}")
    assert got.returncode == 0 and json.loads(got.stdout)["choices"], got.stderr
    assert any(len(r["body"]) > 2_000_000 for r in fleet.records())


def test_client_that_gives_up(fleet, curl):
    fleet.rule(stream={"tokens": 500, "gap": "50ms"})
    got = curl("/v1/chat/completions", chat(stream=True), "--max-time", "2")
    assert got.returncode == 28, f"{got.returncode}: {got.stderr}"
    assert "data: " in got.stdout and "[DONE]" not in got.stdout
    procs.eventually("the fleet at rest", fleet.at_rest, 10)  # the whole stream takes 25 s


def test_error(curl):
    got = curl("/v1/chat/completions", {**chat(), "model": "nobody"}, "-w", "\n%{http_code}")
    body, _, status = got.stdout.rpartition("\n")
    assert status == "404"
    assert json.loads(body)["error"]["code"] == "model_not_found"
