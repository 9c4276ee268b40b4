"""`smg serve` with simulated engines, whole and in legs, for the clients of this folder."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "real"))
import procs  # noqa: E402

MODEL = "sim"
LEGS = ["--prefill-replicas", "1", "--decode-replicas", "1"]
WHOLE = ["--data-parallel-size", "2"]
FLEETS = {
    "whole": (WHOLE, "sglang"),
    "sglang-legs": (LEGS, "sglang"),
    "vllm-legs": (LEGS, "vllm"),
    "whole-tls": (WHOLE, "sglang"),
}
# The versions of HTTP that clients are to speak.
VERSIONS = ["HTTP/1.1", "HTTP/2"]


class Engine:
    """One simulated engine, seen through its control API."""

    def __init__(self, url: str, role: str):
        self.url, self.role = url, role

    def call(self, method: str, path: str, body: object = None):
        data = None if body is None else json.dumps(body).encode()
        req = urllib.request.Request(self.url + "/_sim" + path, data=data, method=method)
        with urllib.request.urlopen(req, timeout=10) as r:
            raw = r.read()
        return json.loads(raw) if raw.strip() else None

    def idle(self) -> bool:
        ledger = self.call("GET", "/ledger")
        return ledger["in_flight"] == 0 and ledger["blocks_held"] == 0


class Fleet:
    """A gateway and its engines."""

    def __init__(self, name: str, gateway: procs.Gateway, engines: list[Engine], certificate: pathlib.Path | None):
        self.name, self.gateway, self.engines, self.url = name, gateway, engines, gateway.url
        self.certificate = certificate  # of the gateway, None without TLS
        self.whole = FLEETS[name][0] is WHOLE
        # Those whose answers clients see.
        self.answering = [e for e in engines if e.role != "prefill"]

    def rule(self, **rule) -> None:
        """Have the engines that answer treat requests like this."""
        for e in self.answering:
            e.call("PUT", "/faults", {"record": True, "rules": [{"match": {"method": "POST"}, **rule}]})

    def records(self, engines: list[Engine] | None = None) -> list[dict]:
        """Return what the engines have got, those that answer unless said otherwise."""
        all_of_them = [r for e in engines or self.answering for r in e.call("GET", "/records")]
        return [r for r in all_of_them if r["method"] == "POST"]

    def http(self, make, version: str):
        """Return an HTTP client for an SDK, made by make, that speaks this version and no other."""
        trust = ssl.create_default_context(cafile=self.certificate) if self.certificate else True
        spoken = []
        client = make(
            verify=trust, http1=version == "HTTP/1.1", http2=version == "HTTP/2",
            event_hooks={"response": [lambda r: spoken.append(r.http_version)]},
        )  # fmt: skip
        client.spoken, client.version = spoken, version
        return client

    def left(self, client) -> None:
        """Have an SDK leave a request that it has given up.

        Over HTTP/2 its library keeps that to itself as long as the connection lasts.
        """
        if client._client.version == "HTTP/2":
            client.close()

    def at_rest(self) -> bool:
        return all(e.idle() for e in self.engines) and self.gateway.active() == 0


def certify(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Make a certificate that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=smg", "-addext", f"subjectAltName=IP:{procs.HOST}", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def start(name: str, folder: pathlib.Path, pair: tuple[pathlib.Path, pathlib.Path] | None) -> procs.Gateway:
    shape, engine = FLEETS[name]
    port, metrics_port = procs.free_port(), procs.free_port()
    argv = [
        str(procs.bin_dir() / "smg"), "serve", "--backend", "sim", *shape,
        "--host", procs.HOST, "--port", str(port), "--worker-base-port", str(procs.free_range(8)),
        "--router-prometheus-host", procs.HOST, "--router-prometheus-port", str(metrics_port),
        "--router-disable-retries", "--router-disable-circuit-breaker",
    ]  # fmt: skip
    if shape == LEGS:
        argv += ["--bootstrap-base-port", str(procs.free_range(4))]
    if pair:
        argv += ["--router-tls-cert-path", str(pair[0]), "--router-tls-key-path", str(pair[1])]
    # KV that nobody fetches is to fall while a test waits for it.
    argv += ["--", "--time-scale", "0", "--engine", engine, "--kv-lease", "3s"]
    url = f"{'https' if pair else 'http'}://{procs.HOST}:{port}"
    gateway = procs.Gateway(argv, folder / "log", url=url, metrics_url=f"http://{procs.HOST}:{metrics_port}/metrics")
    try:
        gateway.wait_ready(url + "/readiness", 60)
    except BaseException:
        gateway.stop()
        raise
    return gateway


@pytest.fixture(scope="session", params=FLEETS)
def site(request, tmp_path_factory):
    """One gateway for all tests of a fleet. Its stop is checked too."""
    folder = tmp_path_factory.mktemp(request.param)
    pair = certify(folder) if request.param.endswith("-tls") else None
    with pytest.MonkeyPatch.context() as patch:
        if pair:  # for what is asked without a client of its own
            patch.setitem(os.environ, "SSL_CERT_FILE", str(pair[0]))
        yield from serve(request.param, folder, pair)


def serve(name: str, folder: pathlib.Path, pair: tuple[pathlib.Path, pathlib.Path] | None):
    gateway = start(name, folder, pair)
    try:
        status, body = procs.get(gateway.url + "/workers")
        assert status == 200, body
        engines = [Engine(w["url"], w["worker_type"]) for w in json.loads(body)["workers"]]
        yield Fleet(name, gateway, engines, pair and pair[0])
        assert gateway.process.poll() is None, f"the gateway ended by itself\n{gateway.tail()}"
    finally:
        code = gateway.stop()
    assert code == 143, f"exit code {code} after SIGTERM\n{gateway.tail()}"
    text = gateway.log.read_text(errors="replace")
    assert "panic" not in text and "superfluous" not in text, gateway.tail()


@pytest.fixture
def fleet(site):
    """The site with healthy engines that record what comes; nothing may be left behind."""
    for e in site.engines:
        e.call("POST", "/reset")
        e.call("PUT", "/faults", {"record": True})
    yield site
    for e in site.engines:
        e.call("PUT", "/faults", {})
    procs.eventually("the fleet at rest", site.at_rest, 20)


@pytest.fixture(params=VERSIONS)
def version(request):
    """The version of HTTP that an SDK speaks."""
    return request.param


def pytest_collection_modifyitems(items):
    """Drop HTTP/2 of SDKs where the gateway cannot offer it: that takes TLS."""

    def possible(item) -> bool:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        return params.get("version") != "HTTP/2" or params["site"].endswith("-tls")

    items[:] = [item for item in items if possible(item)]
