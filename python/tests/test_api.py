"""The gateway as a Python object: RouterArgs and launch_router."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from programs import PATIENCE, Program, environment, free_port, gone, marked

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from smg._fields import FLAGS  # noqa: E402
from smg.launch_router import parse_router_args  # noqa: E402
from smg.router_args import FLAGLESS, RouterArgs  # noqa: E402

FIELDS = [f.name for f in dataclasses.fields(RouterArgs)]


def test_positions_do_not_change():
    assert FIELDS[:12] == [
        "worker_urls", "host", "port", "pd_disaggregation", "prefill_urls", "decode_urls", "policy", "prefill_policy",
        "decode_policy", "worker_startup_timeout_secs", "worker_startup_check_interval", "load_monitor_interval",
    ]  # fmt: skip
    assert FIELDS.index("jwt_role_mapping") == 102  # ours stand behind it
    assert FIELDS[103:107] == ["worker_startup_delay", "upstream_pool_idle_timeout_secs", "max_buffered_bytes_total", "max_header_bytes"]
    args = RouterArgs(["http://w1"], "::1", 8000, False, [], [], "random")
    assert args.to_argv() == ["--worker-urls", "http://w1", "--host=::1", "--port=8000", "--policy=random"]


def test_defaults_are_those_of_the_program():
    assert RouterArgs().to_argv() == []
    assert parse_router_args([]) == RouterArgs()
    assert (RouterArgs.host, RouterArgs.port, RouterArgs.policy, RouterArgs.eviction_interval_secs) == ("0.0.0.0", 30000, "cache_aware", 120)
    assert RouterArgs().routing_key_headers == ["x-smg-routing-key"]
    assert RouterArgs().worker_urls is not RouterArgs().worker_urls


def test_only_what_is_set_is_said():
    assert RouterArgs(policy="cache_aware", log_level=None, prometheus_port=None, dp_aware=False).to_argv() == []
    assert RouterArgs(retry_max_retries=0, dp_aware=True).to_argv() == ["--dp-aware", "--retry-max-retries=0"]


def test_forms():
    args = RouterArgs(
        pd_disaggregation=True,
        prefill_urls=[("http://p1", 9001), ("http://p2", None), ("http://p3", "none"), "http://p4", ["http://p5", "9005"]],
        decode_urls=["http://d1"],
        cache_boundaries=[2048, 8192],
        prometheus_duration_buckets=[0.5, 1],
        routing_key_headers=[],
        max_concurrent_requests=7,
        model_alias={"a": "m"},
    )
    assert args.to_argv() == [
        "--pd-disaggregation", "--prefill", "http://p1", "9001", "--prefill", "http://p2", "--prefill", "http://p3",
        "--prefill", "http://p4", "--prefill", "http://p5", "9005", "--decode=http://d1", "--prometheus-duration-buckets", "0.5", "1",
        "--max-concurrent-requests=7", "--cache-boundaries=2048,8192", "--routing-key-headers", "--model-alias=a=m",
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["policy", "prefill_policy", "decode_policy", "encode_policy"])
def test_cli_76_unknown_policies_are_key_errors(field):
    with pytest.raises(KeyError, match="fastest"):
        RouterArgs(**{field: "fastest"}).to_argv()
    RouterArgs(**{field: "random"}).to_argv()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("model_alias", ["alias"], "alias"),
        ("model_alias", {"a": ""}, "a="),
        ("control_plane_api_keys", ["id:name:admin"], "ID:NAME:ROLE:KEY"),
        ("control_plane_api_keys", [("id", "name", "secret", "owner")], "role"),
        ("jwt_role_mapping", {"Ops": "owner"}, "owner"),
        ("jwt_role_mapping", ["Ops"], "Ops"),
        ("prefill_urls", [("http://p", "abc")], "abc"),
        ("prefill_urls", [("http://p", 1, 2)], "2"),
        ("prefill_urls", [("http://p", 0)], "1 to 65535"),
        ("prefill_urls", [("http://p", 65536)], "1 to 65535"),
        ("prefill_urls", [("http://p", 90.5)], "90.5"),
        ("port", 0, "1 to 65535"),
        ("port", 65536, "1 to 65535"),
        ("port", -1, "1 to 65535"),
        ("port", "x", "a whole number"),
        ("port", 80.5, "a whole number"),
        ("port", True, "a whole number"),
        ("port", [80], "a whole number"),
        ("prometheus_port", 70000, "0 to 65535"),
        ("health_check_port", 0, "1 to 65535"),
        ("retry_jitter_factor", "much", "a number"),
        ("dp_aware", "no", "True or False"),
        ("policy", "bucket", "prefill leg only"),
        ("decode_policy", "bucket", "prefill leg only"),
        ("worker_urls", "http://w1", "list"),
        ("bootstrap_port_annotation", "other", "cannot be changed"),
        ("served_model_name", "m", "model_alias"),
    ],
)
def test_values_that_cannot_be_said(field, value, says):
    if field not in FLAGS and field not in FLAGLESS:
        pytest.fail(f"{field} has no flag")
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        RouterArgs(**{field: value}).to_argv()
    assert "secret" not in str(caught.value)


def test_numbers_as_text_are_taken():
    args = RouterArgs(port="8000", prometheus_port=0, retry_jitter_factor="0.5", prefill_policy="bucket")
    assert args.to_argv() == ["--port=8000", "--prefill-policy=bucket", "--prometheus-port=0", "--retry-jitter-factor=0.5"]


def test_repr_hides_secrets():
    secret = {f: ["s3cret"] if FLAGS[f].kind in ("list", "repeated") else "s3cret" for f in FIELDS if f in FLAGS and FLAGS[f].secret}
    assert "api_key" in secret
    text = repr(RouterArgs(port=8000, **secret))
    assert "s3cret" not in text
    assert text.startswith("RouterArgs(worker_urls=[], host='0.0.0.0', port=8000, ")
    assert all(f"{f}=***" in text for f in secret)
    assert "api_key=None" in repr(RouterArgs())


def test_annotation_of_old_callers_is_taken():
    assert RouterArgs(bootstrap_port_annotation="sglang.ai/bootstrap-port").to_argv() == []


# Values besides the defaults, where a number or the first other choice will not do.
OTHERS = {
    "kv_events_endpoint": "tcp://*:5557",
    "kv_events_replay_endpoint": "tcp://*:5558",
    "worker_urls": ["http://w1", "http://w2"], "host": "::1", "prefill_urls": [("http://p1", 9001), ("http://p2", None)],
    "decode_urls": ["http://d1", "http://d2"], "encode": [("http://e1", None)],
    "pd_disaggregation": True, "health_check_endpoint": "/ping", "cache_boundaries": "2048,8192",
    "worker_overload_token_usage": 0.9, "retry_jitter_factor": 0.3, "cache_threshold": 0.4, "prometheus_host": "127.0.0.1",
    "routing_key_headers": ["x-a", "x-b"], "request_id_headers": ["x-c"], "cors_allowed_origins": ["http://page"],
    "model_alias": ["a=m"], "prometheus_duration_buckets": [0.5, 1.0], "api_key": "secret", "otlp_traces_endpoint": "localhost:4318",
    "pprof_addr": "127.0.0.1:6060", "health_check_port": 30002, "max_concurrent_requests": 7, "enable_igw": True, "prefill_policy": "bucket", "dry_run": True,
}  # fmt: skip

# They need files, another service, or another mode.
NEEDY = {
    "server_cert_path", "server_key_path", "client_cert_path", "client_key_path", "ca_cert_paths", "nats_url", "nats_replicas",
    "nats_creds", "nats_tls_ca", "nats_listen", "cluster_secret", "log_dir", "record", "record_prompts", "dp_minimum_tokens_scheduler",
    "cache_index",
}  # fmt: skip


def other(field: str) -> object:
    """Return a value of a field that is not its default."""
    if field in OTHERS:
        return OTHERS[field]
    flag, usual = FLAGS[field], getattr(RouterArgs(), field)
    if flag.kind == "bool":
        return not usual
    if flag.choices:
        return next(c for c in flag.choices if c != usual)
    if flag.type in (int, float):
        return (usual or 0) + 1
    return ["x"] if flag.kind in ("list", "repeated") else "x"


def built() -> list[str]:
    """Return the fields whose flags do something."""
    return [f for f in FLAGS if "Not supported yet." not in FLAGS[f].help and f not in NEEDY]


def test_field_ls_04_every_flag_comes_back(venv):
    args = RouterArgs(**{f: other(f) for f in built()})
    argv = args.to_argv()
    assert parse_router_args(argv) == args
    for field in built():
        flag = FLAGS[field].name
        assert any(a == f"--{flag}" or a.startswith(f"--{flag}=") for a in argv), field
    done = subprocess.run(
        [venv / "bin" / "smg", "launch", *argv], env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^prefill +policy bucket$", done.stdout, re.MULTILINE)


def test_flags_with_a_prefix():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="engine")
    parser.add_argument("--port", type=int, default=1)
    RouterArgs.add_cli_args(parser, use_router_prefix=True, exclude_host_port=True)
    line = "--router-policy random --worker-urls http://w1 --router-prefill http://p1 9001 --router-decode http://d1"
    args = RouterArgs.from_cli_args(parser.parse_args([*line.split(), "--router-sticky-sessions"]), use_router_prefix=True)
    assert args.policy == "random"
    assert (args.worker_urls, args.prefill_urls, args.decode_urls) == (["http://w1"], [("http://p1", 9001)], ["http://d1"])
    assert args.routing_key_override is True
    assert (args.host, args.port) == ("engine", 1)  # as the caller's own parser says


def test_namespaces_of_other_parsers():
    made = argparse.Namespace(prefill=[["http://p1", "9001"], ["http://p2"]], decode=[["http://d1"]], tls_cert_path="c", policy="random", unknown=1)
    args = RouterArgs.from_cli_args(made)
    assert args == RouterArgs(
        prefill_urls=[("http://p1", 9001), ("http://p2", None)], decode_urls=["http://d1"], server_cert_path="c", policy="random"
    )


@pytest.mark.parametrize("line", ["--policy bucket", "--decode-policy bucket", "--policy fastest", "--polic random", "--port x"])
def test_cli_76_the_parser_refuses(line, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_router_args(line.split())
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.fixture
def call(tmp_path):
    """Return a function that has Python launch a gateway, which is a shell script."""

    def start(script: str, code: str, **env: str) -> Program:
        program = tmp_path / "smg"
        program.write_text("#!/bin/sh\n" + textwrap.dedent(script))
        program.chmod(0o755)
        usual = {"SMG_BIN_DIR": str(tmp_path), "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        return Program(sys.executable, "-c", code, env=environment(**{**usual, **env}))

    return start


LAUNCH = "import sys; from smg.launch_router import launch_router; from smg.router_args import RouterArgs; "


def test_launch_router_returns_the_code(call):
    with call('echo "$@" >&2; exit 7', LAUNCH + "code = launch_router(RouterArgs(policy='random', port=1)); print('code', code); sys.exit(5)") as p:
        assert p.ends() == 5
        assert p.lines == ["launch --port=1 --policy=random"]
        assert p.process.stdout.read() == "code 7\n"


def test_launch_router_keeps_secrets_out_of_the_line(call):
    with call('echo "$@ $SMG_FLAG_API_KEY" >&2', LAUNCH + "launch_router(RouterArgs(api_key='k'))") as p:
        assert p.ends() == 0
        assert p.lines == ["launch k"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_field_ls_05_launch_router_passes_signals_on(call, number):
    script = "trap 'echo got TERM >&2; exit 15' TERM; trap 'echo got INT >&2; exit 2' INT; trap 'echo got HUP >&2; exit 1' HUP; echo up >&2; while :; do sleep 0.05; done"
    code = LAUNCH + "import signal; h = signal.getsignal(signal.SIGINT); c = launch_router(RouterArgs()); assert signal.getsignal(signal.SIGINT) is h; sys.exit(c)"
    with call(script, code) as p:
        p.says("^up$")
        p.process.send_signal(number)
        assert p.ends() == number
        assert p.lines[1:] == [f"got {number.name[3:]}"]


def test_launch_router_in_a_thread(call):
    code = LAUNCH + "import threading; out = []; t = threading.Thread(target=lambda: out.append(launch_router(RouterArgs()))); t.start(); t.join(); print(out)"
    with call("kill -9 $$", code) as p:
        assert p.ends() == 0
        assert p.process.stdout.read() == "[137]\n"


def test_launch_router_without_programs(call):
    with call("exit 0", LAUNCH + "\ntry: launch_router(RouterArgs())\nexcept FileNotFoundError as e: print(e)", SMG_BIN_DIR="") as p:
        assert p.ends() == 0
        assert "smg is missing" in p.process.stdout.read()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell nobody of a parent's end")
def test_field_ls_02_no_gateway_outlives_a_killed_python(venv):
    mark = f"PYTEST_FAMILY={os.getpid()}_api"
    port = free_port()
    code = LAUNCH + f"launch_router(RouterArgs(host='127.0.0.1', port={port}, prometheus_host='127.0.0.1', prometheus_port=0, shutdown_grace_period_secs=1))"
    with Program(venv / "bin" / "python", "-c", code, env=environment(PYTEST_FAMILY=mark.partition("=")[2])) as p:
        p.says("^api ")
        assert len(marked(mark)) == 2
        p.process.kill()
        assert p.process.wait(PATIENCE) == -signal.SIGKILL
        assert gone(mark) == {}


def test_launch_router_refuses_what_the_parser_does(call):
    with call("echo started >&2", LAUNCH + "\ntry: launch_router(RouterArgs(policy='bucket'))\nexcept ValueError as e: print(e)") as p:
        assert p.ends() == 0
        assert "prefill leg only" in p.process.stdout.read()
        assert p.lines == []


def test_serve_main(call):
    with call('echo "$@" >&2', "from smg.serve import serve_main; serve_main(['--backend', 'sim'])") as p:
        assert p.ends() == 0
        assert p.lines == ["serve --backend sim"]


def test_public_names():
    code = (
        "import smg, smg.cli, smg.launch_router, smg.router_args, smg.serve, json; print(json.dumps([smg.__version__, "
        "*(callable(f) for f in (smg.cli.main, smg.launch_router.main, smg.launch_router.launch_router, "
        "smg.launch_router.parse_router_args, smg.router_args.RouterArgs.from_cli_args, smg.router_args.RouterArgs.add_cli_args, "
        "smg.serve.serve_main))]))"
    )
    env = environment(PYTHONPATH=str(ROOT / "python"), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[1:] == [True] * 7
